//! Which claims are settled: of which every job has ended, as the database has acknowledged. Where claims leave notes of what
//! they took, the next heartbeat removes those, without looking at the jobs.
//!
//! A claim whose answer was lost is not known here: its note stays until a heartbeat looks at all of them. And an
//! acknowledgement holds as long as the server does: one that fails may have lost what it had acknowledged (where commits do
//! not wait for the disk, or for a replica). Its sessions end with it; what was learnt before another one is forgotten.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::store::{Claimed, WorkerId};

/// A job and its fence.
type Key = (i64, i32);

#[derive(Default)]
pub(crate) struct Ledger(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    /// Under which number all this was claimed.
    worker: WorkerId,
    /// In which session the last heartbeat was answered. Before there was one, nothing is learnt.
    session: Option<u64>,
    /// The claims of jobs that have not ended.
    open: HashMap<Key, i64>,
    /// How many jobs of a claim have not ended.
    left: HashMap<i64, usize>,
    settled: Vec<i64>,
}

impl Ledger {
    /// Of this worker; what another number claimed is rescued with all its notes.
    fn of(&self, worker: WorkerId) -> MutexGuard<'_, Inner> {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if inner.worker != worker {
            *inner = Inner { worker, ..Inner::default() };
        }
        inner
    }

    /// A claim has brought these. Before any of them can end.
    pub(crate) fn claimed(&self, worker: WorkerId, jobs: &[Claimed]) {
        let noted = jobs.iter().filter_map(|job| Some((job, job.claim?)));
        let mut inner = self.of(worker);
        if inner.session.is_none() {
            return;
        }
        for (job, claim) in noted {
            inner.open.insert((job.id.get(), job.fence), claim);
            *inner.left.entry(claim).or_default() += 1;
        }
    }

    /// The database has answered that these ended, or that they are not held under these fences.
    pub(crate) fn ended(&self, worker: WorkerId, jobs: impl Iterator<Item = Key>) {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if inner.worker != worker || inner.open.is_empty() {
            return;
        }
        for key in jobs {
            let Some(claim) = inner.open.remove(&key) else { continue };
            let Some(left) = inner.left.get_mut(&claim) else { continue };
            *left -= 1;
            if *left == 0 {
                inner.left.remove(&claim);
                inner.settled.push(claim);
            }
        }
    }

    /// Claims whose notes can go.
    pub(crate) fn settled(&self, worker: WorkerId) -> Vec<i64> {
        self.of(worker).settled.clone()
    }

    /// A heartbeat that told so many of these, the first ones, was answered in this session.
    pub(crate) fn told(&self, worker: WorkerId, count: usize, session: u64) {
        let mut inner = self.of(worker);
        if inner.session == Some(session) {
            inner.settled.drain(..count);
        } else {
            *inner = Inner { worker, session: Some(session), ..Inner::default() };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::store::Lane;

    fn job(id: i64, fence: i32, claim: Option<i64>) -> Claimed {
        let lane = Lane { kind: Arc::from("k"), queue: Arc::from("q"), priority: 0 };
        Claimed { fence, claim, ..Claimed::example(lane, 0, id) }
    }

    /// Of worker 1, whose heartbeat was answered in session 5.
    fn ledger() -> Ledger {
        let ledger = Ledger::default();
        ledger.told(1, 0, 5);
        ledger
    }

    #[test]
    fn a_claim_is_settled_when_all_of_its_jobs_have_ended() {
        let ledger = ledger();
        ledger.claimed(1, &[job(1, 1, Some(7)), job(2, 1, Some(7)), job(3, 1, Some(8)), job(4, 1, None)]);
        ledger.ended(1, [(1, 1), (3, 2), (4, 1), (99, 1)].into_iter());
        assert!(ledger.settled(1).is_empty(), "one of its jobs is left; of the other another lease has ended");
        ledger.ended(1, [(2, 1), (2, 1)].into_iter());
        assert_eq!(ledger.settled(1), [7]);
        ledger.ended(1, [(3, 1)].into_iter());
        ledger.told(1, 1, 5);
        assert_eq!(ledger.settled(1), [8]);
    }

    #[test]
    fn a_job_that_comes_again_belongs_to_its_last_claim() {
        let ledger = ledger();
        ledger.claimed(1, &[job(1, 1, Some(7))]);
        ledger.ended(1, [(1, 1)].into_iter());
        ledger.claimed(1, &[job(1, 2, Some(8))]);
        ledger.ended(1, [(1, 1)].into_iter());
        assert_eq!(ledger.settled(1), [7]);
    }

    #[test]
    fn another_number_knows_nothing_of_them() {
        let ledger = ledger();
        ledger.claimed(1, &[job(1, 1, Some(7)), job(2, 1, Some(8))]);
        ledger.ended(1, [(1, 1)].into_iter());
        ledger.told(2, 0, 5);
        ledger.claimed(2, &[job(2, 2, Some(9))]);
        ledger.ended(1, [(2, 1)].into_iter());
        assert!(ledger.settled(2).is_empty());
        ledger.ended(2, [(2, 2)].into_iter());
        assert_eq!(ledger.settled(2), [9]);
    }

    #[test]
    fn what_was_acknowledged_before_another_session_is_forgotten() {
        let ledger = ledger();
        ledger.claimed(1, &[job(1, 1, Some(7)), job(2, 1, Some(8)), job(3, 1, Some(8))]);
        ledger.ended(1, [(1, 1), (2, 1)].into_iter());
        ledger.told(1, 1, 6);
        assert!(ledger.settled(1).is_empty());
        ledger.ended(1, [(3, 1)].into_iter());
        assert!(ledger.settled(1).is_empty(), "of that claim one end may be lost");
        ledger.claimed(1, &[job(4, 1, Some(9))]);
        ledger.ended(1, [(4, 1)].into_iter());
        assert_eq!(ledger.settled(1), [9]);
    }

    #[test]
    fn before_the_first_answer_nothing_is_learnt() {
        let ledger = Ledger::default();
        ledger.claimed(1, &[job(1, 1, Some(7))]);
        ledger.told(1, 0, 5);
        ledger.ended(1, [(1, 1)].into_iter());
        assert!(ledger.settled(1).is_empty());
    }
}
