//! The options of `#[job(…)]`, each with its span.

use proc_macro2::{Ident, TokenStream};
use syn::parse::Parser as _;
use syn::punctuated::Punctuated;
use syn::{Error, Expr, ExprLit, ExprPath, Lit, LitBool, LitStr, Path, Token};

use crate::backoff;
use crate::entry::{Entry, Given, Period, Value, checked_name, peel, pieces, string, word};
use crate::errors::Errors;
use crate::known;
#[cfg(feature = "schedules")]
use crate::schedule::Schedule;
use crate::unique::Unique;

/// What the struct derives anyway.
const DERIVED: [&str; 4] = ["Debug", "Clone", "Serialize", "Deserialize"];

/// Without schedules in the library, the generated code would not compile.
#[cfg(not(feature = "schedules"))]
const NO_SCHEDULES: &str = "`schedule` needs the feature `schedules` of the crate `queue`: write queue = { …, \
                            features = [\"schedules\"] } in Cargo.toml";

/// The number of attempts must fit into the databases' `integer`.
const MOST_RETRIES: u32 = i32::MAX as u32 - 1;

/// The options of one `#[job(…)]`. `None` means the default of the trait.
#[derive(Default)]
pub(crate) struct Options {
    pub(crate) name: Option<LitStr>,
    pub(crate) aliases: Vec<LitStr>,
    pub(crate) queue: Option<String>,
    pub(crate) priority: Option<i16>,
    pub(crate) max_retries: Option<u32>,
    pub(crate) timeout: Option<Period>,
    pub(crate) start_within: Option<Period>,
    /// A call of a function of `queue::Backoff`.
    pub(crate) backoff: Option<TokenStream>,
    #[cfg(feature = "schedules")]
    pub(crate) schedules: Vec<Schedule>,
    pub(crate) unique: Option<Unique>,
    /// The word `blocking`, or another one that means it: no second error that the function is not async.
    pub(crate) blocking: Option<Ident>,
    /// Further traits that the struct derives.
    pub(crate) derive: Vec<Path>,
    pub(crate) struct_name: Option<Ident>,
    pub(crate) krate: Option<Path>,
}

impl Options {
    /// Reads every valid option and records every mistake.
    pub(crate) fn parse(args: TokenStream, errors: &mut Errors) -> Self {
        let (mut options, mut given) = (Self::default(), Given::default());
        for piece in pieces(args, errors) {
            let set = given.entry(piece, &known::JOB).and_then(|entry| options.set(&entry, errors));
            errors.take(set);
        }
        options.blocking = given.find("blocking").cloned();
        options
    }

    fn set(&mut self, entry: &Entry, errors: &mut Errors) -> syn::Result<()> {
        match entry.key().as_str() {
            "name" => self.name = Some(entry.name()?),
            "queue" => self.queue = Some(entry.name()?.value()),
            "aliases" => self.aliases = entry.aliases(errors)?,
            "priority" => self.priority = Some(entry.priority()?),
            "max_retries" => self.max_retries = Some(entry.max_retries()?),
            "timeout" => self.timeout = Some(entry.duration()?),
            "start_within" => self.start_within = Some(entry.duration()?),
            "backoff" => self.backoff = Some(backoff::read(entry, errors)?),
            #[cfg(feature = "schedules")]
            "schedule" => self.schedules.push(Schedule::read(entry, errors)),
            #[cfg(not(feature = "schedules"))]
            "schedule" => return Err(Error::new_spanned(&entry.key, NO_SCHEDULES)),
            "unique" => self.unique = Some(Unique::read(entry, errors)),
            "blocking" => entry.blocking()?,
            "derive" => self.derive = entry.derive(errors)?,
            "struct_name" => self.struct_name = Some(entry.struct_name()?),
            _ => self.krate = Some(entry.krate()?),
        }
        Ok(())
    }
}

/// What only one option takes.
impl Entry {
    fn aliases(&self, errors: &mut Errors) -> syn::Result<Vec<LitStr>> {
        const CURE: &str = "write `aliases = [\"old_name\"]`";
        let array = match &self.value {
            Value::Equals(value) => match (peel(value), string(value)) {
                (Expr::Array(array), _) => Ok(array),
                (_, Some(text)) => Err(format!("`aliases` takes a list: write `aliases = [{}]`", text.token())),
                (_, None) => Err(format!("`aliases` takes a list of strings: {CURE}")),
            },
            Value::List(list) => Err(format!("write `aliases = [{list}]`")),
            Value::None => Err(format!("`aliases` has no value: {CURE}")),
        };
        let names = array.map_err(|message| self.error(message))?.elems.iter().map(|element| match string(element) {
            Some(text) => checked_name(text.clone()),
            None => Err(Error::new_spanned(element, format!("an alias is a string literal: {CURE}"))),
        });
        Ok(names.filter_map(|name| errors.take(name)).collect())
    }

