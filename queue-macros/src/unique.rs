//! The option `unique`: `unique`, or `unique(by = (user, day), until = "start", for = "1h", on_conflict = "replace")`.

use std::time::Duration;

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::ToTokens as _;
use syn::ext::IdentExt as _;
use syn::{Expr, Lit, LitStr};

use crate::entry::{self, Entry, Spanned, Value};
use crate::errors::Errors;
use crate::{duration, names, types};

/// The options in `unique(…)`, in the order in which the messages list them.
const KEYS: [&str; 4] = ["by", "until", "for", "on_conflict"];

/// Names that users of other libraries write.
const SYNONYMS: [(&str, &str); 22] = [
    ("args", "by"),
    ("argument", "by"),
    ("arguments", "by"),
    ("at_least", "for"),
    ("conflict", "on_conflict"),
    ("duration", "for"),
    ("expires", "for"),
    ("field", "by"),
    ("fields", "by"),
    ("key", "by"),
    ("keys", "by"),
    ("on_duplicate", "on_conflict"),
    ("per", "for"),
    ("period", "for"),
    ("policy", "on_conflict"),
    ("scope", "until"),
    ("strategy", "on_conflict"),
    ("timeout", "for"),
    ("ttl", "for"),
    ("unique_for", "for"),
    ("window", "for"),
    ("within", "for"),
];

const UNTIL: [&str; 2] = ["end", "start"];
const ON_CONFLICT: [&str; 3] = ["keep", "replace", "reject"];

/// Values that users of other libraries write.
const MEANINGS: [(&str, &str); 16] = [
    ("claimed", "start"),
    ("completed", "end"),
    ("done", "end"),
    ("error", "reject"),
    ("executed", "end"),
    ("executing", "start"),
    ("fail", "reject"),
    ("finished", "end"),
    ("ignore", "keep"),
    ("nothing", "keep"),
    ("override", "replace"),
    ("overwrite", "replace"),
    ("raise", "reject"),
    ("skip", "keep"),
    ("started", "start"),
    ("update", "replace"),
];

const BY: &str = "write `by = (user, day)`";
const PLAIN: &str = "write `unique`, or options in parentheses, like `unique(for = \"1h\")`";

/// The option. `None` means the default of the library.
pub(crate) struct Unique {
    /// The options that the list has, whether or not their values are valid.
    pub(crate) given: Vec<Ident>,
    pub(crate) by: Vec<Ident>,
    pub(crate) until: Option<&'static str>,
    pub(crate) at_least: Option<Duration>,
    pub(crate) on_conflict: Option<Spanned<&'static str>>,
    /// What the arguments in `by` are called in the job's JSON.
    pub(crate) keys: Vec<String>,
    pub(crate) sound: bool,
}

impl Unique {
    /// Reads what is valid and records every mistake.
    pub(crate) fn read(entry: &Entry, errors: &mut Errors) -> Self {
        let before = errors.len();
        let mut unique = Self {
            given: Vec::new(),
            by: Vec::new(),
            until: None,
            at_least: None,
            on_conflict: None,
            keys: Vec::new(),
            sound: false,
        };
        match &entry.value {
            Value::None => {}
            Value::List(list) if list.is_empty() => {
                errors.at(&entry.key, "the parentheses of `unique` have no option: write `unique`");
            }
            Value::List(list) => unique.list(list.clone(), errors),
            Value::Equals(value) => errors.push(entry.error(with_value(value))),
        }
        unique.sound = errors.len() == before;
        unique
    }

    fn list(&mut self, list: TokenStream, errors: &mut Errors) {
        // `unique(user, day)` is one mistake
        let mut unnamed: Vec<Ident> = Vec::new();
        for piece in entry::pieces(list, errors) {
            let result = match bare(&piece) {
                Some(Bare::Name(name)) => {
                    unnamed.push(name);
                    continue;
                }
                Some(Bare::Value(message)) => Err(syn::Error::new_spanned(&piece, message)),
                None => self.option(piece, errors),
            };
            if let Err(error) = result {
                errors.push(error);
            }
        }
        if let Some(first) = unnamed.first() {
            errors.at(first, format!("name the option: write `{}`", by(&unnamed)));
        }
        self.replaces_what_waits(errors);
    }

    fn option(&mut self, piece: TokenStream, errors: &mut Errors) -> syn::Result<()> {
        // An option with a mistake is not missing as well.
        let meant = match piece.clone().into_iter().next() {
            Some(TokenTree::Ident(key)) => meant(&key.unraw().to_string()).map(|meant| Ident::new(meant, key.span())),
            _ => None,
        };
        let keyword = match &meant {
            Some(key) if key == "by" => keyword(&piece),
            _ => None,
        };
        let result = match keyword {
            Some(error) => Err(error),
            None => syn::parse2::<Entry>(piece).and_then(|entry| match entry.key() {
                key if self.has(&key) => Err(syn::Error::new_spanned(&entry.key, entry::given_twice(&key))),
                _ => self.set(&entry, errors),
            }),
        };
        self.given.extend(meant);
        result
    }

