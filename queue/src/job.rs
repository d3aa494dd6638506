//! A job is a serializable value with a kind, defaults and a handler. This module defines it and enqueues it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use chrono::{DateTime, Utc};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde::{Serialize, de::DeserializeOwned};
use tracing::Instrument as _;

use crate::context::JobContext;
use crate::enqueue::Target;
use crate::error::{Doing, Error, TRANSACTION_OVER};
use crate::finite;
use crate::limits::{MAX_ARGS_BYTES, MAX_ARGS_DEPTH, START_OF_9999, check_name, depth, micros};
use crate::outcome::{Backoff, JobError};
use crate::propagation::Sending;
#[cfg(feature = "schedules")]
use crate::schedule::{definition::Definition, spec::Schedule};
use crate::state::JobId;
use crate::store::values::{NewJob, Unwritten};
use crate::unique::{Enqueued, OnConflict, Unique, UniqueOptions, UniqueUntil};

/// Earlier times are raised to this one. Every engine can store it, and a job with it is due at once.
const LONG_AGO: i64 = 946_684_800_000_000; // 2000-01-01

/// Methods that begin an [`Enqueue`] with an option of it.
macro_rules! options {
    ($($(#[$doc:meta])* $name:ident($($value:ident: $type:ty),+);)+) => {
        $(
            $(#[$doc])*
            fn $name(self, $($value: $type),+) -> Enqueue<Self> {
                Enqueue::new(self).$name($($value),+)
            }
        )+
    };
}

/// A unit of work that is stored in the database and runs later in a worker.
///
/// [`#[job]`](crate::job) generates the implementation from an async function. Write it by hand only for types that the
/// macro cannot generate, for example generic ones. Register such a type with
/// [`WorkerBuilder::register`](crate::WorkerBuilder::register).
///
/// Bring the trait into scope to enqueue:
///
/// ```
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use queue::{Job, job};
///
/// #[job]
/// async fn greet(name: String) {
///     println!("Hello, {name}!");
/// }
///
/// # let pool = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/doctest.rs")).await;
/// Greet::new("Ada").enqueue(&pool).await?;
/// Greet::new("Grace").after(Duration::from_secs(60)).priority(-1).enqueue(&pool).await?;
/// # Ok(()) }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a job",
    label = "not a job",
    note = "annotate the function with `#[queue::job]` and use the struct that it generates (`send_email` gives \
            `SendEmail`)"
)]
pub trait Job: Serialize + DeserializeOwned + Send + Sync + Sized + 'static {
    /// The name in the `kind` column, which selects the handler. At most 128 bytes.
    const KIND: &'static str;
    /// Former kinds. This job also runs rows that were enqueued under these names.
    const ALIASES: &'static [&'static str] = &[];
    /// The secret arguments, by all names that they have in the job's JSON. Their values stay out of errors, logs and
    /// all that [`Admin`](crate::admin::Admin) shows. `#[secret]` before an argument generates this. A job that is
    /// written by hand also leaves them out of its `Debug`.
    const SECRETS: &'static [&'static str] = &[];
    /// The queue, unless the enqueue names another. At most 128 bytes.
    const QUEUE: &'static str = "default";
    /// The priority, unless the enqueue names another. Smaller runs first.
    const PRIORITY: i16 = 0;
    /// How often a failed job is retried, unless the enqueue says otherwise. 3 retries allow 4 attempts.
    const MAX_RETRIES: u32 = 20;
    /// How long one attempt may run. `None` sets no limit.
    const TIMEOUT: Option<Duration> = None;
    /// The promise to start within this time after the job is due. It changes nothing about how the job runs: metrics
    /// count how often it was kept.
    const START_WITHIN: Option<Duration> = None;
    /// How long to wait before a retry.
    const BACKOFF: Backoff = Backoff::DEFAULT;
    /// How the job is unique, unless the enqueue says otherwise. `None`: any number of equal jobs may wait.
    const UNIQUE: Option<Unique> = None;

    /// The result of a successful attempt. It is kept as JSON in the history.
    type Output: Serialize + Send + 'static;

    /// Runs one attempt. Only workers call it.
    ///
    /// # Cancellation
    /// A timeout, a cancellation or the worker's shutdown cancels the token ([`JobContext::cancelled`]). If the attempt
    /// does not end within the worker's [`cancel_grace`](crate::WorkerBuilder::cancel_grace), its future is dropped.
    /// When the worker loses its lease, the future is dropped at once.
    fn run(self, ctx: JobContext) -> impl Future<Output = Result<Self::Output, JobError>> + Send;

    /// The [`State`](crate::State) types that [`run`](Self::run) takes from the context. A worker that lacks one of
    /// them cannot be built.
    fn requires() -> Vec<StateType> {
        Vec::new()
    }

    /// The schedules that the code declares. A worker that knows the job keeps them in the database.
    ///
    /// # Errors
    /// [`Error::Config`], for example because a time zone is unknown. Then no worker can be built.
    #[cfg(feature = "schedules")]
    fn schedules() -> Result<Vec<Periodic<Self>>, Error> {
        Ok(Vec::new())
    }

    /// Writes the job with its defaults. See [`Enqueue::enqueue`].
    fn enqueue<'a, T: Target + 'a>(self, target: T) -> BoxFuture<'a, Result<JobId, Error>> {
        Enqueue::new(self).enqueue(target)
    }

    /// Writes the job, and tells whether it is new. See [`Enqueue::enqueue_unique`].
    fn enqueue_unique<'a, T: Target + 'a>(self, target: T) -> BoxFuture<'a, Result<Enqueued, Error>> {
        Enqueue::new(self).enqueue_unique(target)
    }

    options! {
        /// Delays the job by `delay`, by the database's clock. See [`Enqueue::after`].
        after(delay: Duration);
        /// Makes the job due at `time`. See [`Enqueue::at`].
        at(time: DateTime<Utc>);
        /// Sets the priority. Smaller runs first. See [`Enqueue::priority`].
        priority(priority: i16);
        /// Sets the queue. See [`Enqueue::queue`].
        queue(queue: impl Into<String>);
        /// Sets the number of retries. See [`Enqueue::max_retries`].
        max_retries(retries: u32);
        /// Says something of the job beside its arguments, such as the id of a request. See [`Enqueue::meta`].
        meta(name: impl Into<String>, value: impl ToString);
        /// Makes the job unique by this key. See [`Enqueue::unique_key`].
        unique_key(key: impl Into<String>);
        /// Makes the job unique for at least this period. See [`Enqueue::unique_for`].
        unique_for(period: Duration);
        /// Makes the job unique until its start or its end. See [`Enqueue::unique_until`].
        unique_until(until: UniqueUntil);
        /// Makes the job unique, and says what to do if another job holds its key. See [`Enqueue::on_conflict`].
        on_conflict(on_conflict: OnConflict);
        /// Runs the job once, `delay` after the last of several enqueues. See [`Enqueue::debounce`].
        debounce(delay: Duration);
    }
}

