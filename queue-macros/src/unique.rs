//! The option `unique`: `unique`, or `unique(by = (user, day), until = "start", for = "1h", on_conflict = "replace")`.

use proc_macro2::{Ident, Span, TokenStream};
use quote::ToTokens as _;
use syn::spanned::Spanned as _;
use syn::{Error, Expr, ExprLit, Lit, LitBool, LitStr};

use crate::entry::{self, Entry, Given, Period, Value};
use crate::errors::Errors;
use crate::{duration, known, names, types};

/// The values, each followed by what other libraries call it.
const UNTIL: [&str; 2] = ["end completed done executed finished", "start claimed executing started"];
const ON_CONFLICT: [&str; 3] =
    ["keep ignore nothing skip", "replace override overwrite update", "reject error fail raise"];

const BY: &str = "write `by = (user, day)`";
const PLAIN: &str = "write `unique`, or options in parentheses, like `unique(for = \"1h\")`";

/// The option. `None` means the default of the library.
#[derive(Default)]
pub(crate) struct Unique {
    pub(crate) given: Given,
    pub(crate) by: Vec<Ident>,
    pub(crate) until: Option<&'static str>,
    pub(crate) at_least: Option<Period>,
    /// The word, and where it stands.
    pub(crate) on_conflict: Option<(&'static str, TokenStream)>,
    /// What the arguments in `by` are called in the job's JSON.
    pub(crate) keys: Vec<String>,
    pub(crate) sound: bool,
}

impl Unique {
    /// Reads what is valid and records every mistake.
    pub(crate) fn read(entry: &Entry, errors: &mut Errors) -> Self {
        let before = errors.len();
        let mut unique = Self::default();
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
                Some(Ok(name)) => {
                    unnamed.push(name);
                    continue;
                }
                Some(Err(message)) => Err(Error::new_spanned(&piece, message)),
                None => self.option(piece, errors),
            };
            errors.take(result);
        }
        if let Some(first) = unnamed.first() {
            errors.at(first, format!("name the option: write `{}`", by(&unnamed)));
        }
        self.replaces_what_waits(errors);
    }

    fn option(&mut self, piece: TokenStream, errors: &mut Errors) -> syn::Result<()> {
        let place = self.given.0.len();
        let entry = self.given.entry(piece.clone(), &known::UNIQUE);
        let entry = entry.map_err(|error| match self.given.0.get(place) {
            Some((_, word)) if word == "by" => keyword(piece).unwrap_or(error),
            _ => error,
        })?;
        match entry.key().as_str() {
            "by" => self.by = arguments(&entry, errors)?,
            "until" => self.until = Some(until(&entry)?),
            "for" => self.at_least = Some(entry.duration()?),
            _ => self.on_conflict = Some((entry.choice(&ON_CONFLICT, true)?, entry.value()?.to_token_stream())),
        }
        Ok(())
    }

    fn replaces_what_waits(&self, errors: &mut Errors) {
        let Some(("replace", tokens)) = &self.on_conflict else { return };
        let verb = match (self.until, self.given.find("until")) {
            (None, None) => "add",
            (Some("end"), _) => "write",
            _ => return,
        };
        let other = "or choose `on_conflict = \"keep\"` or `on_conflict = \"reject\"`";
        errors.at(tokens, format!("a job that runs cannot be replaced: {verb} `until = \"start\"`, {other}"));
    }
}

/// `unique = …`
fn with_value(value: &Expr) -> String {
    let text = entry::string(value).map(LitStr::value).unwrap_or_default();
    match entry::peel(value) {
        Expr::Lit(ExprLit { lit: Lit::Bool(LitBool { value: false, .. }), .. }) => {
            "a job is not unique by default: leave `unique` out".to_owned()
        }
        _ if duration::parse(&text).is_ok() => {
            format!("`unique` takes no value: write `unique`, or `unique(for = \"{text}\")`")
        }
        _ => format!("`unique` takes no value: {PLAIN}"),
    }
}

