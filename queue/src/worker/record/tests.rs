//! Ends beside a database made up that refuses some of them, or is away.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use super::refused::plainer;
use super::refused::{LONGEST, TRIES};
use super::*;
use crate::error::Error;
use crate::store::values::Destination;
use crate::store::values::{AttemptOutcome, Claimed, Hold};
use crate::worker::fake::{Answer, Asked, MadeUp, NO_RIGHT, NO_VALUE, job, nothing};
use crate::worker::run::attempt::Timing;
use crate::worker::run::attempt::{Attempt, AttemptRow};
use crate::worker::run::ending::Raw;

/// A recording loop at work.
struct Scene {
    store: Arc<MadeUp>,
    shared: Arc<Shared>,
}

impl Scene {
    fn new(says: impl Fn(&Asked) -> Answer + Send + Sync + 'static) -> Self {
        let store = MadeUp::new(says);
        let (shared, ends) = store.shared(Default::default(), Timing::default(), nothing);
        tokio::spawn(run(shared.clone(), ends));
        Self { store, shared }
    }

    fn finish(&self, ids: impl IntoIterator<Item = i64>) {
        for id in ids {
            self.shared.recorder.record(1, None, finish_with(id, None));
        }
    }

    fn bury(&self, ids: impl IntoIterator<Item = i64>) {
        for id in ids {
            self.shared.recorder.record(1, None, buried(Hold { id, fence: 1 }, "no"));
        }
    }

    /// Until so many ends are left, an hour at most. Returns how long that took.
    async fn left(&self, count: usize) -> Duration {
        let began = Instant::now();
        let wait = async {
            while self.shared.recorder.unrecorded() > count {
                let mut progress = std::pin::pin!(self.shared.notices.progress.notified());
                progress.as_mut().enable();
                if self.shared.recorder.unrecorded() > count {
                    progress.await;
                }
            }
        };
        timeout(Duration::from_secs(3_600), wait).await.expect("recorded within an hour");
        began.elapsed()
    }

    fn left_over(&self) -> Vec<i64> {
        let mut ids: Vec<i64> = self.shared.recorder.keys().keys().map(|(id, _)| *id).collect();
        ids.sort_unstable();
        ids
    }
}

/// A switch that a test turns.
fn switch() -> (Arc<AtomicBool>, Arc<AtomicBool>) {
    let switch = Arc::new(AtomicBool::new(true));
    (switch.clone(), switch)
}

/// Another process writes.
const BUSY: Answer = Answer::No("5", "database is locked");
const REFUSED: Answer = Answer::No("P0001", "not in my table");
const TOO_LONG: Answer = Answer::No("57014", "canceling statement due to statement timeout");

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_ends_in_one_moment_is_written_together() {
    let scene = Arc::new(Scene::new(|_| Answer::Yes));
    let moment = Arc::new(tokio::sync::Semaphore::new(0));
    let jobs = (1..=10).map(|id| {
        let (scene, moment) = (scene.clone(), moment.clone());
        tokio::spawn(async move {
            drop(moment.acquire().await);
            scene.finish([id]);
        })
    });
    let jobs: Vec<_> = jobs.collect();
    sleep(Duration::from_millis(10)).await;
    // on the thread that runs them, as a timer does
    tokio::spawn(async move { moment.close() }).await.expect("it ends");
    for job in jobs {
        job.await.expect("it ends");
    }
    scene.left(0).await;
    let mut written = scene.store.all();
    if let [Asked::Finish(ids)] = &mut written[..] {
        ids.sort_unstable();
    }
    assert_eq!(written, [Asked::Finish((1..=10).collect())]);
}