    fn set(&mut self, entry: &Entry, errors: &mut Errors) -> syn::Result<()> {
        match entry.key().as_str() {
            "by" => self.by = arguments(entry, errors)?,
            "until" => self.until = Some(until(entry)?),
            "for" => self.at_least = Some(entry::duration_literal("for = ", entry.value()?, entry)?.value),
            "on_conflict" => {
                let tokens = entry.value()?.to_token_stream();
                self.on_conflict = Some(Spanned { value: choice(entry, &ON_CONFLICT)?, tokens });
            }
            other => return Err(syn::Error::new_spanned(&entry.key, unknown(other))),
        }
        Ok(())
    }

    fn has(&self, name: &str) -> bool {
        self.given.iter().any(|key| key.unraw() == name)
    }

    fn replaces_what_waits(&self, errors: &mut Errors) {
        let Some(Spanned { value: "replace", tokens }) = &self.on_conflict else { return };
        let verb = match self.until {
            Some("start") => return,
            Some(_) => "write",
            None if self.has("until") => return,
            None => "add",
        };
        errors.at(
            tokens,
            format!(
                "a job that runs cannot be replaced: {verb} `until = \"start\"`, or choose `on_conflict = \"keep\"` or \
                 `on_conflict = \"reject\"`"
            ),
        );
    }
}

/// `unique = …`
fn with_value(value: &Expr) -> String {
    let text = entry::string(value).map(LitStr::value).unwrap_or_default();
    match entry::peel(value) {
        Expr::Lit(literal) if matches!(&literal.lit, Lit::Bool(no) if !no.value) => {
            "a job is not unique by default: leave `unique` out".to_owned()
        }
        _ if duration::parse(&text).is_ok() => {
            format!("`unique` takes no value: write `unique`, or `unique(for = \"{text}\")`")
        }
        _ => format!("`unique` takes no value: {PLAIN}"),
    }
}

/// What stands in the list without the name of an option.
enum Bare {
    /// Maybe that of an argument.
    Name(Ident),
    /// Something else, with the message.
    Value(String),
}

/// Nothing for an option.
fn bare(piece: &TokenStream) -> Option<Bare> {
    let text = match syn::parse2::<Lit>(piece.clone()) {
        Ok(Lit::Str(text)) => text.value(),
        Ok(_) => return Some(Bare::Value(format!("this names no option: {BY}"))),
        Err(_) => {
            let word = syn::parse2::<Ident>(piece.clone()).ok()?.to_string();
            (meant(&word).is_none()).then_some(word)?
        }
    };
    let option = match duration::parse(&text) {
        Ok(_) => Some(("for", text.as_str())),
        Err(_) => [("until", &UNTIL[..]), ("on_conflict", &ON_CONFLICT[..])]
            .into_iter()
            .find_map(|(key, words)| Some((key, *words.iter().find(|word| **word == text)?))),
    };
    if let Some((key, value)) = option {
        return Some(Bare::Value(format!("name the option: write `{key} = \"{value}\"`")));
    }
    let span = piece.clone().into_iter().next()?.span();
    Some(match name_in(&text, span) {
        Some(name) => Bare::Name(name),
        None => Bare::Value(format!("name the option: {BY}")),
    })
}

/// An error for `by = type`, which is no expression.
fn keyword(piece: &TokenStream) -> Option<syn::Error> {
    syn::parse2::<Entry>(piece.clone()).err()?;
    let raw = |word: &Ident| !["self", "Self", "super", "crate", "_"].iter().any(|never| word == never);
    let word =
        types::mentions(piece.clone(), &|word| raw(word) && syn::parse2::<Ident>(word.to_token_stream()).is_err())?;
    Some(syn::Error::new_spanned(&word, format!("`{word}` is a keyword: write `r#{word}`, as in the function")))
}

fn meant(key: &str) -> Option<&'static str> {
    names::meant(key, &SYNONYMS, &KEYS)
}

fn unknown(key: &str) -> String {
    match meant(key) {
        Some(meant) => format!("unknown option `{key}` of `unique`; did you mean `{meant}`?"),
        None => format!("unknown option `{key}` of `unique`; its options are {}", entry::listed(&KEYS)),
    }
}

/// `by` with these arguments.
fn by(arguments: &[Ident]) -> String {
    match arguments {
        [one] => format!("by = {one}"),
        several => {
            let several: Vec<_> = several.iter().map(Ident::to_string).collect();
            format!("by = ({})", several.join(", "))
        }
    }
}

