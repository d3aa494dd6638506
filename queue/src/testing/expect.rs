//! Assertions about what waits in the queue.

use std::fmt::{Debug, Write};
use std::ops::Deref;

use crate::error::Error;
use crate::job::Job;
use crate::store::view::JobRow;
use crate::testing::{Lent, TestQueue};

/// A waiting job, as [`assert_enqueued!`](crate::testing::assert_enqueued) found it. Dereferences to the job.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct EnqueuedJob<J> {
    /// The decoded job.
    pub job: J,
    /// Its row: id, queue, priority, due time and so on.
    pub row: JobRow,
}

impl<J> Deref for EnqueuedJob<J> {
    type Target = J;

    fn deref(&self) -> &J {
        &self.job
    }
}

/// At most this many jobs are printed.
const MOST_PRINTED: usize = 20;

/// The first waiting job that matches. Error: what there is instead. For
/// [`assert_enqueued!`](crate::testing::assert_enqueued).
#[doc(hidden)]
pub async fn find<J: Job + Debug, C: Lent>(
    queue: &mut TestQueue<C>,
    pattern: &str,
    matches: impl Fn(&J) -> bool,
) -> Result<EnqueuedJob<J>, String> {
    let (jobs, all) = decoded::<J, C>(queue).await?;
    let found = jobs.into_iter().find(|it| matches(&it.job));
    found.ok_or_else(|| format!("no waiting job matches `{pattern}`\n{all}"))
}

/// Error: a waiting job matches. For [`refute_enqueued!`](crate::testing::refute_enqueued).
#[doc(hidden)]
pub async fn refute<J: Job + Debug, C: Lent>(
    queue: &mut TestQueue<C>,
    pattern: &str,
    matches: impl Fn(&J) -> bool,
) -> Result<(), String> {
    let (jobs, all) = decoded::<J, C>(queue).await?;
    match jobs.iter().find(|it| matches(&it.job)) {
        Some(it) => Err(format!("job {} matches `{pattern}`, and none should\n{all}", it.row.id)),
        None => Ok(()),
    }
}

/// The waiting jobs of a kind, and all of them as text.
async fn decoded<J: Job + Debug, C: Lent>(queue: &mut TestQueue<C>) -> Result<(Vec<EnqueuedJob<J>>, String), String> {
    let rows = queue.waiting::<J>().await.map_err(|error| told(&error))?;
    let mut text = match rows.len() {
        0 => format!("no `{}` waits", J::KIND),
        1 => format!("1 `{}` waits:", J::KIND),
        count => format!("{count} `{}` wait:", J::KIND),
    };
    let more = rows.len().saturating_sub(MOST_PRINTED);
    let mut jobs = Vec::new();
    for (number, row) in rows.into_iter().enumerate() {
        let job = serde_json::from_str::<J>(&row.args);
        if number < MOST_PRINTED {
            let place = format!("queue {}, due {}, attempt {}", row.job.queue, row.job.run_at, row.job.attempt);
            let _ = match &job {
                Ok(job) => write!(text, "\n  {}: {job:?} ({place})", row.job.id),
                Err(error) => write!(text, "\n  {}: {} does not decode: {error} ({place})", row.job.id, row.args),
            };
        }
        jobs.extend(job.ok().map(|job| EnqueuedJob { job, row: row.job }));
    }
    if more > 0 {
        let _ = write!(text, "\n  … and {more} more");
    }
    Ok((jobs, text))
}

fn told(error: &Error) -> String {
    format!("the queue cannot be read: {error}")
}

/// Fails the test unless a matching job waits, and gives back the first one as an
/// [`EnqueuedJob`]. The job need not be due. Failed jobs that wait for their retry count, jobs
/// that have ended do not.
///
/// The second argument is a pattern of the job's struct, with an optional condition. All bindings are references. On
/// failure it prints the waiting jobs of that kind.
///
/// ```
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let pool = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/doctest.rs")).await;
/// use queue::testing::{TestQueue, assert_enqueued};
/// use queue::{Job, job};
///
/// #[job]
/// async fn send_email(to: String, urgent: bool) {}
///
/// let mut tx = pool.begin().await?;
/// let mut queue = TestQueue::within(&mut tx);
/// SendEmail::new("ada@example.org", true).enqueue(&mut *queue).await?;
///
/// let mail = assert_enqueued!(queue, SendEmail { to, urgent: true } if to.ends_with("example.org"));
/// assert_eq!(mail.to, "ada@example.org");
/// assert_eq!(mail.row.queue, "default");
/// # Ok(()) }
/// ```
#[doc(hidden)]
#[macro_export]
macro_rules! __assert_enqueued {
    ($queue:expr, $job:path { $($fields:tt)* } $(if $guard:expr)? $(,)?) => {{
        let pattern = ::core::concat!(
            ::core::stringify!($job), " { ", ::core::stringify!($($fields)*), " }"
            $(, " if ", ::core::stringify!($guard))?
        );
        let matches = |job: &$job| ::core::matches!(job, $job { $($fields)* } $(if $guard)?);
        match $crate::testing::find::<$job, _>(&mut $queue, pattern, matches).await {
            ::core::result::Result::Ok(found) => found,
            ::core::result::Result::Err(report) => ::core::panic!("{report}"),
        }
    }};
}

/// Fails the test if a matching job waits. See [`assert_enqueued!`](crate::testing::assert_enqueued).
///
/// ```
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let pool = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/doctest.rs")).await;
/// use queue::job;
/// use queue::testing::{TestQueue, refute_enqueued};
///
/// #[job]
/// async fn remind(user: u32) {}
///
/// let mut queue = TestQueue::new(&pool);
/// refute_enqueued!(queue, Remind { .. });
/// # Ok(()) }
/// ```
#[doc(hidden)]
#[macro_export]
macro_rules! __refute_enqueued {
    ($queue:expr, $job:path { $($fields:tt)* } $(if $guard:expr)? $(,)?) => {{
        let pattern = ::core::concat!(
            ::core::stringify!($job), " { ", ::core::stringify!($($fields)*), " }"
            $(, " if ", ::core::stringify!($guard))?
        );
        let matches = |job: &$job| ::core::matches!(job, $job { $($fields)* } $(if $guard)?);
        match $crate::testing::refute::<$job, _>(&mut $queue, pattern, matches).await {
            ::core::result::Result::Ok(()) => {}
            ::core::result::Result::Err(report) => ::core::panic!("{report}"),
        }
    }};
}
