//! Jobs that are given as a kind and JSON, for tools that need not have their types.

use std::fmt;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde_json::json;
use tracing::Instrument as _;

use crate::admin::Admin;
use crate::edit::misfit;
use crate::error::{Doing as _, Error};
use crate::fields::is_object;
use crate::job::{Options, written};
use crate::limits::{check_args, check_name, micros};
use crate::propagation::Sending;
use crate::registry::{known, linked};
use crate::secrets::mask;
use crate::store::values::NewJob;
use crate::unique::Enqueued;

/// A job as a kind and JSON, for [`Admin::enqueue`].
///
/// ```
/// use queue::admin::RawJob;
///
/// let job = RawJob::new("send_email", r#"{"to": "ada@example.org"}"#).queue("mail").max_retries(3);
/// # drop(job);
/// ```
#[derive(Clone)]
#[must_use = "a job is written only by `Admin::enqueue`"]
pub struct RawJob {
    kind: String,
    args: String,
    options: Options,
}

/// Secret arguments are hidden, and so are all of a kind whose type this program does not have.
impl fmt::Debug for RawJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let secrets: Option<Vec<_>> =
            known(&self.kind).map(|job| job.secrets.iter().map(ToString::to_string).collect());
        let args = mask(&self.args, secrets.as_deref());
        f.debug_struct("RawJob").field("kind", &self.kind).field("args", &args).field("options", &self.options).finish()
    }
}

impl RawJob {
    /// A job of this kind. `args` is the text of a JSON object.
    pub fn new(kind: impl Into<String>, args: impl Into<String>) -> Self {
        Self { kind: kind.into(), args: args.into(), options: Options::default() }
    }

    /// See [`Enqueue::after`](crate::Enqueue::after).
    pub fn after(mut self, delay: Duration) -> Self {
        (self.options.delay_us, self.options.run_at_us) = (Some(micros(delay)), None);
        self
    }

    /// See [`Enqueue::at`](crate::Enqueue::at).
    pub fn at(mut self, time: DateTime<Utc>) -> Self {
        self.options.at(time);
        self
    }

    /// Smaller runs first. See [`Enqueue::priority`](crate::Enqueue::priority).
    pub fn priority(mut self, priority: i16) -> Self {
        self.options.priority = Some(priority);
        self
    }

    /// See [`Enqueue::queue`](crate::Enqueue::queue).
    pub fn queue(mut self, queue: impl Into<String>) -> Self {
        self.options.queue = Some(queue.into());
        self
    }

    /// See [`Enqueue::max_retries`](crate::Enqueue::max_retries).
    pub fn max_retries(mut self, retries: u32) -> Self {
        self.options.max_retries = Some(retries);
        self
    }

    /// See [`Enqueue::meta`](crate::Enqueue::meta).
    pub fn meta(mut self, name: impl Into<String>, value: impl ToString) -> Self {
        self.options.meta.get_or_insert_default().insert(name.into(), value.to_string());
        self
    }
}

impl Admin {
    /// Enqueues a job that is given as a kind and JSON.
    ///
    /// If this program has the type of the kind, the job is what [`Enqueue::enqueue`](crate::Enqueue::enqueue) makes of
    /// it: with the defaults of its type, and with its key if it is unique. Arguments that do not fit are refused. A
    /// unique job needs the [rights] of a producer of unique jobs.
    ///
    /// Otherwise the job is written as it is given. Its queue is `default`, unless the job names another. Its worker
    /// knows how often it is retried. A kind whose jobs took keys is refused, because only its type knows the key.
    ///
    /// [rights]: https://github.com/queue-rs/queue/blob/main/docs/security.md#accounts
    ///
    /// # Errors
    /// [`Error::Config`] for a name, arguments or metadata that are not usable. [`Error::Duplicate`],
    /// [`Error::Database`].
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let pool = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/doctest.rs")).await;
    /// use queue::admin::{Admin, RawJob};
    ///
    /// let job = RawJob::new("resize_image", r#"{"image": 7}"#).queue("images");
    /// let id = Admin::new(&pool).enqueue(job).await?.id();
    /// # let job = Admin::new(&pool).reveal_secrets().job(id).await?.expect("it waits");
    /// # assert_eq!((job.job.queue.as_str(), job.args.as_str()), ("images", r#"{"image": 7}"#));
    /// # Ok(()) }
    /// ```
    pub async fn enqueue(&self, job: RawJob) -> Result<Enqueued, Error> {
        let RawJob { kind, args, options } = job;
        let doing = format!("cannot enqueue `{}`", kind.escape_debug());
        let refused = |why| Error::config(format!("{doing}: {why}"));
        check_name("kind", &kind).map_err(refused)?;
        if !is_object(&args) {
            let example = "give one field for each argument, for example {\"to\": \"ada@example.org\"}";
            return Err(refused(format!("its arguments are not a JSON object: {example}")));
        }
        check_args(&args).map_err(|why| refused(format!("its arguments {why}")))?;
        if let Some(why) = misfit(&kind, &args) {
            return Err(refused(format!("its arguments do not fit: {why}")));
        }
        self.refuse_marks(&kind, &args).await.map_err(|error| refused(error.to_string()))?;
        let known = known(&kind);
        if known.is_none() && self.store.has_keys(&kind).await? {
            let why = "its jobs are unique, and only a program that has its type knows their keys: enqueue it there";
            return Err(refused(why.to_owned()));
        }
        let queue = options.queue.as_deref().or(known.as_ref().map(|job| job.queue)).unwrap_or(DEFAULT_QUEUE);
        let sending = Sending::begin(&kind, queue, None);
        let (row, kind) = match known {
            Some(job) => ((job.row)(&args, options, &sending), job.kind),
            None => (row(kind, args, options, &sending).map_err(refused), ""),
        };
        if row.is_err() {
            sending.ends(None, true);
        }
        let span = sending.span.clone();
        let enqueued = written(self.store.enqueue(row?).instrument(span).await, kind, doing.clone(), &sending)?;
        let enqueued = enqueued.first().copied().ok_or(sqlx::Error::RowNotFound).doing(doing)?;
        if enqueued.is_new() {
            self.store.record(self.note("enqueue", &json!({}), Some(enqueued.id()))).await?;
        }
        Ok(enqueued)
    }
}

/// The kinds whose types this program has, former names too: [`Admin::enqueue`] and the edits check arguments of these.
///
/// ```standalone_crate
/// use queue::job;
///
/// #[job(aliases = ["salute"])]
/// async fn greet(name: String) {
///     println!("Hello, {name}!");
/// }
///
/// assert_eq!(queue::admin::known_kinds(), ["greet", "salute"]);
/// ```
pub fn known_kinds() -> Vec<&'static str> {
    linked().iter().flat_map(|job| std::iter::once(job.kind).chain(job.aliases.iter().copied())).collect()
}

const DEFAULT_QUEUE: &str = "default";

/// The row of a job whose type this program does not have.
fn row(kind: String, args: String, options: Options, sending: &Sending) -> Result<NewJob, String> {
    let Options { delay_us, run_at_us, priority, queue, max_retries, meta, .. } = options;
    let queue = queue.unwrap_or_else(|| DEFAULT_QUEUE.to_owned());
    check_name("queue", &queue)?;
    Ok(NewJob {
        kind: kind.into(),
        queue: queue.into(),
        priority: priority.unwrap_or_default(),
        max_retries: max_retries.map(|retries| i32::try_from(retries).unwrap_or(i32::MAX)),
        delay_us,
        run_at_us,
        args,
        meta: sending.meta(meta)?,
        unique: None,
    })
}
