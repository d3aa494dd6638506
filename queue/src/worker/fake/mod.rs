//! A database made up, for tests of what a worker does when it is refused, late or away: it answers as a test says, and
//! keeps what it was asked.

pub(super) mod log;
#[cfg(feature = "schedules")]
pub(super) mod schedules;
mod tables;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::error::Error as StdError;
use std::fmt;
use std::io::ErrorKind;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use sqlx::error::DatabaseError;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, timeout};

use crate::context::JobContext;
use crate::error::Error;
use crate::registry::{JobDefinition, Running};
use crate::store::engine::driver::refused_by_sqlstate;
use crate::store::values::{
    Ask, Claimed, Destination, End, FailureRow, Found, Heartbeat, Hold, Holding, Lane, NewWorker, Reach, Rescued,
    Scope, Share, TallyRow, WorkerId,
};
use crate::store::{Access, Capabilities, Guard, Jobs, Leases, Trouble, Upkeep};
use crate::worker::config::Config;
use crate::worker::fake::tables::FakeTables;
use crate::worker::run::attempt::Env;
use crate::worker::run::attempt::Timing;
use crate::worker::run::slot;
use crate::worker::{run::attempt::Ended, shared::Shared};

/// What the database was asked. Ends: the jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Asked {
    Join,
    Heartbeat(WorkerId),
    Leave(WorkerId, Duration),
    Holding(WorkerId),
    Claim(WorkerId),
    Finish(Vec<i64>),
    StillHeld(Vec<i64>),
    Requeue(Vec<i64>),
    Bury(Vec<i64>),
    SweepKeys(bool),
    Tallies(Vec<TallyRow>),
    PurgeTallies,
}

/// How it answers.
#[derive(Debug, Clone, Copy)]
pub(super) enum Answer {
    Yes,
    /// As it was asked, but only after so long.
    Late(Duration),
    /// It refuses, with this code and text.
    No(&'static str, &'static str),
    /// Nobody is there.
    Away,
    /// Nothing comes within the operation's time.
    Silence,
}

/// The code of a missing right.
pub(super) const NO_RIGHT: Answer = Answer::No("42501", "permission denied for table queue_dead");
/// The code of a value that cannot be stored.
pub(super) const NO_VALUE: Answer = Answer::No("22P05", "unsupported Unicode escape sequence");

/// Somebody else writes to the file.
pub(super) const LOCKED: Answer = Answer::No("5", LOCKED_TEXT);
const LOCKED_TEXT: &str = "database is locked";

/// What runs a job.
pub(super) type StartFn = fn(&str, JobContext) -> Result<Running, serde_json::Error>;

/// What an operation may take.
const LIMIT: Duration = Duration::from_secs(10);

type Says = dyn Fn(&Asked) -> Answer + Send + Sync;

pub(super) struct MadeUp {
    says: Box<Says>,
    pub(super) asked: watch::Sender<Vec<(Instant, Asked)>>,
    /// What it counts as held, whoever asks.
    pub(super) held: Mutex<Vec<(i64, i32)>>,
    rows: FakeTables,
    /// It is a file.
    pub(super) one_writer: AtomicBool,
}

impl MadeUp {
    pub(super) fn new(says: impl Fn(&Asked) -> Answer + Send + Sync + 'static) -> Arc<Self> {
        let rows = FakeTables::new();
        rows.tables().phantom = true;
        Arc::new(Self {
            says: Box::new(says),
            asked: watch::Sender::default(),
            held: Mutex::default(),
            rows,
            one_writer: AtomicBool::new(false),
        })
    }

    /// Until it was asked something like this, a minute at most. Returns when.
    pub(super) async fn was_asked(&self, what: impl Fn(&Asked) -> bool) -> Instant {
        let mut asked = self.asked.subscribe();
        let wait = asked.wait_for(|asked| asked.iter().any(|(_, asked)| what(asked)));
        let found = timeout(Duration::from_secs(60), wait).await.expect("asked within a minute").expect("it is there");
        found.iter().find(|(_, asked)| what(asked)).expect("just found").0
    }

