//! The stored type of an argument, and how its value is passed to the function.

use proc_macro2::{Ident, Spacing, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::spanned::Spanned as _;
use syn::{
    AngleBracketedGenericArguments, GenericArgument, PathArguments, Type, TypePath, TypeReference, TypeSlice,
    parse_quote_spanned,
};

use crate::errors::Errors;

/// How a stored value becomes the parameter.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Pass {
    /// As it is.
    Value,
    /// `&value`, which the call coerces: `&String` to `&str`.
    Borrowed,
    /// `Option<&T>` from `Option<T>`.
    AsRef,
    /// `Option<&str>` from `Option<String>`.
    AsDeref,
    /// `Cow::Owned(value)`.
    CowOwned,
}

/// `ty` without the groups and parentheses that a `macro_rules!` adds.
pub(crate) fn peel(ty: &Type) -> &Type {
    match ty {
        Type::Group(group) => peel(&group.elem),
        Type::Paren(paren) => peel(&paren.elem),
        other => other,
    }
}

/// The last word of a path type, and its generic arguments.
pub(crate) fn last_segment(ty: &Type) -> Option<(&Ident, Option<&AngleBracketedGenericArguments>)> {
    match peel(ty) {
        Type::Path(TypePath { qself: None, path, .. }) => {
            let segment = path.segments.last()?;
            match &segment.arguments {
                PathArguments::None => Some((&segment.ident, None)),
                PathArguments::AngleBracketed(arguments) => Some((&segment.ident, Some(arguments))),
                PathArguments::Parenthesized(_) => None,
            }
        }
        _ => None,
    }
}

/// The only type argument of `name<…>`, apart from lifetimes.
pub(crate) fn only_argument<'a>(ty: &'a Type, name: &str) -> Option<&'a Type> {
    let (ident, arguments) = last_segment(ty)?;
    if ident != name {
        return None;
    }
    let mut types = arguments?.args.iter().filter(|argument| !matches!(argument, GenericArgument::Lifetime(_)));
    match (types.next(), types.next()) {
        (Some(GenericArgument::Type(ty)), None) => Some(ty),
        _ => None,
    }
}

