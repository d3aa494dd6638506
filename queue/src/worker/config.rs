//! A worker's checked configuration.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use crate::health::Health;
use crate::registry::JobDefinition;
use crate::store::Store;
#[cfg(feature = "schedules")]
use crate::worker::declared::Declared;
use crate::worker::run::attempt::Env;

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
    /// Promises by queue.
    pub(crate) start_within: HashMap<String, Duration>,
    pub(crate) health: Health,
    /// What every attempt knows.
    pub(crate) env: Arc<Env>,
    /// By kind and alias.
    pub(crate) jobs: HashMap<&'static str, Arc<JobDefinition>>,
    #[cfg(feature = "schedules")]
    pub(crate) schedules: Declared,
}
