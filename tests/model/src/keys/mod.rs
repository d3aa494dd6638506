//! Unique jobs: callers that ask for keys in transactions, beside the life of the jobs. See `docs/unique.md`.
//!
//! The jobs are those of [`Database`], whose statements know of no keys. So no edge of a job but its enqueue and its
//! return from the dead letters can read or write one. A statement of a caller is one step if nothing can come between.
//! Transactions are READ COMMITTED: each statement sees what was committed when it began, and the newest version of
//! what it locks.
//!
//! [`Database`]: crate::database::Database

mod canonical;
mod moves;
mod step;
mod tell;
mod world;

pub use step::Step;
pub use world::{Caller, Key, Noted, Request, Snapshot, Stage, Stands, Until, What, World};

use crate::rules::{Promise, Rules, Violation};
use crate::search::Model;

/// How large the world is, and which rules hold.
#[derive(Clone, Copy, Debug)]
pub struct Keys {
    /// Callers, each with one transaction at a time.
    pub callers: usize,
    /// Keys.
    pub keys: usize,
    /// Enqueues that are committed.
    pub requests: u8,
    /// `max_retries` of each job.
    pub retries: i32,
    /// Failures, snoozes, lost workers, cancellations, deletions, dead letters sent back: so many in all.
    pub troubles: u8,
    /// How long a caller may want the key to be held.
    pub until: &'static [Until],
    /// Whether callers replace what waits, or keep it. Replacing needs a key that is held until the start.
    pub replaces: bool,
    /// An enqueue asks for all keys at once, in any order. Else for one of them.
    pub batches: bool,
    /// Keys are taken in several statements, as on MySQL, MariaDB and SQLite. Else in one, as on PostgreSQL.
    pub in_steps: bool,
    /// The guards.
    pub rules: Rules,
    /// Look for this broken promise; for any, when none is named.
    pub only: Option<Promise>,
}

impl Keys {
    /// Two callers, one key, and as many requests and troubles.
    pub fn small(in_steps: bool, requests: u8, troubles: u8) -> Self {
        let (rules, until) = (Rules::default(), &[Until::Start, Until::End]);
        let (callers, keys, retries, replaces, batches) = (2, 1, 0, false, false);
        Self { callers, keys, requests, retries, troubles, until, replaces, batches, in_steps, rules, only: None }
    }

    /// Two keys, which all ask for at once.
    pub fn batches(in_steps: bool, requests: u8, troubles: u8) -> Self {
        Self { keys: 2, batches: true, until: &[Until::End], ..Self::small(in_steps, requests, troubles) }
    }
}

impl Model for Keys {
    type State = World;
    type Step = Step;

    fn with(&self, rules: Rules, only: Promise) -> Self {
        Self { rules, only: Some(only), ..*self }
    }

    fn seeks(&self, promise: Promise) -> bool {
        self.only.is_none_or(|only| only == promise)
    }

    fn first(&self) -> World {
        World::new(self)
    }

    fn steps(&self, world: &World) -> Vec<Step> {
        step::steps(world, self)
    }

    fn after(&self, world: &World, step: &Step) -> Result<World, Violation> {
        world.after(step, self)
    }

    fn is_progress(&self, step: &Step) -> bool {
        !matches!(step, Step::RollBack(_) | Step::SendBack(..) | Step::Trouble(_))
    }

    fn open(&self, world: &World) -> Option<usize> {
        let waits = world.callers.iter().any(Option::is_some).then_some(0);
        world.database.jobs.iter().position(|job| job.row.is_some()).or(waits)
    }

    fn key(&self, world: &World) -> Box<[u8]> {
        canonical::key(world)
    }

    fn tell(&self, world: &World, step: &Step) -> String {
        step.tell(world)
    }
}
