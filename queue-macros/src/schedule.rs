//! The option `schedule`: `schedule = "0 9 * * MON"`, or `schedule(cron = "0 9 * * MON", …)`.
//!
//! Whatever the text alone can tell is checked here. A time zone is not: it comes from the system that runs the worker.

use std::time::Duration;

use proc_macro2::{Ident, TokenStream, TokenTree};
use quote::ToTokens as _;
use syn::ext::IdentExt as _;
use syn::{Expr, Lit};

use crate::entry::{self, Entry, Spanned, Value};
use crate::errors::Errors;
use crate::expression::Expression;
use crate::{duration, names};

/// The options in `schedule(…)`, in the order in which the messages list them.
const KEYS: [&str; 12] =
    ["cron", "every", "zone", "gap", "fold", "missed", "overlap", "jitter", "args", "name", "queue", "priority"];

/// Names that users of other libraries write.
const SYNONYMS: [(&str, &str); 14] = [
    ("arguments", "args"),
    ("catch_up", "missed"),
    ("concurrency", "overlap"),
    ("expr", "cron"),
    ("expression", "cron"),
    ("id", "name"),
    ("interval", "every"),
    ("job", "args"),
    ("misfire", "missed"),
    ("period", "every"),
    ("schedule", "cron"),
    ("time_zone", "zone"),
    ("timezone", "zone"),
    ("tz", "zone"),
];

/// What an interval cannot have, because it goes by UTC.
const BY_THE_CLOCK: [&str; 3] = ["zone", "gap", "fold"];

/// The library would shorten a longer one.
const LONGEST_JITTER: Duration = Duration::from_secs(30 * 86_400);

/// One `schedule`. `None` means the default of the library.
pub(crate) struct Schedule {
    /// The word `schedule`, for what is missing.
    pub(crate) key: Ident,
    /// The options that the list has, whether or not their values are valid.
    given: Vec<Ident>,
    /// For `queue::schedule::Schedule::cron`.
    pub(crate) text: String,
    pub(crate) zone: Option<Spanned<String>>,
    pub(crate) gap: Option<&'static str>,
    pub(crate) fold: Option<&'static str>,
    pub(crate) missed: Option<Missed>,
    pub(crate) overlap: Option<&'static str>,
    pub(crate) jitter: Option<Duration>,
    /// The job that is enqueued.
    pub(crate) args: Option<Expr>,
    pub(crate) name: Option<Spanned<String>>,
    pub(crate) queue: Option<String>,
    pub(crate) priority: Option<i16>,
    pub(crate) sound: bool,
}

/// `missed = …`
pub(crate) enum Missed {
    /// `none` or `last`.
    Word(&'static str),
    /// `all("6h")`
    All(Duration),
}

impl Schedule {
    /// Reads what is valid and records every mistake.
    pub(crate) fn read(entry: &Entry, errors: &mut Errors) -> Self {
        let before = errors.len();
        let mut schedule = Self {
            key: entry.key.clone(),
            given: Vec::new(),
            text: String::new(),
            zone: None,
            gap: None,
            fold: None,
            missed: None,
            overlap: None,
            jitter: None,
            args: None,
            name: None,
            queue: None,
            priority: None,
            sound: false,
        };
        match &entry.value {
            Value::List(list) if syn::parse2::<Lit>(list.clone()).is_err() => schedule.list(list.clone(), errors),
            _ => {
                let text = entry.text("0 9 * * MON-FRI Europe/Berlin").and_then(|text| text);
                if let Err(error) = text.and_then(|text| schedule.expression(text).map(drop)) {
                    errors.push(error);
                }
            }
        }
        schedule.sound = errors.len() == before;
        schedule
    }

    fn list(&mut self, list: TokenStream, errors: &mut Errors) {
        for piece in entry::pieces(list, errors) {
            let (meant, entry) = option(piece);
            let result = entry.and_then(|entry| match entry.key() {
                key if self.has(&key) => Err(syn::Error::new_spanned(&entry.key, entry::given_twice(&key))),
                _ => self.set(&entry),
            });
            self.given.extend(meant);
            if let Err(error) = result {
                errors.push(error);
            }
        }
        self.time(errors);
    }

