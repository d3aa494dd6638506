//! A state: the jobs, the keys, and the open transactions of callers.

use crate::database::Database;
use crate::keys::Keys;
use crate::rows::{Number, Over, Row};
use crate::rules::{Guard, Promise, Rules, Violation};

/// The one worker, whose lease never ends.
pub(super) const WORKER: Number = 1;

/// When a key is free again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// At the first claim of its holder.
    Start,
    /// When its holder is over.
    End,
}

/// A row of `queue_unique_keys`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// `job_id`
    pub holder: usize,
    /// `held_until`
    pub until: Until,
    /// `fence`
    pub fence: u32,
}

/// A row of `queue_unique_jobs`, of each job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Noted {
    /// Which key.
    pub key: usize,
    /// `held_until`
    pub until: Until,
    /// The row is there.
    pub is_there: bool,
    /// Under which fence the job began to wait, enqueued or sent back. No column.
    pub since: u32,
}

/// What a caller's transaction does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Jobs are enqueued whose keys are held so long.
    Enqueue(Until),
    /// A dead letter is sent back.
    SendBack(usize),
}

/// What stands for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stands {
    /// Nothing yet.
    Open,
    /// A new job, or the dead letter: it takes the key with the commit.
    Taker,
    /// A job that is there, and whether it waits.
    Kept(usize, bool),
}

/// A key that a caller wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Which one.
    pub key: usize,
    /// What stands for it.
    pub stands: Stands,
}

/// What was committed when a statement began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// `queue_unique_keys`
    pub keys: Vec<Option<Key>>,
    /// The fences in `queue_jobs`.
    pub jobs: Vec<Option<u32>>,
}

/// How far a caller's statements are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// This request's key is the next to be locked.
    Locks(usize),
    /// All keys are locked: who has them?
    Reads,
    /// Some holders wait. They are to be locked.
    Holds,
    /// To be committed.
    Done,
}

/// An open transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// What it does.
    pub what: What,
    /// For which keys.
    pub requests: Vec<Request>,
    /// How far it is.
    pub stage: Stage,
    /// What the statement that locks the keys sees.
    pub snapshot: Snapshot,
    /// Keys that it has locked.
    pub keys: Vec<usize>,
    /// Rows of jobs that it has locked.
    pub rows: Vec<usize>,
    /// Holders that seemed to wait: the place of the request, and the key.
    pub found: Vec<(usize, Key)>,
}

/// A state.
#[derive(Clone, Debug)]
pub struct World {
    /// The tables of jobs.
    pub database: Database,
    /// By job.
    pub noted: Vec<Noted>,
    /// `queue_unique_keys`, as it is committed.
    pub keys: Vec<Option<Key>>,
    /// None: it has no transaction.
    pub callers: Vec<Option<Caller>>,
    /// Enqueues that may still be committed.
    pub requests: u8,
    /// Troubles that may still come.
    pub troubles: u8,
}

impl World {
    pub(super) fn new(bounds: &Keys) -> Self {
        let mut database = Database::default();
        database.join(u32::MAX);
        let keys = vec![None; bounds.keys];
        let callers = vec![None; bounds.callers];
        Self { database, noted: Vec::new(), keys, callers, requests: bounds.requests, troubles: bounds.troubles }
    }

    pub(super) fn row(&self, job: usize) -> Option<&Row> {
        self.database.jobs[job].row.as_ref()
    }

    pub(super) fn is_dead(&self, job: usize) -> bool {
        matches!(self.database.jobs[job].over, Some((Over::Dead, _)))
    }

    /// A job that can never come back.
    pub(super) fn is_finished(&self, job: usize) -> bool {
        self.row(job).is_none() && !self.is_dead(job)
    }

    /// A caller has locked its row.
    pub(super) fn is_locked(&self, job: usize) -> bool {
        self.callers.iter().flatten().any(|caller| caller.rows.contains(&job))
    }

    pub(super) fn is_key_locked(&self, key: usize) -> bool {
        self.callers.iter().flatten().any(|caller| caller.keys.contains(&key))
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        let fence = |job: &crate::rows::Job| job.row.as_ref().map(|row| row.fence);
        Snapshot { keys: self.keys.clone(), jobs: self.database.jobs.iter().map(fence).collect() }
    }

    /// holders.sql, of one key: None if it is free, else the key, and whether its holder waits.
    pub(super) fn holder(&self, rules: Rules, key: usize) -> Option<(Key, bool)> {
        let key = self.keys[key]?;
        match self.row(key.holder) {
            Some(row) => key.is_held(rules, row.fence).then_some((key, row.holder == 0)),
            None => (!rules.has(Guard::HolderOver)).then_some((key, false)),
        }
    }

    /// The job has the right to its key, whatever the tables of keys say.
    pub(super) fn holds(&self, job: usize) -> bool {
        let Noted { until, since, .. } = self.noted[job];
        self.row(job).is_some_and(|row| until == Until::End || row.fence == since)
    }

    /// For whom a caller waits.
    pub(super) fn blocked_by(&self, caller: usize, bounds: &Keys) -> Option<usize> {
        let it = self.callers[caller].as_ref()?;
        let locks = |other: &Caller| match it.stage {
            Stage::Locks(place) => bounds.rules.has(Guard::KeyLocked) && other.keys.contains(&it.requests[place].key),
            // PostgreSQL does not see a row that is about to be inserted; MySQL and MariaDB would wait for it
            Stage::Holds if matches!(other.what, What::SendBack(_)) => {
                bounds.in_steps
                    && !bounds.rules.has(Guard::SendBackLocksFirst)
                    && it.found.iter().any(|(_, key)| other.rows.contains(&key.holder))
            }
            Stage::Holds => it.found.iter().any(|(_, key)| other.rows.contains(&key.holder)),
            Stage::Reads | Stage::Done => false,
        };
        let others = (0..).zip(&self.callers).filter(|(other, _)| *other != caller);
        others.filter_map(|(other, it)| Some((other, it.as_ref()?))).find(|(_, it)| locks(it)).map(|(other, _)| other)
    }

    /// What must be so in every state.
    pub(super) fn check(&self, bounds: &Keys) -> Result<(), Violation> {
        self.database.check(bounds.only)?;
        let mut holders = vec![None; self.keys.len()];
        for job in (0..self.noted.len()).filter(|job| self.holds(*job)) {
            if holders[self.noted[job].key].replace(job).is_some() {
                return Err(Violation::new(Promise::OneHolder, job));
            }
        }
        match (0..self.callers.len()).find(|caller| self.is_in_circle(*caller, bounds)) {
            Some(_) => Err(Violation::new(Promise::NoDeadlock, 0)),
            None => Ok(()),
        }
    }

    /// A caller waits for others, of whom one waits for it.
    fn is_in_circle(&self, caller: usize, bounds: &Keys) -> bool {
        let next = |caller: &usize| self.blocked_by(*caller, bounds);
        std::iter::successors(next(&caller), next).take(self.callers.len()).any(|it| it == caller)
    }
}

impl Key {
    /// `k.held_until = 'end' OR j.fence = k.fence`
    pub(super) fn is_held(&self, rules: Rules, fence: u32) -> bool {
        self.until == Until::End || fence == self.fence || !rules.has(Guard::HolderFence)
    }
}
