//! What a step does.

use crate::rows::{End, Number, Outcome};
use crate::rules::{Guard, Violation};
use crate::step::{Fault, Step, Trouble};
use crate::world::{Bounds, Hand, Life, Message, World};

impl World {
    /// The state after a step, or the promise that it breaks.
    pub fn after(&self, step: &Step, bounds: &Bounds) -> Result<World, Violation> {
        let mut next = self.clone();
        next.take(step, bounds)?;
        next.check(bounds)?;
        Ok(next)
    }

    fn take(&mut self, step: &Step, bounds: &Bounds) -> Result<(), Violation> {
        let rules = bounds.rules;
        match step {
            Step::Tick => self.tick(bounds),
            Step::Start(process) | Step::Join(process) => {
                self.processes[*process].life = Life::Up;
                self.join(bounds, *process);
            }
            Step::Leave(process) => {
                let number = self.processes[*process].number;
                if number != 0 {
                    self.database.leave(number);
                }
                self.crash(*process);
            }
            Step::Beat(process) => self.beat(bounds, *process),
            Step::Drop(process, told) => {
                if *told {
                    self.database.leave(self.processes[*process].number);
                }
                self.drop_everything(*process);
            }
            Step::Claim(process, jobs) => {
                self.database.claim(rules, self.processes[*process].number, jobs)?;
                self.hands.extend(self.claimed(*process, jobs));
            }
            Step::End(process, jobs, outcome) => self.send_ends(bounds, *process, jobs, *outcome)?,
            Step::Again(process, number, outcome) => self.send_again(bounds, *process, *number, *outcome)?,
            Step::GiveBack(process, job) => {
                let stray = self.claimed(*process, &[*job]);
                let ends: Vec<End> =
                    stray.into_iter().map(|hand| End { outcome: Outcome::Unstarted, ..hand.end }).collect();
                self.database.end(rules, self.processes[*process].number, &ends)?;
            }
            Step::Expire => self.database.expire(rules),
            Step::Declare(number) => self.database.declare(*number),
            Step::Look => self.network.push(Message::Rescue(self.database.lost(rules))),
            Step::Arrive(place, jobs) => self.arrive(bounds, *place, jobs)?,
            Step::Act(act) => self.act(bounds, *act)?,
            Step::Continue(process) => self.processes[*process].paused = false,
            Step::Fault(fault) => {
                self.faults -= 1;
                self.fault(bounds, fault)?;
            }
            Step::Trouble(trouble) => {
                self.troubles -= 1;
                self.trouble(bounds, trouble)?;
            }
        }
        Ok(())
    }

    fn arrive(&mut self, bounds: &Bounds, place: usize, jobs: &[usize]) -> Result<(), Violation> {
        match self.network.remove(place) {
            Message::Claim(number) => self.database.claim(bounds.rules, number, jobs)?,
            Message::Ends(number, ends) => self.write(bounds, number, &ends)?,
            Message::Rescue(mut lost) => {
                // SKIP LOCKED
                lost.retain(|(job, _)| !self.is_locked(bounds, *job));
                self.database.rescue(bounds.rules, &lost)?;
            }
            Message::Delete(job) => self.database.delete(job),
            Message::Claimed(_, hands) => self.hands.extend(hands),
            Message::Beaten(process, age) => {
                let since = if bounds.rules.has(Guard::CountFromSent) { age } else { 0 };
                let it = &mut self.processes[process];
                it.mine = it.mine.max((bounds.lease - 1).saturating_sub(since));
                it.late = false;
            }
        }
        Ok(())
    }

