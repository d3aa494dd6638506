//! Why a job does not run: a decision from a few facts, without I/O.

use std::collections::BTreeMap;
use std::fmt;

use chrono::{DateTime, TimeDelta, Utc};
use serde::Serialize;

use crate::gauges::{Count, Depth};
use crate::state::{JobId, JobState};
use crate::store::view::{JobRow, WorkerInfo};

/// A ready job that nothing holds back starts within this time.
const SOON: TimeDelta = TimeDelta::seconds(30);

/// Why a job does not run. See [`Admin::why`](crate::admin::Admin::why).
///
/// Its text is one sentence: "job 7 (send_email, queue mail): its queue has been paused since 2026-11-28 09:12:00 UTC".
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Why {
    /// The job.
    pub job: JobId,
    /// Its kind.
    pub kind: String,
    /// Its queue.
    pub queue: String,
    /// The reason.
    pub reason: Reason,
    /// What would cure it. `None`: nothing is wrong, or only time helps.
    pub cure: Option<String>,
    /// How the reason is known.
    pub known_by: &'static str,
    /// The time at which that was so, by the database's clock.
    pub at: DateTime<Utc>,
}

/// The one reason for which a job does not run. See [`Why`].
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "name")]
#[non_exhaustive]
pub enum Reason {
    /// It has completed.
    Completed,
    /// It was cancelled.
    Cancelled {
        /// Why.
        error: Option<String>,
    },
    /// It is a dead letter.
    Dead {
        /// Its last error.
        error: Option<String>,
    },
    /// A worker has it: it runs, or waits for a slot of that worker, which claims ahead.
    Running {
        /// On this worker, as `host:pid` while that is known.
        worker: String,
        /// Since when.
        since: Option<DateTime<Utc>>,
    },
    /// A worker has it, and was told to stop it.
    Stopping {
        /// On this worker, as `host:pid` while that is known.
        worker: String,
    },
    /// Its worker is lost. Another one takes the job back.
    WorkerLost {
        /// The worker, as `host:pid` while that is known.
        worker: String,
        /// Whether a worker is alive that can do so.
        others: bool,
    },
    /// Its last attempt failed, and the next one is not due yet.
    Retrying {
        /// When it is due.
        at: DateTime<Utc>,
        /// The error.
        error: Option<String>,
    },
    /// It is not due yet.
    NotDue {
        /// When it is due.
        at: DateTime<Utc>,
    },
    /// Its queue is paused.
    Paused {
        /// Since when.
        since: DateTime<Utc>,
    },
    /// No worker is alive.
    NoWorker,
    /// No live worker knows its kind.
    UnknownKind {
        /// A kind that workers know and that is spelt nearly like it.
        similar: Option<String>,
    },
    /// No live worker that knows its kind serves its queue.
    UnservedQueue {
        /// The queues that such workers serve.
        served: Vec<String>,
    },
    /// Every worker that could run it holds as many jobs as it may: of all queues, or of its queue if that has a limit.
    Busy {
        /// How many jobs they hold.
        running: u64,
        /// How many slots they have.
        slots: u64,
    },
    /// Other jobs of its kind, queue and priority come first.
    Behind {
        /// How many.
        ahead: Count,
    },
    /// Nothing that was looked at holds it back: it should start within moments.
    Next,
    /// A transaction has locked its row: a program or a person changes it, and has not committed.
    Locked,
    /// It has been due for a while, and nothing that is known holds it back.
    Unexplained {
        /// Since when it is due.
        due: DateTime<Utc>,
    },
}

/// What is known of a waiting job beside its row.
#[derive(Debug, Clone)]
pub(crate) struct Facts {
    pub(crate) now: DateTime<Utc>,
    /// Since when its queue is paused.
    pub(crate) paused_at: Option<DateTime<Utc>>,
    /// How many jobs of its lane come before it.
    pub(crate) ahead: Count,
    /// All workers that are known.
    pub(crate) workers: Vec<WorkerInfo>,
    /// A transaction has its row locked. It is looked for if nothing else explains why the job waits.
    pub(crate) locked: bool,
}

impl Why {
    pub(crate) fn of(job: &JobRow, facts: &Facts) -> Self {
        let reason = reason(job, facts);
        let (kind, queue) = (job.kind.clone(), job.queue.clone());
        let (cure, known_by) = cure(job, &reason);
        Self { job: job.id, kind, queue, reason, cure, known_by, at: facts.now }
    }
}

