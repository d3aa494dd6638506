//! Enqueueing: jobs of any sort.

use crate::store::engine::dialect::Dialect;
use crate::store::engine::{steps, unique};
use crate::store::values::{NewJob, Unwritten, Whose};
use crate::unique::Enqueued;

/// Inserts jobs, of which some may be unique, with the steps of their features, all or none. Returns the job that stands
/// for each.
pub(crate) async fn enqueue<DB: Dialect>(
    conn: &mut DB::Connection,
    jobs: &[NewJob],
    whose: Whose,
) -> Result<Vec<Enqueued>, Unwritten> {
    if jobs.iter().any(|job| job.unique.is_some()) {
        return unique::enqueue::<DB>(conn, jobs, whose).await;
    }
    let ids = steps::insert::<DB>(conn, jobs, whose).await?;
    Ok(ids.into_iter().map(|id| Enqueued::New(id.into())).collect())
}