    /// What the list as a whole says about the time.
    fn time(&self, errors: &mut Errors) {
        let key = |name: &str| self.given.iter().find(|key| key.unraw() == name);
        match (key("cron"), key("every")) {
            (None, None) => errors.at(
                &self.key,
                "this schedule does not say when: write `cron = \"0 9 * * MON-FRI\"` or `every = \"15m\"` in it",
            ),
            (Some(_), Some(every)) => {
                errors.at(every, "a schedule has either `cron` or `every`: remove one, or write two schedules");
            }
            (None, Some(_)) => {
                for key in BY_THE_CLOCK.iter().filter_map(|name| key(name)) {
                    errors.at(
                        key,
                        format!("an interval goes by UTC: remove `{key}`, or write `cron = \"*/15 * * * *\"`, say"),
                    );
                }
            }
            (Some(_), None) => {
                let in_text = Expression::parse(&self.text).ok().and_then(|(_, zone)| zone);
                if let (Some(zone), Some(in_text)) = (&self.zone, in_text) {
                    errors.at(
                        &zone.tokens,
                        format!("the zone is given twice, `cron` ends with `{in_text}`: keep one of the two"),
                    );
                }
            }
        }
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.given.iter().any(|key| key.unraw() == name)
    }

    fn set(&mut self, entry: &Entry) -> syn::Result<()> {
        match entry.key().as_str() {
            "cron" => {
                let text = entry.text("0 9 * * MON-FRI")??;
                if let Expression::Every(_) = self.expression(text)? {
                    return Err(entry.error(format!("this is an interval: write `{}`", self.when())));
                }
            }
            "every" => {
                let interval = entry::duration_literal("every = ", entry.value()?, entry)?;
                Expression::every(interval.value)
                    .map_err(|message| syn::Error::new_spanned(&interval.tokens, message))?;
                self.text =
                    format!("every {}", entry::string(entry.value()?).map(syn::LitStr::value).unwrap_or_default());
            }
            "zone" => self.zone = Some(entry.text("Europe/Berlin")??),
            "gap" => self.gap = Some(word(entry, &["shift", "skip"])?),
            "fold" => self.fold = Some(word(entry, &["first", "last", "both"])?),
            "missed" => self.missed = Some(missed(entry)?),
            "overlap" => self.overlap = Some(word(entry, &["allow", "skip"])?),
            "jitter" => {
                let jitter = entry::duration_literal("jitter = ", entry.value()?, entry)?;
                if jitter.value > LONGEST_JITTER {
                    return Err(entry.error("this jitter is too long: the longest is \"30d\""));
                }
                self.jitter = Some(jitter.value);
            }
            "args" => self.args = Some(entry.value()?.clone()),
            "name" => self.name = Some(entry.text("sync-7")?.and_then(entry::checked_name)?),
            "queue" => self.queue = Some(entry.text("mail")?.and_then(entry::checked_name)?.value),
            "priority" => self.priority = Some(entry.priority()?),
            other => return Err(syn::Error::new_spanned(&entry.key, unknown(other))),
        }
        Ok(())
    }

    fn expression(&mut self, text: Spanned<String>) -> syn::Result<Expression> {
        let (expression, _) =
            Expression::parse(&text.value).map_err(|message| syn::Error::new_spanned(&text.tokens, message))?;
        self.text = text.value;
        Ok(expression)
    }

    /// The advice to add an option.
    pub(crate) fn with(&self, option: &str) -> String {
        match self.given.as_slice() {
            [] => format!("write `schedule({}, {option})`", self.when()),
            _ => format!("add `{option}`"),
        }
    }