/// The type of the field for the argument `name` of type `ty`.
pub(crate) fn stored(name: &Ident, ty: &Type, errors: &mut Errors) -> (Type, Pass) {
    let peeled = peel(ty);
    if let Type::Reference(reference) = peeled {
        return (borrowed(name, reference, errors), Pass::Borrowed);
    }
    if let Some(Type::Reference(reference)) = only_argument(peeled, "Option").map(peel) {
        let stored = borrowed(name, reference, errors);
        let pass = if is_unsized(&reference.elem) { Pass::AsDeref } else { Pass::AsRef };
        return (parse_quote_spanned!(peeled.span()=> ::core::option::Option<#stored>), pass);
    }
    match only_argument(peeled, "Cow") {
        Some(inner) if !matches!(peel(inner), Type::Reference(_)) => {
            check(inner, errors);
            (owned(inner), Pass::CowOwned)
        }
        _ => {
            check(peeled, errors);
            (ty.clone(), Pass::Value)
        }
    }
}

/// The type of the field for a reference.
fn borrowed(name: &Ident, reference: &TypeReference, errors: &mut Errors) -> Type {
    let (elem, owned_text) = (&reference.elem, owned_text(&reference.elem));
    if let Some(mutability) = &reference.mutability {
        let cure = format!("there is nothing to change through `&mut`: write `mut {name}: {owned_text}`");
        let and = &reference.and_token;
        errors.at(quote!(#and #mutability), format!("an argument is read from the database, {cure}"));
    } else if let Some(lifetime) = reference.lifetime.as_ref().filter(|lifetime| lifetime.ident == "static") {
        let cure = format!("write `&{}` or `{owned_text}`", elem.to_token_stream());
        errors.at(lifetime, format!("an argument is read from the database and does not live for `'static`: {cure}"));
    }
    check(elem, errors);
    owned(elem)
}

/// The `T` of a literal `Result<T, E>`. (With another number of arguments it is an alias, and may be anything.)
pub(crate) fn ok_of_result(ty: &Type) -> Option<&Type> {
    let (_, arguments) = last_segment(ty).filter(|(name, _)| *name == "Result")?;
    let mut types = arguments?.args.iter();
    match (types.next(), types.next(), types.next()) {
        (Some(GenericArgument::Type(ok)), Some(GenericArgument::Type(_)), None) => Some(ok),
        _ => None,
    }
}

fn is_word(ty: &Type, word: &str) -> bool {
    last_segment(ty).is_some_and(|(ident, arguments)| ident == word && arguments.is_none())
}

pub(crate) fn is_unsized(ty: &Type) -> bool {
    is_never_sized(ty) || is_word(peel(ty), "Path")
}

/// Whether the type is unsized whatever is in scope: a slice or `str`.
pub(crate) fn is_never_sized(ty: &Type) -> bool {
    let ty = peel(ty);
    matches!(ty, Type::Slice(_)) || is_word(ty, "str")
}

/// The owned form of `ty`: `String` for `str`, `Vec<T>` for `[T]`, `PathBuf` for `Path`, otherwise `ty` itself.
fn owned(ty: &Type) -> Type {
    let ty = peel(ty);
    match ty {
        Type::Slice(TypeSlice { elem, .. }) => parse_quote_spanned!(ty.span()=> ::std::vec::Vec<#elem>),
        _ if is_word(ty, "str") => parse_quote_spanned!(ty.span()=> ::std::string::String),
        _ if is_word(ty, "Path") => parse_quote_spanned!(ty.span()=> ::std::path::PathBuf),
        _ => ty.clone(),
    }
}

/// [`owned`] as a user would write it.
fn owned_text(ty: &Type) -> String {
    let ty = peel(ty);
    match ty {
        Type::Slice(slice) => format!("Vec<{}>", owned_text(&slice.elem)),
        Type::Reference(reference) => owned_text(&reference.elem),
        _ if is_word(ty, "str") => "String".to_owned(),
        _ if is_word(ty, "Path") => "PathBuf".to_owned(),
        _ => tidy(ty),
    }
}

/// Tokens as text, with fewer spaces.
pub(crate) fn tidy(tokens: impl ToTokens) -> String {
    let text = tokens.to_token_stream().to_string();
    text.replace(" :: ", "::").replace(" < ", "<").replace(" >", ">").replace(" ,", ",").replace("& ", "&")
}

/// Rejects types that cannot be stored.
fn check(ty: &Type, errors: &mut Errors) {
    let elided = "an argument cannot borrow, it is read from the database: write a type that owns its data";
    report(ty, &cannot_be_stored, elided, errors);
}

fn cannot_be_stored(ty: &Type) -> Option<String> {
    let message = match ty {
        Type::Reference(reference) => {
            let owned = owned_text(&reference.elem);
            return Some(format!(
                "a borrow inside another type cannot be read back from the database: write `{owned}`"
            ));
        }
        Type::ImplTrait(_) => {
            "an argument is stored, so its type must be known: write a concrete type instead of `impl …`"
        }
        Type::TraitObject(_) => {
            "a `dyn` value cannot be read back from the database: write a concrete type, or an enum of the possible \
             ones"
        }
        Type::Ptr(_) => "a pointer means nothing in another process: write the type that it points to",
        Type::FnPtr(_) => "a function cannot be stored: write an enum of the possible choices",
        Type::Infer(_) => "an argument is stored, so its type must be known: write it instead of `_`",
        Type::Never(_) => "`!` has no values that could be stored: write a type that has",
        _ => return None,
    };
    Some(message.to_owned())
}

/// Reports what `fault` says of a type and of the types in it, and `elided` at each `'_`. A declared lifetime is
/// rejected at its declaration, an undeclared one by the compiler.
pub(crate) fn report(ty: &Type, fault: &dyn Fn(&Type) -> Option<String>, elided: &str, errors: &mut Errors) {
    if let Some(message) = fault(ty) {
        return errors.at(ty, message);
    }
    let mut inside = |ty: &Type| report(ty, fault, elided, errors);
    match ty {
        Type::Array(array) => inside(&array.elem),
        Type::Group(group) => inside(&group.elem),
        Type::Paren(paren) => inside(&paren.elem),
        Type::Slice(slice) => inside(&slice.elem),
        Type::Tuple(tuple) => tuple.elems.iter().for_each(inside),
        Type::Path(TypePath { qself, path, .. }) => {
            qself.iter().for_each(|qself| inside(&qself.ty));
            for segment in &path.segments {
                let PathArguments::AngleBracketed(arguments) = &segment.arguments else { continue };
                for argument in &arguments.args {
                    match argument {
                        GenericArgument::Type(ty) => report(ty, fault, elided, errors),
                        GenericArgument::Lifetime(lifetime) if lifetime.ident == "_" => errors.at(lifetime, elided),
                        _ => {}
                    }
                }
            }
        }
        _ => {}
    }
}

/// The first identifier in `tokens`, at any depth, that `word` accepts.
pub(crate) fn mentions(tokens: TokenStream, word: &dyn Fn(&Ident) -> bool) -> Option<Ident> {
    tokens.into_iter().find_map(|token| match token {
        TokenTree::Ident(ident) => word(&ident).then_some(ident),
        TokenTree::Group(group) => mentions(group.stream(), word),
        _ => None,
    })
}

/// Whether `word` occurs anywhere in `tokens` as a path or at the start of one.
pub(crate) fn mentions_alone(tokens: TokenStream, word: &str) -> bool {
    let mut behind_colons = false;
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(ident) => !std::mem::take(&mut behind_colons) && ident == word,
        TokenTree::Punct(punct) => {
            // the first colon of `::` is joint, that of `name: Type` is alone
            behind_colons = punct.as_char() == ':' && (behind_colons || punct.spacing() == Spacing::Joint);
            false
        }
        TokenTree::Group(group) => {
            behind_colons = false;
            mentions_alone(group.stream(), word)
        }
        TokenTree::Literal(_) => false,
    })
}

/// Whether the constructor takes this type directly, so that `Import::new(10)` needs no suffix.
pub(crate) fn is_primitive(ty: &Type) -> bool {
    const PRIMITIVES: [&str; 16] = [
        "bool", "char", "f32", "f64", "i8", "i16", "i32", "i64", "i128", "isize", "u8", "u16", "u32", "u64", "u128",
        "usize",
    ];
    PRIMITIVES.contains(&ty.to_token_stream().to_string().as_str())
}
