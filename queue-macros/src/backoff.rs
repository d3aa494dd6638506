//! The option `backoff`: `exponential("2s", max = "10m")`, `linear(…)`, `fixed(…)` or `custom(…)`.

use std::time::Duration;

use proc_macro2::Ident;
use quote::ToTokens as _;
use syn::punctuated::Punctuated;
use syn::{Expr, ExprPath, LitStr, Token};

use crate::entry::{self, Entry, Spanned, Value};
use crate::errors::Errors;
use crate::{duration, names};

/// The default of `max`.
pub(crate) const DEFAULT_MAX: Duration = Duration::from_secs(3600);

/// `backoff = …`
pub(crate) enum Backoff {
    Exponential { base: Duration, max: Duration },
    Linear { step: Duration, max: Duration },
    Fixed { delay: Duration },
    Custom { function: ExprPath },
}

impl Backoff {
    /// Reads the value, and records the mistakes in it that do not hide its meaning.
    pub(crate) fn read(entry: &Entry, errors: &mut Errors) -> syn::Result<Self> {
        const SHAPES: [&str; 4] = ["exponential", "linear", "fixed", "custom"];
        let all = "`exponential(\"2s\", max = \"10m\")`, `linear(\"10s\", max = \"5m\")`, `fixed(\"30s\")` or `custom(path::to::function)`";
        let key = "backoff";
        let value = match &entry.value {
            Value::Equals(value) => entry::peel(value),
            Value::List(list) => return Err(entry.error(format!("write `{key} = {list}`"))),
            Value::None => return Err(entry.error(format!("`{key}` has no value: write {all}"))),
        };
        let Some((shape, arguments)) = entry::call(value) else {
            let text = entry::string(value).map(LitStr::value);
            let bare = entry::word(value).map(Ident::to_string);
            return Err(entry.error(match (bare.as_deref(), text.as_deref()) {
                (Some(shape), _) if SHAPES.contains(&shape) => format!("write `backoff = {}`", shape_example(shape)),
                (_, Some(shape)) if SHAPES.contains(&shape) => {
                    format!("write `backoff = {}`, without quotes", shape_example(shape))
                }
                (_, Some(delay)) if duration::parse(delay).is_ok() => format!("write `backoff = fixed(\"{delay}\")`"),
                _ => format!("`backoff` takes {all}"),
            }));
        };
        let name = shape.path.get_ident().map(Ident::to_string).unwrap_or_default();
        match name.as_str() {
            "exponential" | "linear" => {
                let (base, max) = delays(entry, &name, shape, arguments, true, errors)?;
                Ok(match name.as_str() {
                    "linear" => Self::Linear { step: base, max },
                    _ => Self::Exponential { base, max },
                })
            }
            "fixed" => Ok(Self::Fixed { delay: delays(entry, &name, shape, arguments, false, errors)?.0 }),
            "custom" => {
                let cure = "`custom` takes the path of a `fn(u32) -> Duration`: write `custom(my_delay)`";
                match arguments.first() {
                    Some(Expr::Path(path)) if arguments.len() == 1 => Ok(Self::Custom { function: path.clone() }),
                    Some(_) => Err(syn::Error::new_spanned(arguments, cure)),
                    None => Err(syn::Error::new_spanned(shape, cure)),
                }
            }
            other => {
                let message = match names::closest(other, &SHAPES) {
                    Some(meant) => format!("unknown backoff `{other}`; did you mean `{}`?", shape_example(meant)),
                    None => format!("unknown backoff; write {all}"),
                };
                Err(syn::Error::new_spanned(shape, message))
            }
        }
    }
}

/// `("2s", max = "10m")`
fn delays(
    entry: &Entry,
    name: &str,
    shape: &ExprPath,
    arguments: &Punctuated<Expr, Token![,]>,
    capped: bool,
    errors: &mut Errors,
) -> syn::Result<(Duration, Duration)> {
    let mut base: Option<Spanned<Duration>> = None;
    let mut max: Option<Spanned<Duration>> = None;
    for argument in arguments {
        if let Expr::Assign(assign) = argument {
            if !matches!(&*assign.left, Expr::Path(path) if path.path.is_ident("max")) {
                let message = format!(
                    "`{name}` takes a delay{}: write `{}`",
                    if capped { " and `max`" } else { "" },
                    shape_example(name)
                );
                return Err(syn::Error::new_spanned(&assign.left, message));
            }
            if !capped {
                let message = "`fixed` is always the same delay and takes no `max`: write `fixed(\"30s\")`";
                return Err(syn::Error::new_spanned(argument, message));
            }
            if max.is_some() {
                return Err(syn::Error::new_spanned(&assign.left, "`max` is given twice: keep one of the two"));
            }
            max = Some(entry::duration_literal("max = ", entry::peel(&assign.right), entry)?);
        } else if base.is_none() {
            base = Some(entry::duration_literal("", entry::peel(argument), entry)?);
        } else if capped {
            let message = format!("name the longest delay: write `max = {}`", argument.to_token_stream());
            return Err(syn::Error::new_spanned(argument, message));
        } else {
            return Err(syn::Error::new_spanned(argument, "`fixed` takes one delay: write `fixed(\"30s\")`"));
        }
    }
    let Some(base) = base else {
        return Err(syn::Error::new_spanned(shape, format!("`{name}` needs a delay: write `{}`", shape_example(name))));
    };
    match &max {
        Some(max) if base.value > max.value => errors.at(
            &max.tokens,
            "`max` is shorter than the first delay: write a longer `max`, or `fixed(…)` for one that stays the same",
        ),
        None if capped && base.value > DEFAULT_MAX => errors.at(
            &base.tokens,
            "longer than the longest delay, which is \"1h\" unless `max` says otherwise: write a `max` too",
        ),
        _ => {}
    }
    Ok((base.value, max.map_or(DEFAULT_MAX, |max| max.value)))
}

fn shape_example(shape: &str) -> &'static str {
    match shape {
        "exponential" => "exponential(\"2s\", max = \"10m\")",
        "linear" => "linear(\"10s\", max = \"5m\")",
        "fixed" => "fixed(\"30s\")",
        _ => "custom(path::to::function)",
    }
}
