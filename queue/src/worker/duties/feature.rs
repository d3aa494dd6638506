//! The background work of features.

use std::sync::Arc;

use tokio::time::sleep;

use crate::error::Error;
use crate::store::FeatureDuty;
use crate::telemetry;
use crate::worker::duties::Duty;
use crate::worker::shared::Shared;

impl Duty for FeatureDuty {
    async fn due(&mut self, _: &Shared) {
        // the jitter keeps workers that start together apart
        sleep(self.every.mul_f64(0.5 + fastrand::f64())).await;
    }

    async fn run_once(&mut self, _: &Arc<Shared>) -> Result<(), Error> {
        (self.round)().await
    }

    fn repeats(&self, error: &Error) -> bool {
        let feature = self.feature;
        let event = telemetry::DUTY_FAILED;
        tracing::warn!(event, feature, %error, "background work failed; the next round tries again");
        false
    }
}
