//! What can happen in a state.

use crate::effects::{Act, acts};
use crate::rows::{Number, Outcome};
use crate::rules::Guard;
use crate::world::{Bounds, Hand, Life, Message, World};

/// Something that happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The clock goes on; whoever is well sends a heartbeat.
    Tick,
    /// A process starts.
    Start(usize),
    /// A process without a number joins.
    Join(usize),
    /// A process that was told to shut down has nothing in hand any more and leaves.
    Leave(usize),
    /// A process that did not beat by itself does.
    Beat(usize),
    /// A process whose lease has ended by its own count drops everything; whether its word of it comes through.
    Drop(usize, bool),
    /// A claim.
    Claim(usize, Vec<usize>),
    /// Handlers return and the ends are written.
    End(usize, Vec<usize>, Outcome),
    /// Ends that could not be written are sent again.
    Again(usize, Number, Outcome),
    /// A process gives back what it does not know of.
    GiveBack(usize, usize),
    /// Some worker declares those gone whose lease has ended.
    Expire,
    /// Some worker declares one gone whose session has ended.
    Declare(Number),
    /// Some worker looks for the jobs of those that are gone.
    Look,
    /// A message on its way arrives: its place in the network, and the jobs that a claim takes.
    Arrive(usize, Vec<usize>),
    /// A stopped process is continued.
    Continue(usize),
    /// Something about a handler's transaction.
    Act(Act),
    /// Something goes wrong.
    Fault(Fault),
    /// Something ordinary that costs the job its way.
    Trouble(Trouble),
}

/// What goes wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// `kill -9`.
    Crash(usize),
    /// SIGSTOP.
    Pause(usize),
    /// Heartbeats do not come through any more.
    Cut(usize),
    /// The server ends its session, or it is moved to another one.
    Sever(usize),
    /// A claim gets no answer: it may arrive later, or never.
    ClaimUnanswered(usize),
    /// A claim's answer is late.
    ClaimSlow(usize, Vec<usize>),
    /// Handlers return, and the write gets no answer: it may arrive later, or never.
    EndUnanswered(usize, Vec<usize>, Outcome),
    /// A heartbeat's answer is late.
    BeatSlow(usize),
    /// A handler commits, and gets no answer: the commit may arrive later, or never.
    CommitUnanswered(usize),
}

/// What is no fault, and still not the straight way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// A handler fails or snoozes, or its job is given back.
    End(usize, usize, Outcome),
    /// Somebody asks to cancel a job.
    Cancel(usize),
    /// A process is told to shut down.
    Shutdown(usize),
    /// A handler rolls back its transaction.
    RollBack(usize),
}

impl Step {
    /// Whether it needs no bad luck: when nothing goes wrong any more, it still happens.
    pub fn is_progress(&self) -> bool {
        !matches!(self, Step::Fault(_) | Step::Trouble(_))
    }
}

/// All that can happen.
pub fn steps(world: &World, bounds: &Bounds) -> Vec<Step> {
    let mut steps = Vec::with_capacity(32);
    for process in 0..world.processes.len() {
        of_process(world, bounds, process, &mut steps);
        if world.faults > 0 {
            faults(world, bounds, process, &mut steps);
        }
        if world.troubles > 0 {
            troubles(world, bounds, process, &mut steps);
        }
    }
    let processes = 0..world.processes.len();
    if processes.clone().any(|process| world.is_awake(process)) {
        upkeep(world, bounds, &mut steps);
    }
    for (place, message) in world.network.iter().enumerate() {
        match message {
            Message::Claim(number) => {
                let takes = sets(&world.database.claimable(bounds.rules, *number));
                steps.extend(takes.into_iter().map(|jobs| Step::Arrive(place, jobs)));
            }
            Message::Claimed(to, _) | Message::Beaten(to, _) if !world.is_awake(*to) => {}
            Message::Ends(_, ends) if ends.iter().any(|end| world.is_locked(bounds, end.job)) => {}
            _ => steps.push(Step::Arrive(place, Vec::new())),
        }
    }
    if world.troubles > 0 {
        let jobs = (0..world.database.jobs.len()).filter(|job| !world.is_locked(bounds, *job));
        let open = jobs.filter(|job| world.database.jobs[*job].row.is_some());
        steps.extend(open.map(|job| Step::Trouble(Trouble::Cancel(job))));
    }
    if bounds.effects {
        of_handlers(world, bounds, &mut steps);
    }
    if !processes.into_iter().any(|process| world.must_drop(process)) {
        steps.push(Step::Tick);
    }
    steps
}

