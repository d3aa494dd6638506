//! Steps as sentences.

use crate::effects::{Act, Transaction};
use crate::rows::{Number, Outcome};
use crate::step::{Fault, Step, Trouble};
use crate::world::{Message, World};

impl Step {
    /// What happens, in a state.
    pub fn tell(&self, world: &World) -> String {
        match self {
            Step::Tick => "a tick passes; every worker that is well sends its heartbeat".to_owned(),
            Step::Start(process) => format!("{} starts under a new number", name(*process)),
            Step::Join(process) => format!("{} joins under a new number", name(*process)),
            Step::Leave(process) => format!("{} has nothing in hand any more and leaves", name(*process)),
            Step::Beat(process) => format!("{} sends its heartbeat again", worker(world, *process)),
            Step::Drop(process, told) => {
                let word = if *told { "and gives its number up" } else { "and cannot say so" };
                format!("{} finds its lease ended, drops what it runs {word}", worker(world, *process))
            }
            Step::Claim(process, jobs) => format!("{} claims {}", worker(world, *process), list(jobs)),
            Step::End(process, jobs, outcome) => {
                format!("{}: {}, and that is written", worker(world, *process), ended(jobs, *outcome))
            }
            Step::Again(process, number, outcome) => {
                format!("{} sends again under number {number} what ended as {}", name(*process), word(*outcome))
            }
            Step::GiveBack(process, job) => {
                format!(
                    "{} does not know of {}, which it holds, and gives it back",
                    worker(world, *process),
                    list(&[*job])
                )
            }
            Step::Expire => {
                format!("a worker declares gone whose lease is past: {}", numbers(&world.database.expired_by_clock()))
            }
            Step::Declare(number) => format!("a worker declares gone whose session has ended: number {number}"),
            Step::Look => "a worker looks for the jobs of those that are gone".to_owned(),
            Step::Arrive(place, jobs) => arrival(&world.network[*place], jobs),
            Step::Act(act) => act.tell(world),
            Step::Continue(process) => format!("{} is continued", worker(world, *process)),
            Step::Fault(fault) => fault.tell(world),
            Step::Trouble(trouble) => trouble.tell(world),
        }
    }
}

impl Fault {
    fn tell(&self, world: &World) -> String {
        match self {
            Fault::Crash(process) => format!("{} is killed", worker(world, *process)),
            Fault::Pause(process) => format!("{} is stopped (SIGSTOP)", worker(world, *process)),
            Fault::Cut(process) => format!("heartbeats of {} do not come through any more", worker(world, *process)),
            Fault::Sever(process) => format!("the session of {} is ended", worker(world, *process)),
            Fault::ClaimUnanswered(process) => {
                format!("{} claims, gets no answer and gives up waiting", worker(world, *process))
            }
            Fault::ClaimSlow(process, jobs) => {
                format!("{} claims {}; the answer is on its way", worker(world, *process), list(jobs))
            }
            Fault::EndUnanswered(process, jobs, outcome) => {
                let what = ended(jobs, *outcome);
                format!("{}: {what}, but the write gets no answer and may still arrive", worker(world, *process))
            }
            Fault::CommitUnanswered(at) => {
                format!("{} commits and gets no answer; the commit may still arrive", handler(world, *at))
            }
            Fault::BeatSlow(process) => {
                format!("{} sends a heartbeat, which counts; the answer is on its way", worker(world, *process))
            }
        }
    }
}

impl Trouble {
    fn tell(&self, world: &World) -> String {
        match self {
            Trouble::End(process, job, outcome) => {
                format!("{}: {}, and that is written", worker(world, *process), ended(&[*job], *outcome))
            }
            Trouble::Cancel(job) => format!("somebody cancels {}", list(&[*job])),
            Trouble::RollBack(at) => format!("{} rolls back, and returns all the same", handler(world, *at)),
            Trouble::Shutdown(process) => format!("{} is told to shut down", worker(world, *process)),
        }
    }
}

impl Act {
    fn tell(self, world: &World) -> String {
        match self {
            Act::Begin(at) => format!("{} begins a transaction and writes its effect", handler(world, at)),
            Act::Complete(at) => format!("{} completes its job in its transaction", handler(world, at)),
            Act::Commit(at) => format!("{} commits", handler(world, at)),
            Act::Settle(at) => {
                format!("the worker looks what became of the transaction of {}", handler(world, at))
            }
            Act::Arrive(place) => format!("the commit for {} arrives after all", attempt(world, place)),
            Act::Abort(place) => format!("the server rolls back the transaction for {}", attempt(world, place)),
        }
    }
}

/// The handler of an attempt.
fn handler(world: &World, at: usize) -> String {
    let hand = &world.hands[at];
    format!("the handler of job {} in {}", hand.end.job + 1, worker(world, hand.process))
}

/// The attempt of a transaction.
fn attempt(world: &World, place: usize) -> String {
    let Transaction { number, end, .. } = &world.transactions[place];
    format!("job {} under fence {} of number {number}", end.job + 1, end.fence)
}

fn arrival(message: &Message, jobs: &[usize]) -> String {
    match message {
        Message::Claim(number) => format!("number {number}'s claim arrives after all and takes {}", list(jobs)),
        Message::Ends(number, ends) => {
            let what: Vec<_> =
                ends.iter().map(|end| format!("job {} under fence {}", end.job + 1, end.fence)).collect();
            format!("number {number}'s write arrives after all: {} {}", what.join(", "), word(ends[0].outcome))
        }
        Message::Rescue(lost) => {
            let what: Vec<_> = lost.iter().map(|(job, number)| format!("job {} of number {number}", job + 1)).collect();
            format!("the rescue takes back what it saw: {}", what.join(", "))
        }
        Message::Delete(job) => format!("job {} is deleted from queue_jobs", job + 1),
        Message::Claimed(process, hands) => {
            let jobs: Vec<usize> = hands.iter().map(|hand| hand.end.job).collect();
            format!("{} gets its claim's answer and starts {}", name(*process), list(&jobs))
        }
        Message::Beaten(process, age) => format!("{} gets its heartbeat's answer, {age} ticks late", name(*process)),
    }
}

fn name(process: usize) -> String {
    format!("worker {}", char::from(b'A' + u8::try_from(process).unwrap_or(25)))
}

fn worker(world: &World, process: usize) -> String {
    match world.processes[process].number {
        0 => format!("{} (no number)", name(process)),
        number => format!("{} (number {number})", name(process)),
    }
}

fn list(jobs: &[usize]) -> String {
    let names: Vec<_> = jobs.iter().map(|job| format!("job {}", job + 1)).collect();
    names.join(" and ")
}

fn numbers(numbers: &[Number]) -> String {
    let names: Vec<_> = numbers.iter().map(|number| format!("number {number}")).collect();
    if names.is_empty() { "one whose lease runs".to_owned() } else { names.join(", ") }
}

fn ended(jobs: &[usize], outcome: Outcome) -> String {
    format!("{} {}", list(jobs), word(outcome))
}

fn word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Completed => "completed",
        Outcome::Cancelled => "stopped as cancelled",
        Outcome::Failed => "failed",
        Outcome::FailedLast => "failed for the last time",
        Outcome::Snoozed => "snoozed",
        Outcome::Released => "released at shutdown",
        Outcome::Unstarted => "given back without a start",
    }
}