/// The type of a job's [`State`](crate::State) parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StateType {
    pub(crate) id: std::any::TypeId,
    pub(crate) name: &'static str,
    /// It is the transaction of a database with this engine.
    pub(crate) tx_of: Option<&'static str>,
}

impl StateType {
    /// What somebody without it is told: `who` is on `engine`.
    pub(crate) fn missing(&self, engine: &str, who: &str) -> String {
        let name = self.name;
        match self.tx_of {
            Some(other) => format!(
                "`Tx<{name}>`, but the {who} is on {engine}: give it a pool of {other}, or leave this job to a worker \
                 there (`.only_registered()`)"
            ),
            None => {
                format!("`State<{name}>`, but the {who} was not given one: add `.state(…)` with a value of that type")
            }
        }
    }

    /// Describes `T`.
    ///
    /// ```
    /// let needed = queue::StateType::of::<String>();
    /// assert_eq!(needed, queue::StateType::of::<String>());
    /// ```
    pub fn of<T: Clone + Send + Sync + 'static>() -> Self {
        Self { id: std::any::TypeId::of::<T>(), name: std::any::type_name::<T>(), tx_of: None }
    }

    /// Describes a [`Tx`](crate::Tx): `T` is the pool that it begins in.
    pub(crate) fn of_tx<T: 'static>(name: &'static str, engine: &'static str) -> Self {
        Self { id: std::any::TypeId::of::<T>(), name, tx_of: Some(engine) }
    }
}

