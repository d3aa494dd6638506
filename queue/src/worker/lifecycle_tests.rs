//! The end of a worker beside a database made up: what claims took that nobody has in hand.

use std::future::pending;

use futures_util::FutureExt;

use super::*;
use crate::worker::fake::{Answer, Asked, MadeUp, nothing};
use crate::worker::run::attempt::Timing;

/// Runs a worker until it was asked to claim for the first time, and ends it then, at once or not. Returns what the
/// database was asked at the end, and how long that took.
async fn ended(store: &Arc<MadeUp>, hurry: bool) -> (Vec<Asked>, Duration) {
    let config = store.config(Default::default(), Timing::default(), nothing);
    let claims = store.clone();
    let signal = async move { claims.was_asked(|asked| matches!(asked, Asked::Claim(_))).await };
    let (shutdown, immediately) = (signal.shared(), pending::<()>());
    let began = shutdown.clone();
    let run = async {
        if hurry {
            supervise(config, pending(), shutdown.map(drop)).await
        } else {
            supervise(config, shutdown.map(drop), immediately).await
        }
    };
    run.await.expect("a good end");
    let last = store.all().into_iter().filter(|asked| !matches!(asked, Asked::Claim(_) | Asked::Join)).collect();
    (last, began.await.elapsed())
}

#[tokio::test(start_paused = true)]
async fn what_a_slow_claim_brings_to_a_worker_that_ends_at_once_goes_back() {
    let store = MadeUp::new(|asked| match asked {
        Asked::Claim(_) => Answer::Late(Duration::from_secs(3)),
        _ => Answer::Yes,
    });
    store.enqueue("q", 7);
    let (last, took) = ended(&store, true).await;
    assert_eq!(last, [Asked::Requeue(vec![7]), Asked::Holding(2), Asked::Leave(2, Duration::ZERO)]);
    assert!(took < Duration::from_secs(4), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn what_a_claim_took_whose_answer_was_lost_goes_back_at_the_end() {
    let store = MadeUp::new(|asked| match asked {
        Asked::Claim(_) => Answer::Away,
        _ => Answer::Yes,
    });
    store.held.lock().unwrap().extend([(7, 1), (8, 3)]);
    let (last, _) = ended(&store, false).await;
    assert_eq!(last, [Asked::Holding(2), Asked::Requeue(vec![7, 8]), Asked::Leave(2, Duration::ZERO)]);
}

/// Its lease runs out, which others see.
#[tokio::test(start_paused = true)]
async fn a_worker_that_does_not_know_what_it_holds_does_not_leave() {
    let store = MadeUp::new(|asked| match asked {
        Asked::Holding(_) => Answer::Silence,
        _ => Answer::Yes,
    });
    let (last, took) = ended(&store, false).await;
    assert_eq!(last, [Asked::Holding(2)]);
    assert!(took < LAST_LOOK + Duration::from_secs(1), "{took:?}");
}

/// On one thread a slot runs before the heartbeats have begun.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_is_claimed_at_once_is_not_given_back_for_want_of_a_lease() {
    for _ in 0..20 {
        let store = MadeUp::new(|_| Answer::Yes);
        store.enqueue("q", 7);
        let config = store.config(Default::default(), Timing::default(), nothing);
        let ends = store.clone();
        let recorded = async move {
            ends.was_asked(|asked| matches!(asked, Asked::Finish(_) | Asked::Requeue(_))).await;
        };
        supervise(config, recorded, pending()).await.expect("a good end");
        assert!(store.all().contains(&Asked::Finish(vec![7])), "{:?}", store.all());
    }
}
