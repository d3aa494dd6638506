//! The code emitted next to the errors, so that one mistake causes one message: the unchanged function, and a stub of
//! the struct that satisfies its uses.

use std::collections::BTreeMap;

use proc_macro2::{Ident, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote};
use syn::Type;

use crate::check;
use crate::expand;
use crate::model::Job;
use crate::stored;
use crate::tokens::variable;
use crate::types;

/// The function and a stub of the struct.
pub(crate) fn fallback(job: &Job) -> TokenStream {
    let function = &job.function;
    if check::is_method(function) {
        // In an `impl` or a `trait`, a struct would be a syntax error: a second message.
        return quote!(#function);
    }
    let stub = stub(job);
    quote!(#function #stub)
}

fn stub(job: &Job) -> TokenStream {
    let Job { struct_ident: ident, krate, argument_count, .. } = job;
    let (vis, attrs) = (&job.function.vis, expand::carried(job));
    let fields = job.arguments().filter_map(|argument| Some((&argument.ident, harmless(job, &argument.ty)?)));
    let fields: BTreeMap<_, _> = fields.collect();
    let (names, types) = (fields.keys(), fields.values());
    let body = if *argument_count == 0 { quote!(;) } else { quote!({ #(#vis #names: #types,)* }) };
    let generics: Vec<_> = (0..*argument_count).map(|n| format_ident!("__A{n}")).collect();
    let loops = quote!(loop {});
    let [serialize, deserialize] = stored::serde_impls(job, &loops, &loops);
    let lints = quote!(#[allow(dead_code, missing_docs, unused_variables, unused_imports, clippy::all)]);
    let context = variable("_context");
    let outcome = quote!(::core::result::Result<(), #krate::JobError>);
    quote! {
        #attrs
        #lints
        #vis struct #ident #body
        #lints
        const _: () = {
            impl #ident {
                #vis fn new<#(#generics),*>(#(_: #generics),*) -> Self { #loops }
            }
            impl ::core::clone::Clone for #ident {
                fn clone(&self) -> Self { #loops }
            }
            impl ::core::fmt::Debug for #ident {
                fn fmt(&self, _: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result { #loops }
            }
            #serialize
            #deserialize
            impl #krate::Job for #ident {
                const KIND: &'static ::core::primitive::str = "";
                type Output = ();
                fn run(
                    self,
                    #context: #krate::JobContext,
                ) -> impl ::core::future::Future<Output = #outcome> + ::core::marker::Send {
                    ::core::future::pending()
                }
            }
        };
    }
}

/// The type with every lifetime `'static`, or nothing if it could cause a message of its own.
fn harmless(job: &Job, ty: &Type) -> Option<TokenStream> {
    let generics = &job.function.sig.generics;
    let is_generic = |word: &Ident| {
        let types = generics.type_params().any(|param| param.ident == *word);
        types || generics.const_params().any(|param| param.ident == *word)
    };
    let odd = |word: &Ident| ["impl", "dyn", "Self", "_", "fn"].iter().any(|odd| word == odd) || is_generic(word);
    let tokens = ty.to_token_stream();
    let is_pointer = tokens.to_string().contains('*');
    let causes_more = is_pointer || types::is_unsized(ty) || types::mentions(tokens.clone(), &odd).is_some();
    (!causes_more).then(|| with_static(tokens))
}

fn with_static(tokens: TokenStream) -> TokenStream {
    let mut output = TokenStream::new();
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Punct(punct) if punct.as_char() == '&' => {
                output.extend([TokenTree::Punct(punct)]);
                if !matches!(tokens.peek(), Some(TokenTree::Punct(next)) if next.as_char() == '\'') {
                    output.extend(quote!('static));
                }
            }
            TokenTree::Punct(punct) if punct.as_char() == '\'' => {
                tokens.next();
                output.extend(quote!('static));
            }
            TokenTree::Group(group) => {
                let inner = with_static(group.stream());
                output.extend([TokenTree::Group(proc_macro2::Group::new(group.delimiter(), inner))]);
            }
            other => output.extend([other]),
        }
    }
    output
}
