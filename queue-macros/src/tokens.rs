//! Tokens that the files of generated code share: names, and calls of items on a user's type, at its span.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};

use crate::model::Argument;

/// A variable that the user's code cannot name.
pub(crate) fn variable(name: &str) -> Ident {
    Ident::new(name, Span::mixed_site())
}

/// `<Type as bound>::item` on a user's type, with the type's span on every token.
pub(crate) fn on_type(ty: &impl ToTokens, bound: TokenStream, item: &str) -> TokenStream {
    let (first, last) = ends(ty);
    let item = Ident::new(item, last);
    let open = quote_spanned!(first=> <);
    let bound = bound.into_iter().map(|mut token| {
        token.set_span(last);
        token
    });
    quote_spanned!(last=> #open #ty as #(#bound)* > :: #item)
}

/// A call of a function of `<Type as bound>`.
pub(crate) fn call(ty: &impl ToTokens, bound: TokenStream, function: &str, arguments: TokenStream) -> TokenStream {
    let (function, (_, last)) = (on_type(ty, bound, function), ends(ty));
    quote_spanned!(last=> #function(#arguments))
}

/// A call of a function of `queue::__private::Argument`.
pub(crate) fn on_argument(
    argument: &Argument,
    private: &TokenStream,
    function: &str,
    arguments: TokenStream,
) -> TokenStream {
    call(&argument.ty, quote!(#private::Argument), function, arguments)
}

/// The spans of the first and the last token.
pub(crate) fn ends(tokens: &impl ToTokens) -> (Span, Span) {
    let mut spans = tokens.to_token_stream().into_iter().map(|token| token.span());
    let first = spans.next().unwrap_or_else(Span::call_site);
    (first, spans.last().unwrap_or(first))
}