/// A job with options, ready to be enqueued. The methods of [`Job`] create it.
///
/// ```
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let pool = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/doctest.rs")).await;
/// use std::time::Duration;
/// use queue::{Job, job};
///
/// #[job]
/// async fn remind(user: i64) {
///     println!("reminding {user}");
/// }
///
/// let mut tx = pool.begin().await?;
/// Remind::new(7).after(Duration::from_secs(3600)).queue("mail").max_retries(2).enqueue(&mut tx).await?;
/// tx.commit().await?; // only now can a worker see it
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
#[must_use = "a job is written only by `.enqueue(…)`"]
pub struct Enqueue<J> {
    job: J,
    options: Options,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Options {
    /// From now, or since 1970. In microseconds.
    pub(crate) delay_us: Option<i64>,
    pub(crate) run_at_us: Option<i64>,
    pub(crate) priority: Option<i16>,
    pub(crate) queue: Option<String>,
    pub(crate) max_retries: Option<u32>,
    pub(crate) meta: Option<BTreeMap<String, String>>,
    /// Boxed: most jobs have none, and many are moved about at once.
    unique: Option<Box<UniqueOptions>>,
}

impl Options {
    pub(crate) fn at(&mut self, time: DateTime<Utc>) {
        let time = time.timestamp_micros().clamp(LONG_AGO, START_OF_9999);
        (self.delay_us, self.run_at_us) = (None, Some(time));
    }
}

/// The arguments as they are stored.
pub(crate) fn encode<J: Job>(job: &J) -> Result<String, serde_json::Error> {
    let args = serde_json::to_string(job)?;
    // serde_json writes NaN and infinity as `null`
    if args.contains("null") {
        finite::check(job)?;
    }
    Ok(args)
}

impl<J: Job> Enqueue<J> {
    pub(crate) fn new(job: J) -> Self {
        Self { job, options: Options::default() }
    }

    /// Makes the job due `delay` after the enqueue, by the database's clock. A delay above 100 years counts as 100
    /// years. If both `after` and [`at`](Self::at) are called, the last call wins.
    pub fn after(mut self, delay: Duration) -> Self {
        (self.options.delay_us, self.options.run_at_us) = (Some(micros(delay)), None);
        self
    }

    /// Makes the job due at `time`, by the database's clock. A job with a time in the past is due at once, and comes
    /// before jobs of its priority that are due later. The default is the time of the enqueue.
    pub fn at(mut self, time: DateTime<Utc>) -> Self {
        self.options.at(time);
        self
    }

    /// Sets the priority. Smaller runs first. The default is [`Job::PRIORITY`].
    pub fn priority(mut self, priority: i16) -> Self {
        self.options.priority = Some(priority);
        self
    }

    /// Sets the queue. At most 128 bytes. The default is [`Job::QUEUE`].
    pub fn queue(mut self, queue: impl Into<String>) -> Self {
        self.options.queue = Some(queue.into());
        self
    }

    /// Sets the number of retries. 0 allows a single attempt. The default is [`Job::MAX_RETRIES`].
    pub fn max_retries(mut self, retries: u32) -> Self {
        self.options.max_retries = Some(retries);
        self
    }

    /// Says something of the job beside its arguments: a text by a name, such as the id of the request that enqueues it.
    /// Handlers read it with [`JobContext::meta`]. It is in the job's span and in its log events, so it must not be
    /// private. The jobs that the handler enqueues get it too, unless they have the same name themselves. So one id
    /// leads from a request to the last job that it caused.
    ///
    /// All metadata of a job is at most 4 KiB of JSON. An empty value takes a name away.
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let pool = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/doctest.rs")).await;
    /// use queue::{Job, JobContext, job};
    ///
    /// #[job]
    /// async fn send_receipt(ctx: JobContext, order: i64) {
    ///     println!("{order}, for the request {:?}", ctx.meta().get("request_id"));
    /// }
    ///
    /// SendReceipt::new(7).meta("request_id", "4f1c").enqueue(&pool).await?;
    /// # Ok(()) }
    /// ```
    pub fn meta(mut self, name: impl Into<String>, value: impl ToString) -> Self {
        self.options.meta.get_or_insert_default().insert(name.into(), value.to_string());
        self
    }

