//! The jobs that are run, and what their handlers count.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use queue::{JobError, State, job};
use tokio::sync::Notify;

use crate::S32;
use crate::figures::{Latencies, wall_us};

/// What the handlers count.
#[derive(Clone, Default)]
pub(super) struct Seen(Arc<Counts>);

#[derive(Default)]
pub(super) struct Counts {
    /// Jobs that are still expected.
    pub(super) left: AtomicI64,
    /// Jobs that were begun.
    pub(super) begun: AtomicI64,
    /// The last one came, or another one of those that are timed.
    pub(super) news: Notify,
    pub(super) latencies: Latencies,
}

impl std::ops::Deref for Seen {
    type Target = Counts;

    fn deref(&self) -> &Counts {
        &self.0
    }
}

impl Seen {
    /// Waits for so many jobs of the kind `noop`.
    pub(super) fn expecting(jobs: i64) -> Seen {
        let seen = Seen::default();
        seen.left.store(jobs, Ordering::Release);
        seen
    }

    pub(super) fn one_less(&self) {
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.news.notify_one();
        }
    }
}

/// Does nothing.
#[job]
pub(super) async fn noop(State(seen): State<Seen>, n: i64, s: String) {
    let _ = (n, s);
    seen.one_less();
}

/// Fails for good.
#[job(max_retries = 0)]
pub(super) async fn dying(State(seen): State<Seen>, n: i64, s: String) -> Result<(), JobError> {
    seen.one_less();
    Err(JobError::dead(format!("no order {n}: {s}")))
}

/// Notes how long ago its enqueue began.
#[job]
pub(super) async fn timed(State(seen): State<Seen>, n: i64, s: String) {
    let _ = s;
    seen.latencies.note(wall_us() - n);
    seen.news.notify_one();
}

/// Waits for a millisecond, then notes how long ago its enqueue began.
#[job]
pub(super) async fn brief(State(seen): State<Seen>, n: i64, s: String) {
    let _ = s;
    seen.begun.fetch_add(1, Ordering::AcqRel);
    tokio::time::sleep(Duration::from_millis(1)).await;
    seen.latencies.note(wall_us() - n);
}

impl Noop {
    pub(super) fn many(jobs: i64) -> impl Iterator<Item = Noop> {
        (0..jobs).map(|n| Noop { n, s: S32.to_owned() })
    }
}

impl Dying {
    pub(super) fn many(jobs: i64) -> impl Iterator<Item = Dying> {
        (0..jobs).map(|n| Dying { n, s: S32.to_owned() })
    }
}

impl Brief {
    /// Jobs whose enqueue begins at `us`.
    pub(super) fn many(jobs: i64, us: i64) -> impl Iterator<Item = Brief> {
        (0..jobs).map(move |_| Brief { n: us, s: S32.to_owned() })
    }
}
