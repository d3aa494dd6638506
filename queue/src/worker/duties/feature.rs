//! The background work of features.

use std::sync::Arc;

use tokio::time::sleep;

use crate::error::Error;
use crate::store::FeatureDuty;
use crate::telemetry;
use crate::worker::duties::{Duty, NEVER};
use crate::worker::shared::Shared;

impl Duty for FeatureDuty {
    async fn due(&mut self, _: &Shared) {
        // the jitter keeps workers that start together apart
        sleep(self.every.mul_f64(0.5 + fastrand::f64())).await;
    }

    async fn run_once(&mut self, shared: &Arc<Shared>) -> Result<(), Error> {
        let is_its_turn = fastrand::usize(..=shared.lease.others()) == 0;
        match (self.round)(is_its_turn).await {
            Err(error) if error.is_a_missing_right() => {
                let (event, feature) = (telemetry::DUTY_FAILED, self.feature);
                tracing::error!(
                    event,
                    feature,
                    %error,
                    "this worker does no background work of the feature until it is restarted; grant it what \
                     docs/security.md lists"
                );
                self.every = NEVER;
                Ok(())
            }
            result => result,
        }
    }

    fn repeats(&self, error: &Error) -> bool {
        let feature = self.feature;
        let event = telemetry::DUTY_FAILED;
        tracing::warn!(event, feature, %error, "background work failed; the next round tries again");
        false
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    use futures_util::FutureExt;

    use super::*;
    use crate::worker::duties;
    use crate::worker::fake::{Answer, MadeUp, error, nothing};

    /// The rounds of a day, and those that were its turn, with other workers beside it.
    async fn rounds(others: usize, answer: Answer) -> (u32, u32) {
        let database = MadeUp::new(|_| Answer::Yes);
        let (shared, _ends) = database.shared(Default::default(), Default::default(), nothing);
        shared.lease.set_others(others);
        let counts = Arc::new((AtomicU32::new(0), AtomicU32::new(0)));
        let counted = counts.clone();
        let round = Box::new(move |is_its_turn: bool| {
            counted.0.fetch_add(1, Ordering::Relaxed);
            counted.1.fetch_add(u32::from(is_its_turn), Ordering::Relaxed);
            let done = match answer {
                Answer::Yes => Ok(()),
                answer => Err(error("no round", answer)),
            };
            std::future::ready(done).boxed()
        });
        let duty = FeatureDuty { feature: "a feature", every: Duration::from_secs(60), round };
        let running = tokio::spawn(duties::run(shared, duty));
        sleep(Duration::from_secs(86_400)).await;
        running.abort();
        (counts.0.load(Ordering::Relaxed), counts.1.load(Ordering::Relaxed))
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