/// The names in `by`.
fn arguments(entry: &Entry, errors: &mut Errors) -> syn::Result<Vec<Ident>> {
    let generic = || entry.error(format!("`by` takes names of arguments: {BY}"));
    if let Value::List(list) = &entry.value {
        return Err(match named(list.clone()) {
            Some(names) => entry.error(format!("write `{}`", by(&names))),
            None => generic(),
        });
    }
    match entry.value()? {
        Expr::Tuple(tuple) if tuple.elems.is_empty() => {
            Err(entry.error("`by` names no argument: leave it out, and all arguments count"))
        }
        Expr::Tuple(tuple) => Ok(tuple
            .elems
            .iter()
            .filter_map(|element| {
                let name = entry::word(element);
                if name.is_none() {
                    errors.at(
                        element,
                        match entry::string(element).and_then(|text| name_in(&text.value(), text.span())) {
                            Some(text) => format!("`by` takes names of arguments: write `{text}`, without quotes"),
                            None => format!("`by` takes names of arguments: {BY}"),
                        },
                    );
                }
                name.cloned()
            })
            .collect()),
        Expr::Array(array) => Err(match named(array.elems.to_token_stream()) {
            Some(names) => entry.error(format!("`by` takes names in parentheses: write `{}`", by(&names))),
            None => generic(),
        }),
        value => match (entry::word(value), entry::string(value)) {
            (Some(name), _) => Ok(vec![name.clone()]),
            (None, Some(text)) => {
                let names = text.value();
                let names = names.split(',').map(|name| name_in(name.trim(), text.span()));
                Err(match names.collect::<Option<Vec<_>>>() {
                    Some(names) => entry.error(format!("write `{}`, without quotes", by(&names))),
                    None => generic(),
                })
            }
            (None, None) => Err(generic()),
        },
    }
}

/// `text` as the name of an argument. Other text is not parsed: the compiler would report what is wrong with it.
fn name_in(text: &str, span: Span) -> Option<Ident> {
    let plain = text.strip_prefix("r#").unwrap_or(text);
    let is_plain = plain.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && plain.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
    let mut name = is_plain.then(|| syn::parse_str::<Ident>(text).ok())??;
    name.set_span(span);
    Some(name)
}

/// A list of nothing but names, with or without quotes.
fn named(list: TokenStream) -> Option<Vec<Ident>> {
    let pieces = entry::pieces(list, &mut Errors::default());
    let names = pieces.into_iter().map(|piece| match syn::parse2::<LitStr>(piece.clone()) {
        Ok(text) => name_in(&text.value(), text.span()),
        Err(_) => syn::parse2::<Ident>(piece).ok(),
    });
    names.collect::<Option<Vec<_>>>().filter(|names| !names.is_empty())
}

fn until(entry: &Entry) -> syn::Result<&'static str> {
    if let Some(text) = entry::string(entry.value()?).map(LitStr::value)
        && duration::parse(&text).is_ok()
    {
        return Err(entry.error(format!("`until` takes no duration: write `for = \"{text}\"`")));
    }
    choice(entry, &UNTIL)
}

/// One of a few words, in quotes.
fn choice(entry: &Entry, words: &[&'static str]) -> syn::Result<&'static str> {
    let (key, value) = (entry.key(), entry.value()?);
    let (written, quoted) = match value {
        Expr::Path(path) => (path.path.segments.last().map(|last| last.ident.to_string()), false),
        value => (entry::string(value).map(LitStr::value), true),
    };
    let written = written.unwrap_or_default();
    let example = |word: &str| format!("`{key} = \"{word}\"`");
    match words.iter().find(|word| **word == written) {
        Some(word) if quoted => return Ok(word),
        Some(word) => return Err(entry.error(format!("write {}, with quotes", example(word)))),
        None => {}
    }
    let lower = written.to_lowercase();
    let meaning = MEANINGS.iter().find(|(other, _)| *other == lower).map(|(_, word)| *word);
    let meaning = meaning.filter(|word| words.contains(word)).or_else(|| names::closest(&lower, words));
    Err(entry.error(match meaning {
        Some(meant) => format!("unknown value of `{key}`; did you mean {}?", example(meant)),
        None => {
            let all: Vec<_> = words.iter().map(|word| example(word)).collect();
            format!("unknown value of `{key}`: write {}", all.join(" or "))
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggestions_name_options_that_exist() {
        for (synonym, key) in SYNONYMS {
            assert!(KEYS.contains(&key) && !KEYS.contains(&synonym), "{synonym} -> {key}");
        }
        for (other, word) in MEANINGS {
            assert!(UNTIL.contains(&word) != ON_CONFLICT.contains(&word), "{other} -> {word}");
        }
    }
}
