//! The heartbeat beside a database made up that is away.

use super::*;
use crate::worker::fake::{Answer, Asked, LOCKED, MadeUp, NO_RIGHT, nothing};
use crate::worker::run::attempt::Timing;
use std::sync::atomic::Ordering;

/// The shortest lease that there can be.
fn short() -> Timing {
    Timing { heartbeat: Duration::from_millis(100), lease: Duration::from_millis(300), ..Timing::default() }
}

#[tokio::test(start_paused = true)]
async fn a_worker_without_heartbeats_stops_before_its_lease_runs_out() {
    for _ in 0..20 {
        let store = MadeUp::new(|asked| match asked {
            Asked::Heartbeat(_) => Answer::Away,
            _ => Answer::Yes,
        });
        let (shared, _ends) = store.shared(Default::default(), short(), nothing);
        let joined = Instant::now();
        let beating = tokio::spawn(run(shared.clone(), shared.lease.extend(joined)));
        let stopped = store.was_asked(|asked| matches!(asked, Asked::Join | Asked::Leave(..))).await - joined;
        beating.abort();
        assert!(stopped <= Duration::from_millis(252), "{stopped:?}");
    }
}

/// When the database answers again, after so long, it hears of the old number first: once that has answered, the next
/// one is taken. Returns what it was asked, and when the worker had its new number.
async fn lost_for(outage: Duration, leaves: Answer) -> (Vec<Asked>, Duration) {
    let began = Instant::now();
    let store = MadeUp::new(move |asked| match asked {
        _ if began.elapsed() < outage => Answer::Away,
        Asked::Leave(..) => leaves,
        _ => Answer::Yes,
    });
    let (shared, _ends) = store.shared(Default::default(), Timing::default(), nothing);
    let beating = tokio::spawn(run(shared.clone(), shared.lease.extend(began)));
    let again = store.was_asked(|asked| *asked == Asked::Heartbeat(2)).await - began;
    assert_eq!(shared.lease.id(), 2);
    beating.abort();
    let answered: Vec<_> = store.asked.borrow().iter().filter(|(at, _)| *at - began >= outage).cloned().collect();
    let all = answered.into_iter().map(|(_, asked)| asked).filter(|asked| !matches!(asked, Asked::Heartbeat(_)));
    (all.collect(), again)
}

#[tokio::test(start_paused = true)]
async fn a_lost_number_is_given_up_as_soon_as_the_database_answers() {
    let (asked, again) = lost_for(Duration::from_secs(9), Answer::Yes).await;
    let well = Asked::Leave(1, Duration::ZERO);
    assert_eq!(asked, [well, Asked::Join], "nobody works on the connections that go with the old number");
    assert!(again < Duration::from_secs(11), "{again:?}");
    // after so long its lease has run out, but it still says that it was well
    let (asked, again) = lost_for(Duration::from_secs(40), Answer::Yes).await;
    assert_eq!(asked, [Asked::Leave(1, Duration::ZERO), Asked::Join]);
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

/// Beats for two minutes on a file, the first of which answers like this. Returns what was asked but heartbeats, and
/// how many of these were answered.
async fn on_a_file(first: impl Fn() -> Answer + Send + Sync + 'static, lease_left: Duration) -> (Vec<Asked>, usize) {
    let began = Instant::now();
    let store = MadeUp::new(move |asked| match asked {
        Asked::Heartbeat(1) if began.elapsed() < Duration::from_secs(60) => first(),
        _ => Answer::Yes,
    });
    store.one_writer.store(true, Ordering::Relaxed);
    let (shared, _ends) = store.shared(Default::default(), Timing::default(), nothing);
    let beating = tokio::spawn(run(shared, began + lease_left));
    sleep(Duration::from_secs(120)).await;
    beating.abort();
    let late = store.asked.borrow().iter().filter(|(at, _)| *at - began > Duration::from_secs(61)).count();
    (store.all(), late)
}

#[tokio::test(start_paused = true)]
async fn a_writer_that_holds_the_file_costs_no_lease() {
    let lease = Timing::default().lease;
    let waits = [2, 4, 5, 6, 7, 60].map(|secs| Answer::Late(Duration::from_secs(secs)));
    for first in [LOCKED].into_iter().chain(waits) {
        let (asked, late) = on_a_file(move || first, lease).await;
        assert_eq!(asked, [], "it goes on under its number");
        assert!(late > 20, "and beats as ever: {late}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_file_that_cannot_be_written_at_all_costs_the_lease() {
    for refusal in
        [Answer::No("13", "database or disk is full"), Answer::No("8", "attempt to write a readonly database")]
    {
        let (asked, _) = on_a_file(move || refusal, Timing::default().lease).await;
        assert_eq!(asked[..2], [Asked::Leave(1, Duration::ZERO), Asked::Join]);
    }
}

/// Somebody may have written meanwhile, and taken over.
#[tokio::test(start_paused = true)]
async fn a_worker_suspended_beyond_its_lease_gives_up_while_the_file_is_held() {
    let (asked, _) = on_a_file(|| LOCKED, Duration::ZERO).await;
    let silent = Timing::default().lease;
    assert_eq!(asked[..2], [Asked::Leave(1, silent), Asked::Join]);
}