    /// All that it was asked of jobs so far.
    pub(super) fn all(&self) -> Vec<Asked> {
        let asked = self.asked.borrow();
        asked
            .iter()
            .map(|(_, asked)| asked.clone())
            .filter(|asked| !matches!(asked, Asked::Heartbeat(_) | Asked::SweepKeys(_) | Asked::Tallies(_)))
            .collect()
    }

    /// What it was asked at that moment is there when the answer is.
    async fn answer(&self, asked: Asked) -> Result<(), Error> {
        let answer = (self.says)(&asked);
        self.asked.send_modify(|all| all.push((Instant::now(), asked)));
        match answer {
            Answer::Yes => return Ok(()),
            Answer::Late(after) => {
                tokio::time::sleep(after).await;
                return Ok(());
            }
            Answer::Silence => tokio::time::sleep(LIMIT).await,
            Answer::No(..) | Answer::Away => {}
        }
        Err(error("made up", answer))
    }

    async fn ended(&self, asked: Asked) -> Result<Vec<i64>, Error> {
        let (Asked::Finish(ids) | Asked::Requeue(ids) | Asked::Bury(ids)) = &asked else { unreachable!("an end") };
        let ids = ids.clone();
        self.answer(asked).await?;
        self.held.lock().unwrap().retain(|(id, _)| !ids.contains(id));
        Ok(ids)
    }

    /// A worker's configuration that serves the kind `k`.
    pub(super) fn config(self: &Arc<Self>, queues: BTreeMap<String, u32>, timing: Timing, start: StartFn) -> Config {
        // less than two of them want, so that they have to share
        let concurrency = queues.values().max().copied().unwrap_or(4);
        let definition = JobDefinition {
            secrets: &[],
            kind: "k",
            aliases: &[],
            queue: "default",
            max_retries: 0,
            start_within: None,
            timeout: None,
            backoff: crate::Backoff::default(),
            type_id: std::any::TypeId::of::<()>(),
            type_name: "k",
            requires: Vec::new(),
            #[cfg(feature = "schedules")]
            schedules: || Ok(Vec::new()),
            decodes: |_| Ok(()),
            row: |_, _, _| unreachable!("nobody enqueues here"),
            start,
        };
        Config {
            store: self.clone(),
            concurrency,
            others: queues.is_empty(),
            queues,
            newest_first: Default::default(),
            start_within: Default::default(),
            health: crate::health::Health::new(None),
            env: Arc::new(Env {
                store: self.clone(),
                states: Arc::default(),
                timing: Timing { decode_grace: Duration::ZERO, ..timing },
                log_errors: true,
                observers: Default::default(),
                wrappers: Default::default(),
            }),
            jobs: [("k", Arc::new(definition))].into(),
            #[cfg(feature = "schedules")]
            schedules: crate::worker::declared::Declared {
                app: "fake".into(),
                schedules: Arc::new([]),
                kinds: Arc::default(),
            },
        }
    }

    /// What the loops of such a worker share. It has the number 1, and a lease that holds for a day.
    pub(super) fn shared(self: &Arc<Self>, queues: BTreeMap<String, u32>, timing: Timing, start: StartFn) -> Scene {
        self.shared_with(self.config(queues, timing, start))
    }

    pub(super) fn shared_with(self: &Arc<Self>, config: Config) -> Scene {
        let (shared, ends, begun) = Shared::new(config, Arc::default());
        tokio::spawn(slot::record_starts(shared.clone(), begun));
        shared.lease.set_id(1);
        shared.lease.extend(Instant::now() + Duration::from_secs(24 * 60 * 60));
        (shared, ends)
    }
}

impl Deref for MadeUp {
    type Target = FakeTables;

    fn deref(&self) -> &FakeTables {
        &self.rows
    }
}

/// Nothing to do.
pub(super) fn nothing(_args: &str, _ctx: JobContext) -> Result<Running, serde_json::Error> {
    Ok(Box::pin(async { Ok(None) }))
}

/// A worker, and the ends that it records.
pub(super) type Scene = (Arc<Shared>, tokio::sync::mpsc::UnboundedReceiver<(WorkerId, Ended)>);

/// A job of that queue.
pub(super) fn job(queue: &str, id: i64) -> Claimed {
    Claimed::example(Lane { kind: Arc::from("k"), queue: Arc::from(queue), priority: 0 }, 0, id)
}

