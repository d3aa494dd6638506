//! Unique jobs: what makes two jobs the same, and what an enqueue does if another job holds the key.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::ser::Error;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use crate::limits::{MAX_UNIQUE_KEY_BYTES, check_key};
use crate::state::JobId;

/// How jobs of a type are unique. [`#[job(unique)]`](crate::job) generates [`Job::UNIQUE`](crate::Job::UNIQUE).
///
/// Two jobs of a kind are the same if they have the same key. By default, the key consists of all arguments. It is
/// computed from their JSON: the order of the keys of a map does not matter, that of a list does, and `1` differs from
/// `1.0`.
///
/// ```
/// use std::time::Duration;
/// use queue::unique::{OnConflict, Unique, UniqueUntil};
/// use queue::{Job, job};
///
/// #[job(unique(by = (user), until = "start", for = "1h", on_conflict = "replace"))]
/// async fn refresh(user: i64, reason: String) {
///     println!("{user}: {reason}");
/// }
///
/// let unique = Unique::by(&["user"])
///     .until(UniqueUntil::Start)
///     .at_least(Duration::from_secs(3600))
///     .on_conflict(OnConflict::Replace);
/// assert_eq!(Refresh::UNIQUE, Some(unique));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unique {
    by: Option<&'static [&'static str]>,
    until: UniqueUntil,
    at_least: Option<Duration>,
    on_conflict: OnConflict,
}

impl Unique {
    /// By all arguments, until the job's end. The holder of a key is kept.
    pub const ALL_ARGS: Self =
        Self { by: None, until: UniqueUntil::End, at_least: None, on_conflict: OnConflict::Keep };

    /// By these arguments alone, as they are called in the job's JSON. The rest is as in [`ALL_ARGS`](Self::ALL_ARGS).
    pub const fn by(arguments: &'static [&'static str]) -> Self {
        Self { by: Some(arguments), ..Self::ALL_ARGS }
    }

    /// Until when a job is the only one with its key. The default is [`UniqueUntil::End`].
    #[must_use]
    pub const fn until(self, until: UniqueUntil) -> Self {
        Self { until, ..self }
    }

    /// For at least this long after its enqueue, a job is the only one with its key, even if it is over. The default is
    /// zero. At most 100 years.
    #[must_use]
    pub const fn at_least(self, period: Duration) -> Self {
        Self { at_least: Some(period), ..self }
    }

    /// What an enqueue does if another job holds the key. The default is [`OnConflict::Keep`].
    #[must_use]
    pub const fn on_conflict(self, on_conflict: OnConflict) -> Self {
        Self { on_conflict, ..self }
    }
}

/// Until when a job is the only one with its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum UniqueUntil {
    /// Until a worker claims it for the first time. At most one unclaimed job with the key waits. The retry of an
    /// earlier one may wait beside it. Choose this for "something changed": a request after the start gets a run of its
    /// own.
    Start,
    /// Until it is completed, cancelled, dead or deleted. At most one job with the key waits or runs. It holds the key
    /// through its retries.
    End,
}

/// What an enqueue does if another job holds its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OnConflict {
    /// Nothing is written. The holder stands for the request. If it waits, it starts after the caller's transaction has
    /// committed, so it sees the caller's data.
    Keep,
    /// The waiting job gets the new arguments, queue, priority and retries. It keeps its id. If the enqueue names a due
    /// time, the job gets that one. Otherwise it is due at once, and keeps its place if it was due. Needs
    /// [`UniqueUntil::Start`]. A job that has started within [`Unique::at_least`] is kept as it is.
    Replace,
    /// The enqueue fails with [`Error::Duplicate`](crate::Error::Duplicate). The caller's transaction stays usable.
    Reject,
}

/// The job that stands for a request. See [`Enqueue::enqueue_unique`](crate::Enqueue::enqueue_unique).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Enqueued {
    /// A new job was written.
    New(JobId),
    /// This job held the key, and is as it was.
    Kept(JobId),
    /// This job held the key, and has the new arguments.
    Replaced(JobId),
}

impl Enqueued {
    /// The job's id.
    ///
    /// ```
    /// use queue::unique::Enqueued;
    /// use queue::JobId;
    ///
    /// assert_eq!(Enqueued::Kept(JobId::from(7)).id(), JobId::from(7));
    /// ```
    pub fn id(self) -> JobId {
        match self {
            Self::New(id) | Self::Kept(id) | Self::Replaced(id) => id,
        }
    }

    /// Whether a new job was written.
    pub fn is_new(self) -> bool {
        matches!(self, Self::New(_))
    }
}

