//! Steps as sentences.

use crate::keys::step::Trouble;
use crate::keys::{Stage, Stands, Step, Until, What, World};
use crate::rows::Outcome;

impl Step {
    /// What happens, in a state.
    pub(super) fn tell(&self, world: &World) -> String {
        match self {
            Step::Ask(at, keys, until) => {
                let until = if *until == Until::Start { "start" } else { "end" };
                format!("{} begins to enqueue for {} until the {until}", caller(*at), list(keys))
            }
            Step::SendBack(at, job) => format!("{} begins to send job {} back", caller(*at), job + 1),
            Step::Lock(at) => {
                let it = world.callers[*at].as_ref();
                let key = it.and_then(|it| match it.stage {
                    Stage::Locks(place) => Some(it.requests[place].key),
                    _ => None,
                });
                format!("{} has {} to itself", caller(*at), list(&Vec::from_iter(key)))
            }
            Step::Read(at) => format!("{} reads who has its keys", caller(*at)),
            Step::Hold(at) => format!("{} looks again at the jobs that wait", caller(*at)),
            Step::Commit(at) => format!("{} commits: {}", caller(*at), outcome(world, *at)),
            Step::RollBack(at) => format!("{} rolls back", caller(*at)),
            Step::Claim(job) => format!("job {} is claimed", job + 1),
            Step::Complete(job) => format!("job {} is completed", job + 1),
            Step::Sweep(key) => format!("key {} is swept", key + 1),
            Step::Trouble(trouble) => trouble.tell(),
        }
    }
}

impl Trouble {
    fn tell(self) -> String {
        match self {
            Trouble::End(job, Outcome::Failed) => format!("job {} fails", job + 1),
            Trouble::End(job, _) => format!("job {} snoozes", job + 1),
            Trouble::Lose(job) => format!("the worker of job {} is lost, and the job is taken back", job + 1),
            Trouble::Cancel(job) => format!("somebody cancels job {}", job + 1),
            Trouble::Delete(job) => format!("somebody deletes job {}", job + 1),
        }
    }
}

fn outcome(world: &World, at: usize) -> String {
    let Some(it) = &world.callers[at] else { return String::new() };
    if let What::SendBack(job) = it.what {
        return format!("job {} waits again", job + 1);
    }
    let words = it.requests.iter().map(|request| match request.stands {
        Stands::Kept(job, _) => format!("job {} is kept", job + 1),
        Stands::Taker | Stands::Open => "a new job".to_owned(),
    });
    words.collect::<Vec<_>>().join(", ")
}

fn caller(at: usize) -> String {
    format!("caller {}", char::from(b'A' + u8::try_from(at).unwrap_or(25)))
}

fn list(keys: &[usize]) -> String {
    let names: Vec<_> = keys.iter().map(|key| format!("key {}", key + 1)).collect();
    names.join(" and ")
}