    fn unique_options(&mut self) -> &mut UniqueOptions {
        self.options.unique.get_or_insert_default()
    }

    /// Makes the job unique by this key, among the jobs of its kind. The default is the key that its type or its
    /// arguments give. 1 to 255 bytes. Two enqueues with the same text have the same key, whichever way it was given.
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let pool = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/doctest.rs")).await;
    /// use queue::unique::Enqueued;
    /// use queue::{Job, job};
    ///
    /// #[job]
    /// async fn send_invoice(order: i64, copy: bool) {
    ///     println!("{order}: {copy}");
    /// }
    ///
    /// let first = SendInvoice::new(7, false).unique_key("order-7").enqueue(&pool).await?;
    /// let second = SendInvoice::new(7, true).unique_key("order-7").enqueue_unique(&pool).await?;
    /// assert_eq!(second, Enqueued::Kept(first));
    /// # Ok(()) }
    /// ```
    pub fn unique_key(mut self, key: impl Into<String>) -> Self {
        self.unique_options().key = Some(key.into());
        self
    }

    /// Makes the job the only one with its key for at least `period` after this enqueue, even if it is over earlier.
    /// The database's clock counts. A period above 100 years counts as 100 years.
    pub fn unique_for(mut self, period: Duration) -> Self {
        self.unique_options().at_least = Some(period);
        self
    }

    /// Makes the job the only one with its key until its start or its end. The default is that of its type, else
    /// [`UniqueUntil::End`].
    pub fn unique_until(mut self, until: UniqueUntil) -> Self {
        self.unique_options().until = Some(until);
        self
    }

    /// Makes the job unique, and says what this enqueue does if another job holds its key. The default is that of its
    /// type, else [`OnConflict::Keep`].
    pub fn on_conflict(mut self, on_conflict: OnConflict) -> Self {
        self.unique_options().on_conflict = Some(on_conflict);
        self
    }

    /// Runs the job once, `delay` after the last of several enqueues with the same key. Each one replaces the waiting
    /// job and postpones it, at most until [`at_most`](Self::at_most). It implies [`UniqueUntil::Start`] and
    /// [`OnConflict::Replace`], unless the enqueue names others. It does not go with [`after`](Self::after) or
    /// [`at`](Self::at).
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let pool = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/doctest.rs")).await;
    /// use std::time::Duration;
    /// use queue::{Job, job};
    ///
    /// #[job(unique(by = (page)))]
    /// async fn reindex(page: i64, version: u32) {
    ///     println!("{page}: {version}");
    /// }
    ///
    /// let (delay, most) = (Duration::from_secs(10), Duration::from_secs(60));
    /// let first = Reindex::new(1, 1).debounce(delay).at_most(most).enqueue(&pool).await?;
    /// let second = Reindex::new(1, 2).debounce(delay).at_most(most).enqueue(&pool).await?;
    /// assert_eq!(first, second); // it runs once, with version 2
    /// # Ok(()) }
    /// ```
    pub fn debounce(mut self, delay: Duration) -> Self {
        self.unique_options().debounce = Some(delay);
        self
    }

    /// The longest that [`debounce`](Self::debounce) may postpone the job, counted from its first enqueue. Without this
    /// limit, frequent enqueues postpone it for ever.
    pub fn at_most(mut self, most: Duration) -> Self {
        self.unique_options().at_most = Some(most);
        self
    }

