//! The option `backoff`: `exponential("2s", max = "10m")`, `linear(…)`, `fixed(…)` or `custom(…)`.

use std::time::Duration;

use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, format_ident, quote};
use syn::punctuated::Punctuated;
use syn::{Error, Expr, ExprPath, LitStr, Token};

use crate::entry::{self, Entry, Period, Value};
use crate::errors::Errors;
use crate::{duration, names};

/// The default of `max`.
const DEFAULT_MAX: Duration = Duration::from_secs(3600);

/// The functions of `queue::Backoff`, each with an example.
const SHAPES: [(&str, &str); 4] = [
    ("exponential", "exponential(\"2s\", max = \"10m\")"),
    ("linear", "linear(\"10s\", max = \"5m\")"),
    ("fixed", "fixed(\"30s\")"),
    ("custom", "custom(path::to::function)"),
];

/// Reads the value as a call of a function of `queue::Backoff`, and records the mistakes that do not hide its meaning.
pub(crate) fn read(entry: &Entry, errors: &mut Errors) -> syn::Result<TokenStream> {
    let [exponential, linear, fixed, custom] = SHAPES.map(|(_, example)| format!("`{example}`"));
    let all = format!("{exponential}, {linear}, {fixed} or {custom}");
    let value = match &entry.value {
        Value::Equals(value) => entry::peel(value),
        Value::List(list) => return Err(entry.error(format!("write `backoff = {list}`"))),
        Value::None => return Err(entry.error(format!("`backoff` has no value: write {all}"))),
    };
    let Some((shape, arguments)) = entry::call(value) else {
        let text = entry::string(value).map(LitStr::value).unwrap_or_default();
        let bare = entry::word(value).map(Ident::to_string).unwrap_or_default();
        return Err(entry.error(match (example(&bare), example(&text)) {
            (Some(example), _) => format!("write `backoff = {example}`"),
            (_, Some(example)) => format!("write `backoff = {example}`, without quotes"),
            _ if duration::parse(&text).is_ok() => format!("write `backoff = fixed(\"{text}\")`"),
            _ => format!("`backoff` takes {all}"),
        }));
    };
    let name = shape.path.get_ident().map(Ident::to_string).unwrap_or_default();
    match (name.as_str(), example(&name)) {
        ("custom", _) => match arguments.first() {
            Some(Expr::Path(function)) if arguments.len() == 1 => Ok(quote!(custom(#function))),
            given => {
                let cure = "`custom` takes the path of a `fn(u32) -> Duration`: write `custom(my_delay)`";
                let at = given.map_or_else(|| shape.to_token_stream(), |_| arguments.to_token_stream());
                Err(Error::new_spanned(at, cure))
            }
        },
        (_, Some(example)) => delays(entry, shape, arguments, example, errors),
        (other, None) => Err(Error::new_spanned(
            shape,
            match names::closest(other, SHAPES.map(|(shape, _)| shape)).and_then(example) {
                Some(example) => format!("unknown backoff `{other}`; did you mean `{example}`?"),
                None => format!("unknown backoff; write {all}"),
            },
        )),
    }
}

/// `("2s", max = "10m")`
fn delays(
    entry: &Entry,
    shape: &ExprPath,
    arguments: &Punctuated<Expr, Token![,]>,
    example: &str,
    errors: &mut Errors,
) -> syn::Result<TokenStream> {
    let name = shape.path.require_ident()?;
    let capped = name != "fixed";
    let (mut base, mut max): (Option<Period>, Option<Period>) = (None, None);
    for argument in arguments {
        let (at, message) = match argument {
            Expr::Assign(assign) if entry::word(&assign.left).is_none_or(|word| word != "max") => {
                let delays = if capped { "a delay and `max`" } else { "a delay" };
                (&*assign.left, format!("`{name}` takes {delays}: write `{example}`"))
            }
            Expr::Assign(_) if !capped => {
                (argument, format!("`fixed` is always the same delay and takes no `max`: write `{example}`"))
            }
            Expr::Assign(assign) if max.is_some() => (&*assign.left, entry::given_twice("max")),
            Expr::Assign(assign) => {
                max = Some(entry.duration_in("max = ", &assign.right)?);
                continue;
            }
            _ if base.is_none() => {
                base = Some(entry.duration_in("", argument)?);
                continue;
            }
            _ if capped => (argument, format!("name the longest delay: write `max = {}`", argument.to_token_stream())),
            _ => (argument, format!("`fixed` takes one delay: write `{example}`")),
        };
        return Err(Error::new_spanned(at, message));
    }
    let Some(base) = base else {
        return Err(Error::new_spanned(shape, format!("`{name}` needs a delay: write `{example}`")));
    };
    match &max {
        Some(max) if base.value > max.value => errors.at(
            &max.literal,
            "`max` is shorter than the first delay: write a longer `max`, or `fixed(…)` for one that stays the same",
        ),
        None if capped && base.value > DEFAULT_MAX => errors.at(
            &base.literal,
            "longer than the longest delay, which is \"1h\" unless `max` says otherwise: write a `max` too",
        ),
        _ => {}
    }
    let function = format_ident!("{}", name.to_string());
    if !capped {
        return Ok(quote!(#function(#base)));
    }
    let max = max.map_or_else(|| entry::duration_tokens(DEFAULT_MAX), ToTokens::into_token_stream);
    Ok(quote!(#function(#base, #max)))
}

fn example(shape: &str) -> Option<&'static str> {
    SHAPES.into_iter().find(|(name, _)| *name == shape).map(|(_, example)| example)
}