    fn max_retries(&self) -> syn::Result<u32> {
        let number = self.integer("u32")?;
        if number < 0 {
            return Err(
                self.error("`max_retries` cannot be negative: write `max_retries = 0` for one attempt and no retry")
            );
        }
        let retries = u32::try_from(number).ok().filter(|retries| *retries <= MOST_RETRIES);
        retries.ok_or_else(|| self.error(format!("write a number up to {MOST_RETRIES}")))
    }

    fn blocking(&self) -> syn::Result<()> {
        match &self.value {
            Value::None => Ok(()),
            Value::Equals(Expr::Lit(ExprLit { lit: Lit::Bool(LitBool { value: false, .. }), .. })) => {
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
            .map_err(|error| Error::new(error.span(), format!("`derive` takes the names of traits: {CURE}")))?;
        if paths.is_empty() {
            return Err(self.error(format!("`derive` names no trait: {CURE}, or leave it out")));
        }
        for path in &paths {
            if let Some(name) = derived(path) {
                errors.at(path, format!("every job has `{name}` already: leave it out"));
            }
        }
        Ok(paths.into_iter().filter(|path| derived(path).is_none()).collect())
    }

    fn struct_name(&self) -> syn::Result<Ident> {
        if let Some(ident) = word(self.value()?) {
            return Ok(ident.clone());
        }
        let text = self.text()?;
        text.parse::<Ident>().map_err(|_| {
            let name = text.value();
            let message = format!("`{name}` is not the name of a struct: write `struct_name = \"SendEmailJob\"`");
            Error::new_spanned(&text, message)
        })
    }

    fn krate(&self) -> syn::Result<Path> {
        let value = self.value()?;
        let path = match (value, string(value)) {
            (Expr::Path(ExprPath { qself: None, path, .. }), _) => Some(path.clone()),
            (_, text) => text.and_then(|text| text.parse_with(Path::parse_mod_style).ok()),
        };
        path.ok_or_else(|| {
            self.error("`crate` takes the path by which `queue` is reached: write `crate = my_crate::queue`")
        })
    }
}

/// The trait, if the struct derives it anyway.
fn derived(path: &Path) -> Option<&'static str> {
    let name = &path.segments.last()?.ident;
    DERIVED.into_iter().find(|derived| name == derived)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn options(text: &str) -> (Options, usize) {
        let mut errors = Errors::default();
        let options = Options::parse(text.parse().expect("tokens"), &mut errors);
        (options, errors.len())
    }

    #[test]
    fn reads_all_options() {
        let (options, errors) = options(
            "name = \"a\", aliases = [\"b\", \"c\"], queue = \"q\", priority = -3, max_retries = 0x10, \
             timeout = \"1m\", backoff = linear(\"1s\"), blocking, struct_name = \"S\", crate = a::b,",
        );
        assert_eq!(errors, 0);
        assert_eq!(options.name.map(|name| name.value()).as_deref(), Some("a"));
        assert_eq!(options.aliases.len(), 2);
        assert_eq!(options.queue.as_deref(), Some("q"));
        assert_eq!((options.priority, options.max_retries), (Some(-3), Some(16)));
        assert_eq!(options.timeout.map(|timeout| timeout.value), Some(Duration::from_secs(60)));
        let backoff = options.backoff.map(|backoff| backoff.to_string().replace(' ', ""));
        let millis = |millis: u64| format!("::core::time::Duration::from_millis({millis}u64)");
        assert_eq!(backoff, Some(format!("linear({},{})", millis(1000), millis(3_600_000))));
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
    fn an_unknown_option_is_named_whatever_follows_it() {
        for value in ["", " =", " = 3", "(3)", " 3", ": 3"] {
            let mut errors = Errors::default();
            Options::parse(format!("retries{value}").parse().expect("tokens"), &mut errors);
            assert_eq!(errors.messages(), ["unknown option `retries`; did you mean `max_retries`?"], "{value}");
        }
    }

    #[test]
    fn an_option_with_a_mistake_is_given() {
        for (text, mistakes) in
            [("queue = , queue = \"a\"", 2), ("sync, blocking", 1), ("blocking = , priority = 1", 1)]
        {
            let (options, errors) = options(text);
            assert_eq!(errors, mistakes, "{text}");
            assert_eq!(options.blocking.is_some(), text.contains("blocking"), "{text}");
        }
    }
}
