//! The tables, and the statements on them. Each function is one transaction of the real thing, with its conditions.

use crate::rows::{End, Job, Number, Outcome, Over, Row, Worker};
use crate::rules::{Guard, Promise, Rules, Violation};

/// All tables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Database {
    /// By job.
    pub jobs: Vec<Job>,
    /// By number less one.
    pub workers: Vec<Worker>,
}

impl Database {
    /// A row of `queue_workers`.
    pub fn worker(&mut self, number: Number) -> &mut Worker {
        &mut self.workers[usize::from(number) - 1]
    }

    /// Whether a number is declared gone, or was never given.
    pub fn is_gone(&self, number: Number) -> bool {
        self.workers.get(usize::from(number).wrapping_sub(1)).is_none_or(|worker| worker.stopped)
    }

    fn has_lease(&self, number: Number) -> bool {
        !self.is_gone(number) && self.workers[usize::from(number) - 1].left > 0
    }

    /// join.sql
    pub fn join(&mut self, lease: u32) -> Number {
        self.workers.push(Worker { left: lease, stopped: false });
        Number::try_from(self.workers.len()).expect("few workers")
    }

    /// heartbeat.sql. False: the number is gone.
    pub fn beat(&mut self, rules: Rules, number: Number, lease: u32) -> bool {
        if rules.has(Guard::BeatNotStopped) && self.is_gone(number) {
            return false;
        }
        self.worker(number).left = lease;
        if !rules.has(Guard::NotesKept) {
            let held = self.jobs.iter_mut().filter_map(|job| job.row.as_mut()).filter(|row| row.holder == number);
            held.for_each(|row| row.noted = false);
        }
        true
    }

    /// leave.sql
    pub fn leave(&mut self, number: Number) {
        self.worker(number).stopped = true;
    }

    /// Jobs that a claim may take.
    pub fn claimable(&self, rules: Rules, number: Number) -> Vec<usize> {
        if rules.has(Guard::LeaseAtClaim) && !self.has_lease(number) {
            return Vec::new();
        }
        let free = |row: &Row| row.holder == 0 || (!rules.has(Guard::ClaimWaiting) && row.holder != number);
        let due = |job: &Job| job.row.as_ref().is_some_and(|row| free(row) && row.delay == 0);
        (0..self.jobs.len()).filter(|job| due(&self.jobs[*job])).collect()
    }

    /// claim.sql, after it chose what to take from what it may.
    pub fn claim(&mut self, rules: Rules, number: Number, jobs: &[usize]) -> Result<(), Violation> {
        let has_lease = self.has_lease(number);
        for &index in jobs {
            let job = &mut self.jobs[index];
            let Some(row) = &mut job.row else { continue };
            let broken = match job.over {
                _ if !has_lease => Some(Promise::NoClaimWithoutLease),
                Some(_) => Some(Promise::NothingTwice),
                None if job.asked => Some(Promise::CancelKept),
                None => None,
            };
            if let Some(promise) = broken {
                return Err(Violation::new(promise, index));
            }
            row.holder = number;
            row.cancel = false;
            row.noted = true;
            row.claims += 1;
            row.fence += u32::from(rules.has(Guard::LeaseRises));
            row.attempt += i32::from(rules.has(Guard::CountAttempt));
        }
        Ok(())
    }

    /// finish.sql, requeue.sql, bury.sql: a batch of ends under one worker number. A row that the fence protects does
    /// not change. Returns the jobs whose row a later transaction has to delete.
    pub fn end(&mut self, rules: Rules, number: Number, ends: &[End]) -> Result<Vec<usize>, Violation> {
        let mut undone = Vec::new();
        for end in ends {
            let Some(row) = &self.jobs[end.job].row else { continue };
            let is_holder = row.holder == number || !rules.has(Guard::FenceWorker);
            let is_lease = row.fence == end.fence || !rules.has(Guard::FenceLease);
            if !is_holder || !is_lease {
                continue;
            }
            if row.holder != number || row.claims != end.claim {
                return Err(row.stale_write(end.job));
            }
            if self.accept(rules, end) {
                undone.push(end.job);
            }
        }
        Ok(undone)
    }

    /// True: the row is still there.
    fn accept(&mut self, rules: Rules, end: &End) -> bool {
        let job = &mut self.jobs[end.job];
        let Some(row) = &mut job.row else { return false };
        let uncounted = matches!(end.outcome, Outcome::Snoozed | Outcome::Released | Outcome::Unstarted);
        let attempt = row.attempt - i32::from(uncounted);
        job.counted += i32::from(!uncounted && end.outcome != Outcome::Completed);
        match end.outcome {
            Outcome::Completed if !rules.has(Guard::OneTransaction) => {
                job.over = Some((Over::Completed, attempt));
                return true;
            }
            Outcome::Completed => job.end(Over::Completed, attempt),
            Outcome::Cancelled => job.end(Over::Cancelled, attempt),
            Outcome::FailedLast => job.end(Over::Dead, attempt),
            _ if row.cancel && rules.has(Guard::CancelHolds) => job.end(Over::Cancelled, attempt),
            outcome => {
                row.holder = 0;
                row.cancel = false;
                row.attempt = attempt;
                row.delay = u32::from(matches!(outcome, Outcome::Failed | Outcome::Snoozed));
            }
        }
        false
    }

