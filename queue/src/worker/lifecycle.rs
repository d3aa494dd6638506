//! The life of a run, from joining to leaving.

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, mpsc};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::error::Error;
use crate::health::{BEAT, Timer};
use crate::limits::micros;
use crate::registry::JobDefinition;
use crate::store::values::{End, WorkerId};
use crate::telemetry::Event;
use crate::worker::claim::orphans;
use crate::worker::config::Config;
use crate::worker::duties::operations::Operations;
use crate::worker::duties::rescue::Rescue;
use crate::worker::duties::retention::{KeySweep, Retention};
#[cfg(feature = "schedules")]
use crate::worker::duties::schedules::{Schedules, TickRetention};
use crate::worker::duties::tallies;
use crate::worker::lease::heartbeat;
use crate::worker::notices::look_at;
use crate::worker::run::StartRequest;
use crate::worker::run::attempt::Ended;
use crate::worker::run::ending::Stop;
use crate::worker::run::slot;
use crate::worker::shared::Shared;
use crate::worker::{claim, duties, record};

/// How long dropped attempts may take to end.
const STRAGGLE: Duration = Duration::from_millis(500);

/// How long the last query for jobs that the database still counts as ours may take. Without an answer, the worker does
/// not leave, and its lease runs out.
const LAST_LOOK: Duration = Duration::from_secs(2);

/// The pause before the worker tries again to listen for signals.
const SIGNAL_RETRY: Duration = Duration::from_millis(500);

/// Runs a worker, from the check of the schema to its last write.
pub(crate) async fn supervise(
    config: Config,
    shutdown: impl Future<Output = ()>,
    immediately: impl Future<Output = ()>,
) -> Result<(), Error> {
    let store = config.store.clone();
    // first of all: later, handlers could use up the server's connections
    store.open().await?;
    let wake = Arc::new(Notify::new());
    let _subscription = store.subscribe(wake.clone());
    let (shared, ends, begun) = Shared::new(config, wake);
    // ends every task of this run, even if the caller drops it
    let _over = shared.over.clone().drop_guard();
    let hurry = CancellationToken::new();
    let life = async {
        let mut run = Run::start(shared, ends, begun).await?;
        tokio::select! {
            () = shutdown => {}
            () = hurry.cancelled() => {}
            Some(Err(failed)) = run.tasks.join_next() => resume(failed),
            Err(failed) = &mut run.recording => resume(failed),
        }
        run.stop_claiming(&hurry).await;
        run.let_finish(&hurry).await;
        run.cancel(&hurry).await;
        run.drop_the_rest().await;
        run.leave().await
    };
    let mut life = pin!(life);
    tokio::select! {
        result = &mut life => return result,
        () = immediately => hurry.cancel(),
    }
    life.await
}

/// A run and its loops.
struct Run {
    shared: Arc<Shared>,
    tasks: JoinSet<()>,
    claiming: AbortHandle,
    recording: AbortOnDropHandle<()>,
}

impl Run {
    /// Joins, and starts the loops.
    async fn start(
        shared: Arc<Shared>,
        ends: mpsc::UnboundedReceiver<(WorkerId, Ended)>,
        begun: mpsc::UnboundedReceiver<StartRequest>,
    ) -> Result<Self, Error> {
        // measured before the statement is sent, so that our lease ends no later than the database's
        let joined = Instant::now();
        let id = shared.config.store.join(&shared.lease.card, shared.config.env.timing.lease).await?;
        // before the first claim: jobs claimed without a lease would be released
        let deadline = shared.lease.extend(joined);
        shared.lease.set_id(id);
        announce(&shared);
        warn_of_misfits(&shared);
        let mut tasks = JoinSet::new();
        let claiming = tasks.spawn(claim::run(shared.clone()));
        tasks.spawn(heartbeat::run(shared.clone(), deadline));
        tasks.spawn(duties::run(shared.clone(), Rescue));
        tasks.spawn(duties::run(shared.clone(), Retention::new(shared.config.env.timing.retention)));
        tasks.spawn(duties::run(shared.clone(), KeySweep::new()));
        tasks.spawn(duties::run(shared.clone(), Operations::new(shared.config.env.timing.lease)));
        tasks.spawn(duties::run(shared.clone(), tallies::Writing::new(shared.config.env.timing.tallies)));
        #[cfg(feature = "schedules")]
        {
            let (store, declared) = (shared.config.store.schedules(), shared.config.schedules.clone());
            tasks.spawn(duties::run(
                shared.clone(),
                TickRetention::new(store.clone(), shared.config.env.timing.retention),
            ));
            tasks.spawn(duties::run(shared.clone(), Schedules::new(store, declared)));
        }
        tasks.spawn(slot::record_starts(shared.clone(), begun));
        tasks.spawn(listen(shared.clone()));
        tasks.spawn(beat(shared.clone()));
        let recording = AbortOnDropHandle::new(tokio::spawn(record::run(shared.clone(), ends)));
        Ok(Self { shared, tasks, claiming, recording })
    }

