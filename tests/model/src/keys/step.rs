//! What can happen in a state.

use crate::keys::{Keys, Stage, Until, World};
use crate::rows::Outcome;
use crate::rules::Guard;

/// Something that happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A caller begins a transaction and asks for keys.
    Ask(usize, Vec<usize>, Until),
    /// A caller begins to send a dead letter back: it moves the job.
    SendBack(usize, usize),
    /// A caller locks its next key.
    Lock(usize),
    /// A caller reads who has its keys.
    Read(usize),
    /// A caller locks the holders that wait.
    Hold(usize),
    /// A caller commits.
    Commit(usize),
    /// A caller rolls back.
    RollBack(usize),
    /// The worker claims a job.
    Claim(usize),
    /// A handler returns, and the end is written.
    Complete(usize),
    /// A key is swept.
    Sweep(usize),
    /// Something that costs a job its way.
    Trouble(Trouble),
}

/// What costs a job its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// A handler fails or snoozes.
    End(usize, Outcome),
    /// The worker that runs it is lost.
    Lose(usize),
    /// Somebody cancels it.
    Cancel(usize),
    /// Somebody deletes it.
    Delete(usize),
}

/// All that can happen.
pub(super) fn steps(world: &World, bounds: &Keys) -> Vec<Step> {
    let mut steps = Vec::new();
    for (at, caller) in world.callers.iter().enumerate() {
        let Some(caller) = caller else {
            // callers without a transaction are alike
            if world.callers[..at].iter().all(Option::is_some) {
                begins(world, bounds, at, &mut steps);
            }
            continue;
        };
        match caller.stage {
            _ if world.blocked_by(at, bounds).is_some() => {}
            Stage::Locks(_) => steps.push(Step::Lock(at)),
            Stage::Reads => steps.push(Step::Read(at)),
            Stage::Holds => steps.push(Step::Hold(at)),
            Stage::Done => steps.push(Step::Commit(at)),
        }
        steps.push(Step::RollBack(at));
    }
    for job in (0..world.noted.len()).filter(|job| !world.is_locked(*job)) {
        of_job(world, job, &mut steps);
    }
    for (at, key) in world.keys.iter().enumerate() {
        let is_nowhere = |job: usize| {
            world.row(job).is_none() && (world.database.jobs[job].deleted || !bounds.rules.has(Guard::SweepNowhere))
        };
        if !world.is_key_locked(at) && key.is_some_and(|key| is_nowhere(key.holder)) {
            steps.push(Step::Sweep(at));
        }
    }
    steps
}

fn begins(world: &World, bounds: &Keys, caller: usize, steps: &mut Vec<Step>) {
    if world.requests > 0 {
        let all: Vec<usize> = (0..bounds.keys).collect();
        let lists = match bounds.batches {
            true => vec![all.clone(), all.into_iter().rev().collect()],
            false => all.into_iter().map(|key| vec![key]).collect(),
        };
        for list in lists {
            steps.extend(bounds.until.iter().map(|until| Step::Ask(caller, list.clone(), *until)));
        }
    }
    if world.troubles > 0 {
        let dead = (0..world.noted.len()).filter(|job| world.is_dead(*job) && !world.is_locked(*job));
        steps.extend(dead.map(|job| Step::SendBack(caller, job)));
    }
}

fn of_job(world: &World, job: usize, steps: &mut Vec<Step>) {
    let troubles = world.troubles > 0;
    let mut trouble = |trouble| steps.extend(troubles.then_some(Step::Trouble(trouble)));
    match world.row(job) {
        Some(row) if row.holder == 0 => {
            trouble(Trouble::Cancel(job));
            trouble(Trouble::Delete(job));
            steps.push(Step::Claim(job));
        }
        Some(_) => {
            trouble(Trouble::End(job, Outcome::Failed));
            trouble(Trouble::End(job, Outcome::Snoozed));
            trouble(Trouble::Lose(job));
            steps.push(Step::Complete(job));
        }
        None if !world.database.jobs[job].deleted => trouble(Trouble::Delete(job)),
        None => {}
    }
}
