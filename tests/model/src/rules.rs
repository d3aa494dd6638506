//! The guards of the protocol, and what they guard.

use std::fmt;

/// A condition of the protocol. Without it the model goes wrong: `tests/guards.rs` has a counterexample for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    /// A write of an attempt names the worker: `worker_id = $1`.
    FenceWorker,
    /// A write of an attempt names the claim: `fence = d.fence`.
    FenceLease,
    /// Every claim adds one to `fence`.
    LeaseRises,
    /// The claim asks for a lease that runs: `stopped_at IS NULL AND expires_at > now`.
    LeaseAtClaim,
    /// The claim takes rows that nobody holds: `worker_id = 0`.
    ClaimWaiting,
    /// The claim counts the attempt: `attempt = attempt + 1`.
    CountAttempt,
    /// A worker buries a job whose last attempt failed, instead of putting it back.
    BuryAfterLast,
    /// The rescue buries a job whose last attempt was lost: `attempt > max_retries`.
    RescueBuries,
    /// The rescue counts the lost attempt: it leaves `attempt` as it is.
    RescueCounts,
    /// Only workers whose lease ran out are declared gone: `expires_at < now`.
    ExpireOnlyExpired,
    /// While its lease runs, a worker is declared lost only if its session has ended and it sent no heartbeat since.
    DeclareOnlyMissed,
    /// The rescue looks for the jobs of workers that are gone, and of no others.
    LostOnlyGone,
    /// The rescue takes what the lost worker still holds: `j.worker_id = d.worker_id`.
    RescueStillHeld,
    /// A worker that was declared gone cannot extend its lease: `stopped_at IS NULL`.
    BeatNotStopped,
    /// A worker that gets no answer to its heartbeats drops what it runs before its lease can have run out.
    SelfStop,
    /// A lease counts from before the heartbeat was sent, not from its answer.
    CountFromSent,
    /// A worker gives back what the database says it holds and it does not know of.
    GiveBackStrays,
    /// It does so only when no claim's answer can still be on its way.
    StraysWait,
    /// What was asked to be cancelled does not go back to waiting: `cancel_requested_at IS NULL`.
    CancelHolds,
    /// An end's statements are one transaction.
    OneTransaction,
    /// A heartbeat removes notes of claims of which nothing is held any more, and no others (PostgreSQL).
    NotesKept,
    /// A completion in a handler's transaction names the worker and the fence of its attempt.
    CompleteFence,
    /// It locks the job's row until that transaction ends.
    CompleteLocks,
    /// The effect is written in that transaction.
    EffectInside,
    /// After it, the worker looks whether it was committed, instead of taking the handler's word.
    AskCommitted,
    /// An enqueue, or a send back, locks the key's row until its transaction ends.
    KeyLocked,
    /// Everybody locks several keys in the same order.
    KeyOrder,
    /// The one statement that takes a key (PostgreSQL) does so only if its snapshot knows the key's holder.
    SnapshotKnows,
    /// A send back locks its key before the row of its job is there again.
    SendBackLocksFirst,
    /// A holder that is over has lost its key: it is not in `queue_jobs`.
    HolderOver,
    /// A holder until its start has lost its key with its first claim: `j.fence = k.fence`.
    HolderFence,
    /// A kept job that waits is locked until the caller's transaction ends.
    KeptLocked,
    /// Under that lock it is looked at again: whether it still waits,
    HoldWaits,
    /// ... and whether it has not started meanwhile.
    HoldFence,
    /// A new job and its key are one transaction.
    KeyWithJob,
    /// A dead letter goes back only if no other job has its key.
    SendBackLooks,
    /// It takes its key again.
    SendBackTakes,
    /// It takes it under its own fence, which continues.
    SendBackFence,
    /// The sweep removes the keys of jobs that are nowhere any more, and of no others.
    SweepNowhere,
}

/// Which guards hold: all, but for those taken away.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rules {
    removed: u64,
}

impl Rules {
    /// The protocol without some of its guards.
    pub fn without(guards: &[Guard]) -> Self {
        Self { removed: guards.iter().fold(0, |removed, guard| removed | 1 << *guard as u64) }
    }

    /// Whether a guard holds.
    pub fn has(self, guard: Guard) -> bool {
        self.removed & (1 << guard as u64) == 0
    }
}

/// What must never be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// A job is in `queue_jobs`, in the history or in the dead letters.
    NothingLost,
    /// A completed or cancelled job does not run again.
    NothingTwice,
    /// A running process holds the jobs that it runs, if its session lives and its lease has not run out by its own
    /// count. So no two processes run the same job.
    OneAttemptRuns,
    /// A write counts only when its attempt is current.
    NoStaleWrite,
    /// No write of an earlier attempt, or meant for one, touches the current one.
    CurrentAttemptKept,
    /// A job is given only to a worker whose lease runs.
    NoClaimWithoutLease,
    /// No job has more attempts than its retries allow.
    AttemptsAllowed,
    /// A dead letter has had all its attempts.
    DeadAfterLast,
    /// `attempt` is the number of attempts on record that count, and the current one.
    HistoryAgrees,
    /// A job that was asked to be cancelled while it ran does not run again.
    CancelKept,
    /// From wherever faults have led, every job still comes to an end once they cease.
    EveryJobEnds,
    /// Of each job as many effects are committed as completions: one or none.
    EffectOnce,
    /// No attempt commits an effect after it has lost its job.
    NoStaleEffect,
    /// Of all jobs with a key, one at most holds it: until its first claim, or until it is over.
    OneHolder,
    /// A request stands for a job that held the key when it was asked for, and is in some table unless somebody deleted
    /// it.
    RequestStands,
    /// A job that waits and is kept or replaced starts after the caller's commit.
    KeptStartsLater,
    /// Nobody waits for somebody who waits for them.
    NoDeadlock,
}

/// A broken promise, and by which job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which one.
    pub promise: Promise,
    /// The job's index.
    pub job: usize,
}

impl Violation {
    /// Of a job.
    pub fn new(promise: Promise, job: usize) -> Self {
        Self { promise, job }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.promise {
            Promise::NoDeadlock => return write!(f, "callers wait for each other's keys"),
            Promise::NothingLost => "is in no table any more: it is lost",
            Promise::NothingTwice => "is over and is claimed again",
            Promise::OneAttemptRuns => "runs in a process that believes in its lease, and is not its any more",
            Promise::NoStaleWrite => "was changed by a write of an attempt that is over",
            Promise::CurrentAttemptKept => "has its current attempt ended by a write that is not that attempt's",
            Promise::NoClaimWithoutLease => "was given to a worker whose lease has ended",
            Promise::AttemptsAllowed => "has more attempts than its retries allow",
            Promise::DeadAfterLast => "is a dead letter with attempts left",
            Promise::HistoryAgrees => "has another number of attempts than there are on record",
            Promise::CancelKept => "was asked to be cancelled and is claimed again",
            Promise::EveryJobEnds => "may never end: nothing that can still happen gets it out of `queue_jobs`",
            Promise::EffectOnce => "has another number of effects than of completions",
            Promise::OneHolder => "holds a key beside another job",
            Promise::RequestStands => "stands for a request, and does not hold the key",
            Promise::KeptStartsLater => "was kept for a caller and started before its commit",
            Promise::NoStaleEffect => "has an effect of an attempt that was over",
        };
        write!(f, "job {} {what}", self.job + 1)
    }
}
