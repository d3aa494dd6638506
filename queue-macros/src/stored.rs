//! How a job's arguments are written and read: the struct's serde implementations.

use proc_macro2::TokenStream;
use quote::quote;
use syn::ext::IdentExt as _;
use syn::meta::ParseNestedMeta;
use syn::{Attribute, LitStr, Token};

use crate::model::Job;
use crate::tokens::{on_argument, variable};

/// The names of all arguments, for `queue::__private::Layout`.
pub(crate) struct Layout {
    arguments: Vec<Names>,
    deny_unknown: bool,
}

/// What an argument is called as stored.
struct Names {
    name: String,
    aliases: Vec<String>,
    has_default: bool,
}

impl Layout {
    /// None if a serde attribute says more than names and defaults. Then the struct needs serde's derives, because such
    /// an attribute may fit only the types of the struct's own fields.
    pub(crate) fn of(job: &Job) -> Option<Layout> {
        let mut deny_unknown = false;
        read_all(&job.serde_attrs, |meta| match meta.path.is_ident("deny_unknown_fields") {
            true => {
                deny_unknown = true;
                Ok(())
            }
            false => Err(meta.error("more")),
        })?;
        let arguments = job.arguments().map(|argument| {
            let mut names = Names { name: argument.ident.unraw().to_string(), aliases: Vec::new(), has_default: false };
            read_all(&argument.attrs, |meta| {
                match meta.path.require_ident()?.to_string().as_str() {
                    "rename" => names.name = text(&meta)?,
                    "alias" => names.aliases.push(text(&meta)?),
                    "default" if !meta.input.peek(Token![=]) => names.has_default = true,
                    _ => return Err(meta.error("more")),
                }
                Ok(())
            })?;
            Some(names)
        });
        Some(Layout { arguments: arguments.collect::<Option<_>>()?, deny_unknown })
    }

    fn tokens(&self, job: &Job) -> TokenStream {
        let (private, Layout { arguments, deny_unknown }) = (&job.private, self);
        let (name, about) = (job.struct_ident.unraw().to_string(), format!("the arguments of `{}`", job.kind));
        let aliases = arguments.iter().flat_map(|argument| &argument.aliases);
        let names = arguments.iter().map(|argument| &argument.name).chain(aliases);
        let places = arguments.iter().enumerate().flat_map(|(place, argument)| vec![place; argument.aliases.len()]);
        quote! {
            #private::Layout {
                name: #name,
                about: #about,
                names: &[#(#names),*],
                aliases: &[#(#places),*],
                deny_unknown: #deny_unknown,
            }
        }
    }
}

fn text(meta: &ParseNestedMeta<'_>) -> syn::Result<String> {
    Ok(meta.value()?.parse::<LitStr>()?.value())
}

/// Reads the words of all serde attributes. None if one of them cannot be read.
fn read_all(attrs: &[Attribute], mut read: impl FnMut(ParseNestedMeta<'_>) -> syn::Result<()>) -> Option<()> {
    let mut attrs = attrs.iter().filter(|attr| attr.path().is_ident("serde"));
    attrs.try_for_each(|attr| attr.parse_nested_meta(&mut read).ok())
}

/// The two serde implementations of a job with this layout.
pub(crate) fn serialize_and_deserialize(job: &Job, layout: &Layout) -> [TokenStream; 2] {
    let private = &job.private;
    let (serializer, deserializer) = (variable("serializer"), variable("deserializer"));
    if job.argument_count == 0 {
        let read = quote!(#private::read_nothing(#deserializer));
        let read = quote!(::core::result::Result::map(#read, |()| Self));
        return serde_impls(job, &quote!(#private::write_nothing(#serializer)), &read);
    }
    let tokens = layout.tokens(job);
    let names: Vec<_> = job.arguments().map(|argument| &argument.ident).collect();
    let slots: Vec<_> = (0..names.len()).map(|n| variable(&format!("slot_{n}"))).collect();
    let written = job
        .arguments()
        .zip(&names)
        .map(|(argument, name)| on_argument(argument, private, "as_stored", quote!(&self.#name)));
    let made = job.arguments().zip(&layout.arguments).map(|(argument, Names { has_default, .. })| {
        let slot = on_argument(argument, private, "slot", TokenStream::new());
        if *has_default { quote!(#private::Slot::or_default(#slot)) } else { slot }
    });
    let read = job
        .arguments()
        .zip(&slots)
        .map(|(argument, slot)| on_argument(argument, private, "any_slot", quote!(&mut #slot)));
    serde_impls(
        job,
        &quote!(#private::Layout::write(&#tokens, #serializer, &[#(#written),*])),
        &quote! {
            #(let mut #slots = #made;)*
            #private::Layout::read(&#tokens, #deserializer, &mut [#(#read),*])?;
            ::core::result::Result::Ok(Self { #(#names: #private::Slot::take(#slots),)* })
        },
    )
}

/// The two serde implementations with the given bodies.
pub(crate) fn serde_impls(job: &Job, write: &TokenStream, read: &TokenStream) -> [TokenStream; 2] {
    let Job { struct_ident: ident, private, .. } = job;
    let (serializer, deserializer) = (variable("serializer"), variable("deserializer"));
    let serde = quote!(#private::serde);
    [
        quote! {
            impl #serde::Serialize for #ident {
                fn serialize<__S: #serde::Serializer>(
                    &self,
                    #serializer: __S,
                ) -> ::core::result::Result<
                    <__S as #serde::Serializer>::Ok,
                    <__S as #serde::Serializer>::Error,
                > { #write }
            }
        },
        quote! {
            impl<'de> #serde::Deserialize<'de> for #ident {
                fn deserialize<__D: #serde::Deserializer<'de>>(
                    #deserializer: __D,
                ) -> ::core::result::Result<Self, <__D as #serde::Deserializer<'de>>::Error> { #read }
            }
        },
    ]
}

/// serde's own derives, for what [`Layout`] does not cover.
pub(crate) fn derives(job: &Job) -> TokenStream {
    let Job { private, serde_attrs, .. } = job;
    let serde = quote!(#private::serde);
    let path = serde.to_string();
    quote! {
        #[derive(#serde::Serialize, #serde::Deserialize)]
        #[serde(crate = #path)]
        #(#serde_attrs)*
    }
}