    /// Step 1: stops claiming, and releases at once the jobs that have not started.
    async fn stop_claiming(&mut self, hurry: &CancellationToken) {
        let shared = &self.shared;
        shared.stop_claiming.cancel();
        while !self.claiming.is_finished() {
            tokio::select! {
                Some(ended) = self.tasks.join_next() => ended.unwrap_or_else(resume),
                // a claim under way may still return jobs: usually at once, otherwise step 5 releases them
                () = async { hurry.cancelled().await; sleep(STRAGGLE).await } => break,
            }
        }
        let released = shared.release(shared.work.slots.clear());
        let running = shared.work.held().len();
        shared.tell(Event::WorkerStopping { worker: shared.lease.id(), running, released });
    }

    /// Step 2: lets running jobs continue for the grace period.
    async fn let_finish(&self, hurry: &CancellationToken) {
        tokio::select! {
            () = idle(&self.shared) => {}
            () = sleep(self.shared.config.env.timing.shutdown_grace) => {}
            () = hurry.cancelled() => {}
        }
    }

    /// Step 3: cancels the jobs that still run. Their slots drop them after the second grace period.
    async fn cancel(&self, hurry: &CancellationToken) {
        self.shared.work.stop_all(Stop::Shutdown);
        tokio::select! {
            () = idle(&self.shared) => {}
            () = sleep(self.shared.config.env.timing.cancel_grace + STRAGGLE) => {}
            () = hurry.cancelled() => {}
        }
    }

    /// Step 4: drops and releases the rest. An attempt that blocks its thread cannot be dropped and continues.
    async fn drop_the_rest(&self) {
        let shared = &self.shared;
        shared.over.cancel();
        shared.work.tasks.close();
        let _ = timeout(STRAGGLE, shared.work.tasks.wait()).await;
        let rest: Vec<_> = shared.work.held().drain().map(|(_, held)| held).collect();
        for held in rest {
            let ended = match held.attempt.began() {
                Some(began) => End::released(held.hold(), micros(began.elapsed())),
                None => End::unstarted(held.hold()),
            };
            shared.recorder.record(held.worker, held.tally.get().copied(), ended);
        }
    }

    /// Step 5: records all results and leaves. If the database is away, other workers rescue the jobs after the lease.
    async fn leave(self) -> Result<(), Error> {
        let Self { shared, mut tasks, claiming, recording } = self;
        let store = &shared.config.store;
        let told = timeout(shared.config.env.timing.lease, async {
            while !claiming.is_finished() {
                tasks.join_next().await.map_or(Ok(()), |ended| ended).unwrap_or_else(resume);
            }
            shared.release(shared.work.slots.clear());
            recorded(&shared).await;
            // a worker that has left has no lease to run out, so nobody would find these jobs soon
            if !matches!(timeout(LAST_LOOK, orphans::release_all(&shared)).await, Ok(Ok(()))) {
                return false;
            }
            recorded(&shared).await;
            tallies::write_last(&shared).await;
            true
        });
        let told = told.await.unwrap_or(false);
        drop(recording);
        tasks.shutdown().await;
        let id = shared.lease.id();
        if told && id != 0 && store.leave(id, Duration::ZERO).await.is_err() {
            // the heartbeat connection may have died since the last heartbeat: the second try opens a new one
            store.leave(id, Duration::ZERO).await?;
        }
        if told {
            // discovery may still run on its own connection: do not wait for it
            store.abandon();
        }
        shared.tell(Event::WorkerStopped { worker: id });
        Ok(())
    }
}

