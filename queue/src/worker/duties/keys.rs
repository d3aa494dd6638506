//! Removes the keys of unique jobs that are nowhere any more.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use crate::error::Error;
use crate::telemetry::Event;
use crate::worker::duties::retention::jittered;
use crate::worker::duties::{Duty, NEVER};
use crate::worker::shared::Shared;

/// In log lines.
const FEATURE: &str = "unique jobs";

/// The sweep of one worker.
pub(crate) struct KeySweep {
    /// Where the last round ended.
    hand: Option<i64>,
    /// The pause between two rounds, before jitter.
    pause: Duration,
}

impl KeySweep {
    pub(crate) fn new() -> Self {
        Self { hand: None, pause: Duration::from_secs(60) }
    }
}

impl Duty for KeySweep {
    async fn due(&mut self, _: &Shared) {
        // the jitter keeps workers that start together apart
        sleep(jittered(self.pause)).await;
    }

    async fn run_once(&mut self, shared: &Arc<Shared>) -> Result<(), Error> {
        let is_its_turn = fastrand::usize(..=shared.lease.others()) == 0;
        match shared.config.store.sweep_keys(&mut self.hand, is_its_turn).await {
            Err(error) if error.is_a_missing_right() => {
                Event::DutyGivenUp { feature: FEATURE, error: &error }.emit();
                self.pause = NEVER;
                Ok(())
            }
            result => result,
        }
    }

    fn repeats(&self, error: &Error) -> bool {
        Event::DutyFailed { feature: FEATURE, what: "old keys cannot be removed", error }.emit();
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::duties;
    use crate::worker::fake::{Answer, Asked, MadeUp, nothing};

    /// The rounds of a day, and those that were its turn, with other workers beside it.
    async fn rounds(others: usize, answer: Answer) -> (usize, usize) {
        let database = MadeUp::new(move |_| answer);
        let (shared, _ends) = database.shared(Default::default(), Default::default(), nothing);
        shared.lease.set_others(others);
        let running = tokio::spawn(duties::run(shared, KeySweep::new()));
        sleep(Duration::from_secs(86_400)).await;
        running.abort();
        let asked = database.asked.borrow();
        let turns = asked.iter().filter(|(_, asked)| *asked == Asked::SweepKeys(true)).count();
        (asked.len(), turns)
    }

    #[tokio::test(start_paused = true)]
    async fn workers_share_the_rounds() {
        let (all, turns) = rounds(0, Answer::Yes).await;
        assert!(all > 1_200 && turns == all, "{turns} of {all}");
        let (all, turns) = rounds(9, Answer::Yes).await;
        assert!(all > 1_200 && (50..300).contains(&turns), "{turns} of {all}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_worker_without_the_rights_tries_once() {
        assert_eq!(rounds(0, Answer::No("42501", "permission denied")).await.0, 1);
        assert!(rounds(0, Answer::Away).await.0 > 1_200, "any other failure may pass");
    }
}
