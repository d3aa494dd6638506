//! A worker process: what it tells with a heartbeat, and what it learns of the others.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use crate::state::JobId;

/// The row of a worker process in `queue_workers`; never zero.
pub(crate) type WorkerId = i64;

/// What a worker registers when it joins.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct NewWorker {
    pub(crate) host: String,
    pub(crate) pid: u32,
    pub(crate) concurrency: u32,
    /// Empty: all queues.
    pub(crate) queues: Vec<String>,
    pub(crate) kinds: Vec<String>,
    /// The secret arguments of the kinds that have any.
    pub(crate) secrets: BTreeMap<String, Vec<String>>,
    /// How many jobs of a queue it runs at a time. Queues without a limit are not here.
    pub(crate) limits: BTreeMap<String, u32>,
}

/// What a worker reports with its heartbeat: the jobs that it holds, and its next heartbeat.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Holding<'a> {
    /// It holds jobs, running or not.
    pub(crate) any: bool,
    /// The running jobs: the answer says which of them to cancel. They are listed, because a search by worker would
    /// walk over the dead index entries of all that it ever held, while an old snapshot keeps them.
    pub(crate) running: &'a [i64],
    /// Claims whose jobs have all ended, by what was acknowledged in the session of the last heartbeat.
    pub(crate) settled: &'a [i64],
    /// All its claim records are to be checked. It lost the answer to a claim, so it does not know that record.
    pub(crate) check: bool,
    /// The next heartbeat comes within this time.
    pub(crate) again_in: Duration,
}

/// The database's answer to a heartbeat.
#[derive(Debug, Default)]
pub(crate) struct Heartbeat {
    /// False: this worker was declared lost and no longer holds anything.
    pub(crate) alive: bool,
    /// Running jobs with a cancel request, with the fence under which they are held.
    pub(crate) cancelled: Vec<(JobId, i32)>,
    /// The leases of other workers.
    pub(crate) leases: Vec<Lease>,
    /// Jobs of the requested kinds wait.
    pub(crate) work: bool,
    /// The number of the server session that saw the other workers. Another number means another session.
    pub(crate) session: u64,
    /// The sessions of the workers whose lease runs. Empty where sessions carry no information.
    pub(crate) others: Vec<Sight>,
    /// This worker does not hold the lock yet that shows that it lives.
    pub(crate) unheld: bool,
    /// Workers that start later can also tell when this worker's session has ended.
    pub(crate) vouched: bool,
}

/// Another worker's lease, as a heartbeat sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lease {
    pub(crate) worker: WorkerId,
    /// Its last heartbeat, by the database's clock: microseconds since 1970.
    pub(crate) heartbeat: i64,
    /// Microseconds until it runs out by that clock; negative: it has run out.
    pub(crate) left: i64,
    /// For how many microseconds that heartbeat extended it.
    pub(crate) given: i64,
}

/// Another worker's session, as a heartbeat sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sight {
    pub(crate) id: WorkerId,
    /// A session holds the lock that shows that the worker lives.
    pub(crate) held: bool,
    /// A session holds the lock that shows that it holds jobs.
    pub(crate) busy: bool,
    /// Its last heartbeat, by the database's clock: microseconds since 1970.
    pub(crate) heartbeat: i64,
    /// By its row, a session held the first lock at its last heartbeat, in the current run of the server.
    pub(crate) had: bool,
    /// For how many microseconds its next heartbeat has been overdue, by the database's clock; negative before it is
    /// due.
    pub(crate) late: i64,
}

/// The result of one rescue.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Rescued {
    /// Jobs that are retried.
    pub(crate) ready: u64,
    /// Jobs whose lost attempt was their last.
    pub(crate) dead: u64,
    /// Jobs with a cancel request.
    pub(crate) cancelled: u64,
    /// The kind and queue of each that is dead.
    pub(crate) buried: Vec<(String, String)>,
}

impl std::ops::AddAssign for Rescued {
    fn add_assign(&mut self, other: Self) {
        self.ready += other.ready;
        self.dead += other.dead;
        self.cancelled += other.cancelled;
        self.buried.extend(other.buried);
    }
}