#[tokio::test(start_paused = true)]
async fn a_sort_of_ends_that_is_refused_keeps_no_other() {
    let (refuses, lets) = switch();
    let scene = Scene::new(move |asked| match asked {
        Asked::Bury(_) if refuses.load(Ordering::Relaxed) => NO_RIGHT,
        _ => Answer::Yes,
    });
    scene.bury(1..=300);
    scene.finish(1_001..=1_300);
    let took = scene.left(300).await;
    assert!(took < Duration::from_millis(100), "{took:?}");
    // for an hour, and no flood of statements
    sleep(Duration::from_secs(60)).await;
    let (began, before) = (Instant::now(), scene.store.all().len());
    while began.elapsed() < Duration::from_secs(3_600) {
        sleep(Duration::from_secs(60)).await;
        scene.finish([began.elapsed().as_secs() as i64 + 10_000]);
        assert!(scene.left(300).await < Duration::from_millis(100));
    }
    let asked = scene.store.all().len() - before;
    assert!((700..1_600).contains(&asked), "{asked} statements in an hour");
    lets.store(false, Ordering::Relaxed);
    let took = scene.left(0).await;
    assert!(took <= LONGEST, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn one_end_that_is_refused_keeps_no_other_of_its_sort() {
    let (refuses, lets) = switch();
    let scene = Scene::new(move |asked| match asked {
        Asked::Finish(ids) if ids.contains(&500) && refuses.load(Ordering::Relaxed) => REFUSED,
        _ => Answer::Yes,
    });
    scene.finish(1..=1_000);
    let took = scene.left(1).await;
    assert!(took < Duration::from_secs(1), "{took:?}");
    assert_eq!(scene.left_over(), [500]);
    sleep(Duration::from_secs(600)).await;
    // others go on, and those that are refused beside another one of its kind do not share its pauses
    scene.finish(2_001..=3_000);
    assert!(scene.left(1).await < Duration::from_millis(100));
    scene.finish((500..=500).chain(3_001..=4_000));
    assert!(scene.left(1).await < Duration::from_secs(1));
    lets.store(false, Ordering::Relaxed);
    assert!(scene.left(0).await <= LONGEST);
}

#[tokio::test(start_paused = true)]
async fn many_that_are_refused_among_others_are_found() {
    let scene = Scene::new(|asked| match asked {
        Asked::Finish(ids) if ids.iter().any(|id| id % 2 == 0) => REFUSED,
        _ => Answer::Yes,
    });
    scene.finish(1..=1_000);
    let took = scene.left(500).await;
    assert!(took < Duration::from_secs(60), "{took:?}");
    assert!(scene.left_over().iter().all(|id| id % 2 == 0));
}

#[tokio::test(start_paused = true)]
async fn what_is_too_much_at_once_goes_out_in_parts() {
    for answer in [TOO_LONG, Answer::Silence] {
        let scene = Scene::new(move |asked| match asked {
            Asked::Finish(ids) if ids.len() > 300 => answer,
            _ => Answer::Yes,
        });
        scene.finish(1..=1_000);
        scene.left(0).await;
    }
}

#[tokio::test(start_paused = true)]
async fn while_the_database_is_away_everything_waits_in_order() {
    for answer in [Answer::Away, Answer::Silence, BUSY] {
        let (away, back) = switch();
        let scene = Scene::new(move |_| if away.load(Ordering::Relaxed) { answer } else { Answer::Yes });
        // nor do heartbeats come through
        scene.shared.lease.extend(Instant::now());
        scene.finish(1..=3);
        sleep(Duration::from_secs(1)).await;
        scene.bury(4..=6);
        scene.finish(7..=9);
        sleep(Duration::from_secs(100)).await;
        let first = Asked::Finish(vec![1, 2, 3]);
        assert!(scene.store.all().iter().all(|asked| *asked == first));
        assert_eq!(scene.left_over().len(), 9);
        back.store(false, Ordering::Relaxed);
        scene.left(0).await;
        let asked = scene.store.all();
        assert_eq!(asked[asked.len() - 3..], [first, Asked::Finish(vec![7, 8, 9]), Asked::Bury(vec![4, 5, 6])]);
    }
}

#[tokio::test(start_paused = true)]
async fn an_end_that_cannot_be_stored_becomes_a_dead_letter() {
    let (refuses, lets) = switch();
    let scene = Scene::new(move |asked| match asked {
        Asked::Finish(ids) if ids.contains(&5) => NO_VALUE,
        Asked::Bury(_) if refuses.load(Ordering::Relaxed) => NO_VALUE,
        _ => Answer::Yes,
    });
    scene.finish(1..=1_000);
    assert!(scene.left(1).await < Duration::from_secs(1));
    sleep(Duration::from_secs(600)).await;
    assert_eq!(scene.left_over(), [5], "it is still to be written, and so no stray that would be given back");
    lets.store(false, Ordering::Relaxed);
    scene.left(0).await;
    assert_eq!(scene.store.all().last(), Some(&Asked::Bury(vec![5])));
}

#[tokio::test(start_paused = true)]
async fn an_end_that_breaks_its_connection_is_no_outage() {
    let alone = std::sync::atomic::AtomicU32::new(0);
    let scene = Scene::new(move |asked| match asked {
        // until it is sent without its result
        Asked::Finish(ids) if *ids == [5] && alone.fetch_add(1, Ordering::Relaxed) < TRIES => Answer::Away,
        Asked::Finish(ids) if ids.len() > 1 && ids.contains(&5) => Answer::Away,
        _ => Answer::Yes,
    });
    let shared = scene.shared.clone();
    // heartbeats are answered all the time
    let beats = tokio::spawn(async move {
        loop {
            shared.lease.extend(Instant::now());
            sleep(Duration::from_millis(50)).await;
        }
    });
    scene.shared.recorder.record(1, None, finish_with(5, Some("1".repeat(2_000))));
    scene.finish((1..=4).chain(6..=1_000));
    let took = scene.left(1).await;
    assert!(took < Duration::from_secs(3), "{took:?}: others waited");
    scene.left(0).await;
    let asked = scene.store.all();
    assert_eq!(asked.iter().filter(|asked| **asked == Asked::Finish(vec![5])).count() as u32, TRIES + 1);
    assert!(!asked.iter().any(|asked| matches!(asked, Asked::Bury(_))), "it ends as it ended");
    beats.abort();
}

fn finish_with(id: i64, result: Option<String>) -> End {
    End::completed(Hold { id, fence: 1 }, 0, result)
}

fn buried(hold: Hold, error: &str) -> End {
    End { hold, ran_us: 0, outcome: AttemptOutcome::Failed, error: Some(error.to_owned()), to: Destination::Bury }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_that_hits_every_end_is_blamed_on_none() {
    let (refuses, lets) = switch();
    let scene = Scene::new(move |asked| match asked {
        Asked::Finish(_) if refuses.load(Ordering::Relaxed) => NO_VALUE,
        _ => Answer::Yes,
    });
    scene.finish(1..=10);
    sleep(Duration::from_secs(600)).await;
    assert!(scene.store.all().iter().all(|asked| matches!(asked, Asked::Finish(_))), "no dead letter");
    lets.store(false, Ordering::Relaxed);
    scene.left(0).await;
}

#[test]
fn an_end_gets_plainer_and_stays_what_it_is() {
    let error = Error::config("refused");
    let end = End { error: Some("größer".into()), ..finish_with(1, Some(r#"{"a":"日🦀"}"#.into())) };
    let ascii = plainer(&end, &error, false).expect("in ASCII");
    assert_eq!(ascii.result(), Some(r#"{"a":"\u65e5\ud83e\udd80"}"#));
    assert_eq!(ascii.error.as_deref(), Some(r"gr\u{f6}\u{df}er"));
    for bare in [plainer(&ascii, &error, false), plainer(&end, &error, true)] {
        let bare = bare.expect("without texts");
        assert_eq!((bare.outcome, bare.result()), (AttemptOutcome::Completed, None));
        assert_eq!(bare.error.as_deref(), Some("the database rejected the text: refused"));
        assert!(plainer(&bare, &error, false).is_none());
    }
    assert!(plainer(&finish_with(1, None), &error, false).is_none(), "there is nothing to leave out");
}

impl Scene {
    /// Attempts whose handlers completed their jobs. They are buried if that was not committed.
    fn completes_itself(&self, ids: impl IntoIterator<Item = i64>) {
        for id in ids {
            let (env, definition) = (self.shared.config.env.clone(), self.shared.config.jobs["k"].clone());
            let job = Claimed { max_retries: 0, ..job("q", id) };
            let attempt = Attempt::new(env, job, definition, AttemptRow::Of(1));
            self.shared.recorder.record(1, None, Ended::Unsettled(attempt, Raw::Returned(Ok(None))));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn one_read_tells_which_jobs_completed_themselves() {
    let scene = Scene::new(|_| Answer::Yes);
    scene.store.held.lock().unwrap().extend([(2, 1), (3, 2)]);
    scene.completes_itself([1, 2, 3]);
    scene.finish([4]);
    scene.left(0).await;
    // the third is held under another fence: it is not this attempt's any more
    let asked = [Asked::StillHeld(vec![1, 2, 3]), Asked::Finish(vec![4]), Asked::Bury(vec![2])];
    assert_eq!(scene.store.all(), asked);
}

#[tokio::test(start_paused = true)]
async fn a_read_that_is_refused_leaves_it_to_the_fence() {
    let scene = Scene::new(|asked| if matches!(asked, Asked::StillHeld(_)) { NO_RIGHT } else { Answer::Yes });
    scene.completes_itself([1]);
    scene.left(0).await;
    assert_eq!(scene.store.all(), [Asked::StillHeld(vec![1]), Asked::Bury(vec![1])]);
}

#[tokio::test(start_paused = true)]
async fn a_read_waits_for_a_database_that_is_away() {
    let times = std::sync::atomic::AtomicUsize::new(0);
    let scene = Scene::new(move |asked| match asked {
        Asked::StillHeld(_) if times.fetch_add(1, Ordering::Relaxed) < 3 => Answer::Away,
        _ => Answer::Yes,
    });
    scene.completes_itself([1]);
    scene.left(0).await;
    assert_eq!(scene.store.all(), vec![Asked::StillHeld(vec![1]); 4], "nothing is written");
}
