//! Random operations on a database and on a small model of the states in Rust. Both must agree after each operation.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use chrono::TimeDelta;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use queue::admin::{Filter, Reason};
use queue::unique::{Enqueued, OnConflict, UniqueUntil};
use queue::{Enqueue, Error, Job, JobId, JobState};
use queue_tests::jobs::Play;
use queue_tests::{Db, Probe, Step, What, eventually};
use tokio::runtime::Handle;

conformance! {
    states_follow_the_model,
}

const QUEUES: [&str; 3] = ["default", "mail", "third"];
const HOUR: u64 = 3_600_000;
/// What [`Play`] declares.
const DECLARED_RETRIES: u32 = 2;

/// How one run ends.
#[derive(Debug, Clone, Copy)]
enum End {
    Completes,
    Fails,
    FailsForLong,
    Panics,
    Dies,
    Cancels,
    Snoozes,
    SnoozesForLong,
}

#[derive(Debug, Clone, Copy)]
enum Due {
    Past,
    Now,
    Future,
}

#[derive(Debug, Clone, Copy)]
enum Way {
    Pool,
    Bulk,
    Committed,
    RolledBack,
    Sql,
}

/// How a new job is unique.
#[derive(Debug, Clone, Copy)]
struct Key {
    name: &'static str,
    until: UniqueUntil,
    on_conflict: OnConflict,
}

#[derive(Debug, Clone)]
struct New {
    key: Option<Key>,
    script: Vec<End>,
    due: Due,
    priority: i16,
    queue: usize,
    max_retries: Option<u32>,
    way: Way,
}

/// Jobs are named by a number, taken modulo those that there are.
#[derive(Debug, Clone)]
enum Op {
    Enqueue(New),
    Pause(usize),
    Resume(usize),
    Cancel(usize),
    Retry(usize),
    SendBack(usize),
    Delete(usize),
    Reschedule(usize, Due),
    Edit(usize, Vec<End>),
    CancelAll(usize),
    RetryAll(usize),
    SendBackAll(usize),
    DeleteAll(usize, JobState),
    RescheduleAll(usize, Due),
    /// A worker takes the job and dies.
    Lose(usize),
    /// A worker serves all queues, or one, until nothing is left to do.
    Work(Option<usize>),
}

fn script() -> impl Strategy<Value = Vec<End>> {
    use End::*;
    let any = prop::sample::select(vec![
        Completes,
        Fails,
        Fails,
        FailsForLong,
        Panics,
        Dies,
        Cancels,
        Snoozes,
        SnoozesForLong,
    ]);
    // the last one is repeated: it must not ask for another run at once for ever
    let last =
        prop::sample::select(vec![Completes, Completes, Fails, FailsForLong, Panics, Dies, Cancels, SnoozesForLong]);
    (prop::collection::vec(any, 0..4), last).prop_map(|(mut script, last)| {
        script.push(last);
        script
    })
}

fn due() -> impl Strategy<Value = Due> {
    prop::sample::select(vec![Due::Past, Due::Now, Due::Now, Due::Future])
}

fn key() -> impl Strategy<Value = Key> {
    let how = prop::sample::select(vec![
        (UniqueUntil::End, OnConflict::Keep),
        (UniqueUntil::End, OnConflict::Reject),
        (UniqueUntil::Start, OnConflict::Keep),
        (UniqueUntil::Start, OnConflict::Replace),
        (UniqueUntil::Start, OnConflict::Reject),
    ]);
    (prop::sample::select(vec!["a", "b"]), how).prop_map(|(name, (until, on_conflict))| Key {
        name,
        until,
        on_conflict,
    })
}

