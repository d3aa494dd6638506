//! The ends that are still to be written, what is counted of them, and the claims whose jobs have all ended.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

use tokio::sync::mpsc;

use crate::failures::group_of;
use crate::store::values::{Claimed, WorkerId};
use crate::throughput::TallyOutcome;
use crate::worker::notices::lock;
use crate::worker::record::tally::{Place, Tallies};
use crate::worker::run::attempt::Ended;

/// Ends recorded in one transaction.
pub(crate) const BATCH: usize = 1000;
/// With more unrecorded ends than this, nothing more is claimed.
pub(crate) const BACKLOG: usize = 4 * BATCH;

/// A job and its fence.
type JobKey = (i64, i32);

/// The channel to the recording loop.
pub(crate) struct Recorder {
    ended: mpsc::UnboundedSender<(WorkerId, Ended)>,
    /// Ends that were handed over and are not written yet, by job and fence, and where each is counted. None: its
    /// attempt never started.
    unrecorded: Mutex<HashMap<JobKey, Option<Place>>>,
    /// What started, and what ended as the database has it.
    pub(crate) tallies: Tallies,
    /// Claims are noted here; heartbeats settle them.
    pub(crate) claims: ClaimRecords,
}

impl Recorder {
    pub(crate) fn new() -> (Self, mpsc::UnboundedReceiver<(WorkerId, Ended)>) {
        let (ended, receiver) = mpsc::unbounded_channel();
        let (unrecorded, tallies, claims) = Default::default();
        (Self { ended, unrecorded, tallies, claims }, receiver)
    }

    /// Hands an end over, to be counted at this place. Never waits.
    pub(crate) fn record(&self, worker: WorkerId, place: Option<Place>, ended: impl Into<Ended>) {
        let ended = ended.into();
        self.keys().insert(ended.hold().key(), place);
        // the loop outlives everything that records: a closed channel means that the run was dropped
        let _ = self.ended.send((worker, ended));
    }

    pub(crate) fn unrecorded(&self) -> usize {
        self.keys().len()
    }

    /// Nothing is to be written of these any more. Each comes with what the database has accepted of it: as what it
    /// counts, for how many microseconds it ran, and its error.
    pub(crate) fn written<'a>(
        &self,
        worker: WorkerId,
        ends: impl Iterator<Item = (JobKey, Option<(TallyOutcome, i64, Option<&'a str>)>)> + Clone,
    ) {
        self.claims.ended(worker, ends.clone().map(|(key, _)| key));
        let failed = self.failed(ends.clone());
        // counted before it is gone: a worker that has nothing to write any more writes its last tallies
        let (mut unrecorded, mut sheet) = (self.keys(), self.tallies.sheet());
        for (key, accepted) in ends {
            if let (Some(Some(place)), Some((outcome, ran_us, _))) = (unrecorded.remove(&key), accepted) {
                sheet.add(place, outcome, ran_us);
            }
        }
        failed.into_iter().for_each(|failure| sheet.failed(failure));
    }

    /// The groups of those that failed. They are found without a lock, for which each job that ends would wait.
    fn failed<'a>(
        &self,
        ends: impl Iterator<Item = (JobKey, Option<(TallyOutcome, i64, Option<&'a str>)>)>,
    ) -> Vec<String> {
        let failed: Vec<_> = ends
            .filter_map(|(key, accepted)| accepted.filter(|it| it.0.is_failure()).map(|(.., error)| (key, error)))
            .collect();
        if failed.is_empty() {
            return Vec::new();
        }
        let (unrecorded, sheet) = (self.keys(), self.tallies.sheet());
        let of = |(key, error)| Some((sheet.kind((*unrecorded.get(&key)?)?)?, error));
        let failed: Vec<(_, Option<&str>)> = failed.into_iter().filter_map(of).collect();
        drop((unrecorded, sheet));
        failed.into_iter().map(|(kind, error)| group_of(&kind, error.unwrap_or_default())).collect()
    }

    /// Jobs and fences whose ends are not written yet.
    pub(crate) fn keys(&self) -> MutexGuard<'_, HashMap<JobKey, Option<Place>>> {
        lock(&self.unrecorded)
    }
}

/// Which claims are settled: the database has acknowledged that all of their jobs ended. On engines with claim records,
/// the next heartbeat removes those of settled claims, without reading the jobs.
///
/// A claim whose answer was lost is not known here: its record stays until a heartbeat checks all of them. An
/// acknowledgement holds only as long as the server does. If the server fails, it may lose acknowledged commits that
/// did not wait for the disk or for a replica. Its sessions end with it, so all that was learnt in an earlier session
/// is forgotten.
#[derive(Default)]
pub(crate) struct ClaimRecords(Mutex<RecordSets>);

#[derive(Default)]
struct RecordSets {
    /// The number under which all this was claimed.
    worker: WorkerId,
    /// The session in which the last heartbeat was answered. Nothing is learnt before the first one.
    session: Option<u64>,
    /// The jobs that have not ended, with their claims.
    open: HashMap<JobKey, i64>,
    /// How many jobs of each claim have not ended.
    left: HashMap<i64, usize>,
    settled: Vec<i64>,
}

impl ClaimRecords {
    /// The state for this worker. Claims of another number are rescued together with their records, so they are
    /// forgotten.
    fn of(&self, worker: WorkerId) -> MutexGuard<'_, RecordSets> {
        let mut inner = lock(&self.0);
        if inner.worker != worker {
            *inner = RecordSets { worker, ..RecordSets::default() };
        }
        inner
    }

