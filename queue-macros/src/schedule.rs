//! The option `schedule`: `schedule = "0 9 * * MON"`, or `schedule(cron = "0 9 * * MON", …)`.
//!
//! Whatever the text alone can tell is checked here. A time zone is not: it comes from the system that runs the worker.

use std::time::Duration;

use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens as _, format_ident, quote};
use syn::{Error, Expr, Lit, LitStr};

use crate::entry::{self, Entry, Given, Period, Value};
use crate::errors::Errors;
use crate::expression::Expression;
use crate::{duration, known, names};

/// The library would shorten a longer one.
const LONGEST_JITTER: Duration = Duration::from_secs(30 * 86_400);

/// One `schedule`. `None` means the default of the library.
#[derive(Default)]
pub(crate) struct Schedule {
    /// The word `schedule`, for what is missing.
    pub(crate) key: TokenStream,
    given: Given,
    /// For `queue::schedule::Schedule::cron`.
    pub(crate) text: String,
    pub(crate) zone: Option<LitStr>,
    /// Methods of `queue::schedule::Schedule`, each with its argument, an item of the library.
    pub(crate) rules: Vec<(Ident, TokenStream)>,
    pub(crate) jitter: Option<Period>,
    /// The job that is enqueued.
    pub(crate) args: Option<Expr>,
    pub(crate) name: Option<LitStr>,
    pub(crate) queue: Option<String>,
    pub(crate) priority: Option<i16>,
    pub(crate) sound: bool,
}

impl Schedule {
    /// Reads what is valid and records every mistake.
    pub(crate) fn read(entry: &Entry, errors: &mut Errors) -> Self {
        let before = errors.len();
        let mut schedule = Self { key: entry.key.to_token_stream(), ..Self::default() };
        match &entry.value {
            Value::List(list) if syn::parse2::<Lit>(list.clone()).is_err() => schedule.list(list.clone(), errors),
            _ => {
                let expression = entry.text().and_then(|text| schedule.expression(&text));
                errors.take(expression);
            }
        }
        schedule.sound = errors.len() == before;
        schedule
    }

    fn list(&mut self, list: TokenStream, errors: &mut Errors) {
        for piece in entry::pieces(list, errors) {
            let set = self.option(piece);
            errors.take(set);
        }
        self.time(errors);
    }

    fn option(&mut self, piece: TokenStream) -> syn::Result<()> {
        if let Ok(text) = syn::parse2::<LitStr>(piece.clone()) {
            let key = if duration::parse(&text.value()).is_ok() { "every" } else { "cron" };
            self.given.0.push((key, Ident::new(key, text.span())));
            return Err(Error::new_spanned(&text, format!("name the option: write `{key} = {}`", text.token())));
        }
        let entry = self.given.entry(piece, &known::SCHEDULE)?;
        self.set(&entry)
    }

    /// What the list as a whole says about the time.
    fn time(&self, errors: &mut Errors) {
        match (self.given.find("cron"), self.given.find("every")) {
            (None, None) => errors.at(
                &self.key,
                "this schedule does not say when: write `cron = \"0 9 * * MON-FRI\"` or `every = \"15m\"` in it",
            ),
            (Some(_), Some(every)) => {
                errors.at(every, "a schedule has either `cron` or `every`: remove one, or write two schedules");
            }
            (None, Some(_)) => {
                for name in ["zone", "gap", "fold"] {
                    if let Some(word) = self.given.find(name) {
                        let cure = format!("remove `{name}`, or write `cron = \"*/15 * * * *\"`, say");
                        errors.at(word, format!("an interval goes by UTC: {cure}"));
                    }
                }
            }
            (Some(_), None) => {
                if let (Some(zone), Ok((_, Some(in_text)))) = (&self.zone, Expression::parse(&self.text)) {
                    errors.at(
                        zone,
                        format!("the zone is given twice, `cron` ends with `{in_text}`: keep one of the two"),
                    );
                }
            }
        }
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.given.find(name).is_some()
    }