    /// Inserts the job and returns its id. If the job is unique and another job holds its key, returns the id of that
    /// job, which stands for this request. `target` is a pool (`&PgPool`, `&MySqlPool`, `&SqlitePool`), or a `&mut`
    /// connection or transaction of one. In a transaction, the job commits or rolls back with it. No worker sees the
    /// job before the commit.
    ///
    /// On PostgreSQL, workers are notified after the commit. A process that has never given the library a pool notifies
    /// them within the transaction instead. PostgreSQL commits such transactions one after another. To avoid that, call
    /// [`Admin::new`](crate::admin::Admin::new) with a pool once, at the start of the process.
    ///
    /// # Errors
    /// - [`Error::TooLarge`]: the arguments exceed [`MAX_ARGS_BYTES`].
    /// - [`Error::TooDeep`]: the arguments nest deeper than [`MAX_ARGS_DEPTH`].
    /// - [`Error::Payload`]: the arguments do not serialize.
    /// - [`Error::Config`]: the queue name, the metadata or the unique key is not usable.
    /// - [`Error::Duplicate`]: another job holds the key, and the enqueue has [`OnConflict::Reject`].
    /// - [`Error::Database`]: the database refused the job or could not be reached.
    ///
    /// All of them name the kind.
    ///
    /// # Cancellation
    /// Safe to drop. The job may or may not be written then, and the pool stays healthy. The same holds after a lost
    /// connection: the library does not retry, because that could enqueue the job twice. On MySQL and MariaDB, sqlx
    /// does not survive a drop while it prepares a statement: your own connection or transaction may stop answering. A
    /// unique job takes several statements on MySQL, MariaDB and SQLite. If you drop its enqueue in your own
    /// transaction, roll back: to a savepoint, or completely.
    ///
    /// The arguments are serialized at the call, and written when the future is polled.
    // Boxed: of an `async fn`, the compiler would tell about a wrong target three times.
    pub fn enqueue<'a, T: Target + 'a>(self, target: T) -> BoxFuture<'a, Result<JobId, Error>> {
        let (sending, job) = self.send();
        async move { Ok(write_one::<J, T>(target, job?, sending).await?.id()) }.boxed()
    }

    /// As [`enqueue`](Self::enqueue), and tells whether the job is new, was kept or was replaced. A job that is not
    /// unique is always new.
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let pool = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/doctest.rs")).await;
    /// use queue::unique::Enqueued;
    /// use queue::{Job, job};
    ///
    /// #[job(unique)]
    /// async fn rebuild(shop: i64) {
    ///     println!("{shop}");
    /// }
    ///
    /// let mut tx = pool.begin().await?;
    /// let first = Rebuild::new(7).enqueue_unique(&mut tx).await?;
    /// assert!(first.is_new());
    /// assert_eq!(Rebuild::new(7).enqueue_unique(&mut tx).await?, Enqueued::Kept(first.id()));
    /// tx.commit().await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As for [`enqueue`](Self::enqueue).
    ///
    /// # Cancellation
    /// As for [`enqueue`](Self::enqueue).
    pub fn enqueue_unique<'a, T: Target + 'a>(self, target: T) -> BoxFuture<'a, Result<Enqueued, Error>> {
        let (sending, job) = self.send();
        async move { write_one::<J, T>(target, job?, sending).await }.boxed()
    }

    fn send(self) -> (Sending, Result<NewJob, Error>) {
        let sending = Sending::begin(J::KIND, self.options.queue.as_deref().unwrap_or(J::QUEUE), None);
        let job = self.into_row(&sending);
        if job.is_err() {
            sending.ends(None, true);
        }
        (sending, job)
    }

    /// The row of a job that is given as JSON.
    pub(crate) fn row_of(args: &str, options: Options, sending: &Sending) -> Result<NewJob, Error> {
        let job = serde_json::from_str(args).map_err(|source| Error::Payload { kind: J::KIND, source })?;
        Self { job, options }.into_row(sending)
    }

    pub(crate) fn into_row(self, sending: &Sending) -> Result<NewJob, Error> {
        let Options { mut delay_us, run_at_us, priority, queue, max_retries, meta, unique } = self.options;
        let refused = |why| Error::config(format!("cannot enqueue `{}`: {why}", J::KIND.escape_debug()));
        check_name("kind", J::KIND).map_err(refused)?;
        let args = encode(&self.job).map_err(|source| Error::Payload { kind: J::KIND, source })?;
        if args.len() > MAX_ARGS_BYTES {
            return Err(Error::TooLarge { kind: J::KIND, size: args.len(), limit: MAX_ARGS_BYTES });
        }
        match depth(&args) {
            0..=MAX_ARGS_DEPTH => {}
            depth => return Err(Error::TooDeep { kind: J::KIND, depth, limit: MAX_ARGS_DEPTH }),
        }
        let queue = queue.map_or(Cow::Borrowed(J::QUEUE), Cow::Owned);
        check_name("queue", &queue).map_err(refused)?;
        if let Some(UniqueOptions { debounce: Some(delay), at_most, .. }) = unique.as_deref() {
            if delay_us.is_some() || run_at_us.is_some() {
                return Err(refused("a debounced job is due after its delay: remove `after` or `at`".into()));
            }
            delay_us = Some(micros(at_most.unwrap_or(*delay).min(*delay)));
        }
        let meta = sending.meta(meta).map_err(refused)?;
        let unique = match (unique, J::UNIQUE) {
            (None, None) => None,
            (options, of_type) => {
                let (options, of_type) = (options.unwrap_or_default(), of_type.unwrap_or(Unique::ALL_ARGS));
                options.check_secrets(of_type, J::SECRETS).map_err(refused)?;
                let unique = options.resolve(of_type, &args).map_err(refused)?;
                Some(Box::new(unique))
            }
        };
        Ok(NewJob {
            kind: J::KIND.into(),
            queue,
            priority: priority.unwrap_or(J::PRIORITY),
            max_retries: Some(i32::try_from(max_retries.unwrap_or(J::MAX_RETRIES)).unwrap_or(i32::MAX)),
            delay_us,
            run_at_us,
            args,
            meta,
            unique,
        })
    }
}

