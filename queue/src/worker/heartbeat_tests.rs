//! The heartbeat beside a database made up that is away.

use super::super::config::Timing;
use super::super::made_up::{Answer, Asked, MadeUp, nothing};
use super::*;

/// The shortest lease that there can be.
fn short() -> Timing {
    Timing { heartbeat: Duration::from_millis(100), lease: Duration::from_millis(300), ..Timing::default() }
}

#[tokio::test(start_paused = true)]
async fn who_cannot_beat_stops_before_the_lease_has_run_out_however_short_it_is() {
    for _ in 0..20 {
        let store = MadeUp::new(|asked| match asked {
            Asked::Beat(_) => Answer::Away,
            _ => Answer::Yes,
        });
        let (shared, _ends) = store.shared(Default::default(), short(), nothing);
        let joined = Instant::now();
        let beating = tokio::spawn(run(shared.clone(), joined));
        let stopped = store.was_asked(|asked| matches!(asked, Asked::Join | Asked::Leave(_))).await - joined;
        beating.abort();
        assert!(stopped <= Duration::from_millis(252), "{stopped:?}");
    }
}
