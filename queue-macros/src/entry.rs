//! One option in the parentheses of an attribute, `key`, `key = value` or `key(value)`, and what reads its value.

use std::fmt::Display;
use std::time::Duration;

use proc_macro2::{Ident, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::ext::IdentExt as _;
use syn::parse::{ParseStream, Parser as _};
use syn::punctuated::Punctuated;
use syn::{Error, Expr, ExprLit, ExprPath, Lit, LitStr, Token};

use crate::errors::Errors;
use crate::known::Known;
use crate::{duration, names};

/// The longest name of a job or a queue, in bytes.
const LONGEST_NAME: usize = 128;

/// A duration and the literal that it was read from.
pub(crate) struct Period {
    pub(crate) value: Duration,
    pub(crate) literal: LitStr,
}

impl ToTokens for Period {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        tokens.extend(duration_tokens(self.value));
    }
}

pub(crate) fn duration_tokens(duration: Duration) -> TokenStream {
    let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    quote!(::core::time::Duration::from_millis(#millis))
}

/// The options that some parentheses have, whether or not their values are valid, and the words that mean them.
#[derive(Default)]
pub(crate) struct Given(pub(crate) Vec<(&'static str, Ident)>);

impl Given {
    /// Reads one option. It must be known and new.
    pub(crate) fn entry(&mut self, piece: TokenStream, known: &Known) -> syn::Result<Entry> {
        let mut twice = false;
        if let Some(TokenTree::Ident(word)) = piece.clone().into_iter().next() {
            twice = word != "schedule" && self.0.iter().any(|(_, other)| other.unraw() == word.unraw());
            // An option with a mistake is not missing as well.
            self.0.extend(known.meant(&word.unraw().to_string()).map(|meant| (meant, word)));
        }
        let entry = Entry::read(piece, known)?;
        if twice { Err(Error::new_spanned(&entry.key, given_twice(&entry.key()))) } else { Ok(entry) }
    }

    /// The word that means the option.
    pub(crate) fn find(&self, name: &str) -> Option<&Ident> {
        self.0.iter().find(|(given, _)| *given == name).map(|(_, word)| word)
    }
}

/// `key`, `key = value` or `key(value)`.
pub(crate) struct Entry {
    pub(crate) key: Ident,
    pub(crate) value: Value,
    example: &'static str,
}

pub(crate) enum Value {
    None,
    Equals(Expr),
    List(TokenStream),
}

impl Entry {
    pub(crate) fn read(piece: TokenStream, known: &Known) -> syn::Result<Self> {
        (|input: ParseStream<'_>| Self::parse(input, known)).parse2(piece)
    }

    fn parse(input: ParseStream<'_>, known: &Known) -> syn::Result<Self> {
        if input.peek(Lit) {
            let literal: Lit = input.parse()?;
            let cure = match &literal {
                Lit::Str(text) => format!("name the option: `name = {0}` or `queue = {0}`", text.token()),
                literal => format!("name the option: `max_retries = {}`", literal.to_token_stream()),
            };
            return Err(Error::new_spanned(literal, cure));
        }
        let key = input.call(Ident::parse_any).map_err(|error| {
            Error::new(error.span(), "expected an option, such as `queue = \"mail\"` or `max_retries = 3`")
        })?;
        let name = key.unraw().to_string();
        let Some(example) = known.example(&name) else {
            return Err(Error::new_spanned(&key, known.unknown(&name)));
        };
        let value = if input.peek(syn::token::Paren) {
            let content;
            syn::parenthesized!(content in input);
            Value::List(content.parse()?)
        } else if input.peek(Token![:]) && !input.peek(Token![::]) {
            let colon: Token![:] = input.parse()?;
            return Err(Error::new_spanned(colon, format!("write `=` between `{key}` and its value")));
        } else if let Some(equals) = input.parse::<Option<Token![=]>>()? {
            if input.is_empty() {
                let message = format!("`{key}` has no value: write `{example}`");
                return Err(Error::new_spanned(quote!(#key #equals), message));
            }
            Value::Equals(input.parse().map_err(|error| {
                Error::new(error.span(), format!("this cannot be the value of `{key}`: write `{example}`"))
            })?)
        } else {
            Value::None
        };
        if let Some(next) = input.parse::<TokenStream>()?.into_iter().next() {
            return Err(Error::new_spanned(next, "expected `,` before this: options are separated by commas"));
        }
        Ok(Self { key, value, example })
    }

    pub(crate) fn key(&self) -> String {
        self.key.unraw().to_string()
    }

    /// An error at the value, or at the key if there is no value.
    pub(crate) fn error(&self, message: impl Display) -> Error {
        let key = &self.key;
        match &self.value {
            Value::None => Error::new_spanned(key, message),
            Value::Equals(value) => Error::new_spanned(value, message),
            Value::List(list) => Error::new_spanned(quote!(#key #list), message),
        }
    }

    /// The expression after `=`.
    pub(crate) fn value(&self) -> syn::Result<&Expr> {
        let (key, example) = (self.key(), self.example);
        Err(self.error(match &self.value {
            Value::Equals(value) => return Ok(peel(value)),
            Value::None => format!("`{key}` has no value: write `{example}`"),
            Value::List(list) if syn::parse2::<Lit>(list.clone()).is_ok() => format!("write `{key} = {list}`"),
            Value::List(_) => format!("write `{example}`"),
        }))
    }

    pub(crate) fn text(&self) -> syn::Result<LitStr> {
        let (key, value) = (self.key(), self.value()?);
        let written = value.to_token_stream();
        Err(self.error(match value {
            Expr::Lit(ExprLit { lit, .. }) => match lit {
                Lit::Str(text) => return Ok(text.clone()),
                Lit::Char(c) => format!("`{key}` takes a string: write `{key} = \"{}\"`", c.value()),
                _ => format!("`{key}` takes a string: write `{key} = \"{written}\"`"),
            },
            _ if word(value).is_some() => {
                format!("`{key}` takes a string literal: write `{key} = \"{written}\"`, with quotes")
            }
            _ => format!("`{key}` takes a string literal: write `{}`", self.example),
        }))
    }

    /// A name that fits into its column.
    pub(crate) fn name(&self) -> syn::Result<LitStr> {
        self.text().and_then(checked_name)
    }

    /// A whole number. One that is out of range here is out of range for each option.
    pub(crate) fn integer(&self, suffix: &str) -> syn::Result<i64> {
        let (key, example) = (self.key(), self.example);
        let (sign, value) = match self.value()? {
            Expr::Unary(unary) if matches!(unary.op, syn::UnOp::Neg(_)) => (-1, peel(&unary.expr)),
            other => (1, other),
        };
        let Expr::Lit(ExprLit { lit, .. }) = value else {
            return Err(self.error(format!("`{key}` takes a number literal: write `{example}`")));
        };
        Err(self.error(match lit {
            Lit::Int(number) if number.suffix().is_empty() || number.suffix() == suffix => {
                return Ok(sign * number.base10_parse().unwrap_or(i64::MAX));
            }
            Lit::Int(number) => format!("write `{key} = {}`, without `{}`", number.base10_digits(), number.suffix()),
            Lit::Str(text) if text.value().parse::<i64>().is_ok() => {
                format!("`{key}` takes a number: write `{key} = {}`, without quotes", text.value())
            }
            Lit::Float(_) => format!("`{key}` takes a whole number: write `{example}`"),
            _ => format!("`{key}` takes a number: write `{example}`"),
        }))
    }

    pub(crate) fn priority(&self) -> syn::Result<i16> {
        i16::try_from(self.integer("i16")?).map_err(|_| {
            self.error(format!("`priority` is a number from {} to {}, and smaller runs first", i16::MIN, i16::MAX))
        })
    }

    /// The duration after `=`.
    pub(crate) fn duration(&self) -> syn::Result<Period> {
        self.duration_in(&format!("{} = ", self.key()), self.value()?)
    }

    /// A duration in the value. `before` is the text in front of it, for the suggestion.
    pub(crate) fn duration_in(&self, before: &str, value: &Expr) -> syn::Result<Period> {
        const WITH_UNIT: &str = "a duration is a string with a unit";
        let message = match peel(value) {
            Expr::Lit(ExprLit { lit, .. }) => match lit {
                Lit::Str(literal) => {
                    let value = duration::parse(&literal.value()).map_err(|why| Error::new_spanned(literal, why))?;
                    return Ok(Period { value, literal: literal.clone() });
                }
                Lit::Int(number) => {
                    let unit = if number.suffix().is_empty() { "s" } else { "" };
                    format!("{WITH_UNIT}: write `{before}\"{number}{unit}\"`")
                }
                _ => format!("{WITH_UNIT}: write `{before}\"30s\"`"),
            },
            Expr::Unary(_) => format!("{WITH_UNIT}, and not negative: write `{before}\"30s\"`"),
            _ => format!("`{}` takes its durations as string literals: write `{before}\"30s\"`", self.key()),
        };
        Err(Error::new_spanned(peel(value), message))
    }

    /// One of a few words, each followed by its synonyms. `quotes` says whether it stands in quotes.
    pub(crate) fn choice(&self, words: &[&'static str], quotes: bool) -> syn::Result<&'static str> {
        let (key, value) = (self.key(), self.value()?);
        let quoted = string(value);
        let written = match value {
            Expr::Path(path) => path.path.segments.last().map(|last| last.ident.to_string()),
            _ => quoted.map(LitStr::value),
        };
        let written = written.unwrap_or_default();
        let example = |word: &str| match word {
            "all" => format!("`{key} = all(\"6h\")`"),
            word if quotes => format!("`{key} = \"{word}\"`"),
            word => format!("`{key} = {word}`"),
        };
        let names = words.iter().map(|words| names::first(words));
        Err(self.error(match names.clone().find(|word| *word == written) {
            Some(known) if quoted.is_some() == quotes && (quotes || word(value).is_some()) => return Ok(known),
            Some(known) if quoted.is_some() != quotes => {
                format!("write {}, {} quotes", example(known), if quotes { "with" } else { "without" })
            }
            _ => match names::meant(&written, words.iter().copied()) {
                Some(meant) => format!("unknown value of `{key}`; did you mean {}?", example(meant)),
                None => {
                    let all: Vec<_> = names.map(example).collect();
                    format!("unknown value of `{key}`: write {}", all.join(" or "))
                }
            },
        }))
    }
}

/// Splits at the commas, so that a mistake in one option does not hide the next.
pub(crate) fn pieces(list: TokenStream, errors: &mut Errors) -> Vec<TokenStream> {
    let (mut pieces, mut piece) = (Vec::new(), TokenStream::new());
    for token in list {
        match &token {
            TokenTree::Punct(punct) if punct.as_char() == ';' => {
                errors.at(&token, "options are separated by commas: write `,`");
            }
            TokenTree::Punct(punct) if punct.as_char() == ',' && piece.is_empty() => {
                errors.at(&token, "a comma too many: write the options as `#[job(queue = \"mail\", max_retries = 3)]`")
            }
            TokenTree::Punct(punct) if punct.as_char() == ',' => {}
            _ => {
                piece.extend([token]);
                continue;
            }
        }
        pieces.push(std::mem::take(&mut piece));
    }
    pieces.push(piece);
    pieces.retain(|piece| !piece.is_empty());
    pieces
}

pub(crate) fn given_twice(key: &str) -> String {
    format!("`{key}` is given twice: keep one of the two")
}

/// Why `name` does not fit into the `kind` or `queue` column.
pub(crate) fn name_fault(name: &str) -> Option<String> {
    let (length, trimmed) = (name.len(), name.trim());
    if name.is_empty() {
        Some("a name cannot be empty: write 1 to 128 bytes".to_owned())
    } else if length > LONGEST_NAME {
        Some(format!("this name has {length} bytes, and at most {LONGEST_NAME} fit: write a shorter one"))
    } else if name.chars().any(char::is_control) {
        Some("a name cannot contain control characters (line breaks, tabs, …): write plain text".to_owned())
    } else {
        (trimmed != name).then(|| format!("a name cannot begin or end with white space: write `\"{trimmed}\"`"))
    }
}

pub(crate) fn checked_name(name: LitStr) -> syn::Result<LitStr> {
    match name_fault(&name.value()) {
        Some(fault) => Err(Error::new_spanned(&name, fault)),
        None => Ok(name),
    }
}

/// `expr` as a string literal.
pub(crate) fn string(expr: &Expr) -> Option<&LitStr> {
    match peel(expr) {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Some(text),
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
    let Expr::Call(call) = expr else { return None };
    match &*call.func {
        Expr::Path(path) => Some((path, &call.args)),
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
