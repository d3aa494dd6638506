//! Goes on with operations of the administration whose program has ended, and removes old records.

use std::sync::Arc;

use tokio::time::{Duration, Instant, sleep};

use crate::carry_out::carry_out;
use crate::error::Error;
use crate::operations::{KEPT, SILENT_LEASES};
use crate::worker::duties::retention::jittered;
use crate::worker::duties::{Duty, NEVER, failed};
use crate::worker::shared::Shared;

/// The pause between two removals of old records.
const SELDOM: Duration = Duration::from_secs(3600);

pub(crate) struct Operations {
    silent: Duration,
    pause: Duration,
    purged: Option<Instant>,
}

impl Operations {
    pub(crate) fn new(lease: Duration) -> Self {
        let silent = lease * SILENT_LEASES;
        Self { silent, pause: silent, purged: None }
    }
}

impl Duty for Operations {
    async fn due(&mut self, _: &Shared) {
        sleep(jittered(self.pause)).await;
    }

    async fn run_once(&mut self, shared: &Arc<Shared>) -> Result<(), Error> {
        let store = &shared.config.store;
        if let Some(id) = store.unattended(self.silent).await? {
            carry_out(&*store.administration(), id).await?;
        } else if self.purged.is_none_or(|at| at.elapsed() >= SELDOM) {
            store.purge_operations(KEPT).await?;
            self.purged = Some(Instant::now());
        }
        Ok(())
    }

    fn repeats(&mut self, shared: &Shared, error: &Error) -> bool {
        if failed(shared, "operations", "an operation of the administration does not go on", error) {
            self.pause = NEVER;
        }
        false
    }
}
