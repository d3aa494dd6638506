//! How long a worker waits for its turn to claim.

use std::time::Duration;

use tokio::time::Instant;

/// A turn that took too long to come: its holder is slow, stopped, or gone without the server knowing. Turns are tried again
/// after about so long, and later and later while that is no better.
pub(super) const WITHOUT: Duration = Duration::from_secs(30);
const LONGEST: Duration = Duration::from_secs(600);

/// Who waits longer than so many times what its own claim takes waits for others that are slower.
const WORTH: u32 = 30;

/// Whether turns are waited for at present.
#[derive(Debug, Default)]
pub(super) struct Patience {
    /// No turns before this, and how long that was.
    without: Option<(Instant, Duration)>,
}

impl Patience {
    /// Whether to wait for a turn.
    pub(super) fn waits(&self) -> bool {
        self.without.is_none_or(|(until, _)| Instant::now() >= until)
    }

    /// A turn came after `waited`, and what was done in it took so long.
    pub(super) fn turn_came(&mut self, waited: Duration, took: Duration) {
        if waited > took * WORTH {
            self.lose();
        } else {
            self.without = None;
        }
    }

    /// No turn came, or not in time.
    pub(super) fn lose(&mut self) {
        let pause = self.without.map_or(WITHOUT, |(_, last)| (last * 2).min(LONGEST));
        // not all at the same time
        let until = Instant::now() + pause.mul_f64(0.75 + fastrand::f64() / 2.0);
        self.without = Some((until, pause));
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[tokio::test(start_paused = true)]
    async fn turns_that_do_not_come_are_tried_later_and_later() {
        let mut patience = Patience::default();
        assert!(patience.waits());
        for pause in [30, 60, 120, 240, 480, 600, 600] {
            patience.lose();
            advance(Duration::from_secs(pause).mul_f64(0.74)).await;
            assert!(!patience.waits(), "{pause}");
            advance(Duration::from_secs(pause).mul_f64(0.52)).await;
            assert!(patience.waits(), "{pause}");
        }
        patience.turn_came(30 * MS, MS);
        patience.lose();
        advance(Duration::from_secs(38)).await;
        assert!(patience.waits(), "one that was worth it makes the next pause short");
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_much_longer_than_it_claims_does_without() {
        let mut patience = Patience::default();
        patience.turn_came(30 * MS, MS);
        assert!(patience.waits());
        patience.turn_came(31 * MS, MS);
        assert!(!patience.waits());
    }
}
