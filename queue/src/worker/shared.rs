//! What the loops of one worker share.

use std::sync::Arc;

use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::error::Error;
use crate::store::values::{Claimed, End, Found, Lane, NewWorker, Scope, WorkerId};
use crate::telemetry::Event;
use crate::worker::clock::DatabaseClock;
use crate::worker::config::Config;
use crate::worker::lease::OwnLease;
use crate::worker::lease::health::Health;
use crate::worker::notices::Notices;
use crate::worker::record::recorder::Recorder;
use crate::worker::run::attempt::Ended;
use crate::worker::run::{StartRequest, Starts, Work};

/// What the loops of one worker share. Each part says who may change it.
pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) scope: Scope,
    pub(crate) lease: OwnLease,
    pub(crate) work: Work,
    pub(crate) notices: Notices,
    /// Every loop reports what the database answers.
    pub(crate) health: Health,
    /// The claim loop sets it by what discoveries see; slots read it.
    pub(crate) clock: DatabaseClock,
    /// Slots hand over how attempts ended; the recording loop writes it.
    pub(crate) recorder: Recorder,
    /// Slots hand over starts; the starts loop writes them.
    pub(crate) starts: Starts,
    /// Shutdown to all: no more claims.
    pub(crate) stop_claiming: CancellationToken,
    /// Shutdown to all: the run is over or was dropped.
    pub(crate) over: CancellationToken,
}

impl Shared {
    /// Also returns where ends and starts arrive.
    pub(crate) fn new(
        config: Config,
        enqueued: Arc<Notify>,
    ) -> (Arc<Self>, UnboundedReceiver<(WorkerId, Ended)>, UnboundedReceiver<StartRequest>) {
        let ((recorder, ends), (starts, begun)) = (Recorder::new(), Starts::new());
        let mut kinds: Vec<String> = config.jobs.keys().map(ToString::to_string).collect();
        kinds.sort();
        let named = config.queues.keys().filter(|_| !config.others);
        let queues: Vec<String> = named.cloned().collect();
        let scope = Scope { kinds: kinds.clone(), queues: queues.clone() };
        let pid = std::process::id();
        let (concurrency, limits) = (config.concurrency, config.queues.clone());
        let secret = config.jobs.iter().filter(|(_, job)| !job.secrets.is_empty());
        let secrets = secret.map(|(kind, job)| ((*kind).to_owned(), names(job.secrets))).collect();
        let card = NewWorker { host: host(), pid, concurrency, queues, kinds, secrets, limits };
        let notices = Notices::new(enqueued);
        let shared = Self {
            scope,
            lease: OwnLease::new(card, config.env.timing.lease),
            work: Work::new(&config, notices.room.clone()),
            notices,
            health: Health::new(config.env.observers.clone()),
            clock: DatabaseClock::new(),
            recorder,
            starts,
            stop_claiming: CancellationToken::new(),
            over: CancellationToken::new(),
            config,
        };
        (Arc::new(shared), ends, begun)
    }

    /// Tells the log and the observers.
    pub(crate) fn tell(&self, event: Event<'_>) {
        event.emit(&self.config.env.observers);
    }

    /// Sets the database's clock by what a discovery has seen that was sent at this moment.
    pub(crate) fn learn_the_time(&self, asked: Instant, found: &Result<Found, Error>) {
        if let Ok(Found { now: Some(now), .. }) = found {
            self.clock.learn(asked, *now);
        }
    }

    /// Gives jobs back that have not started. Returns how many.
    pub(crate) fn release(&self, unstarted: Vec<(Claimed, WorkerId)>) -> usize {
        for (job, worker) in &unstarted {
            self.recorder.record(*worker, None, End::unstarted(job.hold()));
        }
        unstarted.len()
    }

    /// The retries of a lane's jobs, if these slots serve it.
    pub(crate) fn retries(&self, slots: usize, lane: &Lane) -> Option<u32> {
        let served = self.work.slots.of(&lane.queue) == Some(slots);
        self.config.jobs.get(&*lane.kind).filter(|_| served).map(|definition| definition.max_retries)
    }
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

/// The machine's name, for display.
pub(crate) fn host() -> String {
    let from_file = || std::fs::read_to_string("/etc/hostname").ok();
    let name = std::env::var("HOSTNAME").ok().or_else(from_file).unwrap_or_default();
    let name: String = name.trim().chars().take(255).collect();
    if name.is_empty() { "unknown".to_owned() } else { name }
}