async fn write_one<J: Job, T: Target>(target: T, job: NewJob, sending: Sending) -> Result<Enqueued, Error> {
    let doing = format!("cannot enqueue `{}`", J::KIND);
    let enqueued = write::<J, T>(target, vec![job], doing.clone(), sending).await?;
    enqueued.first().copied().ok_or(sqlx::Error::RowNotFound).doing(doing)
}

async fn write<J: Job, T: Target>(
    target: T,
    rows: Vec<NewJob>,
    doing: String,
    sending: Sending,
) -> Result<Vec<Enqueued>, Error> {
    written(target.write(rows).instrument(sending.span.clone()).await, J::KIND, doing, &sending)
}

/// How a write ended.
pub(crate) fn written(
    written: Result<Vec<Enqueued>, Unwritten>,
    kind: &'static str,
    doing: String,
    sending: &Sending,
) -> Result<Vec<Enqueued>, Error> {
    let one = written.as_ref().ok().and_then(|written| match &written[..] {
        [one] => Some(one.id().get()),
        _ => None,
    });
    sending.ends(one, written.is_err());
    written.map_err(|error| match error {
        Unwritten::Sql(source) => Error::Database { doing, source },
        Unwritten::TransactionOver => Error::config(format!("{doing}: {TRANSACTION_OVER}")),
        Unwritten::Duplicate { key, existing } => Error::Duplicate { kind, key, existing: existing.map(JobId::from) },
    })
}

impl<J: Job> From<J> for Enqueue<J> {
    fn from(job: J) -> Self {
        Self::new(job)
    }
}

/// Inserts many jobs of one type in a few round trips, all or none. Returns their ids in the order given.
///
/// Each item is a job, or a job with options. For a unique job whose key is taken, the id is that of the holder.
/// [`enqueue_all_unique`] reports which jobs are new.
///
/// A large batch takes several statements in one transaction. If `target` is already in a transaction, they follow a
/// savepoint. One statement has at most 1,000 jobs on MySQL and MariaDB, 5,000 on SQLite, and 64 MiB on PostgreSQL.
///
/// # Errors
/// As for [`Enqueue::enqueue`]. One unusable job refuses the whole batch before anything is written.
///
/// # Cancellation
/// Safe to drop. Through a pool, all jobs or none are written. In your own transaction, a dropped batch may be written
/// in part: roll back, either to a savepoint or completely. Your earlier writes are not affected. On MySQL and MariaDB,
/// sqlx does not survive a drop while it prepares a statement: the connection may stop answering.
///
/// ```
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let pool = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/doctest.rs")).await;
/// # use queue::job;
/// #[job]
/// async fn resize(image: i64) {
///     println!("resizing {image}");
/// }
///
/// let ids = queue::enqueue_all(&pool, (0..1000).map(|image| Resize { image })).await?;
/// assert_eq!(ids.len(), 1000);
/// # Ok(()) }
/// ```
pub fn enqueue_all<'a, J, T, I>(target: T, jobs: I) -> BoxFuture<'a, Result<Vec<JobId>, Error>>
where
    J: Job,
    T: Target + 'a,
    I: IntoIterator,
    I::Item: Into<Enqueue<J>>,
{
    write_all::<J, T, _>(target, jobs, Enqueued::id)
}

