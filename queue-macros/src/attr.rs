//! The options of `#[job(…)]`, each with its span.

use std::time::Duration;

use proc_macro2::{Ident, TokenStream};
use syn::ext::IdentExt as _;
use syn::parse::Parser as _;
use syn::punctuated::Punctuated;
use syn::{Expr, ExprPath, Lit, LitStr, Path, Token};

use crate::backoff::Backoff;
use crate::entry::{
    Entry, Spanned, Value, checked_name, duration_literal, given_twice, listed, peel, pieces, string, word,
};
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

/// The number of attempts must fit into the databases' `integer`.
const MOST_RETRIES: u32 = i32::MAX as u32 - 1;

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

/// What only one option takes.
impl Entry {
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