fn reason(job: &JobRow, facts: &Facts) -> Reason {
    let worker_of = |job: &JobRow| facts.workers.iter().find(|worker| Some(worker.id) == job.worker);
    let alive = || facts.workers.iter().filter(|worker| is_alive(worker));
    let error = job.error.clone();
    match job.state {
        JobState::Completed => return Reason::Completed,
        JobState::Cancelled => return Reason::Cancelled { error },
        JobState::Dead => return Reason::Dead { error },
        JobState::Running => {
            let (it, id) = (worker_of(job), job.worker.unwrap_or_default());
            let worker = it.map_or_else(|| format!("worker {id}"), |it| format!("{}:{}", it.host, it.pid));
            return match it {
                Some(it) if is_alive(it) => match job.cancel_requested {
                    true => Reason::Stopping { worker },
                    false => Reason::Running { worker, since: job.claimed_at },
                },
                _ => Reason::WorkerLost { worker, others: alive().next().is_some() },
            };
        }
        JobState::Scheduled if job.retrying => return Reason::Retrying { at: job.run_at, error },
        JobState::Scheduled => return Reason::NotDue { at: job.run_at },
        JobState::Ready => {}
    }
    if let Some(since) = facts.paused_at {
        return Reason::Paused { since };
    }
    if alive().next().is_none() {
        return Reason::NoWorker;
    }
    let knowing: Vec<_> = alive().filter(|worker| worker.kinds.contains(&job.kind)).collect();
    if knowing.is_empty() {
        let kinds = alive().flat_map(|worker| &worker.kinds);
        let near = kinds.map(|kind| (distance(kind, &job.kind), kind)).min();
        return Reason::UnknownKind {
            similar: near.filter(|(far, kind)| far * 4 <= kind.chars().count()).map(|(_, kind)| kind.clone()),
        };
    }
    let serving: Vec<_> = knowing.iter().filter(|worker| serves(worker, &job.queue)).collect();
    if serving.is_empty() {
        let mut served: Vec<_> = knowing.iter().flat_map(|worker| worker.queues.clone()).collect();
        served.sort_unstable();
        served.dedup();
        return Reason::UnservedQueue { served };
    }
    if serving.iter().all(|worker| is_busy(worker, &job.queue)) {
        let (mut running, mut slots) = (0, 0);
        for (held, most) in serving.iter().map(|worker| tightest(worker, &job.queue)) {
            (running, slots) = (running + held, slots + most);
        }
        return Reason::Busy { running, slots };
    }
    if facts.ahead.jobs > 0 {
        return Reason::Behind { ahead: facts.ahead };
    }
    if facts.locked {
        return Reason::Locked;
    }
    if facts.now - job.run_at < SOON { Reason::Next } else { Reason::Unexplained { due: job.run_at } }
}

