//! The options of `#[job(…)]`, each with its span.

use std::fmt::Display;
use std::time::Duration;

use proc_macro2::{Ident, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::ext::IdentExt as _;
use syn::parse::{ParseStream, Parser as _};
use syn::punctuated::Punctuated;
use syn::{Expr, ExprPath, Lit, LitInt, LitStr, Path, Token};

use crate::backoff::Backoff;
use crate::duration;
use crate::errors::Errors;
use crate::names;
#[cfg(feature = "schedules")]
use crate::schedule::Schedule;
use crate::unique::Unique;

/// The options, in the order in which the messages list them.
const OPTIONS: [&str; 13] = [
    "name",
    "aliases",
    "queue",
    "priority",
    "max_retries",
    "timeout",
    "backoff",
    "schedule",
    "unique",
    "blocking",
    "derive",
    "struct_name",
    "crate",
];

/// What the struct derives anyway.
const DERIVED: [&str; 4] = ["Debug", "Clone", "Serialize", "Deserialize"];

/// What other libraries have as options, and how to get it here.
const ELSEWHERE: [(&str, &str); 16] = [
    ("cron", BY_THE_CLOCK),
    ("recurring", BY_THE_CLOCK),
    ("periodic", BY_THE_CLOCK),
    ("every", AT_INTERVALS),
    ("interval", AT_INTERVALS),
    ("unique_by", "write `unique(by = user)`"),
    ("unique_for", "write `unique(for = \"1h\")`"),
    ("unique_until", "write `unique(until = \"start\")`"),
    ("unique_key", KEYED),
    ("debounce", DEBOUNCED),
    ("concurrency", LIMITED),
    ("limit", LIMITED),
    ("rate_limit", LIMITED),
    ("throttle", LIMITED),
    ("run_at", DELAYED),
    ("run_in", DELAYED),
];
const BY_THE_CLOCK: &str = "write `schedule = \"0 9 * * MON-FRI Europe/Berlin\"`";
const AT_INTERVALS: &str = "write `schedule = \"every 15m\"`";
const KEYED: &str = "the key belongs to the enqueue: write `.unique_key(…)` there, or `unique(by = user)` here";
const DEBOUNCED: &str =
    "the delay belongs to the enqueue: write `.debounce(delay)` there, and `unique(by = user)` here";
const LIMITED: &str = "limits belong to a queue and a worker: write `queue = \"mail\"` here and `.queue(\"mail\", 2)` \
                       on the worker's builder";
const DELAYED: &str = "the time belongs to the enqueue: write `.after(delay)` or `.at(time)` there";

/// Names that users of other libraries write.
const SYNONYMS: [(&str, &str); 28] = [
    ("alias", "aliases"),
    ("attempts", "max_retries"),
    ("block", "blocking"),
    ("cpu", "blocking"),
    ("dedup", "unique"),
    ("dedupe", "unique"),
    ("deduplicate", "unique"),
    ("identifier", "name"),
    ("job_name", "name"),
    ("job_type", "name"),
    ("kind", "name"),
    ("max_attempts", "max_retries"),
    ("max_retry", "max_retries"),
    ("prio", "priority"),
    ("queue_name", "queue"),
    ("rename", "name"),
    ("retries", "max_retries"),
    ("retry", "max_retries"),
    ("retry_backoff", "backoff"),
    ("delay", "backoff"),
    ("retry_delay", "backoff"),
    ("singleton", "unique"),
    ("spawn_blocking", "blocking"),
    ("struct", "struct_name"),
    ("sync", "blocking"),
    ("task_name", "name"),
    ("time_limit", "timeout"),
    ("type_name", "struct_name"),
];

/// Without schedules in the library, the generated code would not compile.
#[cfg(not(feature = "schedules"))]
const NO_SCHEDULES: &str = "`schedule` needs the feature `schedules` of the crate `queue`: write queue = { …, \
                            features = [\"schedules\"] } in Cargo.toml";

/// The longest name of a job or a queue, in bytes.
pub(crate) const LONGEST_NAME: usize = 128;
/// The number of attempts must fit into the databases' `integer`.
const MOST_RETRIES: u32 = i32::MAX as u32 - 1;

/// A value and the literal that it was read from.
pub(crate) struct Spanned<T> {
    pub(crate) value: T,
    pub(crate) tokens: TokenStream,
}

impl<T> Spanned<T> {
    fn new(value: T, tokens: impl ToTokens) -> Self {
        Self { value, tokens: tokens.into_token_stream() }
    }
}

/// The options of one `#[job(…)]`. `None` means the default of the trait.
#[derive(Default)]
pub(crate) struct Options {
    pub(crate) name: Option<Spanned<String>>,
    pub(crate) aliases: Vec<Spanned<String>>,
    pub(crate) queue: Option<String>,
    pub(crate) priority: Option<i16>,
    pub(crate) max_retries: Option<u32>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) backoff: Option<Backoff>,
    #[cfg(feature = "schedules")]
    pub(crate) schedules: Vec<Schedule>,
    pub(crate) unique: Option<Unique>,
    pub(crate) blocking: Option<Ident>,
    /// Further traits that the struct derives.
    pub(crate) derive: Vec<Path>,
    pub(crate) struct_name: Option<Ident>,
    pub(crate) krate: Option<Path>,
}