/// As [`enqueue_all`], but reports for each job whether it is new, was kept or was replaced. Several jobs of the batch
/// may have the same key: the first of them holds it for the later ones.
///
/// # Errors
/// As for [`enqueue_all`].
///
/// # Cancellation
/// As for [`enqueue_all`].
///
/// ```
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let pool = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/doctest.rs")).await;
/// # use queue::job;
/// #[job(unique)]
/// async fn index(page: i64) {
///     println!("indexing {page}");
/// }
///
/// let pages = [1, 2, 1];
/// let jobs = queue::enqueue_all_unique(&pool, pages.map(|page| Index { page })).await?;
/// assert!(jobs[0].is_new() && jobs[1].is_new() && !jobs[2].is_new());
/// # Ok(()) }
/// ```
pub fn enqueue_all_unique<'a, J, T, I>(target: T, jobs: I) -> BoxFuture<'a, Result<Vec<Enqueued>, Error>>
where
    J: Job,
    T: Target + 'a,
    I: IntoIterator,
    I::Item: Into<Enqueue<J>>,
{
    write_all::<J, T, _>(target, jobs, |it| it)
}

fn write_all<'a, J, T, R>(
    target: T,
    jobs: impl IntoIterator<Item: Into<Enqueue<J>>>,
    result: fn(Enqueued) -> R,
) -> BoxFuture<'a, Result<Vec<R>, Error>>
where
    J: Job,
    T: Target + 'a,
    R: 'a,
{
    let jobs: Vec<Enqueue<J>> = jobs.into_iter().map(Into::into).collect();
    let queue = |job: &Enqueue<J>| job.options.queue.clone().unwrap_or_else(|| J::QUEUE.to_owned());
    let sending = match jobs.first() {
        Some(first) => Sending::begin(J::KIND, &queue(first), Some(jobs.len())),
        None => Sending::later(),
    };
    let rows = jobs.into_iter().map(|job| job.into_row(&sending)).collect::<Result<Vec<_>, _>>();
    if rows.is_err() {
        sending.ends(None, true);
    }
    let write = async move {
        let rows = rows?;
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let doing = format!("cannot enqueue {} `{}`", rows.len(), J::KIND);
        Ok(write::<J, T>(target, rows, doing, sending).await?.into_iter().map(result).collect())
    };
    write.boxed()
}

/// A schedule with the job that it enqueues at each tick. [`#[job(schedule = …)]`](crate::job) declares them.
///
/// ```
/// use queue::job;
/// use queue::schedule::{Periodic, Schedule};
///
/// #[job]
/// async fn report(shop: u32) {
///     println!("{shop}");
/// }
///
/// # fn main() -> Result<(), queue::Error> {
/// let nightly = Periodic::new("report-7", Schedule::cron("@daily Europe/Berlin")?, Report { shop: 7 });
/// # let _ = nightly; Ok(()) }
/// ```
#[cfg(feature = "schedules")]
#[derive(Debug, Clone)]
pub struct Periodic<J> {
    name: String,
    schedule: Schedule,
    job: Enqueue<J>,
}

#[cfg(feature = "schedules")]
impl<J: Job> Periodic<J> {
    /// A schedule has a name of at most 128 bytes, which is unique in its database. The job may have options: a queue,
    /// a priority and a number of retries.
    pub fn new(name: impl Into<String>, schedule: Schedule, job: impl Into<Enqueue<J>>) -> Self {
        Self { name: name.into(), schedule, job: job.into() }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// When it ticks. So a test can [`preview`](Schedule::preview) what code declares: `Report::schedules()?`.
    pub fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    pub(crate) fn definition(self) -> Result<Definition, Error> {
        let Self { name, schedule, job } = self;
        let job = job.into_row(&Sending::later())?;
        if job.delay_us.is_some() || job.run_at_us.is_some() {
            return Err(Error::config(format!(
                "the job of the schedule `{}` has a time of its own: leave `after` and `at` out, its ticks say when",
                name.escape_debug()
            )));
        }
        if job.meta.is_some() {
            return Err(Error::config(format!(
                "the job of the schedule `{}` has metadata, which schedules do not keep: leave `meta` out, or make it an \
                 argument",
                name.escape_debug()
            )));
        }
        Definition::new(name, &schedule, job)
    }
}