/// What an enqueue says beyond its type.
#[derive(Debug, Clone, Default)]
pub(crate) struct UniqueOptions {
    pub(crate) key: Option<String>,
    pub(crate) until: Option<UniqueUntil>,
    pub(crate) at_least: Option<Duration>,
    pub(crate) on_conflict: Option<OnConflict>,
    pub(crate) debounce: Option<Duration>,
    pub(crate) at_most: Option<Duration>,
}

/// How one new job is unique.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UniqueJob {
    pub(crate) key: String,
    pub(crate) until: UniqueUntil,
    pub(crate) at_least: Option<Duration>,
    pub(crate) on_conflict: OnConflict,
    /// The longest that all delays together may postpone the job, from its first enqueue.
    pub(crate) at_most: Option<Duration>,
}

impl UniqueOptions {
    /// Refuses a key that would show a secret argument.
    pub(crate) fn check_secrets(&self, unique: Unique, secrets: &[&str]) -> Result<(), String> {
        let shown = secrets.iter().find(|secret| unique.by.is_none_or(|by| by.contains(secret)));
        match shown.filter(|_| self.key.is_none()) {
            Some(name) => Err(format!(
                "its unique key would show the secret argument `{name}`: leave it out of `by`, or give `.unique_key(…)`"
            )),
            None => Ok(()),
        }
    }

    /// What holds for one enqueue of a type. `args`: the job's JSON.
    pub(crate) fn resolve(self, unique: Unique, args: &str) -> Result<UniqueJob, String> {
        let Self { key, until, at_least, on_conflict, debounce, at_most } = self;
        if at_most.is_some() && debounce.is_none() {
            return Err("`at_most` bounds a debounce: call `.debounce(…)` as well".to_owned());
        }
        // a debounce replaces a job that waits
        let default = match debounce {
            Some(_) => unique.until(UniqueUntil::Start).on_conflict(OnConflict::Replace),
            None => unique,
        };
        let until = until.unwrap_or(default.until);
        let on_conflict = on_conflict.unwrap_or(default.on_conflict);
        if on_conflict == OnConflict::Replace && until == UniqueUntil::End {
            return Err("a job that runs cannot be replaced: add `.unique_until(UniqueUntil::Start)`, or choose \
                        `OnConflict::Keep` or `OnConflict::Reject`"
                .to_owned());
        }
        let key = match key {
            Some(key) => check_key(&key).map(|()| key)?,
            None => key_of(args, unique.by)?,
        };
        let at_least = at_least.or(unique.at_least).filter(|period| !period.is_zero());
        Ok(UniqueJob { key, until, at_least, on_conflict, at_most })
    }
}

/// The key of these arguments: their JSON with sorted keys and without spaces, or its hash if that is too long.
fn key_of(args: &str, by: Option<&[&str]>) -> Result<String, String> {
    let json = match by {
        None => serde_json::from_str::<Sorted<'_>>(args).and_then(|all| serde_json::to_string(&all)),
        Some(fields) => {
            let all: BTreeMap<String, Sorted<'_>> = serde_json::from_str(args)
                .map_err(|_| "`by` names arguments, and the job's JSON is not an object: leave `by` out".to_owned())?;
            let mut chosen = BTreeMap::new();
            for field in fields {
                let value = all.get(*field).ok_or_else(|| {
                    format!("`by` names `{field}`, and the job's JSON has no such key: {}", listed(all.keys()))
                })?;
                chosen.insert(*field, value);
            }
            serde_json::to_string(&chosen)
        }
    };
    let mut key = json.map_err(|error| error.to_string())?;
    if key.len() > MAX_UNIQUE_KEY_BYTES {
        let hash = Sha256::digest(key.as_bytes());
        key = hash.iter().fold("sha256:".to_owned(), |text, byte| text + &format!("{byte:02x}"));
    }
    Ok(key)
}

fn listed<'a>(keys: impl Iterator<Item = &'a String>) -> String {
    let keys: Vec<_> = keys.map(|key| format!("`{key}`")).collect();
    if keys.is_empty() { "it has none".to_owned() } else { format!("it has {}", keys.join(", ")) }
}

/// JSON that is written with the keys of all objects sorted. Numbers and text stay as they are.
#[derive(Deserialize)]
struct Sorted<'a>(#[serde(borrow)] &'a RawValue);

impl Serialize for Sorted<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let json = self.0.get();
        match json.as_bytes().first() {
            Some(b'{') => parsed::<BTreeMap<String, Sorted<'_>>, _>(json)?.serialize(serializer),
            Some(b'[') => parsed::<Vec<Sorted<'_>>, _>(json)?.serialize(serializer),
            _ => self.0.serialize(serializer),
        }
    }
}

