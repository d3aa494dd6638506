//! Takes back the jobs of workers that are gone.

use std::collections::HashSet;

use crate::error::Error;
use crate::store::Store;
use crate::store::values::Rescued;
use crate::telemetry;

/// Jobs taken back in one transaction.
const BATCH: u32 = 500;

/// Rescues until nothing is left. What was taken back before an error counts.
pub(crate) async fn run_once(store: &dyn Store) -> (Rescued, Result<(), Error>) {
    let (mut total, mut left) = (Rescued::default(), HashSet::new());
    let result = loop {
        match store.rescue(BATCH, &left).await {
            Ok((none, refused)) if none == Rescued::default() && refused.is_empty() => break Ok(()),
            Ok((some, refused)) => {
                total += some;
                left.extend(refused);
            }
            Err(error) => break Err(error),
        }
    };
    if total != Rescued::default() {
        tracing::warn!(
            event = telemetry::JOBS_RESCUED,
            ready = total.ready,
            dead = total.dead,
            cancelled = total.cancelled,
            "took back the jobs of workers that are gone"
        );
    }
    (total, result)
}
