//! What a step does.

use crate::keys::step::Trouble;
use crate::keys::world::WORKER;
use crate::keys::{Caller, Key, Keys, Noted, Request, Stage, Stands, Step, Until, What, World};
use crate::rows::{End, Job, Outcome};
use crate::rules::{Guard, Promise, Rules, Violation};

impl World {
    /// The state after a step, or the promise that it breaks.
    pub(super) fn after(&self, step: &Step, bounds: &Keys) -> Result<World, Violation> {
        let mut next = self.clone();
        next.take(step, bounds)?;
        next.check(bounds)?;
        Ok(next)
    }

    fn take(&mut self, step: &Step, bounds: &Keys) -> Result<(), Violation> {
        match step {
            Step::Ask(caller, keys, until) => {
                let mut keys = keys.clone();
                if bounds.rules.has(Guard::KeyOrder) {
                    keys.sort_unstable();
                }
                self.requests -= 1;
                self.begin(*caller, What::Enqueue(*until), &keys, Vec::new());
            }
            Step::SendBack(caller, job) => {
                self.troubles -= 1;
                let Noted { key, is_there, .. } = self.noted[*job];
                let keys = if is_there { vec![key] } else { Vec::new() };
                self.begin(*caller, What::SendBack(*job), &keys, vec![*job]);
            }
            Step::Lock(at) => self.of_caller(*at, |world, it| world.lock(bounds, it)),
            Step::Read(at) => {
                let Some(mut it) = self.callers[*at].take() else { return Ok(()) };
                if self.read(bounds, &mut it)? {
                    self.callers[*at] = Some(it);
                }
            }
            Step::Hold(at) => {
                let Some(mut it) = self.callers[*at].take() else { return Ok(()) };
                self.hold(bounds, &mut it)?;
                self.callers[*at] = Some(it);
            }
            Step::Commit(at) => {
                let Some(it) = self.callers[*at].take() else { return Ok(()) };
                self.commit(bounds, &it)?;
            }
            Step::RollBack(at) => {
                let it = self.callers[*at].take();
                self.requests += u8::from(it.is_some_and(|it| matches!(it.what, What::Enqueue(_))));
            }
            Step::Claim(job) => self.database.claim(bounds.rules, WORKER, &[*job])?,
            Step::Complete(job) => self.end(bounds.rules, *job, Outcome::Completed)?,
            Step::Sweep(key) => {
                if let Some(key) = self.keys[*key].take() {
                    self.noted[key.holder].is_there = false;
                }
            }
            Step::Trouble(trouble) => {
                self.troubles -= 1;
                match *trouble {
                    Trouble::End(job, outcome) => self.end(bounds.rules, job, outcome)?,
                    Trouble::Lose(job) => self.database.rescue(bounds.rules, &[(job, WORKER)])?,
                    Trouble::Cancel(job) => self.database.cancel(job),
                    Trouble::Delete(job) => self.database.remove(job),
                }
            }
        }
        Ok(())
    }

    fn end(&mut self, rules: Rules, job: usize, outcome: Outcome) -> Result<(), Violation> {
        let Some(row) = self.row(job) else { return Ok(()) };
        let is_last = outcome == Outcome::Failed && row.attempt > self.database.jobs[job].retries;
        let outcome = if is_last { Outcome::FailedLast } else { outcome };
        let end = End { job, fence: row.fence, claim: row.claims, outcome };
        self.database.end(rules, WORKER, &[end])?;
        // how long it waits before the next attempt is nothing to its key
        self.database.tick();
        Ok(())
    }

    fn begin(&mut self, caller: usize, what: What, keys: &[usize], rows: Vec<usize>) {
        let requests: Vec<Request> = keys.iter().map(|key| Request { key: *key, stands: Stands::Open }).collect();
        let stage = if requests.is_empty() { Stage::Done } else { Stage::Locks(0) };
        let (snapshot, keys, found) = (self.snapshot(), Vec::new(), Vec::new());
        self.callers[caller] = Some(Caller { what, requests, stage, snapshot, keys, rows, found });
    }

    fn of_caller(&mut self, at: usize, change: impl FnOnce(&World, &mut Caller)) {
        if let Some(mut it) = self.callers[at].take() {
            change(self, &mut it);
            self.callers[at] = Some(it);
        }
    }

    /// lock.sql, or as much of take.sql as is about one key.
    fn lock(&self, bounds: &Keys, it: &mut Caller) {
        let Stage::Locks(place) = it.stage else { return };
        let request = &mut it.requests[place];
        if bounds.rules.has(Guard::KeyLocked) && !it.keys.contains(&request.key) {
            it.keys.push(request.key);
        }
        let takes_at_once = !bounds.in_steps && matches!(it.what, What::Enqueue(_));
        if takes_at_once && self.is_free(bounds.rules, request.key, it) {
            it.requests[place].stands = Stands::Taker;
        }
        it.stage = match it.requests.iter().skip(place + 1).position(is_open) {
            Some(next) => Stage::Locks(place + 1 + next),
            None if it.requests.iter().any(is_open) => Stage::Reads,
            None => Stage::Done,
        };
    }