/// What would cure it, and how the reason is known.
fn cure(job: &JobRow, reason: &Reason) -> (Option<String>, &'static str) {
    const ITS_ROW: &str = "its row";
    const ITS_ATTEMPT: &str = "its row and its last attempt";
    const WORKERS: &str = "the queues and kinds of the live workers";
    let JobRow { id, kind, queue, .. } = job;
    let name = kind.escape_debug();
    let (cure, known_by) = match reason {
        Reason::Completed => (None, ITS_ROW),
        Reason::Cancelled { .. } => (Some("enqueue it again, if it is wanted after all".into()), ITS_ROW),
        Reason::Dead { .. } => (Some(format!("fix the cause, then send job {id} back")), ITS_ATTEMPT),
        Reason::Running { .. } => (None, "its row, and the lease of its worker"),
        Reason::Stopping { .. } => (None, ITS_ROW),
        Reason::WorkerLost { others: true, .. } => (None, "the lease of its worker is over"),
        Reason::WorkerLost { others: false, .. } => (Some("start a worker".into()), "the lease of its worker is over"),
        Reason::Retrying { .. } => (Some(format!("fix the cause; retry job {id} to run it now")), ITS_ATTEMPT),
        Reason::NotDue { .. } => (Some(format!("retry job {id} to run it now")), ITS_ROW),
        Reason::Paused { .. } => (Some(format!("resume the queue `{}`", queue.escape_debug())), "the paused queues"),
        Reason::NoWorker => (Some("start a worker".into()), "no lease runs"),
        Reason::UnknownKind { similar: Some(similar) } => {
            let similar = similar.escape_debug();
            let cure = format!("is `{name}` a typo for `{similar}`? Otherwise deploy a worker that knows `{name}`");
            (Some(cure), WORKERS)
        }
        Reason::UnknownKind { similar: None } => (Some(format!("deploy a worker that knows `{name}`")), WORKERS),
        Reason::UnservedQueue { .. } => {
            (Some(format!("start a worker that serves `{}`", queue.escape_debug())), WORKERS)
        }
        Reason::Busy { .. } => (Some("wait, or give its workers more slots".into()), "the slots of the live workers"),
        Reason::Behind { .. } => (Some("wait, or start more workers".into()), "the order of its lane"),
        Reason::Next => (None, "its row, its lane and the live workers"),
        Reason::Locked => {
            (Some("end that transaction".into()), "a statement that skips locked rows does not find its row")
        }
        Reason::Unexplained { .. } => {
            (Some("look at the logs of its workers".into()), "nothing that was looked at explains it")
        }
    };
    (cure, known_by)
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, queue) = (self.kind.escape_debug(), self.queue.escape_debug());
        write!(f, "job {} ({kind}, queue {queue}): {}", self.job, self.reason)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = |time: &DateTime<Utc>| time.format("%F %T UTC").to_string();
        let because = |error: &Option<String>| {
            let first = error.as_ref().and_then(|error| error.lines().next());
            first.map_or_else(String::new, |error| format!(": {error}"))
        };
        match self {
            Self::Completed => write!(f, "it has completed"),
            Self::Cancelled { error } => write!(f, "it was cancelled{}", because(error)),
            Self::Dead { error } => write!(f, "it is a dead letter{}", because(error)),
            Self::Running { worker, since: Some(since) } => {
                write!(f, "{worker} has had it since {}: it runs there, or waits for a slot there", at(since))
            }
            Self::Running { worker, since: None } => {
                write!(f, "{worker} has it: it runs there, or waits for a slot there")
            }
            Self::Stopping { worker } => write!(
                f,
                "{worker} has it, and was told to stop it: it ends soon, or is dropped after its grace period"
            ),
            Self::WorkerLost { worker, others: true } => {
                write!(f, "its worker {worker} is lost; another one takes it back within seconds")
            }
            Self::WorkerLost { worker, others: false } => {
                write!(f, "its worker {worker} is lost, and no other one is alive to take it back")
            }
            Self::Retrying { at: due, error } => {
                write!(f, "its last attempt did not succeed, and the next one is due at {}{}", at(due), because(error))
            }
            Self::NotDue { at: due } => write!(f, "it is due at {}", at(due)),
            Self::Paused { since } => write!(f, "its queue has been paused since {}", at(since)),
            Self::NoWorker => write!(f, "no worker is alive"),
            Self::UnknownKind { .. } => write!(f, "no live worker knows its kind"),
            Self::UnservedQueue { served } => {
                let served = served.join("`, `");
                write!(f, "no live worker that knows its kind serves its queue, only `{}`", served.escape_debug())
            }
            Self::Busy { running, slots } => {
                write!(f, "its workers are busy: jobs held {running}, slots {slots}")
            }
            Self::Behind { ahead } => write!(f, "others of its kind, queue and priority come first: {ahead}"),
            Self::Next => write!(f, "nothing that was looked at holds it back: it should start within moments"),
            Self::Locked => write!(f, "a transaction that has not ended has its row locked"),
            Self::Unexplained { due } => {
                write!(f, "it has been due since {}, and nothing that was looked at holds it back", at(due))
            }
        }
    }
}

/// Jobs that wait for one reason. See [`Admin::why_summary`](crate::admin::Admin::why_summary).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Waiting {
    /// How many.
    pub jobs: Count,
    /// What they wait for, for example "for a worker that knows `send_emial`".
    pub reason: String,
    /// What would cure it. `None`: only time helps.
    pub cure: Option<String>,
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let waits = if self.jobs.jobs == 1 && !self.jobs.or_more { "waits" } else { "wait" };
        write!(f, "{} {waits} {}", self.jobs, self.reason)
    }
}

/// The most lines of a summary.
const MOST_LINES: usize = 6;