    fn fault(&mut self, bounds: &Bounds, fault: &Fault) -> Result<(), Violation> {
        match fault {
            Fault::Crash(process) => self.crash(*process),
            Fault::Pause(process) => {
                self.processes[*process].paused = true;
                self.processes[*process].late = true;
            }
            Fault::Cut(process) => self.processes[*process].late = true,
            Fault::Sever(process) => self.processes[*process].severed = true,
            Fault::ClaimUnanswered(process) => self.network.push(Message::Claim(self.processes[*process].number)),
            Fault::ClaimSlow(process, jobs) => {
                self.database.claim(bounds.rules, self.processes[*process].number, jobs)?;
                self.network.push(Message::Claimed(*process, self.claimed(*process, jobs)));
            }
            Fault::EndUnanswered(process, jobs, outcome) => {
                let is_trouble = !matches!(outcome, Outcome::Completed | Outcome::Released);
                self.troubles -= u8::from(is_trouble);
                let (number, ends) = self.finish(bounds, *process, jobs, *outcome);
                self.network.push(Message::Ends(number, ends));
            }
            Fault::CommitUnanswered(at) => self.send_commit(*at),
            Fault::BeatSlow(process) => {
                self.database.beat(bounds.rules, self.processes[*process].number, bounds.lease);
                self.network.push(Message::Beaten(*process, 0));
                self.processes[*process].late = true;
            }
        }
        Ok(())
    }

    fn trouble(&mut self, bounds: &Bounds, trouble: &Trouble) -> Result<(), Violation> {
        match trouble {
            Trouble::End(process, job, outcome) => self.send_ends(bounds, *process, &[*job], *outcome)?,
            Trouble::Cancel(job) => self.database.cancel(*job),
            Trouble::RollBack(at) => self.roll_back(*at),
            Trouble::Shutdown(process) => self.processes[*process].life = Life::Stopping,
        }
        Ok(())
    }

    /// Handlers of a process end: how, as it will be written.
    fn finish(&mut self, bounds: &Bounds, process: usize, jobs: &[usize], outcome: Outcome) -> (Number, Vec<End>) {
        let retries = bounds.retries;
        let mut ends = Vec::new();
        let mut number = 0;
        for hand in self.hands.iter_mut().filter(|hand| hand.process == process && !hand.ended) {
            if !jobs.contains(&hand.end.job) {
                continue;
            }
            let last = hand.attempt > retries && bounds.rules.has(Guard::BuryAfterLast);
            hand.end.outcome = if outcome == Outcome::Failed && last { Outcome::FailedLast } else { outcome };
            hand.ended = true;
            number = hand.number;
            ends.push(hand.end.clone());
        }
        ends.iter().for_each(|end| self.abandon(process, Some(end.job)));
        (number, ends)
    }

    fn send_ends(
        &mut self,
        bounds: &Bounds,
        process: usize,
        jobs: &[usize],
        outcome: Outcome,
    ) -> Result<(), Violation> {
        let (number, ends) = self.finish(bounds, process, jobs, outcome);
        self.hands.retain(|hand| hand.process != process || !ends.contains(&hand.end));
        self.write(bounds, number, &ends)
    }

    fn send_again(
        &mut self,
        bounds: &Bounds,
        process: usize,
        number: Number,
        outcome: Outcome,
    ) -> Result<(), Violation> {
        let locked: Vec<bool> = self.hands.iter().map(|hand| self.is_locked(bounds, hand.end.job)).collect();
        let sent = |hand: &Hand, is_locked: bool| {
            let is_ready = hand.ended && !hand.unsettled && !is_locked;
            is_ready && (hand.process, hand.number, hand.end.outcome) == (process, number, outcome)
        };
        let hands = self.hands.iter().zip(&locked);
        let ends: Vec<End> =
            hands.filter(|(hand, is_locked)| sent(hand, **is_locked)).map(|(hand, _)| hand.end.clone()).collect();
        let mut locked = locked.into_iter();
        self.hands.retain(|hand| !sent(hand, locked.next().unwrap_or_default()));
        self.write(bounds, number, &ends)
    }

    fn write(&mut self, bounds: &Bounds, number: Number, ends: &[End]) -> Result<(), Violation> {
        let undone = self.database.end(bounds.rules, number, ends)?;
        self.network.extend(undone.into_iter().map(Message::Delete));
        Ok(())
    }
}