    /// The conditions of take.sql: on the newest row of the key, but on jobs as the statement sees them.
    fn is_free(&self, rules: Rules, key: usize, it: &Caller) -> bool {
        let Some(newest) = self.keys[key] else { return true };
        let job = it.snapshot.jobs.get(newest.holder).copied().flatten();
        let is_known = it.snapshot.keys[key].is_some_and(|it| (it.holder, it.fence) == (newest.holder, newest.fence));
        let is_held = match job {
            Some(fence) => newest.is_held(rules, fence),
            None => !rules.has(Guard::HolderOver),
        };
        !is_held && (is_known || !rules.has(Guard::SnapshotKnows))
    }

    /// holders.sql; with it the insert of the jobs whose keys are free, if that takes several statements. False: the
    /// dead letter cannot go back.
    fn read(&self, bounds: &Keys, it: &mut Caller) -> Result<bool, Violation> {
        for place in 0..it.requests.len() {
            let request = &mut it.requests[place];
            if !is_open(request) {
                continue;
            }
            let holder = self.holder(bounds.rules, request.key);
            match (it.what, holder) {
                (What::SendBack(job), Some((key, _)))
                    if key.holder != job && bounds.rules.has(Guard::SendBackLooks) =>
                {
                    return Ok(false);
                }
                (What::SendBack(_), _) => request.stands = Stands::Taker,
                (What::Enqueue(_), Some((key, true))) => it.found.push((place, key)),
                (What::Enqueue(_), Some((key, false))) => {
                    self.stands(key.holder)?;
                    request.stands = Stands::Kept(key.holder, false);
                }
                (What::Enqueue(_), None) if bounds.in_steps => request.stands = Stands::Taker,
                // the statement that takes keys did not know yet that it is free
                (What::Enqueue(_), None) => {}
            }
        }
        if it.found.is_empty() {
            self.go_on(bounds, it);
        } else {
            it.stage = Stage::Holds;
        }
        Ok(true)
    }

    /// hold.sql; with it replace.sql.
    fn hold(&self, bounds: &Keys, it: &mut Caller) -> Result<(), Violation> {
        let rules = bounds.rules;
        for (place, key) in std::mem::take(&mut it.found) {
            let Some(row) = self.row(key.holder) else { continue };
            let waits = row.holder == 0 || !rules.has(Guard::HoldWaits);
            // PostgreSQL's leaves a job alone that runs: `worker_id = 0`
            if !waits && !bounds.in_steps {
                continue;
            }
            let is_held = key.until == Until::End || row.fence == key.fence || !rules.has(Guard::HoldFence);
            if rules.has(Guard::KeptLocked) || (bounds.replaces && is_held && row.holder == 0) {
                it.rows.push(key.holder);
            }
            if is_held {
                self.stands(key.holder)?;
                it.requests[place].stands = Stands::Kept(key.holder, waits);
            }
        }
        self.go_on(bounds, it);
        Ok(())
    }

    /// What is still open is tried again, by a statement that sees what is committed now.
    fn go_on(&self, bounds: &Keys, it: &mut Caller) {
        it.stage = match it.requests.iter().position(is_open) {
            None => Stage::Done,
            Some(_) if bounds.in_steps => Stage::Reads,
            Some(place) => Stage::Locks(place),
        };
        it.snapshot = self.snapshot();
    }

    /// The job may stand for a request.
    fn stands(&self, job: usize) -> Result<(), Violation> {
        if self.holds(job) { Ok(()) } else { Err(Violation::new(Promise::RequestStands, job)) }
    }

    fn commit(&mut self, bounds: &Keys, it: &Caller) -> Result<(), Violation> {
        for request in &it.requests {
            if let Stands::Kept(job, waits) = request.stands {
                let jobs = &self.database.jobs[job];
                if jobs.row.is_none() && jobs.over.is_none() && !jobs.deleted {
                    return Err(Violation::new(Promise::RequestStands, job));
                }
                if waits && !(self.holds(job) && self.row(job).is_some_and(|row| row.holder == 0)) {
                    return Err(Violation::new(Promise::KeptStartsLater, job));
                }
            }
        }
        match it.what {
            What::SendBack(job) => {
                self.database.send_back(job);
                let since = self.database.jobs[job].last_fence;
                self.noted[job].since = since;
                let fence = if bounds.rules.has(Guard::SendBackFence) { since } else { 0 };
                for request in it.requests.iter().filter(|_| bounds.rules.has(Guard::SendBackTakes)) {
                    self.keys[request.key] = Some(Key { holder: job, until: self.noted[job].until, fence });
                }
            }
            What::Enqueue(until) => {
                for request in it.requests.iter().filter(|request| request.stands == Stands::Taker) {
                    let (key, holder) = (request.key, self.database.jobs.len());
                    self.database.jobs.push(Job::new(bounds.retries));
                    self.noted.push(Noted { key, until, is_there: true, since: 0 });
                    if bounds.rules.has(Guard::KeyWithJob) {
                        self.keys[key] = Some(Key { holder, until, fence: 0 });
                    }
                }
            }
        }
        Ok(())
    }
}

fn is_open(request: &Request) -> bool {
    request.stands == Stands::Open
}