fn op() -> impl Strategy<Value = Op> {
    let queue = || 0..QUEUES.len();
    let job = || any::<usize>();
    let way = prop::sample::select(vec![Way::Pool, Way::Bulk, Way::Committed, Way::RolledBack, Way::Sql]);
    let retries = prop::option::of(0..4u32);
    let new = (prop::option::weighted(0.6, key()), script(), due(), -1..2i16, queue(), retries, way).prop_map(
        |(key, script, due, priority, queue, max_retries, way)| {
            Op::Enqueue(New { key, script, due, priority, queue, max_retries, way })
        },
    );
    let waiting_or_over =
        prop::sample::select(vec![JobState::Scheduled, JobState::Completed, JobState::Cancelled, JobState::Dead]);
    prop_oneof![
        14 => new,
        2 => queue().prop_map(Op::Pause),
        3 => queue().prop_map(Op::Resume),
        4 => job().prop_map(Op::Cancel),
        4 => job().prop_map(Op::Retry),
        4 => job().prop_map(Op::SendBack),
        3 => job().prop_map(Op::Delete),
        4 => (job(), due()).prop_map(|(job, due)| Op::Reschedule(job, due)),
        3 => (job(), script()).prop_map(|(job, script)| Op::Edit(job, script)),
        1 => queue().prop_map(Op::CancelAll),
        1 => queue().prop_map(Op::RetryAll),
        1 => queue().prop_map(Op::SendBackAll),
        1 => (queue(), waiting_or_over).prop_map(|(queue, state)| Op::DeleteAll(queue, state)),
        1 => (queue(), due()).prop_map(|(queue, due)| Op::RescheduleAll(queue, due)),
        4 => job().prop_map(Op::Lose),
        7 => prop::option::weighted(0.3, queue()).prop_map(Op::Work),
    ]
}

/// What the model knows of a job.
#[derive(Debug, Clone)]
struct Modelled {
    state: JobState,
    queue: usize,
    priority: i16,
    attempt: u32,
    max_retries: Option<u32>,
    cancel_requested: bool,
    script: Vec<End>,
    runs: usize,
    key: Option<Key>,
    /// How often a worker has taken it.
    claims: u32,
}

/// The last job that took a key, and its claims then.
#[derive(Debug, Clone, Copy)]
struct Holder {
    id: JobId,
    until: UniqueUntil,
    claims: u32,
}

#[derive(Debug, Default)]
struct Model {
    jobs: BTreeMap<JobId, Modelled>,
    /// Every job that there ever was, so that operations meet deleted ones as well.
    ids: Vec<JobId>,
    runs_of_deleted: BTreeMap<JobId, usize>,
    paused: BTreeSet<usize>,
    keys: BTreeMap<&'static str, Holder>,
}

/// What the library answers.
#[derive(Debug, PartialEq)]
enum Answer {
    Done,
    Conflict(JobState),
    NotFound,
    /// By this job.
    KeyTaken(JobId),
}

impl Modelled {
    fn waits(&self) -> bool {
        matches!(self.state, JobState::Scheduled | JobState::Ready)
    }

    fn may_try_again(&self) -> bool {
        self.attempt <= self.max_retries.unwrap_or(DECLARED_RETRIES)
    }

    fn claim(&mut self) {
        self.attempt += 1;
        self.claims += 1;
        self.max_retries.get_or_insert(DECLARED_RETRIES);
        self.state = JobState::Running;
    }

    /// Runs it as long as it is ready.
    fn run(&mut self) {
        while self.state == JobState::Ready {
            self.claim();
            let end = self.script[self.runs.min(self.script.len() - 1)];
            self.runs += 1;
            self.state = match end {
                End::Completes => JobState::Completed,
                End::Dies => JobState::Dead,
                End::Cancels => JobState::Cancelled,
                End::Fails | End::FailsForLong | End::Panics if !self.may_try_again() => JobState::Dead,
                End::Fails | End::Panics => JobState::Ready,
                End::FailsForLong => JobState::Scheduled,
                End::Snoozes | End::SnoozesForLong => {
                    self.attempt -= 1;
                    if matches!(end, End::Snoozes) { JobState::Ready } else { JobState::Scheduled }
                }
            };
        }
    }