/// The error that such an answer is.
pub(super) fn error(doing: &str, answer: Answer) -> Error {
    let source = match answer {
        Answer::No(code, text) => sqlx::Error::Database(Box::new(Refusal { code, text })),
        Answer::Silence => sqlx::Error::Io(ErrorKind::TimedOut.into()),
        Answer::Away => sqlx::Error::Io(ErrorKind::ConnectionRefused.into()),
        Answer::Yes | Answer::Late(_) => unreachable!("no error"),
    };
    Error::Database { doing: doing.into(), source }
}

/// An error with which a server answers.
#[derive(Debug)]
struct Refusal {
    code: &'static str,
    text: &'static str,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text)
    }
}

impl StdError for Refusal {}

impl DatabaseError for Refusal {
    fn message(&self) -> &str {
        self.text
    }

    fn code(&self) -> Option<Cow<'_, str>> {
        Some(self.code.into())
    }

    fn as_error(&self) -> &(dyn StdError + Send + Sync + 'static) {
        self
    }

    fn as_error_mut(&mut self) -> &mut (dyn StdError + Send + Sync + 'static) {
        self
    }

    fn into_error(self: Box<Self>) -> Box<dyn StdError + Send + Sync + 'static> {
        self
    }

    fn kind(&self) -> sqlx::error::ErrorKind {
        sqlx::error::ErrorKind::Other
    }
}

#[async_trait]
impl Access for MadeUp {
    fn capabilities(&self) -> Capabilities {
        let tables = self.tables();
        Capabilities {
            engine: "made up",
            connections_kept: 1,
            connections_allowed: 1,
            heartbeats_wait: self.one_writer.load(Ordering::Relaxed),
            lock_patience: Duration::from_secs(1),
            heartbeats_discover: tables.only_signals,
            claims_alone: tables.claims_alone,
            purge_batch: 1_000,
        }
    }

    fn has_spare_connection(&self) -> bool {
        !self.tables().looks_fail
    }

    fn poll_interval(&self, _idle: Duration) -> Duration {
        Duration::from_millis(100)
    }

    fn trouble(&self, error: &Error) -> Trouble {
        let locked = error.to_string().contains(LOCKED_TEXT);
        match error {
            _ if locked && self.capabilities().heartbeats_wait => Trouble::KeptWaiting,
            Error::Database { source, .. } if !locked && refused_by_sqlstate(source) => Trouble::Refused,
            _ => Trouble::Away,
        }
    }

    fn lend_sessions(&self) -> bool {
        false
    }

    async fn open(&self) -> Result<(), Error> {
        Ok(())
    }

    fn abandon(&self) {}

    #[cfg(feature = "sqlite")]
    fn subscribe(&self, notify: Arc<Notify>) -> Guard {
        let nobody = sqlx::SqlitePool::connect_lazy("sqlite://made-up").expect("an address");
        Box::new(crate::store::engine::connection::notify::subscribe(&nobody, notify))
    }

    #[cfg(not(feature = "sqlite"))]
    fn subscribe(&self, _notify: Arc<Notify>) -> Guard {
        unreachable!("there is no pool to speak of")
    }

    fn listen(&self) -> Guard {
        Box::new(self.rows.writers.listen())
    }

    async fn watch(&self, _wake: &(dyn Fn() + Send + Sync)) -> Result<(), Error> {
        std::future::pending().await
    }
}

#[async_trait]
impl Jobs for MadeUp {
    async fn discover(&self, _scope: &Scope, behind: &[Lane], most: usize, _beside: bool) -> Result<Found, Error> {
        self.rows.look(behind, most).await
    }

    async fn preview(&self, asks: &[Ask], reach: Reach) -> Result<Vec<Share>, Error> {
        Ok(self.rows.preview(asks, reach))
    }

    async fn take_claim_lock(&self) -> Result<bool, Error> {
        Ok(self.rows.take_claim_lock().await)
    }

    async fn release_claim_lock(&self) -> Result<(), Error> {
        self.rows.release_claim_lock();
        Ok(())
    }

    async fn claim(&self, worker: WorkerId, asks: &[Ask], alone: Option<&[String]>) -> Result<Vec<Claimed>, Error> {
        self.answer(Asked::Claim(worker)).await?;
        self.rows.claim(asks, alone.is_some()).await
    }

