//! The heartbeat beside a database made up that is away.

use super::super::config::Timing;
use super::super::made_up::{Answer, Asked, MadeUp, NO_RIGHT, nothing};
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
        let beating = tokio::spawn(run(shared.clone(), shared.lease_from(joined)));
        let stopped = store.was_asked(|asked| matches!(asked, Asked::Join | Asked::Leave(_))).await - joined;
        beating.abort();
        assert!(stopped <= Duration::from_millis(252), "{stopped:?}");
    }
}

/// When the database answers again, after so long, it hears of the old number first: once that has answered, the next one is
/// taken. Returns what it was asked, and when the worker had its new number.
async fn lost_for(outage: Duration, leaves: Answer) -> (Vec<Asked>, Duration) {
    let began = Instant::now();
    let store = MadeUp::new(move |asked| match asked {
        _ if began.elapsed() < outage => Answer::Away,
        Asked::Leave(_) => leaves,
        _ => Answer::Yes,
    });
    let (shared, _ends) = store.shared(Default::default(), Timing::default(), nothing);
    let beating = tokio::spawn(run(shared.clone(), shared.lease_from(began)));
    let again = store.was_asked(|asked| *asked == Asked::Beat(2)).await - began;
    assert_eq!(shared.id(), 2);
    beating.abort();
    let answered: Vec<_> = store.asked.borrow().iter().filter(|(at, _)| *at - began >= outage).cloned().collect();
    let all = answered.into_iter().map(|(_, asked)| asked).filter(|asked| !matches!(asked, Asked::Beat(_)));
    (all.collect(), again)
}

#[tokio::test(start_paused = true)]
async fn a_lost_number_is_given_up_as_soon_as_the_database_answers() {
    let (asked, again) = lost_for(Duration::from_secs(9), Answer::Yes).await;
    assert_eq!(asked, [Asked::Leave(1), Asked::Join], "nobody works on the connections that go with the old number");
    assert!(again < Duration::from_secs(11), "{again:?}");
    // after so long its lease has run out
    let (asked, again) = lost_for(Duration::from_secs(40), Answer::Yes).await;
    assert_eq!(asked, [Asked::Join]);
    assert!(again < Duration::from_secs(42), "{again:?}");
}

#[tokio::test(start_paused = true)]
async fn a_lost_number_that_cannot_be_given_up_does_not_keep_the_next_one() {
    for answer in [Answer::Silence, NO_RIGHT] {
        let (asked, again) = lost_for(Duration::from_secs(7), answer).await;
        assert_eq!(asked.last(), Some(&Asked::Join));
        assert!(asked.len() > 1, "{asked:?}");
        assert!(again < Duration::from_secs(15), "{again:?}");
    }
}