fn of_process(world: &World, bounds: &Bounds, process: usize, steps: &mut Vec<Step>) {
    let it = &world.processes[process];
    match (it.life, it.paused) {
        (Life::Down, _) => return steps.push(Step::Start(process)),
        (_, true) => return steps.push(Step::Continue(process)),
        _ => {}
    }
    if it.number == 0 && it.life == Life::Up {
        steps.push(Step::Join(process));
    }
    if it.number != 0 && it.late && !world.awaits_beat(process) {
        steps.push(Step::Beat(process));
    }
    if world.must_drop(process) {
        steps.extend([Step::Drop(process, true), Step::Drop(process, false)]);
    }
    let claims = it.number != 0 && it.life == Life::Up && !world.awaits_claim(process);
    if claims {
        let takes = sets(&world.database.claimable(bounds.rules, it.number));
        steps.extend(takes.into_iter().map(|jobs| Step::Claim(process, jobs)));
    }
    let running = may_return(world, process);
    for outcome in outcomes(world, bounds, process) {
        let ends = |jobs| Step::End(process, jobs, outcome);
        let may_end = |jobs: &Vec<usize>| may_end(world, bounds, jobs, outcome);
        steps.extend(sets(&running).into_iter().filter(may_end).map(ends));
    }
    let mut again: Vec<(Number, Outcome)> = world
        .hands
        .iter()
        .filter(|hand| hand.process == process && hand.ended && !hand.unsettled)
        .filter(|hand| !world.is_locked(bounds, hand.end.job))
        .map(|hand| (hand.number, hand.end.outcome))
        .collect();
    again.sort_unstable();
    again.dedup();
    steps.extend(again.into_iter().map(|(number, outcome)| Step::Again(process, number, outcome)));
    let waits = bounds.rules.has(Guard::StraysWait) && world.awaits_claim(process);
    if bounds.rules.has(Guard::GiveBackStrays) && !waits {
        let strays = world.strays(process).into_iter().filter(|job| !world.is_locked(bounds, *job));
        steps.extend(strays.map(|job| Step::GiveBack(process, job)));
    }
    let idle = !world.awaits_claim(process) && world.hands.iter().all(|hand| hand.process != process);
    if it.life == Life::Stopping && idle {
        steps.push(Step::Leave(process));
    }
}

/// Handlers that complete their jobs in transactions of their own.
fn of_handlers(world: &World, bounds: &Bounds, steps: &mut Vec<Step>) {
    steps.extend(acts(world, bounds).into_iter().map(Step::Act));
    let open = |hand: &Hand| world.is_awake(hand.process) && world.has_completed(hand);
    for at in (0..world.hands.len()).filter(|at| open(&world.hands[*at])) {
        if world.faults > 0 {
            steps.push(Step::Fault(Fault::CommitUnanswered(at)));
        }
        if world.troubles > 0 {
            steps.push(Step::Trouble(Trouble::RollBack(at)));
        }
    }
}

/// How handlers of a process may end without trouble.
fn outcomes(world: &World, bounds: &Bounds, process: usize) -> Vec<Outcome> {
    let completed = (!bounds.effects).then_some(Outcome::Completed);
    let released = (world.processes[process].life == Life::Stopping).then_some(Outcome::Released);
    [completed, Some(Outcome::Cancelled), released].into_iter().flatten().collect()
}

