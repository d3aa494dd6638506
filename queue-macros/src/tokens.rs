//! Tokens that the files of generated code share: calls of items on a user's type, at its span.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};

use crate::model::Argument;

/// `<Type as bound>::item` on a user's type, with the type's span on every token.
pub(crate) fn on_type(ty: &TokenStream, bound: TokenStream, item: &str) -> TokenStream {
    let (first, last) = ends(ty);
    let item = Ident::new(item, last);
    let open = quote_spanned!(first=> <);
    let bound = respanned(quote!(as #bound), last);
    quote_spanned!(last=> #open #ty #bound > :: #item)
}

/// The same tokens with `span`.
fn respanned(tokens: TokenStream, span: Span) -> TokenStream {
    let tokens = tokens.into_iter().map(|mut token| {
        token.set_span(span);
        token
    });
    tokens.collect()
}

/// `(arguments)`, at the end of `ty`.
pub(crate) fn call(ty: &TokenStream, arguments: TokenStream) -> TokenStream {
    let (_, last) = ends(ty);
    quote_spanned!(last=> (#arguments))
}

/// The spans of the first and the last token.
pub(crate) fn ends(tokens: &TokenStream) -> (Span, Span) {
    let mut spans = tokens.clone().into_iter().map(|token| token.span());
    let first = spans.next().unwrap_or_else(Span::call_site);
    (first, spans.last().unwrap_or(first))
}

pub(crate) fn on_argument(
    argument: &Argument,
    private: &TokenStream,
    method: &str,
    arguments: TokenStream,
) -> TokenStream {
    let (ty, bound) = (&argument.ty, quote!(#private::Argument<_>));
    let (path, call) = (on_type(ty, bound, method), call(ty, arguments));
    quote!(#path #call)
}