fn parsed<'a, T: Deserialize<'a>, E: Error>(json: &'a str) -> Result<T, E> {
    serde_json::from_str(json).map_err(E::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(args: &str) -> String {
        key_of(args, None).unwrap()
    }

    #[test]
    fn the_order_of_keys_does_not_matter() {
        let sorted = r#"{"a":[2,1],"b":{"x":null,"y":"\" {"}}"#;
        assert_eq!(key(sorted), sorted);
        assert_eq!(key(r#"{"b":{"y":"\" {","x":null},"a":[2,1]}"#), sorted);
        assert_ne!(key(r#"{"a":[1,2]}"#), key(r#"{"a":[2,1]}"#));
        assert_eq!((key("null"), key("7"), key("[]")), ("null".into(), "7".into(), "[]".into()));
    }

    #[test]
    fn numbers_are_compared_as_they_are_written() {
        let large = r#"{"n":340282366920938463463374607431768211455}"#;
        assert_eq!(key(large), large);
        assert_ne!(key(large), key(r#"{"n":340282366920938463463374607431768211454}"#));
        assert_ne!(key(r#"{"n":1.0}"#), key(r#"{"n":1}"#));
        let float = serde_json::to_string(&(0.1 + 0.2, f64::MAX, f64::MIN_POSITIVE)).unwrap();
        assert_eq!(key(&float), float);
    }

    #[test]
    fn a_part_of_the_arguments_may_be_the_key() {
        let args = r#"{"user":7,"day":"mon","text":"x"}"#;
        assert_eq!(key_of(args, Some(&["user", "day"])).unwrap(), r#"{"day":"mon","user":7}"#);
        assert_eq!(key_of(args, Some(&["day", "user"])).unwrap(), r#"{"day":"mon","user":7}"#);
        let error = key_of(args, Some(&["usr"])).unwrap_err();
        assert!(error.contains("`usr`") && error.contains("`day`, `text`, `user`"), "{error}");
        assert!(key_of("[1]", Some(&["a"])).unwrap_err().contains("not an object"));
    }

    #[test]
    fn a_long_key_is_a_hash() {
        let args = |text: &str| format!(r#"{{"text":"{}"}}"#, text.repeat(300));
        let hash = key(&args("a"));
        assert!(hash.starts_with("sha256:") && hash.len() == 71, "{hash}");
        assert_ne!(hash, key(&args("b")));
    }

    #[test]
    fn what_an_enqueue_says_comes_before_what_its_type_says() {
        let resolve = |options: UniqueOptions, of_type| options.resolve(of_type, r#"{"a":1}"#);
        let plain = resolve(UniqueOptions::default(), Unique::ALL_ARGS).unwrap();
        assert_eq!(
            (plain.key.as_str(), plain.until, plain.on_conflict),
            (r#"{"a":1}"#, UniqueUntil::End, OnConflict::Keep)
        );
        let said = UniqueOptions {
            key: Some("k".into()),
            until: Some(UniqueUntil::Start),
            at_least: Some(Duration::from_secs(1)),
            on_conflict: Some(OnConflict::Replace),
            ..UniqueOptions::default()
        };
        let said = resolve(said, Unique::by(&["nothing"])).unwrap();
        assert_eq!((said.key.as_str(), said.until, said.on_conflict), ("k", UniqueUntil::Start, OnConflict::Replace));
        assert_eq!(said.at_least, Some(Duration::from_secs(1)));
        let second = Some(Duration::from_secs(1));
        let debounced = UniqueOptions { debounce: second, ..UniqueOptions::default() };
        let debounced = resolve(debounced, Unique::ALL_ARGS).unwrap();
        assert_eq!((debounced.until, debounced.on_conflict), (UniqueUntil::Start, OnConflict::Replace));
        let alone = UniqueOptions { at_most: second, ..UniqueOptions::default() };
        assert!(resolve(alone, Unique::ALL_ARGS).unwrap_err().contains("bounds a debounce"));
        let running = UniqueOptions { on_conflict: Some(OnConflict::Replace), ..UniqueOptions::default() };
        assert!(resolve(running, Unique::ALL_ARGS).unwrap_err().contains("cannot be replaced"));
    }

    #[test]
    fn unusable_keys_are_refused() {
        let with = |key: &str| {
            UniqueOptions { key: Some(key.into()), ..UniqueOptions::default() }.resolve(Unique::ALL_ARGS, "{}")
        };
        for (key, why) in [("", "empty"), ("a ", "white space"), ("a\0b", "control"), (&"k".repeat(256), "256 bytes")] {
            let error = with(key).unwrap_err();
            assert!(error.contains(why), "{key:?}: {error}");
        }
        assert!(with(&"k".repeat(255)).is_ok());
    }
}