    fn set(&mut self, entry: &Entry) -> syn::Result<()> {
        match entry.key().as_str() {
            "cron" => {
                if let Expression::Every(_) = self.expression(&entry.text()?)? {
                    return Err(entry.error(format!("this is an interval: write `{}`", self.when())));
                }
            }
            "every" => {
                let Period { value, literal } = entry.duration()?;
                Expression::every(value).map_err(|message| Error::new_spanned(&literal, message))?;
                self.text = format!("every {}", literal.value());
            }
            "zone" => self.zone = Some(entry.text()?),
            "gap" => self.rule(entry, &["shift", "skip"])?,
            "fold" => self.rule(entry, &["first", "last", "both"])?,
            "overlap" => self.rule(entry, &["allow", "skip"])?,
            "missed" => self.missed(entry)?,
            "jitter" => {
                let jitter = entry.duration()?;
                if jitter.value > LONGEST_JITTER {
                    return Err(entry.error("this jitter is too long: the longest is \"30d\""));
                }
                self.jitter = Some(jitter);
            }
            "args" => self.args = Some(entry.value()?.clone()),
            "name" => self.name = Some(entry.name()?),
            "queue" => self.queue = Some(entry.name()?.value()),
            _ => self.priority = Some(entry.priority()?),
        }
        Ok(())
    }

    fn expression(&mut self, literal: &LitStr) -> syn::Result<Expression> {
        let text = literal.value();
        let (expression, _) = Expression::parse(&text).map_err(|message| Error::new_spanned(literal, message))?;
        self.text = text;
        Ok(expression)
    }

    fn rule(&mut self, entry: &Entry, words: &[&'static str]) -> syn::Result<()> {
        let (key, word) = (entry.key(), names::variant(entry.choice(words, false)?));
        let ty = names::variant(&key);
        self.rules.push((format_ident!("{key}"), quote!(#ty::#word)));
        Ok(())
    }

    /// `none`, `last` or `all("6h")`.
    fn missed(&mut self, entry: &Entry) -> syn::Result<()> {
        const ALL: &str = "write `missed = all(\"6h\")`";
        let Some((function, arguments)) = entry::call(entry.value()?) else {
            if entry::word(entry.value()?).is_some_and(|word| word == "all") {
                return Err(entry.error(format!("`all` needs to know for how long: {ALL}")));
            }
            return self.rule(entry, &["none", "last", "all"]);
        };
        let name = function.path.get_ident().map(Ident::to_string).unwrap_or_default();
        let window = match (name.as_str(), arguments.first()) {
            ("all", Some(window)) if arguments.len() == 1 => entry.duration_in("", window)?,
            ("all", _) => return Err(entry.error(format!("`all` takes one duration: {ALL}"))),
            ("none" | "last", _) => {
                let cure = format!("write `missed = {name}`, or `missed = all(\"6h\")`");
                return Err(entry.error(format!("`{name}` takes no value: {cure}")));
            }
            _ => {
                let cure = "write `missed = none` or `missed = last` or `missed = all(\"6h\")`";
                return Err(entry.error(format!("unknown value of `missed`: {cure}")));
            }
        };
        if window.value.subsec_nanos() != 0 {
            let message = format!("`all` takes whole seconds, at least one: {ALL}");
            return Err(Error::new_spanned(&window.literal, message));
        }
        self.rules.push((format_ident!("missed"), quote!(Missed::All { within: #window })));
        Ok(())
    }

    /// The advice to add an option.
    pub(crate) fn with(&self, option: &str) -> String {
        match self.given.0.as_slice() {
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
        let rules = |schedule: &Schedule| {
            let rules = schedule.rules.iter().map(|(method, rule)| format!("{method}({rule})").replace(' ', ""));
            rules.collect::<Vec<_>>()
        };
        assert!(interval.args.is_some());
        assert_eq!(rules(interval), ["missed(Missed::None)"]);
        let within = "::core::time::Duration::from_millis(21600000u64)";
        let all = format!("missed(Missed::All{{within:{within}}})");
        assert_eq!(rules(full), ["gap(Gap::Skip)", "fold(Fold::Both)", &*all, "overlap(Overlap::Skip)"]);
        assert_eq!(full.jitter.as_ref().map(|it| it.value), Some(Duration::from_secs(300)));
        assert_eq!(full.priority, Some(-1));
        assert_eq!(full.zone.as_ref().map(LitStr::value).as_deref(), Some("Europe/Berlin"));
        assert_eq!(full.name.as_ref().map(LitStr::value).as_deref(), Some("sync-7"));
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
}