    /// The time as an option of the list, for suggestions.
    fn when(&self) -> String {
        match self.text.split_whitespace().collect::<Vec<_>>().as_slice() {
            [] => "cron = \"…\"".to_owned(),
            ["every", interval] => format!("every = \"{interval}\""),
            words => format!("cron = \"{}\"", words.join(" ")),
        }
    }
}

/// An option of the list, and the name that is meant: an option with a mistake is not missing as well.
fn option(piece: TokenStream) -> (Option<Ident>, syn::Result<Entry>) {
    if let Ok(Lit::Str(text)) = syn::parse2::<Lit>(piece.clone()) {
        let key = if duration::parse(&text.value()).is_ok() { "every" } else { "cron" };
        let error = syn::Error::new_spanned(&text, format!("name the option: write `{key} = {}`", text.token()));
        return (Some(Ident::new(key, text.span())), Err(error));
    }
    let meant = match piece.clone().into_iter().next() {
        Some(TokenTree::Ident(key)) => meant(&key.unraw().to_string()).map(|meant| Ident::new(meant, key.span())),
        _ => None,
    };
    (meant, syn::parse2(piece))
}

fn meant(key: &str) -> Option<&'static str> {
    names::meant(key, &SYNONYMS, &KEYS)
}

fn unknown(key: &str) -> String {
    match meant(key) {
        Some(meant) => format!("unknown option `{key}` of a schedule; did you mean `{meant}`?"),
        None => format!("unknown option `{key}` of a schedule; its options are {}", entry::listed(&KEYS)),
    }
}