/// The timer of [`Health`](crate::health::Health): says each second that the runtime moves, and whether the worker can
/// claim.
async fn beat(shared: Arc<Shared>) {
    let timer = Timer(&shared.config.health);
    let mut told = false;
    loop {
        let stopping = shared.stop_claiming.is_cancelled();
        let not_ready = match shared.health.away_since() {
            _ if stopping => Some("it is stopping".to_owned()),
            Some(since) => Some(format!("the database has not answered for {} s", since.elapsed().as_secs())),
            None if !shared.lease.holds() => Some("it has no lease".to_owned()),
            None => None,
        };
        if let Some(file) = timer.beat(not_ready)
            && let Err(error) = std::fs::write(&file, [])
            && !std::mem::replace(&mut told, true)
        {
            let file = file.display();
            tracing::warn!(%error, %file, "the alive file cannot be written; create its directory, and let the worker write there");
        }
        tokio::select! {
            () = sleep(BEAT) => {}
            () = shared.stop_claiming.cancelled(), if !stopping => {}
        }
    }
}

fn announce(shared: &Shared) {
    let config = &shared.config;
    let mut queues: Vec<_> = config.queues.iter().map(|(queue, limit)| format!("{queue}: {limit}")).collect();
    if config.others {
        queues.push(if queues.is_empty() { "all" } else { "all others" }.to_owned());
    }
    let (queues, kinds) = (queues.join(", "), shared.scope.kinds.join(", "));
    let (engine, concurrency) = (config.store.capabilities().engine, config.concurrency);
    shared.tell(Event::WorkerStarted { worker: shared.lease.id(), engine, concurrency, queues, kinds });
}

/// Warns of queues and jobs that do not fit each other: a misspelt name makes jobs wait for ever.
fn warn_of_misfits(shared: &Shared) {
    let (config, worker) = (&shared.config, shared.lease.id());
    let declared = |queue: &&str| config.jobs.values().any(|job| job.queue == *queue);
    let undeclared: Vec<&str> = config.queues.keys().map(String::as_str).filter(|queue| !declared(queue)).collect();
    if !undeclared.is_empty() {
        shared.tell(Event::WorkerQueuesUndeclared { worker, queues: undeclared.join(", ") });
    }
    let served = |job: &JobDefinition| config.others || config.queues.contains_key(job.queue);
    let unserved = config.jobs.values().filter(|job| !served(job)).map(|job| format!("{} ({})", job.kind, job.queue));
    let unserved: BTreeSet<String> = unserved.collect();
    if !unserved.is_empty() {
        shared.tell(Event::WorkerJobsUnserved { worker, jobs: first_of(&unserved) });
    }
}

/// The first ten of them, and the number of the others.
fn first_of(names: &BTreeSet<String>) -> String {
    let mut text = names.iter().take(10).map(String::as_str).collect::<Vec<_>>().join(", ");
    if names.len() > 10 {
        text += &format!(" and {} more", names.len() - 10);
    }
    text
}

/// Forwards the engine's signals, and reconnects when the connection breaks. Without signals the worker polls, so a
/// failure here does not count as an outage.
async fn listen(shared: Arc<Shared>) {
    let wake = || shared.notices.enqueued.notify_one();
    let mut told = false;
    loop {
        let began = Instant::now();
        if let Err(error) = shared.config.store.watch(&wake).await {
            if began.elapsed() > SIGNAL_RETRY {
                // This connection worked and was then closed. The server may have closed others with it.
                shared.health.doubt.notify_one();
            }
            told &= began.elapsed() < SIGNAL_RETRY * 10;
            if !std::mem::replace(&mut told, true) {
                tracing::debug!(%error, "lost the database's notifications; polling until they are back");
            }
        }
        sleep(SIGNAL_RETRY).await;
        wake();
    }
}

async fn idle(shared: &Shared) {
    look_at(&shared.notices.progress, || shared.work.slots.is_idle().then_some(())).await;
}

async fn recorded(shared: &Shared) {
    look_at(&shared.notices.progress, || (shared.recorder.unrecorded() == 0).then_some(())).await;
}

/// Continues the panic of a loop: it is a defect, and must not be hidden.
fn resume(failed: tokio::task::JoinError) {
    if !failed.is_cancelled()
        && let Ok(panic) = failed.try_into_panic()
    {
        std::panic::resume_unwind(panic);
    }
}

#[cfg(all(test, feature = "sqlite"))]
#[path = "lifecycle_tests.rs"]
mod tests;
