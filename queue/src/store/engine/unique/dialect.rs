//! What each engine does for unique jobs. It includes the transactions that the library begins for its callers, which
//! unique jobs were the first to need.

use std::collections::HashSet;

use serde::Serialize;
use sqlx::{Database, Error};

use crate::store::values::{NewJob, Whose};
use crate::unique::UniqueUntil;

/// What one engine does for unique jobs.
pub(crate) trait UniqueDialect: Database {
    /// The first way to try for a single job.
    fn shortest(whose: Whose) -> Way;

    /// Takes the keys that are free and inserts their jobs. Locks the other keys, or only reads them: then the caller
    /// locks those of their holders that must wait for it. Each key is wanted once.
    ///
    /// `over`: holders that are over, although this transaction may still see them. None: this way failed, and what
    /// was written must be undone. [`Way::Locks`] does not fail so.
    fn take(
        conn: &mut Self::Connection,
        jobs: &[&NewJob],
        over: &HashSet<i64>,
        way: Way,
    ) -> impl Future<Output = Result<Option<Taken>, Error>> + Send;

    /// Locks keys, each once and in the order of kind and key. Inserts the missing ones without a holder (`job_id` 0).
    fn lock(conn: &mut Self::Connection, keys: &[Key<'_>]) -> impl Future<Output = Result<(), Error>> + Send;

    /// The holders of those locked keys that are not free. The keys are in the same order.
    fn holders(
        conn: &mut Self::Connection,
        keys: &[Key<'_>],
    ) -> impl Future<Output = Result<Vec<Holder>, Error>> + Send;

    /// Gives locked keys to jobs that wait.
    fn give(conn: &mut Self::Connection, keys: &[Given<'_>]) -> impl Future<Output = Result<(), Error>> + Send;
}

/// How an engine takes keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// In one call, which needs no transaction around it. On servers, a key that is taken stays locked until the
    /// caller's commit.
    AtOnce,
    /// The same through a pool of PostgreSQL: a key that is taken is not locked.
    Looks,
    /// A key that looks new is taken for new, and one that is taken stays unlocked.
    Bets,
    /// In the caller's transaction, or one around it.
    Locks,
}

/// What became of jobs that want keys. A job is known by its place in their list.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    /// The new jobs.
    pub(crate) new: Vec<(usize, i64)>,
    /// Who has the other keys.
    pub(crate) holders: Vec<Holder>,
}

/// A job that has a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) place: usize,
    pub(crate) id: i64,
    /// It has the key as long as its fence is this. None: until it is over.
    pub(super) under: Option<i32>,
    pub(super) state: HolderState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HolderState {
    Waits,
    /// It runs, or it is over and its time is not.
    Held,
    /// The caller's snapshot is older than the holder, so it cannot tell.
    Unknown,
}

/// A key that somebody wants, as the statements read it.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Key<'a> {
    /// Its place in the list of those who want keys.
    pub(crate) place: usize,
    pub(crate) kind: &'a str,
    pub(crate) key: &'a str,
}

impl<'a> Key<'a> {
    pub(crate) fn of(place: usize, job: &'a NewJob) -> Self {
        Self { place, kind: &job.kind, key: &job.rule().key }
    }
}

/// A key and the job that gets it, as the statements read it.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Given<'a> {
    pub(crate) kind: &'a str,
    pub(crate) key: &'a str,
    pub(crate) job_id: i64,
    pub(crate) until: &'static str,
    pub(crate) fence: i32,
    /// None: no longer than the job has it.
    #[serde(skip)]
    pub(crate) at_least_us: Option<i64>,
}

impl UniqueUntil {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::End => "end",
        }
    }
}