    /// A claim took these jobs. Call it before any of them can end.
    pub(crate) fn claimed(&self, worker: WorkerId, jobs: &[Claimed]) {
        let noted = jobs.iter().filter_map(|job| Some((job, job.claim?)));
        let mut inner = self.of(worker);
        if inner.session.is_none() {
            return;
        }
        for (job, claim) in noted {
            inner.open.insert(job.hold().key(), claim);
            *inner.left.entry(claim).or_default() += 1;
        }
    }

    /// The database answered that these jobs ended, or that they are not held under these fences.
    pub(crate) fn ended(&self, worker: WorkerId, jobs: impl Iterator<Item = JobKey>) {
        let mut inner = lock(&self.0);
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

    /// The claims whose records can be removed.
    pub(crate) fn settled(&self, worker: WorkerId) -> Vec<i64> {
        self.of(worker).settled.clone()
    }

    /// A heartbeat that named the first `count` settled claims was answered in this session.
    pub(crate) fn told(&self, worker: WorkerId, count: usize, session: u64) {
        let mut inner = self.of(worker);
        if inner.session == Some(session) {
            inner.settled.drain(..count);
        } else {
            *inner = RecordSets { worker, session: Some(session), ..RecordSets::default() };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::store::values::Lane;

    fn job(id: i64, fence: i32, claim: Option<i64>) -> Claimed {
        let lane = Lane { kind: Arc::from("k"), queue: Arc::from("q"), priority: 0 };
        Claimed { fence, claim, ..Claimed::example(lane, 0, id) }
    }

    /// Of worker 1, whose heartbeat was answered in session 5.
    fn records() -> ClaimRecords {
        let records = ClaimRecords::default();
        records.told(1, 0, 5);
        records
    }

    #[test]
    fn a_claim_is_settled_when_all_of_its_jobs_have_ended() {
        let records = records();
        records.claimed(1, &[job(1, 1, Some(7)), job(2, 1, Some(7)), job(3, 1, Some(8)), job(4, 1, None)]);
        records.ended(1, [(1, 1), (3, 2), (4, 1), (99, 1)].into_iter());
        assert!(records.settled(1).is_empty(), "claim 7 has one job left; in claim 8 another fence ended");
        records.ended(1, [(2, 1), (2, 1)].into_iter());
        assert_eq!(records.settled(1), [7]);
        records.ended(1, [(3, 1)].into_iter());
        records.told(1, 1, 5);
        assert_eq!(records.settled(1), [8]);
    }

    #[test]
    fn a_job_that_comes_again_belongs_to_its_last_claim() {
        let records = records();
        records.claimed(1, &[job(1, 1, Some(7))]);
        records.ended(1, [(1, 1)].into_iter());
        records.claimed(1, &[job(1, 2, Some(8))]);
        records.ended(1, [(1, 1)].into_iter());
        assert_eq!(records.settled(1), [7]);
    }

    #[test]
    fn another_number_knows_nothing_of_them() {
        let records = records();
        records.claimed(1, &[job(1, 1, Some(7)), job(2, 1, Some(8))]);
        records.ended(1, [(1, 1)].into_iter());
        records.told(2, 0, 5);
        records.claimed(2, &[job(2, 2, Some(9))]);
        records.ended(1, [(2, 1)].into_iter());
        assert!(records.settled(2).is_empty());
        records.ended(2, [(2, 2)].into_iter());
        assert_eq!(records.settled(2), [9]);
    }

    #[test]
    fn what_was_acknowledged_before_another_session_is_forgotten() {
        let records = records();
        records.claimed(1, &[job(1, 1, Some(7)), job(2, 1, Some(8)), job(3, 1, Some(8))]);
        records.ended(1, [(1, 1), (2, 1)].into_iter());
        records.told(1, 1, 6);
        assert!(records.settled(1).is_empty());
        records.ended(1, [(3, 1)].into_iter());
        assert!(records.settled(1).is_empty(), "one end of that claim may be lost");
        records.claimed(1, &[job(4, 1, Some(9))]);
        records.ended(1, [(4, 1)].into_iter());
        assert_eq!(records.settled(1), [9]);
    }

    #[test]
    fn before_the_first_answer_nothing_is_learnt() {
        let records = ClaimRecords::default();
        records.claimed(1, &[job(1, 1, Some(7))]);
        records.told(1, 0, 5);
        records.ended(1, [(1, 1)].into_iter());
        assert!(records.settled(1).is_empty());
    }
}
