//! A worker's checked configuration.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use crate::registry::JobDefinition;
use crate::store::Store;
#[cfg(feature = "schedules")]
use crate::worker::declared::Declared;
use crate::worker::run::attempt::Env;

/// For how long arguments that do not decode are tried again, by default.
pub(crate) const DECODE_GRACE: Duration = Duration::from_secs(60 * 60);

/// The durations of a worker.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timing {
    pub(crate) heartbeat: Duration,
    pub(crate) lease: Duration,
    pub(crate) shutdown_grace: Duration,
    pub(crate) cancel_grace: Duration,
    pub(crate) retention: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            heartbeat: Duration::from_millis(2500),
            lease: Duration::from_millis(7500),
            shutdown_grace: Duration::from_secs(30),
            cancel_grace: Duration::from_secs(5),
            retention: Duration::from_secs(7 * 24 * 60 * 60),
        }
    }
}

/// A checked configuration.
pub(crate) struct Config {
    pub(crate) store: Arc<dyn Store>,
    /// Jobs at a time, over all queues.
    pub(crate) concurrency: u32,
    /// Limits by queue. Empty: all queues.
    pub(crate) queues: BTreeMap<String, u32>,
    /// Whether it serves all other queues as well.
    pub(crate) others: bool,
    pub(crate) newest_first: HashSet<String>,
    /// What every attempt knows.
    pub(crate) env: Arc<Env>,
    /// By kind and alias.
    pub(crate) jobs: HashMap<&'static str, Arc<JobDefinition>>,
    pub(crate) timing: Timing,
    #[cfg(feature = "schedules")]
    pub(crate) schedules: Declared,
}