    /// Only jobs of dead workers are running between two operations.
    fn rescue(&mut self) {
        if self.state == JobState::Running {
            self.state = match self.may_try_again() {
                false => JobState::Dead,
                true if self.cancel_requested => JobState::Cancelled,
                true => JobState::Ready,
            };
        }
    }

    fn reschedule(&mut self, due: Due) {
        self.state = if matches!(due, Due::Future) { JobState::Scheduled } else { JobState::Ready };
    }

    fn send_back(&mut self) {
        (self.state, self.attempt) = (JobState::Ready, 0);
    }
}

impl Model {
    /// The job that has a key.
    fn holder(&self, key: &str) -> Option<JobId> {
        let Holder { id, until, claims } = *self.keys.get(key)?;
        let job = self.jobs.get(&id).filter(|job| job.waits() || job.state == JobState::Running)?;
        (until == UniqueUntil::End || job.claims == claims).then_some(id)
    }

    fn take(&mut self, key: Option<Key>, id: JobId) {
        if let Some(Key { name, until, .. }) = key {
            self.keys.insert(name, Holder { id, until, claims: self.jobs[&id].claims });
        }
    }

    /// Sends dead letters back. Of several with one key, the newest goes. Returns those that cannot, with the holders.
    fn send_back(&mut self, mut ids: Vec<JobId>) -> Vec<(JobId, JobId)> {
        ids.sort_unstable();
        ids.reverse();
        let mut refused = Vec::new();
        for id in ids {
            let key = self.jobs[&id].key;
            if let Some(holder) = key.and_then(|key| self.holder(key.name)) {
                refused.push((id, holder));
                continue;
            }
            self.jobs.get_mut(&id).expect("a dead letter").send_back();
            self.take(key, id);
        }
        refused
    }

    fn of_queue(&mut self, queue: usize) -> impl Iterator<Item = &mut Modelled> {
        self.jobs.values_mut().filter(move |job| job.queue == queue)
    }

    fn remove(&mut self, id: JobId) {
        if let Some(job) = self.jobs.remove(&id) {
            self.runs_of_deleted.insert(id, job.runs);
        }
    }

    fn work(&mut self, queue: Option<usize>) {
        let paused = self.paused.clone();
        for job in self.jobs.values_mut() {
            job.rescue();
            if queue.is_none_or(|queue| queue == job.queue) && !paused.contains(&job.queue) {
                job.run();
            }
        }
    }

    /// The rows of `queue_all`, as text.
    fn rows(&self) -> Vec<String> {
        let row = |(id, job): (&JobId, &Modelled)| {
            let retries = job.max_retries.map_or("-".to_owned(), |n| n.to_string());
            let Modelled { queue, state, priority, attempt, .. } = job;
            format!("{id} {} {state} {priority} {attempt} {retries}", QUEUES[*queue])
        };
        self.jobs.iter().map(row).collect()
    }

    fn runs(&self) -> BTreeMap<JobId, usize> {
        let living = self.jobs.iter().map(|(id, job)| (*id, job.runs));
        living.chain(self.runs_of_deleted.clone()).filter(|(_, runs)| *runs > 0).collect()
    }
}

/// An operation on one job, or None when there never was one. Says what the model expects and what the library did.
macro_rules! on_one {
    ($self:ident, $number:expr, |$job:ident| $model:expr, |$id:ident| $real:expr) => {{
        let Some($id) = $self.pick($number) else { return Ok(()) };
        let expected = match $self.model.jobs.get_mut(&$id) {
            None => Answer::NotFound,
            Some($job) => {
                let before = $job.state;
                let done: bool = $model;
                if done { Answer::Done } else { Answer::Conflict(before) }
            }
        };
        let real = answer($real.await);
        prop_assert_eq!(real, expected, "job {}", $id);
    }};
}