/// What stands in the list without the name of an option: maybe the name of an argument, or a message. Nothing for an
/// option.
fn bare(piece: &TokenStream) -> Option<Result<Ident, String>> {
    let text = match syn::parse2::<Lit>(piece.clone()) {
        Ok(Lit::Str(text)) => text.value(),
        Ok(_) => return Some(Err(format!("this names no option: {BY}"))),
        Err(_) => {
            let word = syn::parse2::<Ident>(piece.clone()).ok()?.to_string();
            known::UNIQUE.meant(&word).is_none().then_some(word)?
        }
    };
    let is_one_of = |words: &[&str]| words.iter().any(|words| names::first(words) == text);
    let option = match () {
        () if duration::parse(&text).is_ok() => "for",
        () if is_one_of(&UNTIL) => "until",
        () if is_one_of(&ON_CONFLICT) => "on_conflict",
        () => return Some(name_in(&text, piece.span()).ok_or_else(|| format!("name the option: {BY}"))),
    };
    Some(Err(format!("name the option: write `{option} = \"{text}\"`")))
}

/// An error for `by = type`, which is no expression.
fn keyword(piece: TokenStream) -> Option<Error> {
    Entry::read(piece.clone(), &known::UNIQUE).err()?;
    let raw = |word: &Ident| !["self", "Self", "super", "crate", "_"].iter().any(|never| word == never);
    let word = types::mentions(piece, &|word| raw(word) && syn::parse2::<Ident>(word.to_token_stream()).is_err())?;
    Some(Error::new_spanned(&word, format!("`{word}` is a keyword: write `r#{word}`, as in the function")))
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
    let mistake = match &entry.value {
        Value::List(list) => named(list.clone()).map(|by| format!("write `{by}`")),
        _ => match entry.value()? {
            Expr::Tuple(tuple) if tuple.elems.is_empty() => {
                Some("`by` names no argument: leave it out, and all arguments count".to_owned())
            }
            Expr::Tuple(tuple) => return Ok(tuple.elems.iter().filter_map(|it| errors.take(argument(it))).collect()),
            Expr::Array(array) => {
                named(array.elems.to_token_stream()).map(|by| format!("`by` takes names in parentheses: write `{by}`"))
            }
            value => match (entry::word(value), entry::string(value)) {
                (Some(name), _) => return Ok(vec![name.clone()]),
                (None, Some(text)) => {
                    let names = text.value();
                    let names = names.split(',').map(|name| name_in(name.trim(), text.span()));
                    let names = names.collect::<Option<Vec<_>>>();
                    names.map(|names| format!("write `{}`, without quotes", by(&names)))
                }
                (None, None) => None,
            },
        },
    };
    Err(entry.error(mistake.unwrap_or_else(|| format!("`by` takes names of arguments: {BY}"))))
}

/// One of several names in `by`.
fn argument(element: &Expr) -> syn::Result<Ident> {
    let text = entry::string(element).and_then(|text| name_in(&text.value(), text.span()));
    match (entry::word(element), text) {
        (Some(name), _) => Ok(name.clone()),
        (None, Some(text)) => Err(format!("`by` takes names of arguments: write `{text}`, without quotes")),
        (None, None) => Err(format!("`by` takes names of arguments: {BY}")),
    }
    .map_err(|message| Error::new_spanned(element, message))
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

/// `by` with the names in a list of nothing else, with or without quotes.
fn named(list: TokenStream) -> Option<String> {
    let pieces = entry::pieces(list, &mut Errors::default());
    let names = pieces.into_iter().map(|piece| match syn::parse2::<LitStr>(piece.clone()) {
        Ok(text) => name_in(&text.value(), text.span()),
        Err(_) => syn::parse2::<Ident>(piece).ok(),
    });
    names.collect::<Option<Vec<_>>>().filter(|names| !names.is_empty()).map(|names| by(&names))
}

fn until(entry: &Entry) -> syn::Result<&'static str> {
    match entry::string(entry.value()?).map(LitStr::value) {
        Some(text) if duration::parse(&text).is_ok() => {
            Err(entry.error(format!("`until` takes no duration: write `for = \"{text}\"`")))
        }
        _ => entry.choice(&UNTIL, true),
    }
}
