//! One option in the parentheses of an attribute, `key`, `key = value` or `key(value)`, and what reads its value.

use std::fmt::Display;
use std::time::Duration;

use proc_macro2::{Ident, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::ext::IdentExt as _;
use syn::parse::ParseStream;
use syn::punctuated::Punctuated;
use syn::{Expr, ExprPath, Lit, LitInt, LitStr, Token};

use crate::duration;
use crate::errors::Errors;

/// The longest name of a job or a queue, in bytes.
pub(crate) const LONGEST_NAME: usize = 128;

/// A value and the literal that it was read from.
pub(crate) struct Spanned<T> {
    pub(crate) value: T,
    pub(crate) tokens: TokenStream,
}

impl<T> Spanned<T> {
    pub(crate) fn new(value: T, tokens: impl ToTokens) -> Self {
        Self { value, tokens: tokens.into_token_stream() }
    }
}

/// `key`, `key = value` or `key(value)`.
pub(crate) struct Entry {
    pub(crate) key: Ident,
    pub(crate) value: Value,
}

pub(crate) enum Value {
    None,
    Equals(Expr),
    List(TokenStream),
}

impl syn::parse::Parse for Entry {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        if input.peek(Lit) {
            let literal: Lit = input.parse()?;
            let cure = match &literal {
                Lit::Str(text) => format!("name the option: `name = {0}` or `queue = {0}`", text.token()),
                literal => format!("name the option: `max_retries = {}`", literal.to_token_stream()),
            };
            return Err(syn::Error::new_spanned(literal, cure));
        }
        let key = input.call(Ident::parse_any).map_err(|error| {
            syn::Error::new(error.span(), "expected an option, such as `queue = \"mail\"` or `max_retries = 3`")
        })?;
        let value = if input.is_empty() {
            Value::None
        } else if input.peek(syn::token::Paren) {
            let content;
            syn::parenthesized!(content in input);
            Value::List(content.parse()?)
        } else if input.peek(Token![:]) && !input.peek(Token![::]) {
            let colon: Token![:] = input.parse()?;
            return Err(syn::Error::new_spanned(colon, format!("write `=` between `{key}` and its value")));
        } else if input.peek(Token![=]) {
            let equals: Token![=] = input.parse()?;
            if input.is_empty() {
                let message = format!("`{key}` has no value: write `{}`", example(&key.to_string()));
                return Err(syn::Error::new_spanned(quote!(#key #equals), message));
            }
            let value = input.parse::<Expr>().map_err(|error| {
                syn::Error::new(
                    error.span(),
                    format!("this cannot be the value of `{key}`: write `{}`", example(&key.to_string())),
                )
            })?;
            Value::Equals(value)
        } else {
            Value::None
        };
        if !input.is_empty() {
            let rest: TokenStream = input.parse()?;
            let next = rest.into_iter().next();
            return Err(syn::Error::new_spanned(next, "expected `,` before this: options are separated by commas"));
        }
        Ok(Self { key, value })
    }
}

impl Entry {
    pub(crate) fn key(&self) -> String {
        self.key.unraw().to_string()
    }

    /// An error at the value, or at the key if there is no value.
    pub(crate) fn error(&self, message: impl Display) -> syn::Error {
        match &self.value {
            Value::None => syn::Error::new_spanned(&self.key, message),
            Value::Equals(value) => syn::Error::new_spanned(value, message),
            Value::List(list) => {
                let key = &self.key;
                syn::Error::new_spanned(quote!(#key #list), message)
            }
        }
    }

    /// The expression after `=`.
    pub(crate) fn value(&self) -> syn::Result<&Expr> {
        let key = self.key();
        match &self.value {
            Value::Equals(value) => Ok(peel(value)),
            Value::None => Err(self.error(format!("`{key}` has no value: write `{}`", example(&key)))),
            Value::List(list) => {
                let cure = if syn::parse2::<Lit>(list.clone()).is_ok() {
                    format!("{key} = {list}")
                } else {
                    example(&key).to_owned()
                };
                Err(self.error(format!("write `{cure}`")))
            }
        }
    }

    /// A string. The outer error is a missing string; the caller may use the inner one for invalid contents.
    pub(crate) fn text(&self, sample: &str) -> syn::Result<syn::Result<Spanned<String>>> {
        let key = self.key();
        match self.value()? {
            Expr::Lit(literal) => match &literal.lit {
                Lit::Str(text) => Ok(Ok(Spanned::new(text.value(), text))),
                Lit::Char(c) => Err(self.error(format!("`{key}` takes a string: write `{key} = \"{}\"`", c.value()))),
                literal => {
                    let written = literal.to_token_stream().to_string();
                    Err(self.error(format!("`{key}` takes a string: write `{key} = \"{written}\"`")))
                }
            },
            Expr::Path(path) if path.path.get_ident().is_some() => {
                let word = path.to_token_stream();
                Err(self.error(format!("`{key}` takes a string literal: write `{key} = \"{word}\"`, with quotes")))
            }
            _ => Err(self.error(format!("`{key}` takes a string literal: write `{key} = \"{sample}\"`"))),
        }
    }

    /// A whole number, with its sign.
    pub(crate) fn integer(&self) -> syn::Result<(bool, &LitInt)> {
        let key = self.key();
        let (negative, literal) = match self.value()? {
            Expr::Unary(unary) if matches!(unary.op, syn::UnOp::Neg(_)) => (true, peel(&unary.expr)),
            other => (false, other),
        };
        match literal {
            Expr::Lit(literal) => match &literal.lit {
                Lit::Int(number) => Ok((negative, number)),
                Lit::Str(text) if text.value().parse::<i64>().is_ok() => {
                    Err(self.error(format!("`{key}` takes a number: write `{key} = {}`, without quotes", text.value())))
                }
                Lit::Float(_) => Err(self.error(format!("`{key}` takes a whole number: write `{}`", example(&key)))),
                _ => Err(self.error(format!("`{key}` takes a number: write `{}`", example(&key)))),
            },
            _ => Err(self.error(format!("`{key}` takes a number literal: write `{}`", example(&key)))),
        }
    }

    pub(crate) fn priority(&self) -> syn::Result<i16> {
        let (negative, number) = self.integer()?;
        self.suffix(number, "i16")?;
        let value = number.base10_parse::<i32>().unwrap_or(i32::MAX);
        let value = if negative { -value } else { value };
        i16::try_from(value).map_err(|_| {
            self.error(format!("`priority` is a number from {} to {}, and smaller runs first", i16::MIN, i16::MAX))
        })
    }

    pub(crate) fn suffix(&self, number: &LitInt, allowed: &str) -> syn::Result<()> {
        let suffix = number.suffix();
        if suffix.is_empty() || suffix == allowed {
            return Ok(());
        }
        let (key, digits) = (self.key(), number.base10_digits());
        Err(self.error(format!("write `{key} = {digits}`, without `{suffix}`")))
    }
}

/// An example of an option.
fn example(key: &str) -> &'static str {
    match key {
        "name" => "name = \"send_email\"",
        "aliases" => "aliases = [\"old_name\"]",
        "queue" => "queue = \"mail\"",
        "priority" => "priority = -10",
        "max_retries" => "max_retries = 3",
        "timeout" => "timeout = \"30s\"",
        "backoff" => "backoff = exponential(\"2s\", max = \"10m\")",
        "schedule" => "schedule = \"0 9 * * MON-FRI Europe/Berlin\"",
        "cron" => "cron = \"0 9 * * MON-FRI\"",
        "every" => "every = \"15m\"",
        "zone" => "zone = \"Europe/Berlin\"",
        "gap" => "gap = skip",
        "fold" => "fold = both",
        "missed" => "missed = all(\"6h\")",
        "overlap" => "overlap = skip",
        "jitter" => "jitter = \"5m\"",
        "args" => "args = SendEmail { … }",
        "by" => "by = (user, day)",
        "until" => "until = \"start\"",
        "for" => "for = \"1h\"",
        "on_conflict" => "on_conflict = \"reject\"",
        "blocking" => "blocking",
        "derive" => "derive(PartialEq)",
        "struct_name" => "struct_name = \"SendEmailJob\"",
        "crate" => "crate = my_crate::queue",
        _ => "queue = \"mail\"",
    }
}

/// Splits at the commas, so that a mistake in one option does not hide the next.
pub(crate) fn pieces(args: TokenStream, errors: &mut Errors) -> Vec<TokenStream> {
    let mut pieces = vec![TokenStream::new()];
    for token in args {
        match &token {
            TokenTree::Punct(punct) if punct.as_char() == ',' => {
                if pieces.last().is_some_and(TokenStream::is_empty) {
                    errors.at(
                        &token,
                        "a comma too many: write the options as `#[job(queue = \"mail\", max_retries = 3)]`",
                    );
                    pieces.pop();
                }
                pieces.push(TokenStream::new());
            }
            TokenTree::Punct(punct) if punct.as_char() == ';' => {
                errors.at(&token, "options are separated by commas: write `,`");
                pieces.push(TokenStream::new());
            }
            _ => {
                if let Some(piece) = pieces.last_mut() {
                    piece.extend([token]);
                }
            }
        }
    }
    pieces.retain(|piece| !piece.is_empty());
    pieces
}

pub(crate) fn given_twice(key: &str) -> String {
    format!("`{key}` is given twice: keep one of the two")
}

pub(crate) fn listed(words: &[&str]) -> String {
    words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

/// A duration in a string. `before` is the text in front of the value, for the suggestion.
pub(crate) fn duration_literal(before: &str, value: &Expr, entry: &Entry) -> syn::Result<Spanned<Duration>> {
    let error = |message: String| syn::Error::new_spanned(value, message);
    match value {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Str(text) => match duration::parse(&text.value()) {
                Ok(duration) => Ok(Spanned::new(duration, text)),
                Err(message) => Err(error(message)),
            },
            Lit::Int(number) => {
                let written = number.to_string();
                let written = if number.suffix().is_empty() { format!("{written}s") } else { written };
                Err(error(format!("a duration is a string with a unit: write `{before}\"{written}\"`")))
            }
            _ => Err(error(format!("a duration is a string with a unit: write `{before}\"30s\"`"))),
        },
        Expr::Unary(_) => {
            Err(error(format!("a duration is a string with a unit, and not negative: write `{before}\"30s\"`")))
        }
        _ => {
            let key = entry.key();
            Err(error(format!("`{key}` takes its durations as string literals: write `{before}\"30s\"`")))
        }
    }
}

/// Why `name` does not fit into the `kind` or `queue` column.
pub(crate) fn name_fault(name: &str) -> Option<String> {
    if name.is_empty() {
        return Some("a name cannot be empty: write 1 to 128 bytes".to_owned());
    }
    if name.len() > LONGEST_NAME {
        return Some(format!(
            "this name has {} bytes, and at most {LONGEST_NAME} fit: write a shorter one",
            name.len()
        ));
    }
    if name.chars().any(char::is_control) {
        return Some("a name cannot contain control characters (line breaks, tabs, …): write plain text".to_owned());
    }
    if name.trim() != name {
        return Some(format!("a name cannot begin or end with white space: write `\"{}\"`", name.trim()));
    }
    None
}

pub(crate) fn checked_name(name: Spanned<String>) -> syn::Result<Spanned<String>> {
    match name_fault(&name.value) {
        Some(fault) => Err(syn::Error::new_spanned(&name.tokens, fault)),
        None => Ok(name),
    }
}

/// `expr` as a string literal.
pub(crate) fn string(expr: &Expr) -> Option<&LitStr> {
    match peel(expr) {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Str(text) => Some(text),
            _ => None,
        },
        _ => None,
    }
}

/// `expr` as a single word.
pub(crate) fn word(expr: &Expr) -> Option<&Ident> {
    match peel(expr) {
        Expr::Path(path) => path.path.get_ident(),
        _ => None,
    }
}

/// `expr` as a call: path and arguments.
pub(crate) fn call(expr: &Expr) -> Option<(&ExprPath, &Punctuated<Expr, Token![,]>)> {
    match expr {
        Expr::Call(call) => match &*call.func {
            Expr::Path(path) => Some((path, &call.args)),
            _ => None,
        },
        _ => None,
    }
}

/// `expr` without the groups and parentheses that a `macro_rules!` adds.
pub(crate) fn peel(expr: &Expr) -> &Expr {
    match expr {
        Expr::Group(group) => peel(&group.expr),
        Expr::Paren(paren) => peel(&paren.expr),
        other => other,
    }
}
