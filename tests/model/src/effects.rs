//! Attempts whose handler completes the job in a transaction of its own: the effect and the end commit together.

use crate::rows::{End, Number, Outcome};
use crate::rules::{Guard, Promise, Violation};
use crate::world::{Bounds, Hand, World};

/// A handler's transaction that is open in the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    /// In which process the handler runs. None: it runs no more, and the server has not noticed.
    pub process: Option<usize>,
    /// Of which worker the attempt is.
    pub number: Number,
    /// The attempt.
    pub end: End,
    /// How far it is.
    pub stage: Stage,
}

/// How far a handler's transaction is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// The effect is written.
    Begun,
    /// The job is completed in it: the row is locked.
    Completed,
    /// The commit is on its way.
    Sent,
}

/// What a handler with such a transaction does, and what becomes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// The handler of an attempt begins its transaction and writes the effect.
    Begin(usize),
    /// It completes its job in it; a stale one is told so, and rolls back.
    Complete(usize),
    /// It commits and returns.
    Commit(usize),
    /// The worker looks what became of a transaction whose handler has returned.
    Settle(usize),
    /// The commit of an open transaction arrives after all.
    Arrive(usize),
    /// The server notices that nobody speaks for a transaction any more, and rolls it back.
    Abort(usize),
}

/// What can happen without bad luck.
pub(crate) fn acts(world: &World, bounds: &Bounds) -> Vec<Act> {
    let mut acts = Vec::new();
    for (at, hand) in world.hands.iter().enumerate().filter(|(_, hand)| world.is_awake(hand.process)) {
        match world.transaction_of(hand).map(|place| world.transactions[place].stage) {
            _ if hand.unsettled => acts.push(Act::Settle(at)),
            _ if hand.ended => {}
            None => acts.push(Act::Begin(at)),
            Some(Stage::Begun) if !world.is_locked(bounds, hand.end.job) => acts.push(Act::Complete(at)),
            Some(Stage::Completed) => acts.push(Act::Commit(at)),
            Some(Stage::Begun | Stage::Sent) => {}
        }
    }
    for (place, transaction) in world.transactions.iter().enumerate() {
        if transaction.process.is_none() {
            acts.push(Act::Abort(place));
        }
        if transaction.stage == Stage::Sent {
            acts.push(Act::Arrive(place));
        }
    }
    acts
}

impl World {
    /// The open transaction of an attempt's handler.
    pub fn transaction_of(&self, hand: &Hand) -> Option<usize> {
        let is_its = |it: &Transaction| {
            it.process == Some(hand.process) && (it.end.job, it.end.claim) == (hand.end.job, hand.end.claim)
        };
        self.transactions.iter().position(is_its)
    }

    /// The handler could commit now.
    pub(crate) fn has_completed(&self, hand: &Hand) -> bool {
        self.transaction_of(hand).is_some_and(|place| self.transactions[place].stage == Stage::Completed)
    }

    /// A transaction has completed the job and is still open: nobody else writes its row.
    pub fn is_locked(&self, bounds: &Bounds, job: usize) -> bool {
        let locks = |it: &Transaction| it.end.job == job && it.stage != Stage::Begun;
        bounds.rules.has(Guard::CompleteLocks) && self.transactions.iter().any(locks)
    }

    /// The handler of an attempt runs no more, or all those of a process.
    pub(crate) fn abandon(&mut self, process: usize, job: Option<usize>) {
        let is_its = |it: &Transaction| it.process == Some(process) && job.is_none_or(|job| it.end.job == job);
        // what has not completed yet holds nothing that others wait for, and can only be rolled back
        self.transactions.retain(|it| !is_its(it) || it.stage != Stage::Begun);
        for it in self.transactions.iter_mut().filter(|it| is_its(it)) {
            it.process = None;
        }
    }

    pub(crate) fn act(&mut self, bounds: &Bounds, act: Act) -> Result<(), Violation> {
        match act {
            Act::Begin(at) => {
                let Hand { process, number, end, .. } = self.hands[at].clone();
                if !bounds.rules.has(Guard::EffectInside) {
                    self.database.jobs[end.job].effects += 1;
                }
                self.transactions.push(Transaction { process: Some(process), number, end, stage: Stage::Begun });
            }
            Act::Complete(at) => {
                let place = self.own_transaction(at);
                let Transaction { number, end, .. } = &self.transactions[place];
                if self.database.may_complete(bounds.rules, *number, end) {
                    self.transactions[place].stage = Stage::Completed;
                } else {
                    self.transactions.remove(place);
                    self.hands.remove(at);
                }
            }
            Act::Commit(at) => {
                let place = self.own_transaction(at);
                self.returned(at);
                self.commit(bounds, place)?;
            }
            Act::Settle(at) => self.settle(bounds, at),
            Act::Arrive(place) => self.commit(bounds, place)?,
            Act::Abort(place) => {
                self.transactions.remove(place);
            }
        }
        Ok(())
    }

    fn own_transaction(&self, at: usize) -> usize {
        self.transaction_of(&self.hands[at]).expect("its handler began one")
    }

    /// The handler rolls back, and returns all the same.
    pub(crate) fn roll_back(&mut self, at: usize) {
        let place = self.own_transaction(at);
        self.transactions.remove(place);
        self.returned(at);
    }

    /// The handler commits and gets no answer: the commit may arrive later, or never.
    pub(crate) fn send_commit(&mut self, at: usize) {
        let place = self.own_transaction(at);
        let transaction = &mut self.transactions[place];
        (transaction.process, transaction.stage) = (None, Stage::Sent);
        self.returned(at);
    }

    fn returned(&mut self, at: usize) {
        let hand = &mut self.hands[at];
        (hand.ended, hand.unsettled) = (true, true);
    }

    fn commit(&mut self, bounds: &Bounds, place: usize) -> Result<(), Violation> {
        let Transaction { number, end, .. } = self.transactions.remove(place);
        self.database.complete(bounds.rules, number, &end)
    }

    /// still_held.sql
    fn settle(&mut self, bounds: &Bounds, at: usize) {
        let hand = &mut self.hands[at];
        let row = self.database.jobs[hand.end.job].row.as_ref();
        let is_held = row.is_some_and(|row| row.holder == hand.number && row.fence == hand.end.fence);
        let last = hand.attempt > bounds.retries && bounds.rules.has(Guard::BuryAfterLast);
        hand.unsettled = false;
        hand.end.outcome = match (is_held, last) {
            _ if !bounds.rules.has(Guard::AskCommitted) => Outcome::Completed,
            (true, false) => Outcome::Failed,
            (true, true) => Outcome::FailedLast,
            (false, _) => {
                self.hands.remove(at);
                return;
            }
        };
    }

    /// Of each job as many effects as completions.
    pub(crate) fn check_effects(&self) -> Result<(), Violation> {
        match self.database.jobs.iter().position(|job| job.effects != u8::from(job.is_completed())) {
            None => Ok(()),
            Some(job) => Err(Violation::new(Promise::EffectOnce, job)),
        }
    }
}