impl Options {
    /// Reads every valid option and records every mistake.
    pub(crate) fn parse(args: TokenStream, errors: &mut Errors) -> Self {
        let mut options = Self::default();
        let mut seen: Vec<String> = Vec::new();
        for piece in pieces(args, errors) {
            match syn::parse2::<Entry>(piece) {
                Ok(entry) => options.take(entry, &mut seen, errors),
                Err(error) => errors.push(error),
            }
        }
        options
    }

    fn take(&mut self, entry: Entry, seen: &mut Vec<String>, errors: &mut Errors) {
        let key = entry.key.unraw().to_string();
        let Some(known) = OPTIONS.iter().find(|option| **option == key) else {
            // `sync` and the like mean `blocking`: no second error that the function is not async.
            if suggestion(&key) == Some("blocking") {
                self.blocking = Some(entry.key.clone());
            }
            return errors.at(&entry.key, unknown_option(&key));
        };
        if seen.contains(&key) {
            return errors.at(&entry.key, given_twice(&key));
        }
        if key != "schedule" {
            seen.push(key);
        }
        if let Err(error) = self.set(known, &entry, errors) {
            errors.push(error);
        }
    }

    fn set(&mut self, option: &str, entry: &Entry, errors: &mut Errors) -> syn::Result<()> {
        match option {
            "name" => self.name = Some(entry.text("send_email")?.and_then(checked_name)?),
            "queue" => self.queue = Some(entry.text("mail")?.and_then(checked_name)?.value),
            "aliases" => self.aliases = entry.aliases(errors)?,
            "priority" => self.priority = Some(entry.priority()?),
            "max_retries" => self.max_retries = Some(entry.max_retries()?),
            "timeout" => self.timeout = Some(entry.timeout()?),
            "backoff" => self.backoff = Some(Backoff::read(entry, errors)?),
            #[cfg(feature = "schedules")]
            "schedule" => self.schedules.push(Schedule::read(entry, errors)),
            #[cfg(not(feature = "schedules"))]
            "schedule" => return Err(syn::Error::new_spanned(&entry.key, NO_SCHEDULES)),
            "unique" => self.unique = Some(Unique::read(entry, errors)),
            "blocking" => {
                // Set before the value is checked: no second error that the function is not async.
                self.blocking = Some(entry.key.clone());
                entry.blocking()?;
            }
            "derive" => self.derive = entry.derive(errors)?,
            "struct_name" => self.struct_name = Some(entry.struct_name()?),
            _ => self.krate = Some(entry.krate()?),
        }
        Ok(())
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

fn suggestion(key: &str) -> Option<&'static str> {
    let lower = key.to_lowercase().replace('-', "_");
    let synonym = SYNONYMS.iter().find(|(synonym, _)| *synonym == lower).map(|(_, option)| *option);
    synonym.or_else(|| names::closest(&lower, &OPTIONS))
}

fn unknown_option(key: &str) -> String {
    if let Some((_, cure)) = ELSEWHERE.iter().find(|(name, _)| *name == key) {
        return format!("unknown option `{key}`: {cure}");
    }
    match suggestion(key) {
        Some("max_retries") if key.contains("attempt") => {
            format!("unknown option `{key}`; did you mean `max_retries`? (`max_retries = 3` is four attempts)")
        }
        Some(option) => format!("unknown option `{key}`; did you mean `{option}`?"),
        None => format!("unknown option `{key}`; the options are {}", listed(&OPTIONS)),
    }
}

pub(crate) fn given_twice(key: &str) -> String {
    format!("`{key}` is given twice: keep one of the two")
}

pub(crate) fn listed(words: &[&str]) -> String {
    words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
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

    fn aliases(&self, errors: &mut Errors) -> syn::Result<Vec<Spanned<String>>> {
        const CURE: &str = "write `aliases = [\"old_name\"]`";
        let Value::Equals(value) = &self.value else {
            if let Value::List(list) = &self.value {
                return Err(self.error(format!("write `aliases = [{list}]`")));
            }
            return Err(self.error(format!("`aliases` has no value: {CURE}")));
        };
        let Expr::Array(array) = peel(value) else {
            return Err(match string(value) {
                Some(text) => self.error(format!("`aliases` takes a list: write `aliases = [{}]`", text.token())),
                None => self.error(format!("`aliases` takes a list of strings: {CURE}")),
            });
        };
        let mut aliases = Vec::new();
        for element in &array.elems {
            let Some(text) = string(element) else {
                errors.at(element, format!("an alias is a string literal: {CURE}"));
                continue;
            };
            match checked_name(Spanned::new(text.value(), text)) {
                Ok(alias) => aliases.push(alias),
                Err(error) => errors.push(error),
            }
        }
        Ok(aliases)
    }

    /// A whole number, with its sign.
    fn integer(&self) -> syn::Result<(bool, &LitInt)> {
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

    fn max_retries(&self) -> syn::Result<u32> {
        let (negative, number) = self.integer()?;
        self.suffix(number, "u32")?;
        if negative {
            return Err(
                self.error("`max_retries` cannot be negative: write `max_retries = 0` for one attempt and no retry")
            );
        }
        match number.base10_parse::<u32>() {
            Ok(retries) if retries <= MOST_RETRIES => Ok(retries),
            _ => Err(self.error(format!("write a number up to {MOST_RETRIES}"))),
        }
    }

    fn suffix(&self, number: &LitInt, allowed: &str) -> syn::Result<()> {
        let suffix = number.suffix();
        if suffix.is_empty() || suffix == allowed {
            return Ok(());
        }
        let (key, digits) = (self.key(), number.base10_digits());
        Err(self.error(format!("write `{key} = {digits}`, without `{suffix}`")))
    }

    fn timeout(&self) -> syn::Result<Duration> {
        duration_literal("timeout = ", self.value()?, self).map(|duration| duration.value)
    }

    fn blocking(&self) -> syn::Result<()> {
        match &self.value {
            Value::None => Ok(()),
            Value::Equals(Expr::Lit(literal)) if matches!(&literal.lit, Lit::Bool(no) if !no.value()) => {
                Err(self.error("leave `blocking` out for an `async fn`"))
            }
            _ => Err(self.error("`blocking` takes no value: write `#[job(blocking)]`")),
        }
    }

    fn derive(&self, errors: &mut Errors) -> syn::Result<Vec<Path>> {
        const CURE: &str = "write `derive(PartialEq)`";
        let Value::List(list) = &self.value else {
            return Err(self.error(format!("`derive` takes traits in parentheses: {CURE}")));
        };
        let paths = Punctuated::<Path, Token![,]>::parse_terminated
            .parse2(list.clone())
            .map_err(|error| syn::Error::new(error.span(), format!("`derive` takes the names of traits: {CURE}")))?;
        if paths.is_empty() {
            return Err(self.error(format!("`derive` names no trait: {CURE}, or leave it out")));
        }
        let is_new = |path: &Path| {
            let name = path.segments.last().map(|segment| segment.ident.to_string()).unwrap_or_default();
            let derived = DERIVED.contains(&name.as_str());
            if derived {
                errors.at(path, format!("every job has `{name}` already: leave it out"));
            }
            !derived
        };
        Ok(paths.into_iter().filter(is_new).collect())
    }

    fn struct_name(&self) -> syn::Result<Ident> {
        if let Some(ident) = word(self.value()?) {
            return Ok(ident.clone());
        }
        let name = self.text("SendEmailJob")??;
        let text: LitStr = syn::parse2(name.tokens)?;
        text.parse::<Ident>().map_err(|_| {
            let message =
                format!("`{}` is not the name of a struct: write `struct_name = \"SendEmailJob\"`", name.value);
            syn::Error::new_spanned(&text, message)
        })
    }

    fn krate(&self) -> syn::Result<Path> {
        let cure = "`crate` takes the path by which `queue` is reached: write `crate = my_crate::queue`";
        let value = self.value()?;
        if let Some(text) = string(value) {
            return text.parse_with(Path::parse_mod_style).map_err(|_| self.error(cure));
        }
        match value {
            Expr::Path(ExprPath { qself: None, path, .. }) => Ok(path.clone()),
            _ => Err(self.error(cure)),
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn options(text: &str) -> (Options, usize) {
        let mut errors = Errors::default();
        let options = Options::parse(text.parse().expect("tokens"), &mut errors);
        (options, errors.len())
    }

    #[test]
    fn reads_all_options() {
        let (options, errors) = options(
            "name = \"a\", aliases = [\"b\", \"c\"], queue = \"q\", priority = -3, max_retries = 0x10, timeout = \"1m\", \
             backoff = linear(\"1s\"), blocking, struct_name = \"S\", crate = a::b,",
        );
        assert_eq!(errors, 0);
        assert_eq!(options.name.map(|name| name.value).as_deref(), Some("a"));
        assert_eq!(options.aliases.len(), 2);
        assert_eq!(options.queue.as_deref(), Some("q"));
        assert_eq!((options.priority, options.max_retries), (Some(-3), Some(16)));
        assert_eq!(options.timeout, Some(Duration::from_secs(60)));
        assert!(matches!(options.backoff, Some(Backoff::Linear { max: crate::backoff::DEFAULT_MAX, .. })));
        assert!(options.blocking.is_some() && options.struct_name.is_some() && options.krate.is_some());
    }

    #[test]
    fn one_mistake_does_not_hide_the_next() {
        let (options, errors) =
            options("retry = 3, queue = 5, timeout = \"0s\", priority = 7, priority = 8, , blocking = true");
        assert_eq!(errors, 6);
        assert_eq!(options.priority, Some(7));
    }

    #[test]
    fn suggestions_name_options_that_exist() {
        for (synonym, option) in SYNONYMS {
            assert!(OPTIONS.contains(&option), "{synonym} -> {option}");
            assert!(!OPTIONS.contains(&synonym), "{synonym}");
        }
    }
}
