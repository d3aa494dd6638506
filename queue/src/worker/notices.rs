//! What one loop of a worker tells another.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::store::values::LaneHead;
use crate::worker::lease::liveness::LostWorker;

/// How long a worker lets others first, after it could not decode the arguments of a kind. Longer than the longest
/// pause between two such attempts.
const MISFIT_FOR: Duration = Duration::from_secs(120);
/// It waits up to this long. The one that failed last waits longest.
const MOST_DEFERENCE: Duration = Duration::from_millis(250);

/// What one loop tells another. Each field names the sender and the receiver.
#[derive(Default)]
pub(crate) struct Notices {
    /// Anybody to claim: something may have been enqueued.
    pub(crate) enqueued: Arc<Notify>,
    /// Slots, recording and isolation to claim: a slot may have room for a job.
    pub(crate) room: Arc<Notify>,
    /// Claim to heartbeat: an idle worker got work, so its next heartbeat should come soon.
    pub(crate) at_work: Notify,
    /// Slots and recording to shutdown: a slot became free, or something was recorded.
    pub(crate) progress: Notify,
    /// Heartbeat to rescue: lost workers may have jobs.
    pub(crate) rescue: Notify,
    /// Claim to heartbeat: the claim loop waits to be woken, and leaves discovery to the heartbeat.
    pub(crate) quiet: AtomicBool,
    /// Rescue to claim: jobs were rescued, so the claim loop should run discovery for them.
    pub(crate) rescued: AtomicBool,
    /// Heartbeat to rescue: these workers are to be declared lost.
    pub(crate) lost: Mutex<Vec<LostWorker>>,
    misfits: Mutex<HashMap<Arc<str>, Instant>>,
}

impl Notices {
    pub(crate) fn new(enqueued: Arc<Notify>) -> Self {
        Self { enqueued, ..Self::default() }
    }

    /// Slots to discovery: arguments of this kind did not decode here, and are tried again later.
    pub(crate) fn set_misfit(&self, kind: &Arc<str>) {
        lock(&self.misfits).insert(kind.clone(), Instant::now());
    }

    /// Makes this worker a little late for the next jobs of a kind that it could not decode. All idle workers know when
    /// a job is due, so the quickest would get it each time, even if only another build can decode it.
    pub(crate) fn let_others_first(&self, heads: &mut [LaneHead]) {
        let mut misfits = lock(&self.misfits);
        if misfits.is_empty() {
            return;
        }
        misfits.retain(|_, at| at.elapsed() < MISFIT_FOR);
        for head in heads.iter_mut().filter(|head| !head.due_in.is_zero()) {
            if let Some(at) = misfits.get(&head.lane.kind) {
                head.due_in += MOST_DEFERENCE.div_f64(1.0 + at.elapsed().as_secs_f64());
            }
        }
    }
}

/// Locks it, even if a panic has interrupted somebody who held it: no state is left half changed.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits until the deadline; forever without one.
pub(crate) async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// Waits until `look` finds something. It looks at once, and after each notice.
pub(crate) async fn look_at<T>(notice: &Notify, look: impl Fn() -> Option<T>) -> T {
    loop {
        let mut noticed = pin!(notice.notified());
        noticed.as_mut().enable();
        if let Some(found) = look() {
            return found;
        }
        noticed.await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::values::Lane;

    #[tokio::test(start_paused = true)]
    async fn only_later_jobs_of_a_kind_that_did_not_decode_come_later() {
        let (notices, second) = (Notices::default(), Duration::from_secs(1));
        let heads = || -> Vec<LaneHead> {
            let head = |kind: &str, due_in| LaneHead {
                lane: Lane { kind: kind.into(), queue: "default".into(), priority: 0 },
                first: (0, 0),
                due_in,
            };
            vec![head("misfit", second), head("misfit", Duration::ZERO), head("other", second)]
        };
        let due_in = || {
            let mut heads = heads();
            notices.let_others_first(&mut heads);
            heads.into_iter().map(|head| head.due_in).collect::<Vec<_>>()
        };
        assert_eq!(due_in(), [second, Duration::ZERO, second]);
        notices.set_misfit(&"misfit".into());
        assert_eq!(due_in(), [second + MOST_DEFERENCE, Duration::ZERO, second]);
        tokio::time::advance(second).await;
        assert_eq!(
            due_in(),
            [second + MOST_DEFERENCE / 2, Duration::ZERO, second],
            "who failed later lets others first"
        );
        tokio::time::advance(MISFIT_FOR).await;
        assert_eq!(due_in(), [second, Duration::ZERO, second], "forgotten after a while");
    }
}