/// One of a few words, without quotes.
fn word(entry: &Entry, words: &[&'static str]) -> syn::Result<&'static str> {
    let (key, value) = (entry.key(), entry.value()?);
    let (written, quoted) = match value {
        Expr::Path(path) => (path.path.segments.last().map(|last| last.ident.to_string()), false),
        value => (entry::string(value).map(syn::LitStr::value), true),
    };
    let written = written.unwrap_or_default();
    let example = |word: &str| match word {
        "all" => format!("`{key} = all(\"6h\")`"),
        word => format!("`{key} = {word}`"),
    };
    match words.iter().find(|word| **word == written) {
        Some(word) if quoted => return Err(entry.error(format!("write {}, without quotes", example(word)))),
        Some(word) if value.to_token_stream().to_string() == *word => return Ok(word),
        _ => {}
    }
    Err(entry.error(match names::closest(&written.to_lowercase(), words) {
        Some(meant) => format!("unknown value of `{key}`; did you mean {}?", example(meant)),
        None => {
            let all: Vec<_> = words.iter().map(|word| example(word)).collect();
            format!("unknown value of `{key}`: write {}", all.join(" or "))
        }
    }))
}

/// `none`, `last` or `all("6h")`.
fn missed(entry: &Entry) -> syn::Result<Missed> {
    const ALL: &str = "write `missed = all(\"6h\")`";
    let value = entry.value()?;
    let Some((function, arguments)) = entry::call(value) else {
        return match word(entry, &["none", "last", "all"])? {
            "all" => Err(entry.error(format!("`all` needs to know for how long: {ALL}"))),
            word => Ok(Missed::Word(word)),
        };
    };
    let name = function.path.get_ident().map(Ident::to_string).unwrap_or_default();
    if name != "all" {
        return Err(entry.error(match name.as_str() {
            "none" | "last" => format!("`{name}` takes no value: write `missed = {name}`, or `missed = all(\"6h\")`"),
            _ => "unknown value of `missed`: write `missed = none` or `missed = last` or `missed = all(\"6h\")`"
                .to_owned(),
        }));
    }
    let (Some(window), 1) = (arguments.first(), arguments.len()) else {
        return Err(entry.error(format!("`all` takes one duration: {ALL}")));
    };
    let window = entry::duration_literal("", entry::peel(window), entry)?;
    if window.value.subsec_nanos() != 0 {
        return Err(syn::Error::new_spanned(&window.tokens, format!("`all` takes whole seconds, at least one: {ALL}")));
    }
    Ok(Missed::All(window.value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attr::Options;
    use crate::model::Job;

    fn read(text: &str) -> (Vec<Schedule>, usize) {
        let mut errors = Errors::default();
        let options = Options::parse(text.parse().expect("tokens"), &mut errors);
        (options.schedules, errors.len())
    }

    /// The messages for a job with one argument.
    fn refused(options: &str) -> Vec<String> {
        let mut errors = Errors::default();
        let options = Options::parse(options.parse().expect("tokens"), &mut errors);
        let function = syn::parse_quote!(
            async fn sync_shop(shop: u32) {}
        );
        let mut job = Job::new(options, function, &mut errors);
        crate::check::check(&mut job, &mut errors);
        errors.messages()
    }

    #[test]
    fn reads_all_options() {
        let (schedules, errors) = read(
            r#"schedule = "@daily Europe/Berlin", schedule(every = "15m", args = SyncShop { shop: 1 }, missed = none),
            schedule(cron = "30 2 * * *", zone = "Europe/Berlin", gap = skip, fold = both, missed = all("6h"),
            overlap = skip, jitter = "5m", args = f(1, 2), name = "sync-7", queue = "bulk", priority = -1,)"#,
        );
        assert_eq!(errors, 0);
        let texts: Vec<_> = schedules.iter().map(|it| it.text.as_str()).collect();
        assert_eq!(texts, ["@daily Europe/Berlin", "every 15m", "30 2 * * *"]);
        let [_, interval, full] = schedules.as_slice() else { panic!("three schedules") };
        assert!(matches!(interval.missed, Some(Missed::Word("none"))) && interval.args.is_some());
        assert_eq!((full.gap, full.fold, full.overlap), (Some("skip"), Some("both"), Some("skip")));
        assert!(matches!(full.missed, Some(Missed::All(window)) if window.as_secs() == 6 * 3600));
        assert_eq!((full.jitter, full.priority), (Some(Duration::from_secs(300)), Some(-1)));
        assert_eq!(full.zone.as_ref().map(|it| it.value.as_str()), Some("Europe/Berlin"));
        assert_eq!(full.name.as_ref().map(|it| it.value.as_str()), Some("sync-7"));
        assert!(full.args.is_some() && full.queue.as_deref() == Some("bulk"));
    }

    #[test]
    fn one_mistake_gives_one_message() {
        for list in [
            "schedule",
            "schedule()",
            "schedule(\"0 9 * * *\")",
            "schedule(\"0 9 * * *\", args = x)",
            "schedule(cron, args = x)",
            "schedule(cron = , args = x)",
            "schedule(expr = \"0 9 * * *\", args = x)",
            "schedule(every = \"15m\", arguments = x)",
            "schedule(cron = \"@daily UTC\", tz = \"UTC\", args = x)",
            "schedule(cron = \"every 15m\", args = x)",
            "schedule(cron = \"0 9 * * * UTC\", zone = \"UTC\", args = x)",
            "schedule(every = \"15m\", args = x, overlap = \"skip\")",
            "schedule(every = \"15m\", args = x, missed = \"all\")",
            "schedule(every = \"15m\", args = x, missed = All)",
            "schedule(every = \"15m\", args = x, missed = last(\"6h\"))",
            "schedule(every = \"15m\", args = x, missed = all(\"0s\"))",
            "schedule(every = \"15m\", args = x, jitter = \"31d\")",
            "schedule(every = \"15m\", args = x, priority = 40000)",
            "schedule(every = \"15m\", args = x, args = y)",
            "schedule(every = \"15m\", args = x, name = \"a\"), schedule(every = \"1m\", args = x, name = \"a\")",
            "schedule(every = \"15m\", args = x, name = \"a\"), schedule(every = \"1m\", args = x, name = )",
        ] {
            let messages = refused(list);
            let expected = if list.starts_with("schedule(\"0 9 * * *\")") || !list.contains("arg") { 2 } else { 1 };
            assert_eq!(messages.len(), expected, "{list}: {messages:#?}");
        }
        assert_eq!(refused("schedule(every = \"15m\", every = \"1m\", zone = \"UTC\", gap = jump)").len(), 5);
    }

    #[test]
    fn suggestions_name_options_that_exist() {
        for (synonym, key) in SYNONYMS {
            assert!(KEYS.contains(&key) && !KEYS.contains(&synonym), "{synonym} -> {key}");
        }
    }
}