/// What handlers of a process may end without more ado. One that has completed its job has yet to commit.
fn may_return(world: &World, process: usize) -> Vec<usize> {
    world.running(process).filter(|hand| !world.has_completed(hand)).map(|hand| hand.end.job).collect()
}

/// A handler stops as cancelled only when somebody asked for it.
fn may_end(world: &World, bounds: &Bounds, jobs: &[usize], outcome: Outcome) -> bool {
    if jobs.iter().any(|job| world.is_locked(bounds, *job)) {
        return false;
    }
    let asked = |job: &usize| world.database.jobs[*job].row.as_ref().is_some_and(|row| row.cancel);
    outcome != Outcome::Cancelled || jobs.iter().all(asked)
}

fn upkeep(world: &World, bounds: &Bounds, steps: &mut Vec<Step>) {
    if !world.database.expired(bounds.rules).is_empty() {
        steps.push(Step::Expire);
    }
    steps.extend(world.missed(bounds.rules).into_iter().map(Step::Declare));
    let under_way = world.network.iter().any(|message| matches!(message, Message::Rescue(_)));
    if !under_way && !world.database.lost(bounds.rules).is_empty() {
        steps.push(Step::Look);
    }
}

fn faults(world: &World, bounds: &Bounds, process: usize, steps: &mut Vec<Step>) {
    let it = &world.processes[process];
    let mut add = |fault| steps.push(Step::Fault(fault));
    if it.life == Life::Down {
        return;
    }
    add(Fault::Crash(process));
    if it.paused {
        return;
    }
    add(Fault::Pause(process));
    if it.number == 0 {
        return;
    }
    if !it.late {
        add(Fault::Cut(process));
    }
    if !it.severed {
        add(Fault::Sever(process));
    }
    if !world.awaits_beat(process) && !world.database.is_gone(it.number) {
        add(Fault::BeatSlow(process));
    }
    if it.life == Life::Up && !world.awaits_claim(process) {
        let can_claim = world.database.claimable(bounds.rules, it.number);
        if !can_claim.is_empty() {
            add(Fault::ClaimUnanswered(process));
        }
        sets(&can_claim).into_iter().for_each(|jobs| add(Fault::ClaimSlow(process, jobs)));
    }
    let running = may_return(world, process);
    for jobs in sets(&running) {
        let shutdown = (it.life == Life::Stopping).then_some(Outcome::Released);
        let completed = (!bounds.effects).then_some(Outcome::Completed);
        for outcome in [completed, shutdown].into_iter().flatten() {
            add(Fault::EndUnanswered(process, jobs.clone(), outcome));
        }
    }
    if world.troubles > 0 {
        for job in running {
            for outcome in UNEVEN {
                add(Fault::EndUnanswered(process, vec![job], outcome));
            }
        }
    }
}

/// Outcomes that are trouble.
const UNEVEN: [Outcome; 3] = [Outcome::Failed, Outcome::Snoozed, Outcome::Unstarted];

fn troubles(world: &World, bounds: &Bounds, process: usize, steps: &mut Vec<Step>) {
    if !world.is_awake(process) {
        return;
    }
    for job in may_return(world, process).into_iter().filter(|job| !world.is_locked(bounds, *job)) {
        let ends = UNEVEN.map(|outcome| Step::Trouble(Trouble::End(process, job, outcome)));
        steps.extend(ends);
    }
    if world.processes[process].life == Life::Up {
        steps.push(Step::Trouble(Trouble::Shutdown(process)));
    }
}

/// Every set of them but the empty one.
fn sets(jobs: &[usize]) -> Vec<Vec<usize>> {
    let picks = |mask: usize| (0..jobs.len()).filter(|at| mask & (1 << at) != 0).map(|at| jobs[at]).collect();
    (1..1 << jobs.len()).map(picks).collect()
}