fn answer(result: Result<(), Error>) -> Answer {
    match result {
        Ok(()) => Answer::Done,
        Err(Error::NotFound(_)) => Answer::NotFound,
        Err(Error::Conflict { state, .. }) => Answer::Conflict(state),
        Err(Error::KeyTaken { holder, .. }) => Answer::KeyTaken(holder),
        Err(error) => panic!("{error}"),
    }
}

fn steps(script: &[End]) -> Vec<Step> {
    let step = |end: &End| match end {
        End::Completes => Step::Complete,
        End::Fails => Step::RetryAfter(0, "no".into()),
        End::FailsForLong => Step::RetryAfter(HOUR, "not now".into()),
        End::Panics => Step::Panic("scripted".into()),
        End::Dies => Step::Die("never".into()),
        End::Cancels => Step::Cancel("no need".into()),
        End::Snoozes => Step::Snooze(0),
        End::SnoozesForLong => Step::Snooze(HOUR),
    };
    script.iter().map(step).collect()
}

struct Case<'a> {
    db: &'a Db,
    model: Model,
    probe: Probe,
    dead_worker: i64,
    /// The state in which each job was seen last.
    seen: BTreeMap<String, JobState>,
}

/// Whether the state machine leads from one state to another, by any number of edges.
fn leads_to(from: JobState, to: JobState) -> bool {
    let mut reached = vec![from];
    let mut at = 0;
    while let Some(state) = reached.get(at).copied() {
        at += 1;
        let next = JobState::ALL.into_iter().filter(|next| state.may_become(*next));
        let new: Vec<_> = next.filter(|next| !reached.contains(next)).collect();
        reached.extend(new);
    }
    reached.contains(&to)
}

/// P5.
#[test]
fn a_finished_job_leads_nowhere() {
    for to in JobState::ALL {
        assert_eq!(leads_to(JobState::Completed, to), to == JobState::Completed);
        assert_eq!(leads_to(JobState::Cancelled, to), to == JobState::Cancelled);
        assert!(leads_to(JobState::Dead, to), "a dead letter that was sent back may end in any way");
    }
}

