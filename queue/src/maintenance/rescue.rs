//! Takes back the jobs of workers that are gone.

use crate::error::Error;
use crate::store::{Rescued, Store};
use crate::telemetry;

/// Jobs taken back in one transaction.
const BATCH: u32 = 500;

/// Rescues until nothing is left.
pub(crate) async fn run_once(store: &dyn Store) -> Result<Rescued, Error> {
    let mut total = Rescued::default();
    loop {
        let Rescued { ready, dead, cancelled } = store.rescue(BATCH).await?;
        total.ready += ready;
        total.dead += dead;
        total.cancelled += cancelled;
        if ready + dead + cancelled == 0 {
            break;
        }
    }
    if total != Rescued::default() {
        tracing::warn!(
            event = telemetry::JOBS_RESCUED,
            ready = total.ready,
            dead = total.dead,
            cancelled = total.cancelled,
            "took back the jobs of workers that are gone"
        );
    }
    Ok(total)
}
