//! The code emitted next to the errors, so that one mistake causes one message: the unchanged function, and a stub of
//! the struct that satisfies its uses.

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote};

use crate::check;
use crate::expand;
use crate::model::Job;
use crate::stored;
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
    let (vis, ident, krate) = (&job.function.vis, &job.struct_ident, job.krate());
    let private = quote!(#krate::__private);
    let attrs = expand::carried(job);
    let mut seen: Vec<&Ident> = Vec::new();
    let mut fields = Vec::new();
    for argument in job.arguments() {
        if let Some(ty) = harmless(job, argument.ty.clone())
            && !seen.contains(&&argument.ident)
        {
            seen.push(&argument.ident);
            let name = &argument.ident;
            fields.push(quote!(#vis #name: #ty));
        }
    }
    let body = if job.argument_count == 0 { quote!(;) } else { quote!({ #(#fields,)* }) };
    let generics: Vec<_> = (0..job.argument_count).map(|n| format_ident!("__A{n}")).collect();
    let loops = quote!(loop {});
    let [serialize, deserialize] = stored::serde_impls(ident, &private, &loops, &loops);
    let lints = quote!(#[allow(dead_code, missing_docs, unused_variables, unused_imports, clippy::all)]);
    let context = Ident::new("_context", Span::mixed_site());
    let further = &job.options.derive;
    let further = (!further.is_empty()).then(|| quote!(#[derive(#(#further),*)]));
    quote! {
        #(#attrs)*
        #lints
        #further
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
                ) -> impl ::core::future::Future<Output = ::core::result::Result<(), #krate::JobError>> + ::core::marker::Send
                {
                    ::core::future::pending()
                }
            }
        };
    }
}

/// The type with every lifetime `'static`, or nothing if it could cause a message of its own.
fn harmless(job: &Job, ty: TokenStream) -> Option<TokenStream> {
    let generics = &job.function.sig.generics;
    let declared = |word: &Ident| {
        let types = generics.type_params().any(|param| param.ident == *word);
        types || generics.const_params().any(|param| param.ident == *word)
    };
    let odd = |word: &Ident| ["impl", "dyn", "Self", "_", "fn"].iter().any(|odd| word == odd) || declared(word);
    let unsized_or_pointer = match syn::parse2::<syn::Type>(ty.clone()) {
        Ok(ty) => types::is_unsized(&ty) || ty.to_token_stream().to_string().contains('*'),
        Err(_) => true,
    };
    if unsized_or_pointer || types::mentions(ty.clone(), &odd).is_some() {
        return None;
    }
    Some(with_static(ty))
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
