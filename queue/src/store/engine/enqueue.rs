//! Enqueueing: jobs of any sort.

use crate::store::engine::dialect::Dialect;
use crate::store::engine::{steps, unique};
use crate::store::values::{NewJob, Unwritten, Whose};
use crate::unique::Enqueued;

/// Inserts jobs with the steps of their features, all or none. Some may be unique. Returns the job that stands for each
/// request.
pub(crate) async fn enqueue<DB: Dialect>(
    conn: &mut DB::Connection,
    jobs: &[NewJob],
    whose: Whose,
) -> Result<Vec<Enqueued>, Unwritten> {
    // one look at each job: a large batch is larger than the processor's caches
    let mut plain = true;
    for job in jobs {
        if job.unique.is_some() {
            return unique::enqueue::<DB>(conn, jobs, whose).await;
        }
        plain &= job.features.is_none();
    }
    let ids = match plain {
        true => DB::insert(conn, jobs, whose).await?,
        false => steps::insert::<DB>(conn, jobs, whose).await?,
    };
    Ok(ids.into_iter().map(|id| Enqueued::New(id.into())).collect())
}