impl Case<'_> {
    fn pick(&self, number: usize) -> Option<JobId> {
        (!self.model.ids.is_empty()).then(|| self.model.ids[number % self.model.ids.len()])
    }

    async fn time(&self, due: Due) -> chrono::DateTime<chrono::Utc> {
        let hours = match due {
            Due::Past => -1,
            Due::Now => 0,
            Due::Future => 1,
        };
        self.db.now().await + TimeDelta::hours(hours)
    }

    async fn enqueue(&mut self, new: New) {
        let db = self.db;
        let job = || {
            let job: Enqueue<Play> = Play::new("a", steps(&new.script)).queue(QUEUES[new.queue]).priority(new.priority);
            match new.max_retries {
                Some(retries) => job.max_retries(retries),
                None => job,
            }
        };
        let at = self.time(new.due).await;
        let job = || match new.due {
            Due::Now => job(),
            _ => job().at(at),
        };
        let job = || match new.key {
            Some(Key { name, until, on_conflict }) => {
                job().unique_key(name).unique_until(until).on_conflict(on_conflict)
            }
            None => job(),
        };
        let ids = match new.way {
            Way::Pool => self.placed(&new, 1, db.pool().enqueue_all_unique([job()]).await),
            Way::Bulk => self.placed(&new, 3, db.pool().enqueue_all_unique([job(), job(), job()]).await),
            Way::Committed => {
                let mut tx = db.begin().await;
                let enqueued = tx.enqueue_unique(job()).await;
                tx.commit().await;
                self.placed(&new, 1, enqueued.map(|it| vec![it]))
            }
            Way::RolledBack => {
                let mut tx = db.begin().await;
                for result in [tx.enqueue(job()).await.map(drop), tx.enqueue_all([job(), job()]).await.map(drop)] {
                    assert!(matches!(result, Ok(()) | Err(Error::Duplicate { .. })), "{result:?}");
                }
                tx.rollback().await;
                vec![]
            }
            Way::Sql => {
                let args = serde_json::to_string(&Play::new("a", steps(&new.script))).expect("JSON");
                let retries = new.max_retries.map_or("NULL".to_owned(), |n| n.to_string());
                let in_ms = match new.due {
                    Due::Past => -3_600_000,
                    Due::Now => 0,
                    Due::Future => 3_600_000,
                };
                db.sql(format!(
                    "INSERT INTO queue_jobs (kind, args, queue, priority, max_retries, run_at)
                     VALUES ('play', '{args}', '{}', {}, {retries}, {})",
                    QUEUES[new.queue],
                    new.priority,
                    db.time(in_ms)
                ))
                .await;
                vec![JobId::from(db.int("SELECT MAX(id) FROM queue_jobs").await)]
            }
        };
        for id in ids {
            let mut job = Modelled {
                state: JobState::Ready,
                queue: new.queue,
                priority: new.priority,
                attempt: 0,
                // another program leaves it to the job when it is claimed
                max_retries: new.max_retries.or((!matches!(new.way, Way::Sql)).then_some(DECLARED_RETRIES)),
                cancel_requested: false,
                script: new.script.clone(),
                runs: 0,
                key: new.key.filter(|_| !matches!(new.way, Way::Sql)),
                claims: 0,
            };
            job.reschedule(new.due);
            let key = job.key;
            self.model.jobs.insert(id, job);
            self.model.ids.push(id);
            self.model.take(key, id);
        }
    }

    /// Checks what became of `count` equal jobs. Returns the ids of the new ones.
    fn placed(&mut self, new: &New, count: usize, real: Result<Vec<Enqueued>, Error>) -> Vec<JobId> {
        let Some(key) = new.key else {
            let real = real.expect("enqueued");
            assert!(real.len() == count && real.iter().all(|it| it.is_new()));
            return real.into_iter().map(Enqueued::id).collect();
        };
        let holder = self.model.holder(key.name);
        if key.on_conflict == OnConflict::Reject && (count > 1 || holder.is_some()) {
            let Err(Error::Duplicate { existing, .. }) = real else { panic!("{real:?}, and {holder:?} has its key") };
            assert_eq!(existing, holder.filter(|_| count == 1));
            return vec![];
        }
        let real = real.expect("enqueued");
        let (first, rest) = (real[0], &real[1..]);
        let replaces = key.on_conflict == OnConflict::Replace;
        let replaced = holder.and_then(|id| self.model.jobs.get_mut(&id)).filter(|job| replaces && job.waits());
        match (holder, replaced) {
            (None, _) => assert!(first.is_new(), "{real:?}"),
            (Some(id), None) => assert_eq!(first, Enqueued::Kept(id)),
            (Some(id), Some(job)) => {
                assert_eq!(first, Enqueued::Replaced(id));
                let retries = new.max_retries.unwrap_or(DECLARED_RETRIES);
                (job.queue, job.priority, job.max_retries) = (new.queue, new.priority, Some(retries));
                job.attempt = 0;
                job.script.clone_from(&new.script);
                job.reschedule(new.due);
            }
        }
        let replaced = replaces && !matches!(first, Enqueued::Kept(_));
        let again = if replaced { Enqueued::Replaced(first.id()) } else { Enqueued::Kept(first.id()) };
        assert!(rest.iter().all(|it| *it == again), "{real:?}");
        if first.is_new() { vec![first.id()] } else { vec![] }
    }

    /// The answer of a dead letter that is to be sent back, after the model has done so.
    fn sent_back(&mut self, id: JobId) -> Answer {
        match self.model.send_back(vec![id])[..] {
            [(_, holder)] => Answer::KeyTaken(holder),
            _ => Answer::Done,
        }
    }

    async fn apply(&mut self, op: Op) -> Result<(), TestCaseError> {
        let admin = self.db.admin();
        match op {
            Op::Enqueue(new) => self.enqueue(new).await,
            Op::Pause(queue) => {
                self.model.paused.insert(queue);
                admin.pause(QUEUES[queue]).await.expect("paused");
            }
            Op::Resume(queue) => {
                self.model.paused.remove(&queue);
                admin.resume(QUEUES[queue]).await.expect("resumed");
            }
            Op::Cancel(n) => on_one!(
                self,
                n,
                |job| match job.state {
                    JobState::Scheduled | JobState::Ready => {
                        job.state = JobState::Cancelled;
                        true
                    }
                    JobState::Running => {
                        job.cancel_requested = true;
                        true
                    }
                    state => state == JobState::Cancelled,
                },
                |id| admin.cancel(id)
            ),
            Op::Retry(n) => {
                let Some(id) = self.pick(n) else { return Ok(()) };
                let expected = match self.model.jobs.get_mut(&id) {
                    None => Answer::NotFound,
                    Some(job) => match job.state {
                        JobState::Scheduled | JobState::Ready => {
                            job.state = JobState::Ready;
                            Answer::Done
                        }
                        JobState::Dead => self.sent_back(id),
                        state => Answer::Conflict(state),
                    },
                };
                prop_assert_eq!(answer(admin.retry(id).await), expected, "job {}", id);
            }
            Op::SendBack(n) => {
                let Some(id) = self.pick(n) else { return Ok(()) };
                let expected = match self.model.jobs.get(&id).map(|job| job.state) {
                    None => Answer::NotFound,
                    Some(JobState::Dead) => self.sent_back(id),
                    Some(state) => Answer::Conflict(state),
                };
                prop_assert_eq!(answer(admin.send_back(id).await), expected, "job {}", id);
            }
            Op::Delete(n) => {
                on_one!(self, n, |job| job.state != JobState::Running, |id| admin.delete(id));
                let deleted =
                    self.pick(n).filter(|id| self.model.jobs.get(id).is_some_and(|job| job.state != JobState::Running));
                if let Some(id) = deleted {
                    self.model.remove(id);
                }
            }
            Op::Reschedule(n, due) => {
                let time = self.time(due).await;
                on_one!(
                    self,
                    n,
                    |job| {
                        let waits = job.waits();
                        if waits {
                            job.reschedule(due);
                        }
                        waits
                    },
                    |id| admin.reschedule(id, time)
                );
            }
            Op::Edit(n, script) => {
                let args = serde_json::to_value(Play::new("a", steps(&script))).expect("JSON");
                on_one!(
                    self,
                    n,
                    |job| {
                        let may = job.waits() || job.state == JobState::Dead;
                        if may {
                            job.script = script.clone();
                        }
                        may
                    },
                    |id| admin.edit_args(id, &args)
                );
            }
            Op::CancelAll(queue) => {
                let mut count = 0;
                for job in self.model.of_queue(queue) {
                    match job.state {
                        JobState::Scheduled | JobState::Ready => job.state = JobState::Cancelled,
                        JobState::Running => job.cancel_requested = true,
                        _ => continue,
                    }
                    count += 1;
                }
                prop_assert_eq!(admin.cancel_all(&Filter::new().queue(QUEUES[queue])).await.expect("an answer"), count);
            }
            Op::RetryAll(queue) => {
                let mut count = 0;
                for job in self.model.of_queue(queue).filter(|job| job.state == JobState::Scheduled) {
                    job.state = JobState::Ready;
                    count += 1;
                }
                count += self.send_back_all(queue);
                prop_assert_eq!(admin.retry_all(&Filter::new().queue(QUEUES[queue])).await.expect("an answer"), count);
            }
            Op::SendBackAll(queue) => {
                let count = self.send_back_all(queue);
                prop_assert_eq!(
                    admin.send_back_all(&Filter::new().queue(QUEUES[queue])).await.expect("an answer"),
                    count
                );
            }
            Op::DeleteAll(queue, state) => {
                let matching = self.model.jobs.iter().filter(|(_, job)| job.queue == queue && job.state == state);
                let ids: Vec<_> = matching.map(|(id, _)| *id).collect();
                let filter = Filter::new().queue(QUEUES[queue]).state(state);
                prop_assert_eq!(admin.delete_all(&filter).await.expect("an answer"), ids.len() as u64);
                ids.into_iter().for_each(|id| self.model.remove(id));
            }
            Op::RescheduleAll(queue, due) => {
                let waiting = self.model.of_queue(queue).filter(|job| job.waits());
                let count = waiting.map(|job| job.reschedule(due)).count() as u64;
                let time = self.time(due).await;
                let filter = Filter::new().queue(QUEUES[queue]);
                prop_assert_eq!(admin.reschedule_all(&filter, time).await.expect("an answer"), count);
            }
            Op::Lose(n) => self.lose(n).await,
            Op::Work(queue) => self.work(queue).await?,
        }
        Ok(())
    }

    /// In the model alone. Returns how many.
    fn send_back_all(&mut self, queue: usize) -> u64 {
        let dead = self.model.jobs.iter().filter(|(_, job)| job.queue == queue && job.state == JobState::Dead);
        let dead: Vec<JobId> = dead.map(|(id, _)| *id).collect();
        (dead.len() - self.model.send_back(dead).len()) as u64
    }

    async fn lose(&mut self, number: usize) {
        let Some(id) = self.pick(number) else { return };
        let Some(job) = self.model.jobs.get_mut(&id).filter(|job| job.state == JobState::Ready) else { return };
        job.claim();
        self.db.hand_over_all(&format!("id = {id}"), self.dead_worker, DECLARED_RETRIES).await;
    }

    async fn work(&mut self, queue: Option<usize>) -> Result<(), TestCaseError> {
        self.model.work(queue);
        let builder = self.db.worker().state(self.probe.clone());
        let worker = self.db.start(match queue {
            Some(queue) => builder.queue(QUEUES[queue], 2),
            None => builder.concurrency(3),
        });
        let expected = self.model.rows();
        let last = std::cell::RefCell::new(Vec::new());
        let done = async {
            loop {
                let rows = rows(self.db).await;
                // a job that waits for its backoff looks like one that snoozes: the runs tell them apart
                if rows == expected && self.runs() == self.model.runs() {
                    return;
                }
                last.replace(rows);
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let done = tokio::time::timeout(queue_tests::DEADLINE / 4, done).await;
        worker.stop().await;
        prop_assert!(done.is_ok(), "a worker did not bring about {:#?}\nbut {:#?}", expected, last.borrow());
        Ok(())
    }

    /// The reason for which each job does not run follows from the model.
    async fn explain(&self) -> Result<(), TestCaseError> {
        for (id, job) in &self.model.jobs {
            let reason = self.db.admin().why(*id).await.expect("a reason").reason;
            let told = match reason {
                Reason::Completed => JobState::Completed,
                Reason::Cancelled { .. } => JobState::Cancelled,
                Reason::Dead { .. } => JobState::Dead,
                Reason::WorkerLost { others: false, .. } => JobState::Running,
                Reason::NotDue { .. } | Reason::Retrying { .. } => JobState::Scheduled,
                Reason::Paused { .. } if self.model.paused.contains(&job.queue) => JobState::Ready,
                Reason::NoWorker if !self.model.paused.contains(&job.queue) => JobState::Ready,
                _ => return Err(TestCaseError::fail(format!("{id} is {}: {reason:?}", job.state))),
            };
            prop_assert_eq!(told, job.state, "{} {:?}", id, reason);
        }
        Ok(())
    }

    /// How often each job was run.
    fn runs(&self) -> BTreeMap<JobId, usize> {
        let mut runs = BTreeMap::new();
        for event in self.probe.log().iter().filter(|event| event.what == What::Started) {
            *runs.entry(event.id).or_default() += 1;
        }
        runs
    }

    /// What holds after every operation.
    async fn check(&mut self) -> Result<(), TestCaseError> {
        // one row for each job in one table only, in the state of the model
        let rows = rows(self.db).await;
        prop_assert_eq!(&rows, &self.model.rows());
        // and no job came to its state against the state machine
        for row in &rows {
            let mut cells = row.split(' ');
            let (id, state) = (cells.next().expect("an id"), cells.nth(1).expect("a state"));
            let state: JobState = state.parse().expect("the name of a state");
            let before = self.seen.insert(id.to_owned(), state).unwrap_or(state);
            prop_assert!(leads_to(before, state), "job {id} was {before} and is {state}");
        }
        let mut counts: BTreeMap<(String, JobState), u64> = BTreeMap::new();
        for job in self.model.jobs.values() {
            *counts.entry((QUEUES[job.queue].to_owned(), job.state)).or_default() += 1;
        }
        let stats = self.db.admin().stats().await.expect("an answer");
        let real: BTreeMap<_, _> = stats.into_iter().map(|stat| ((stat.queue, stat.state), stat.jobs)).collect();
        prop_assert_eq!(real, counts);
        // never run more often than the model says: not after its end, not twice at a time
        for event in &self.probe.log() {
            prop_assert!(event.attempt <= event.max_attempts, "{event:?}");
        }
        prop_assert_eq!(self.runs(), self.model.runs());
        Ok(())
    }
}

async fn rows(db: &Db) -> Vec<String> {
    let rows = db.sql("SELECT id, queue, state, priority, attempt, max_retries FROM queue_all ORDER BY id").await;
    let text =
        |row: Vec<Option<String>>| row.into_iter().map(|cell| cell.unwrap_or("-".into())).collect::<Vec<_>>().join(" ");
    rows.into_iter().map(text).collect()
}

async fn have_left(db: &Db) {
    eventually("every worker to have left", async || {
        (db.count("queue_workers WHERE stopped_at IS NULL AND host <> 'elsewhere'").await == 0).then_some(())
    })
    .await;
}

async fn case(db: &Db, ops: Vec<Op>) -> Result<(), TestCaseError> {
    let tables = [
        "queue_jobs",
        "queue_history",
        "queue_dead",
        "queue_attempts",
        "queue_workers",
        "queue_heartbeats",
        "queue_paused",
        "queue_unique_keys",
        "queue_unique_jobs",
        "queue_tallies",
        "queue_failures",
    ];
    for table in tables {
        db.sql(format!("DELETE FROM {table}")).await;
    }
    let dead_worker = db.fake_worker(-60_000).await;
    let mut case = Case { db, model: Model::default(), probe: Probe::default(), dead_worker, seen: BTreeMap::new() };
    for op in ops {
        case.apply(op).await?;
        case.check().await?;
    }
    have_left(db).await;
    case.explain().await?;
    // whatever came before, everything that is not over can be brought to its end
    for queue in 0..QUEUES.len() {
        case.apply(Op::Resume(queue)).await?;
        case.apply(Op::RetryAll(queue)).await?;
    }
    case.apply(Op::Work(None)).await?;
    case.check().await?;
    prop_assert!(case.model.jobs.values().all(|job| job.state != JobState::Running && job.state != JobState::Ready));
    have_left(db).await;
    Ok(())
}

/// P1, P3, P9, P15, P36.
async fn states_follow_the_model(db: Db) {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(12);
    let config = Config {
        cases,
        failure_persistence: None,
        max_shrink_iters: 200,
        max_shrink_time: 60_000,
        ..Config::default()
    };
    tokio::task::block_in_place(|| {
        let mut runner = TestRunner::new(config);
        let ops = prop::collection::vec(op(), 10..60);
        let result = runner.run(&ops, |ops| Handle::current().block_on(case(&db, ops)));
        if let Err(failure) = result {
            panic!("{failure}");
        }
    });
}
