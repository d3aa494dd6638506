//! The option `unique`: `unique`, or `unique(by = (user, day), until = "start", for = "1h", on_conflict = "replace")`.

use std::time::Duration;

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens as _, format_ident, quote};
use syn::ext::IdentExt as _;
use syn::{Expr, FnArg, Lit, LitStr};

use crate::entry::{self, Entry, Spanned, Value};
use crate::errors::Errors;
use crate::model::{Argument, Job};
use crate::renames::{self, Rules};
use crate::{duration, names, tokens, types};

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
    given: Vec<Ident>,
    by: Vec<Ident>,
    until: Option<&'static str>,
    at_least: Option<Duration>,
    on_conflict: Option<Spanned<&'static str>>,
    /// What the arguments in `by` are called in the job's JSON.
    keys: Vec<String>,
    sound: bool,
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

    /// The constant of the trait.
    pub(crate) fn constant(&self, krate: &TokenStream) -> TokenStream {
        let word = |word: &str| format_ident!("{}", names::upper_camel(word));
        let keys = &self.keys;
        let by = if keys.is_empty() { quote!(ALL_ARGS) } else { quote!(by(&[#(#keys),*])) };
        let until = self.until.map(word).map(|until| quote!(.until(#krate::UniqueUntil::#until)));
        let at_least = self.at_least.map(tokens::duration).map(|period| quote!(.at_least(#period)));
        let on_conflict = self.on_conflict.as_ref().map(|conflict| word(conflict.value));
        let on_conflict = on_conflict.map(|conflict| quote!(.on_conflict(#krate::OnConflict::#conflict)));
        quote! {
            const UNIQUE: ::core::option::Option<#krate::Unique> =
                ::core::option::Option::Some(#krate::Unique::#by #until #at_least #on_conflict);
        }
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

/// Checks the option together with its job, and drops it if it has a mistake.
pub(crate) fn check(job: &mut Job, errors: &mut Errors) {
    let Some(mut unique) = job.options.unique.take() else { return };
    let before = errors.len();
    unique.keys = keys(&unique, job, errors);
    job.options.unique = Some(unique).filter(|unique| unique.sound && errors.len() == before);
}

/// What the arguments in `by` are called in the job's JSON.
fn keys(unique: &Unique, job: &Job, errors: &mut Errors) -> Vec<String> {
    let Some(option) = unique.given.iter().find(|key| *key == "by") else { return Vec::new() };
    let rules = Rules::of(&job.serde_attrs);
    let mut keys = Vec::new();
    if unique.by.is_empty() {
        // the mistake in it is known
    } else if job.argument_count == 0 {
        errors.at(option, "this job has no arguments: write `unique` without `by`");
    } else if let Some(word) = rules.other_json {
        errors.at(
            option,
            format!("with `#[serde({word})]`, the keys of the job's JSON are not its arguments: leave `by` out"),
        );
    } else {
        for (number, name) in unique.by.iter().enumerate() {
            let plain = name.unraw();
            if unique.by[..number].iter().any(|other| other.unraw() == plain) {
                errors.at(name, entry::given_twice(&plain.to_string()));
                continue;
            }
            match job.arguments().find(|argument| argument.ident.unraw() == plain) {
                Some(argument) => match renames::absent(argument) {
                    Some(word) => errors.at(
                        name,
                        format!(
                            "the key needs `{plain}` in every job: remove its `#[serde({word})]`, or leave `{plain}` \
                             out of `by`"
                        ),
                    ),
                    None => keys.push(rules.key(argument)),
                },
                // an argument with a mistake in its name is reported already
                None if job.arguments().count() < job.argument_count => {}
                None => errors.at(name, no_argument(&plain, job, &rules)),
            }
        }
    }
    keys
}

/// Why `name` is no argument, and what to write instead.
fn no_argument(name: &Ident, job: &Job, rules: &Rules) -> String {
    let text = name.to_string();
    let arguments: Vec<_> = job.arguments().map(|argument| argument.ident.to_string()).collect();
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let all = match arguments.as_slice() {
        [one] => format!("the argument `{one}`"),
        several => format!("the arguments {}", entry::listed(several)),
    };
    let special = job.function.sig.inputs.iter().find_map(|input| match input {
        FnArg::Typed(typed) => {
            types::mentions(typed.pat.to_token_stream(), &|word| word.unraw() == *name).map(|_| &typed.ty)
        }
        FnArg::Receiver(_) => None,
    });
    if let Some(ty) = special {
        let context = types::mentions(ty.to_token_stream(), &|word| word == "JobContext").is_some();
        let what = if context { "the job's context" } else { "a state of the worker" };
        return format!("`{name}` is {what}, and not stored with the job: leave it out of `by`, which takes {all}");
    }
    let renamed = |argument: &&Argument| rules.key(argument) == text;
    if let Some(argument) = job.arguments().find(renamed) {
        return format!("`by` takes the names in the function: write `{}` for `{name}`", argument.ident);
    }
    match names::closest(&text, &arguments) {
        Some(meant) => format!("this job has no argument `{name}`; did you mean `{meant}`?"),
        None => format!("this job has no argument `{name}`; it has {all}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attr::Options;

    /// The generated constant, or the messages.
    fn with(options: &str, function: &str) -> Result<String, Vec<String>> {
        let mut errors = Errors::default();
        let options = Options::parse(options.parse().expect("tokens"), &mut errors);
        let function = syn::parse_str(function).expect("a function");
        let mut job = Job::new(options, function, &mut errors);
        crate::check::check(&mut job, &mut errors);
        match errors.len() {
            0 => {
                let unique = job.options.unique.expect("an option without mistakes");
                Ok(unique.constant(&quote!(queue)).to_string().replace(' ', ""))
            }
            _ => Err(errors.messages()),
        }
    }

    const FUNCTION: &str = "#[serde(rename_all = \"camelCase\")] async fn refresh(user_id: i64, ctx: &JobContext, \
         State(pool): State<Pool>, #[serde(rename = \"on\")] day: &str, r#type: u8, #[serde(skip)] skipped: u8, \
         #[serde(default, skip_serializing_if = \"Option::is_none\")] maybe: Option<u8>) {}";

    #[test]
    fn reads_all_options() {
        let value = |options: &str| {
            let constant = with(options, FUNCTION).expect(options);
            constant.split_once("Some(queue::Unique::").expect("a value").1.trim_end_matches(";").to_owned()
        };
        assert_eq!(value("unique"), "ALL_ARGS)");
        assert_eq!(value("unique(until = \"end\")"), "ALL_ARGS.until(queue::UniqueUntil::End))");
        for one in ["user_id", "(user_id)", "(user_id,)", "((user_id))"] {
            assert_eq!(value(&format!("unique(by = {one},)")), "by(&[\"userId\"]))");
        }
        assert_eq!(
            value("unique(on_conflict = \"replace\", for = \"1m\", by = (r#type, day, user_id), until = \"start\")"),
            "by(&[\"type\",\"on\",\"userId\"]).until(queue::UniqueUntil::Start)\
             .at_least(::core::time::Duration::from_millis(60000u64)).on_conflict(queue::OnConflict::Replace))"
        );
    }

    #[test]
    fn one_mistake_gives_one_message() {
        let table = [
            ("unique = true", "write `unique`"),
            ("unique = false", "leave `unique` out"),
            ("unique = \"user_id\"", "write `unique`"),
            ("unique = \"1h\"", "`unique(for = \"1h\")`"),
            ("unique()", "write `unique`"),
            ("unique(true)", "write `by = (user, day)`"),
            ("unique(user_id)", "write `by = user_id`"),
            ("unique(user_id, day)", "write `by = (user_id, day)`"),
            ("unique(\"user_id\", day)", "write `by = (user_id, day)`"),
            ("unique(\"1h\")", "write `for = \"1h\"`"),
            ("unique(start)", "write `until = \"start\"`"),
            ("unique(\"replace\")", "write `on_conflict = \"replace\"`"),
            ("unique(by)", "write `by = (user, day)`"),
            ("unique(by = )", "write `by = (user, day)`"),
            ("unique(by = ())", "leave it out"),
            ("unique(by(user_id, day))", "write `by = (user_id, day)`"),
            ("unique(by = [user_id])", "write `by = user_id`"),
            ("unique(by = [\"user_id\", \"day\"])", "write `by = (user_id, day)`"),
            ("unique(by = \"user_id\")", "write `by = user_id`, without quotes"),
            ("unique(by = \"user_id, day\")", "write `by = (user_id, day)`, without quotes"),
            ("unique(by = \"user_id, (\")", "write `by = (user, day)`"),
            ("unique(\"user(id\")", "write `by = (user, day)`"),
            ("unique(by = user_id.0)", "write `by = (user, day)`"),
            ("unique(by = (user_id, \"day\"))", "write `day`, without quotes"),
            ("unique(by = (user_id, day + 1))", "write `by = (user, day)`"),
            ("unique(by = type)", "write `r#type`"),
            ("unique(by = (user_id, type))", "write `r#type`"),
            ("unique(by = (user_id, user_id))", "`user_id` is given twice"),
            ("unique(by = (r#type, user_id, r#type))", "`type` is given twice"),
            ("unique(by = user_di)", "did you mean `user_id`?"),
            ("unique(by = (day, letter))", "it has the arguments `user_id`, `day`, `r#type`"),
            ("unique(by = on)", "write `day` for `on`"),
            ("unique(by = userId)", "write `user_id` for `userId`"),
            ("unique(by = pool)", "`pool` is a state"),
            ("unique(by = (day, ctx))", "`ctx` is the job's context"),
            ("unique(by = skipped)", "remove its `#[serde(skip)]`"),
            ("unique(by = (day, maybe))", "remove its `#[serde(skip_serializing_if)]`"),
            ("unique(by = day, by = user_id)", "`by` is given twice"),
            ("unique(keys = day)", "did you mean `by`?"),
            ("unique(ttl = \"1h\", colour = \"red\")", "did you mean `for`?"),
            ("unique(colour = \"red\")", "its options are `by`, `until`, `for`, `on_conflict`"),
            ("unique(until)", "write `until = \"start\"`"),
            ("unique(until = start)", "write `until = \"start\"`, with quotes"),
            ("unique(until = UniqueUntil::Start)", "did you mean `until = \"start\"`?"),
            ("unique(until = \"completed\")", "did you mean `until = \"end\"`?"),
            ("unique(until = \"1h\")", "write `for = \"1h\"`"),
            ("unique(until = 5)", "write `until = \"end\"` or `until = \"start\"`"),
            ("unique(for = 60)", "write `for = \"60s\"`"),
            ("unique(for = \"0s\")", "`0s` is no time at all"),
            ("unique(on_conflict = keep)", "write `on_conflict = \"keep\"`, with quotes"),
            ("unique(on_conflict = \"ignore\")", "did you mean `on_conflict = \"keep\"`?"),
            ("unique(on_conflict = \"relpace\")", "did you mean `on_conflict = \"replace\"`?"),
            ("unique(on_conflict = \"jump\")", "write `on_conflict = \"keep\"` or"),
            ("unique(on_conflict = \"replace\")", "add `until = \"start\"`"),
            ("unique(on_conflict = \"replace\", until = \"end\")", "write `until = \"start\"`"),
            ("unique(on_conflict = \"replace\", until = start)", "with quotes"),
            ("unique(on_conflict = \"replace\", scope = \"start\")", "did you mean `until`?"),
            ("unique, unique", "`unique` is given twice"),
            ("unique_for = \"1h\"", "write `unique(for = \"1h\")`"),
        ];
        for (options, part) in table {
            let messages = with(options, FUNCTION).expect_err(options);
            let expected = 1 + usize::from(options.contains("ttl"));
            assert_eq!(messages.len(), expected, "{options}: {messages:#?}");
            assert!(messages[0].contains(part), "{options}: {messages:#?}");
        }
        assert_eq!(with("unique(by = (user_di, ctx), ttl = 5, until = x)", FUNCTION).unwrap_err().len(), 4);
    }

    #[test]
    fn a_function_may_leave_nothing_to_choose() {
        let refused = |options: &str, function: &str| with(options, function).expect_err(function);
        for function in ["async fn f() {}", "async fn f(ctx: JobContext, user: State<u8>) {}"] {
            assert!(with("unique", function).is_ok());
            assert_eq!(
                refused("unique(by = user)", function),
                ["this job has no arguments: write `unique` without `by`"]
            );
        }
        for word in ["transparent", "into = \"String\""] {
            let messages = refused("unique(by = user)", &format!("#[serde({word})] async fn f(user: u8) {{}}"));
            assert!(messages[0].contains("leave `by` out"), "{messages:#?}");
        }
        for function in ["async fn f((user, day): (u8, u8)) {}", "async fn f(_: u8, day: u8) {}"] {
            assert_eq!(refused("unique(by = user)", function).len(), 1);
        }
    }

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
