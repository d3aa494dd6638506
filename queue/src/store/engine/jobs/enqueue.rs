//! The one way into `queue_jobs`: single, grouped, batch, unique and schedule enqueues.

use crate::store::engine::dialect::Dialect;
use crate::store::engine::driver::ids;
use crate::store::engine::unique;
use crate::store::values::{NewJob, Unwritten, Whose};
use crate::unique::Enqueued;

/// Inserts jobs, all or none. Some may be unique. Returns the job that stands for each request. `signal`: wakes the
/// workers of all processes with this payload, if [`can_signal`].
pub(crate) async fn enqueue<DB: Dialect>(
    conn: &mut DB::Connection,
    jobs: &[NewJob],
    whose: Whose,
    signal: Option<&str>,
) -> Result<Vec<Enqueued>, Unwritten> {
    if jobs.iter().any(|job| job.unique.is_some()) {
        return unique::enqueue::<DB>(conn, jobs, whose).await;
    }
    let ids = match (jobs, DB::INSERT_AND_NOTIFY, signal) {
        ([job], Some(sql), Some(signal)) => {
            let [kind, queue, priority, max_retries, args, ..] = job.binds();
            ids::<DB>(conn, sql, &[kind, queue, priority, max_retries, args, signal.into()]).await?
        }
        _ => DB::insert(conn, jobs, whose).await?,
    };
    Ok(ids.into_iter().map(|id| Enqueued::New(id.into())).collect())
}

/// Whether the statement that inserts this job can also send the signal.
pub(crate) fn can_signal<DB: Dialect>(job: &NewJob) -> bool {
    job.is_due_now() && job.unique.is_none() && DB::INSERT_AND_NOTIFY.is_some()
}