/// What the waiting jobs of these kinds and queues wait for, the most first.
/// `complete`: these are all kinds and queues.
pub(crate) fn summary(depths: &[Depth], complete: bool, workers: &[WorkerInfo]) -> Vec<Waiting> {
    let alive: Vec<_> = workers.iter().filter(|worker| is_alive(worker)).collect();
    let mut sums: BTreeMap<(String, Option<String>), Count> = BTreeMap::new();
    for depth in depths {
        let (kind, queue) = (depth.kind.escape_debug(), depth.queue.escape_debug());
        let knowing: Vec<_> = alive.iter().filter(|worker| worker.kinds.contains(&depth.kind)).collect();
        let serving: Vec<_> = knowing.iter().filter(|worker| serves(worker, &depth.queue)).collect();
        let (reason, cure) = if depth.paused {
            (format!("until the queue `{queue}` is resumed"), Some(format!("resume the queue `{queue}`")))
        } else if alive.is_empty() {
            ("for a worker: none is alive".to_owned(), Some("start a worker".to_owned()))
        } else if knowing.is_empty() {
            (format!("for a worker that knows `{kind}`"), Some(format!("deploy a worker that knows `{kind}`")))
        } else if serving.is_empty() {
            let cure = format!("start a worker that serves `{queue}` and knows `{kind}`");
            (format!("for a worker that serves the queue `{queue}`"), Some(cure))
        } else if serving.iter().all(|worker| is_busy(worker, &depth.queue)) {
            ("for a free slot".to_owned(), Some("wait, or give their workers more slots".to_owned()))
        } else {
            ("for their turn, which is soon".to_owned(), None)
        };
        for (count, reason) in
            [(depth.ready, (reason, cure)), (depth.scheduled, ("until they are due".to_owned(), None))]
        {
            if count.jobs > 0 {
                *sums.entry(reason).or_default() += count;
            }
        }
    }
    let mut lines: Vec<_> = sums.into_iter().map(|((reason, cure), jobs)| Waiting { jobs, reason, cure }).collect();
    lines.sort_by_key(|line| std::cmp::Reverse(line.jobs.jobs));
    if lines.len() > MOST_LINES {
        let rest = lines.split_off(MOST_LINES - 1);
        let mut jobs = Count::default();
        rest.iter().for_each(|line| jobs += line.jobs);
        let reason = format!("for {} other reasons", rest.len());
        lines.push(Waiting { jobs, reason, cure: Some("ask for one kind or queue".to_owned()) });
    }
    if !complete {
        let reason = "in kinds and queues that were not looked at: there are too many".to_owned();
        lines.push(Waiting { jobs: Count::at_least(0), reason, cure: None });
    }
    lines
}

fn is_alive(worker: &WorkerInfo) -> bool {
    worker.alive && worker.stopped_at.is_none()
}

fn is_busy(worker: &WorkerInfo, queue: &str) -> bool {
    let (held, most) = tightest(worker, queue);
    held >= most
}

/// How many jobs a worker holds and how many it may: of this queue if its own limit is reached, else of all.
fn tightest(worker: &WorkerInfo, queue: &str) -> (u64, u64) {
    let held = worker.held.get(queue).copied().unwrap_or(0);
    match worker.limits.get(queue).map(|most| u64::from(*most)) {
        Some(most) if held >= most => (held, most),
        _ => (worker.running, worker.concurrency.into()),
    }
}

fn serves(worker: &WorkerInfo, queue: &String) -> bool {
    worker.queues.is_empty() || worker.queues.contains(queue)
}

