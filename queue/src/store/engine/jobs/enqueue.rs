//! The one way into `queue_jobs`: single, grouped, batch, unique and schedule enqueues. What rows of a batch have in
//! common, and how many go into one statement.

use std::borrow::Borrow;

use crate::store::engine::dialect::Dialect;
use crate::store::engine::driver::{Bind, ids};
use crate::store::engine::unique;
use crate::store::values::{NewJob, Unwritten, Whose};
use crate::telemetry;
use crate::unique::Enqueued;

/// Inserts jobs, all or none. Some may be unique. Returns the job that stands for each request. `signal`: wakes the
/// workers of all processes with this payload, if [`can_signal`].
pub(crate) async fn enqueue<DB: Dialect>(
    conn: &mut DB::Connection,
    jobs: &[NewJob],
    whose: Whose,
    signal: Option<&str>,
) -> Result<Vec<Enqueued>, Unwritten> {
    if jobs.iter().any(|job| job.unique.is_some()) {
        let placed = unique::enqueue::<DB>(conn, jobs, whose).await?;
        let is_new = |(job, placed)| matches!(placed, &Enqueued::New(_)).then_some(job);
        telemetry::enqueued(|| jobs.iter().zip(&placed).filter_map(is_new).collect());
        return Ok(placed);
    }
    let ids = match (jobs, DB::INSERT_AND_NOTIFY, signal) {
        ([job], Some(sql), Some(signal)) => {
            let [kind, queue, priority, max_retries, args, ..] = job.binds();
            ids::<DB>(conn, sql, &[kind, queue, priority, max_retries, args, signal.into()]).await?
        }
        _ => DB::insert(conn, jobs, whose).await?,
    };
    telemetry::enqueued(|| jobs.iter().collect());
    Ok(ids.into_iter().map(|id| Enqueued::New(id.into())).collect())
}

/// Whether the statement that inserts this job can also send the signal.
pub(crate) fn can_signal<DB: Dialect>(job: &NewJob) -> bool {
    job.is_due_now() && job.unique.is_none() && job.meta.is_none() && DB::INSERT_AND_NOTIFY.is_some()
}

impl NewJob {
    /// Kind, queue, priority, retries, arguments, delay, time: the binds of every statement that inserts one job
    /// without metadata.
    pub(crate) fn binds(&self) -> [Bind<'_>; 7] {
        [
            (&*self.kind).into(),
            (&*self.queue).into(),
            i64::from(self.priority).into(),
            self.max_retries.map(i64::from).into(),
            self.args.as_str().into(),
            self.delay_us.into(),
            self.run_at_us.into(),
        ]
    }

    pub(crate) fn is_due_now(&self) -> bool {
        self.delay_us.is_none() && self.run_at_us.is_none()
    }
}

#[cfg(test)]
impl NewJob {
    /// For tests: due at once, without arguments or retries.
    pub(crate) fn example(kind: &'static str) -> Self {
        Self {
            kind: kind.into(),
            queue: "default".into(),
            priority: 0,
            max_retries: Some(0),
            delay_us: None,
            run_at_us: None,
            args: "{}".into(),
            meta: None,
            unique: None,
        }
    }
}

/// Whether the jobs are due at once and differ only in their arguments, as in nearly every batch. Then
/// the common values are sent once.
pub(crate) fn alike(jobs: &[NewJob]) -> bool {
    let Some(first) = jobs.first() else { return false };
    jobs.iter().all(|job| {
        (&job.kind, job.priority, job.max_retries) == (&first.kind, first.priority, first.max_retries)
            && job.queue == first.queue
            && job.is_due_now()
            && job.meta.is_none()
    })
}

/// How many of `jobs` go into one statement: at least one, at most `most`, with at most `bytes` of arguments in total.
pub(crate) fn fitting<J: Borrow<NewJob>>(jobs: &[J], most: usize, bytes: usize) -> usize {
    let mut sum = 0;
    let fits = jobs.iter().map(Borrow::borrow).take(most).take_while(|job| {
        sum += job.args.len() + job.meta.as_ref().map_or(0, String::len);
        sum <= bytes
    });
    fits.count().max(1).min(jobs.len())
}

/// The jobs in parts that [fit](fitting) into one statement.
pub(crate) fn parts<J: Borrow<NewJob>>(mut rest: &[J], most: usize, bytes: usize) -> impl Iterator<Item = &[J]> {
    std::iter::from_fn(move || {
        let (part, later) = rest.split_at(fitting(rest, most, bytes));
        rest = later;
        (!part.is_empty()).then_some(part)
    })
}

/// The arguments as one JSON list. Objects and lists go in as they are, which saves the reader a second level of
/// quotes; anything else is quoted. Each element reads back as the original text.
pub(crate) fn args_list<J: Borrow<NewJob>>(jobs: &[J]) -> String {
    let bytes: usize = jobs.iter().map(|job| job.borrow().args.len() + 1).sum();
    let mut list = String::with_capacity(bytes + 2);
    for job in jobs.iter().map(Borrow::borrow) {
        list.push(if list.is_empty() { '[' } else { ',' });
        if job.args.starts_with(['{', '[']) {
            list += &job.args;
        } else {
            list += &serde_json::to_string(&job.args).expect("text serializes");
        }
    }
    list + "]"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(args: &str) -> NewJob {
        NewJob { max_retries: Some(1), args: args.into(), ..NewJob::example("a") }
    }

    #[test]
    fn jobs_are_alike_when_only_their_arguments_differ() {
        assert!(alike(&[job("{}"), job("[1]")]));
        let others = [
            NewJob { kind: "b".into(), ..job("{}") },
            NewJob { queue: "other".into(), ..job("{}") },
            NewJob { priority: 1, ..job("{}") },
            NewJob { max_retries: Some(0), ..job("{}") },
            NewJob { delay_us: Some(1), ..job("{}") },
            NewJob { run_at_us: Some(1), ..job("{}") },
            NewJob { meta: Some("{}".into()), ..job("{}") },
        ];
        for other in others {
            assert!(!alike(&[job("{}"), other.clone()]), "{other:?}");
        }
        assert!(!alike(&[NewJob { delay_us: Some(1), ..job("{}") }]), "due later");
        assert!(!alike(&[]));
    }

    #[test]
    fn a_list_of_arguments_quotes_what_is_neither_object_nor_list() {
        let args = [r#"{"a":"\u0000é"}"#, "[1.50]", "7", "null", r#""text""#].map(job);
        assert_eq!(args_list(&args), r#"[{"a":"\u0000é"},[1.50],"7","null","\"text\""]"#);
    }

    #[test]
    fn a_statement_is_bounded_by_jobs_and_by_bytes() {
        let jobs = [job("1234"), job("1234"), job("123456789")];
        assert_eq!(fitting(&jobs, 9, 100), 3);
        assert_eq!(fitting(&jobs, 2, 100), 2);
        assert_eq!(fitting(&jobs, 9, 8), 2);
        assert_eq!(fitting(&jobs[2..], 9, 8), 1, "one is always tried");
    }
}