    /// complete.sql: whether it completes the job in a transaction that is still to be committed.
    pub fn may_complete(&self, rules: Rules, number: Number, end: &End) -> bool {
        let is_its = |row: &Row| row.holder == number && row.fence == end.fence;
        self.jobs[end.job].row.as_ref().is_some_and(|row| is_its(row) || !rules.has(Guard::CompleteFence))
    }

    /// That transaction is committed, and the effect of the attempt with it.
    pub fn complete(&mut self, rules: Rules, number: Number, end: &End) -> Result<(), Violation> {
        let job = &mut self.jobs[end.job];
        job.effects += u8::from(rules.has(Guard::EffectInside));
        match &job.row {
            Some(row) if row.holder == number && row.claims == end.claim => {
                let attempt = row.attempt;
                job.end(Over::Completed, attempt);
                Ok(())
            }
            _ => Err(Violation::new(Promise::NoStaleEffect, end.job)),
        }
    }

    /// What is left of an end's transaction that was none.
    pub fn delete(&mut self, job: usize) {
        self.jobs[job].row = None;
    }

    /// Numbers that expire_workers.sql would stop now.
    pub fn expired(&self, rules: Rules) -> Vec<Number> {
        let past = |worker: &Worker| !worker.stopped && (worker.left == 0 || !rules.has(Guard::ExpireOnlyExpired));
        (1..).zip(&self.workers).filter(|(_, worker)| past(worker)).map(|(number, _)| number).collect()
    }

    /// Numbers whose lease is past and that nobody declared gone yet.
    pub fn expired_by_clock(&self) -> Vec<Number> {
        self.expired(Rules::default())
    }

    /// Numbers whose lease runs.
    pub fn alive(&self) -> Vec<Number> {
        let alive = |worker: &Worker| !worker.stopped && worker.left > 0;
        (1..).zip(&self.workers).filter(|(_, worker)| alive(worker)).map(|(number, _)| number).collect()
    }

    /// declare_lost.sql
    pub fn declare(&mut self, number: Number) {
        self.worker(number).stopped = true;
    }

    /// expire_workers.sql
    pub fn expire(&mut self, rules: Rules) {
        for number in self.expired(rules) {
            self.worker(number).stopped = true;
        }
    }

    /// lost.sql: jobs, and who holds them.
    pub fn lost(&self, rules: Rules) -> Vec<(usize, Number)> {
        let lost =
            |row: &&Row| row.holder != 0 && row.noted && (self.is_gone(row.holder) || !rules.has(Guard::LostOnlyGone));
        let rows = (0..).zip(&self.jobs).filter_map(|(index, job)| Some((index, job.row.as_ref().filter(lost)?)));
        rows.map(|(index, row)| (index, row.holder)).collect()
    }

    /// lock_lost.sql and rescue.sql: what becomes of jobs that were found to be lost.
    pub fn rescue(&mut self, rules: Rules, lost: &[(usize, Number)]) -> Result<(), Violation> {
        for &(index, number) in lost {
            let job = &mut self.jobs[index];
            let Some(row) = &mut job.row else { continue };
            if row.holder != number {
                if rules.has(Guard::RescueStillHeld) {
                    continue;
                }
                return Err(row.stale_write(index));
            }
            job.counted += 1;
            let attempt = row.attempt;
            if attempt > job.retries && rules.has(Guard::RescueBuries) {
                job.end(Over::Dead, attempt);
            } else if row.cancel && rules.has(Guard::CancelHolds) {
                job.end(Over::Cancelled, attempt);
            } else {
                row.holder = 0;
                row.cancel = false;
                row.attempt -= i32::from(!rules.has(Guard::RescueCounts));
            }
        }
        Ok(())
    }

    /// Admin::cancel: at once when it waits, else a request to its worker.
    pub fn cancel(&mut self, index: usize) {
        let job = &mut self.jobs[index];
        match &mut job.row {
            Some(row) if row.holder == 0 => {
                let attempt = row.attempt;
                job.end(Over::Cancelled, attempt);
            }
            Some(row) => {
                row.cancel = true;
                job.asked = true;
            }
            None => {}
        }
    }

    /// send_back.sql: a dead letter waits again, with all its attempts. The fence continues.
    pub fn send_back(&mut self, index: usize) {
        let job = &mut self.jobs[index];
        let new = Job::new(job.retries);
        let row = new.row.map(|row| Row { fence: job.last_fence, ..row });
        (job.row, job.over, job.counted) = (row, None, 0);
    }

    /// delete.sql: a job that waits or is over is in no table any more.
    pub fn remove(&mut self, index: usize) {
        let job = &mut self.jobs[index];
        (job.row, job.over, job.deleted) = (None, None, true);
    }

    /// A tick of the database's clock.
    pub fn tick(&mut self) {
        for worker in &mut self.workers {
            worker.left = worker.left.saturating_sub(1);
        }
        for row in self.jobs.iter_mut().filter_map(|job| job.row.as_mut()) {
            row.delay = row.delay.saturating_sub(1);
        }
    }

    /// What the tables must say at any time; only one promise, when one is named.
    pub fn check(&self, only: Option<Promise>) -> Result<(), Violation> {
        for (index, job) in self.jobs.iter().enumerate() {
            let broken = job.broken().into_iter().flatten().find(|promise| only.is_none_or(|only| only == *promise));
            if let Some(promise) = broken {
                return Err(Violation::new(promise, index));
            }
        }
        Ok(())
    }
}
