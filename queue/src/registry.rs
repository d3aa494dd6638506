//! The jobs that a process knows: collected at link time, or registered by hand.

use std::any::TypeId;
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::error::Error as JsonError;

use crate::context::JobContext;
use crate::error::Error;
use crate::job::{Enqueue, Job, Options, StateType};
use crate::outcome::{Backoff, JobError};
use crate::propagation::Sending;
#[cfg(feature = "schedules")]
use crate::schedule::definition::Definition;
use crate::store::values::NewJob;

/// A decoded attempt that waits to be polled. Returns the result as JSON.
pub(crate) type Running = BoxFuture<'static, Result<Option<String>, JobError>>;

/// Everything that a worker needs to know about one job type.
#[derive(Clone)]
pub(crate) struct JobDefinition {
    pub(crate) kind: &'static str,
    pub(crate) aliases: &'static [&'static str],
    /// The arguments whose values are shown nowhere.
    pub(crate) secrets: &'static [&'static str],
    /// The queue that the type declares.
    pub(crate) queue: &'static str,
    pub(crate) max_retries: u32,
    pub(crate) timeout: Option<Duration>,
    pub(crate) start_within: Option<Duration>,
    pub(crate) backoff: Backoff,
    pub(crate) type_id: TypeId,
    pub(crate) type_name: &'static str,
    pub(crate) requires: Vec<StateType>,
    #[cfg(feature = "schedules")]
    pub(crate) schedules: fn() -> Result<Vec<Definition>, Error>,
    /// Whether these arguments decode.
    pub(crate) decodes: fn(&str) -> Result<(), JsonError>,
    /// The row of an enqueue with these arguments.
    pub(crate) row: fn(&str, Options, &Sending) -> Result<NewJob, Error>,
    pub(crate) start: fn(&str, JobContext) -> Result<Running, JsonError>,
}

impl JobDefinition {
    /// Describes `J`.
    pub(crate) fn of<J: Job>() -> Self {
        Self {
            kind: J::KIND,
            aliases: J::ALIASES,
            secrets: J::SECRETS,
            queue: J::QUEUE,
            max_retries: J::MAX_RETRIES,
            timeout: J::TIMEOUT,
            start_within: J::START_WITHIN,
            backoff: J::BACKOFF,
            type_id: TypeId::of::<J>(),
            type_name: std::any::type_name::<J>(),
            requires: J::requires(),
            #[cfg(feature = "schedules")]
            schedules: || J::schedules()?.into_iter().map(crate::job::Periodic::definition).collect(),
            decodes: |args| serde_json::from_str::<J>(args).map(drop),
            row: Enqueue::<J>::row_of,
            start: start::<J>,
        }
    }
}

fn start<J: Job>(args: &str, ctx: JobContext) -> Result<Running, JsonError> {
    let job: J = serde_json::from_str(args)?;
    Ok(Box::pin(async move {
        let output = job.run(ctx).await?;
        let json = serde_json::to_string(&output).map_err(|error| {
            JobError::dead(format!("the job succeeded, but its result is not serializable: {error}"))
        })?;
        Ok(Some(json).filter(|json| json != "null"))
    }))
}

/// One job of the link-time collection.
pub struct Registration {
    definition: fn() -> JobDefinition,
}

impl Registration {
    /// The registration of `J`.
    pub const fn of<J: Job>() -> Self {
        Self { definition: JobDefinition::of::<J> }
    }
}

inventory::collect!(Registration);

/// The job that runs this kind, if this program has it. Two of one kind are nobody's: no worker could be built.
pub(crate) fn known(kind: &str) -> Option<JobDefinition> {
    let mut found = linked().into_iter().filter(|job| job.kind == kind || job.aliases.contains(&kind));
    found.next().filter(|first| found.all(|other| other.type_id == first.type_id))
}

/// All jobs linked into this process, by kind.
pub(crate) fn linked() -> Vec<JobDefinition> {
    let mut jobs: Vec<_> = inventory::iter::<Registration>().map(|r| (r.definition)()).collect();
    jobs.sort_by_key(|job| (job.kind, job.type_name));
    jobs
}