    async fn started(&self, _worker: WorkerId, batch: &[crate::store::values::Start]) -> Result<Vec<i64>, Error> {
        std::future::ready(Ok(batch.iter().map(|start| start.hold.id).collect())).await
    }

    async fn end(&self, _worker: WorkerId, batch: &[End]) -> Result<Vec<i64>, Error> {
        let ids = batch.iter().map(|end| end.hold.id).collect();
        let asked = match batch[0].to {
            Destination::Finish { .. } => Asked::Finish(ids),
            Destination::Requeue { .. } => Asked::Requeue(ids),
            Destination::Bury => Asked::Bury(ids),
        };
        self.ended(asked).await
    }

    async fn still_held(&self, _worker: WorkerId, batch: &[Hold]) -> Result<Vec<i64>, Error> {
        self.answer(Asked::StillHeld(batch.iter().map(|hold| hold.id).collect())).await?;
        let held = self.held.lock().unwrap();
        Ok(batch.iter().filter(|hold| held.contains(&hold.key())).map(|hold| hold.id).collect())
    }

    async fn args(&self, _: WorkerId, _: i64, _: i32) -> Result<Option<String>, Error> {
        unreachable!("no test asks for `args`")
    }

    async fn undecodable(&self, _: i64) -> Result<Duration, Error> {
        unreachable!("no test asks for `undecodable`")
    }
}

#[async_trait]
impl Leases for MadeUp {
    async fn join(&self, _worker: &NewWorker, _lease: Duration) -> Result<WorkerId, Error> {
        self.answer(Asked::Join).await.map(|()| 2)
    }

    async fn heartbeat(
        &self,
        worker: WorkerId,
        _lease: Duration,
        _holding: Holding<'_>,
        _look_for: &[String],
    ) -> Result<Heartbeat, Error> {
        self.answer(Asked::Heartbeat(worker)).await?;
        Ok(Heartbeat { alive: true, ..Heartbeat::default() })
    }

    async fn holding(&self, worker: WorkerId) -> Result<Vec<Hold>, Error> {
        self.answer(Asked::Holding(worker)).await?;
        Ok(self.held.lock().unwrap().iter().map(|&(id, fence)| Hold { id, fence }).collect())
    }

    async fn leave(&self, worker: WorkerId, silent: Duration) -> Result<(), Error> {
        self.answer(Asked::Leave(worker, silent)).await
    }

    async fn rescue(&self, _limit: u32, _leave_out: &HashSet<i64>) -> Result<(Rescued, Vec<i64>), Error> {
        Ok((Rescued::default(), Vec::new()))
    }

    async fn declare_lost(&self, _: WorkerId, _: i64, _: bool) -> Result<bool, Error> {
        unreachable!("no test asks for `declare_lost`")
    }
}

#[async_trait]
impl Upkeep for MadeUp {
    async fn purge(&self, _keep: Duration, _limit: u32, _workers: bool) -> Result<u64, Error> {
        Ok(0)
    }

    #[cfg(feature = "schedules")]
    fn schedules(&self) -> Arc<dyn crate::store::ScheduleStore> {
        Arc::new(schedules::NoSchedules::default())
    }

    async fn sweep_keys(&self, _hand: &mut Option<i64>, is_its_turn: bool) -> Result<(), Error> {
        self.answer(Asked::SweepKeys(is_its_turn)).await
    }

    async fn unattended(&self, _silent: Duration) -> Result<Option<i64>, Error> {
        Ok(None)
    }

    async fn purge_operations(&self, _keep: Duration) -> Result<(), Error> {
        Ok(())
    }

    fn administration(&self) -> Arc<dyn crate::store::AdminStore> {
        unreachable!("no operation is unattended")
    }

    async fn add_tallies(&self, rows: &[TallyRow], _: &[FailureRow]) -> Result<(), Error> {
        self.answer(Asked::Tallies(rows.to_vec())).await
    }

    async fn purge_tallies(&self) -> Result<(), Error> {
        self.answer(Asked::PurgeTallies).await
    }

    async fn delete(&self, _: &[i64], _: Option<crate::JobState>) -> Result<Vec<i64>, Error> {
        unreachable!("no test asks for `delete`")
    }
}