/// How many letters must change to make one text of the other. Two neighbours that change places count once.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut table = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            table[i][j] = match (i, j) {
                (0, _) => j,
                (_, 0) => i,
                _ => {
                    let other = usize::from(a[i - 1] != b[j - 1]);
                    let least = (table[i - 1][j - 1] + other).min(table[i - 1][j] + 1).min(table[i][j - 1] + 1);
                    match i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                        true => least.min(table[i - 2][j - 2] + 1),
                        false => least,
                    }
                }
            };
        }
    }
    table[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(second: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(1_800_000_000 + second, 0).expect("a time")
    }

    fn job(state: JobState) -> JobRow {
        JobRow {
            id: JobId::from(7),
            kind: "send_email".into(),
            queue: "mail".into(),
            state,
            priority: 0,
            attempt: 0,
            max_retries: None,
            enqueued_at: time(0),
            run_at: time(0),
            claimed_at: None,
            finished_at: None,
            worker: None,
            cancel_requested: false,
            retrying: false,
            error: None,
        }
    }

    fn worker(id: i64, queues: &[&str], kinds: &[&str]) -> WorkerInfo {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        WorkerInfo {
            id,
            host: "web".into(),
            pid: 1,
            concurrency: 2,
            queues: owned(queues),
            kinds: owned(kinds),
            started_at: time(0),
            heartbeat_at: time(0),
            stopped_at: None,
            alive: true,
            running: 0,
            limits: BTreeMap::new(),
            held: BTreeMap::new(),
        }
    }

    fn facts(workers: &[WorkerInfo]) -> Facts {
        Facts { now: time(1), paused_at: None, ahead: Count::exactly(0), workers: workers.to_vec(), locked: false }
    }

    #[test]
    fn a_job_that_does_not_wait_needs_its_row_and_its_worker() {
        let here = worker(3, &[], &[]);
        let gone = WorkerInfo { alive: false, ..worker(4, &[], &[]) };
        let on = |worker| JobRow { worker: Some(worker), claimed_at: Some(time(0)), ..job(JobState::Running) };
        let why = |job: &JobRow| Why::of(job, &facts(&[here.clone(), gone.clone()])).reason.to_string();
        assert_eq!(why(&job(JobState::Completed)), "it has completed");
        let dead = JobRow { error: Some("no such mailbox".into()), ..job(JobState::Dead) };
        assert_eq!(why(&dead), "it is a dead letter: no such mailbox");
        assert_eq!(why(&job(JobState::Cancelled)), "it was cancelled");
        assert_eq!(
            why(&on(3)),
            "web:1 has had it since 2027-01-15 08:00:00 UTC: it runs there, or waits for a slot there"
        );
        assert_eq!(
            why(&JobRow { cancel_requested: true, ..on(3) }),
            "web:1 has it, and was told to stop it: it ends soon, or is dropped after its grace period"
        );
        assert_eq!(why(&on(4)), "its worker web:1 is lost; another one takes it back within seconds");
        let nobody = Why::of(&on(9), &facts(std::slice::from_ref(&gone)));
        assert_eq!(nobody.reason, Reason::WorkerLost { worker: "worker 9".into(), others: false });
        assert_eq!(nobody.cure.as_deref(), Some("start a worker"));
    }

    #[test]
    fn the_first_thing_that_holds_a_job_back_is_the_reason() {
        let later = JobRow { run_at: time(60), ..job(JobState::Scheduled) };
        let retry = JobRow { retrying: true, error: Some("refused".into()), ..later.clone() };
        let paused = Facts { paused_at: Some(time(0)), ..facts(&[]) };
        let why = |job: &JobRow, facts: &Facts| Why::of(job, facts).reason;
        assert_eq!(why(&later, &paused), Reason::NotDue { at: time(60) });
        assert_eq!(why(&retry, &paused), Reason::Retrying { at: time(60), error: Some("refused".into()) });
        let ready = job(JobState::Ready);
        assert_eq!(why(&ready, &paused), Reason::Paused { since: time(0) });
        assert_eq!(why(&ready, &facts(&[])), Reason::NoWorker);
        let stopped = WorkerInfo { stopped_at: Some(time(0)), ..worker(1, &[], &["send_email"]) };
        assert_eq!(why(&ready, &facts(&[stopped])), Reason::NoWorker);
        let slip = Some("send_emial".to_owned());
        assert_eq!(why(&ready, &facts(&[worker(1, &[], &["a", "send_emial"])])), Reason::UnknownKind { similar: slip });
        assert_eq!(why(&ready, &facts(&[worker(1, &[], &["greet"])])), Reason::UnknownKind { similar: None });
        let elsewhere = worker(1, &["default", "a"], &["send_email"]);
        let not_its_kind = worker(2, &["mail"], &["greet"]);
        let served = vec!["a".to_owned(), "default".to_owned()];
        assert_eq!(why(&ready, &facts(&[elsewhere.clone(), not_its_kind])), Reason::UnservedQueue { served });
        let busy = WorkerInfo { running: 2, ..worker(1, &["mail"], &["send_email"]) };
        assert_eq!(why(&ready, &facts(&[busy.clone(), elsewhere])), Reason::Busy { running: 2, slots: 2 });
        let limited = WorkerInfo {
            limits: [("mail".to_owned(), 1)].into(),
            held: [("mail".to_owned(), 1)].into(),
            running: 1,
            ..worker(3, &["mail", "a"], &["send_email"])
        };
        let full = [limited.clone(), busy.clone()];
        assert_eq!(why(&ready, &facts(&full)), Reason::Busy { running: 3, slots: 3 });
        let room = WorkerInfo { held: BTreeMap::new(), ..limited };
        assert_eq!(why(&ready, &facts(&[room])), Reason::Next);
        let free = Facts { ahead: Count::at_least(10_000), ..facts(&[busy, worker(2, &[], &["send_email"])]) };
        assert_eq!(why(&ready, &free), Reason::Behind { ahead: Count::at_least(10_000) });
        let free = Facts { ahead: Count::exactly(0), ..free };
        assert_eq!(why(&ready, &free), Reason::Next);
        let late = Facts { now: time(31), ..free };
        assert_eq!(why(&ready, &late), Reason::Unexplained { due: time(0) });
        assert_eq!(why(&ready, &Facts { locked: true, ..late }), Reason::Locked);
    }

    #[test]
    fn each_reason_is_a_sentence_that_says_what_to_do() {
        let slip = facts(&[worker(1, &[], &["send_emial"])]);
        let why = Why::of(&job(JobState::Ready), &slip);
        assert_eq!(why.reason.to_string(), "no live worker knows its kind");
        let cure = "is `send_email` a typo for `send_emial`? Otherwise deploy a worker that knows `send_email`";
        assert_eq!(why.cure.as_deref(), Some(cure));
        let one = facts(&[worker(1, &["a"], &["send_email"])]);
        let text = Why::of(&job(JobState::Ready), &one).reason.to_string();
        assert_eq!(text, "no live worker that knows its kind serves its queue, only `a`");
        assert_eq!(why.to_string(), "job 7 (send_email, queue mail): no live worker knows its kind");
    }

    #[test]
    fn a_summary_has_a_line_for_each_reason() {
        let depth = |kind: &str, queue: &str, ready, scheduled| Depth {
            ready: Count::exactly(ready),
            scheduled: Count::exactly(scheduled),
            ..Depth::new(kind, queue)
        };
        let lines = |depths: &[Depth], workers: &[WorkerInfo]| -> Vec<String> {
            summary(depths, true, workers).iter().map(Waiting::to_string).collect()
        };
        let here = worker(1, &["a", "b"], &["mail"]);
        let busy = WorkerInfo { running: 2, ..worker(2, &["c"], &["mail"]) };
        let paused = Depth { paused: true, ..depth("mail", "p", 31_204, 0) };
        let all = [depth("mail", "a", 7, 100), depth("mial", "a", 12, 1), depth("mail", "x", 3, 0), paused];
        assert_eq!(
            lines(&all, std::slice::from_ref(&here)),
            [
                "31204 wait until the queue `p` is resumed",
                "101 wait until they are due",
                "12 wait for a worker that knows `mial`",
                "7 wait for their turn, which is soon",
                "3 wait for a worker that serves the queue `x`",
            ]
        );
        assert_eq!(lines(&[depth("mail", "c", 2, 0)], &[here.clone(), busy]), ["2 wait for a free slot"]);
        assert_eq!(lines(&[depth("mail", "a", 1, 0)], &[]), ["1 waits for a worker: none is alive"]);
        assert_eq!(lines(&[depth("mail", "a", 0, 0)], &[]), [""; 0]);
        let many: Vec<_> = (0..20).map(|n| depth(&format!("k{n}"), "a", 20 - n, 0)).collect();
        let found = lines(&many, &[here]);
        assert_eq!((found.len(), &*found[5]), (6, "120 wait for 15 other reasons"));
        let more = summary(&[], false, &[]);
        assert!(
            more[0].to_string().starts_with("0 or more wait in kinds and queues that were not looked at"),
            "{more:?}"
        );
    }

    #[test]
    fn distance_counts_letters() {
        for (a, b, far) in [
            ("", "", 0),
            ("mail", "mial", 1),
            ("ping", "pong", 1),
            ("ab", "bca", 3),
            ("mail", "mails", 1),
            ("ä", "a", 1),
            ("abc", "", 3),
        ] {
            assert_eq!((distance(a, b), distance(b, a)), (far, far), "{a} {b}");
        }
    }
}
