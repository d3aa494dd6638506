use tokio::task::{JoinHandle, yield_now};
use tokio::time::{sleep, sleep_until};

use super::*;

fn company() -> Arc<Isolation> {
    Isolation::new(Arc::default())
}

const SECOND: Duration = Duration::from_secs(1);

/// A job that was lost twice comes, in a task of its own.
fn suspect(company: &Arc<Isolation>) -> JoinHandle<Result<Admission, Duration>> {
    let company = company.clone();
    tokio::spawn(async move { company.enter_suspect().await })
}

#[test]
fn the_second_loss_says_something() {
    assert_eq!([0, 1, 2, 3, 1000].map(is_suspect), [false, false, true, true, true]);
}

#[tokio::test]
async fn jobs_that_were_never_lost_never_wait() {
    let company = company();
    let places: Vec<_> = (0..1000).map(|_| company.enter_at_once().expect("it may start")).collect();
    assert!(!company.is_closed());
    drop(places);
    assert_eq!(company.doors().running, 0);
}

#[tokio::test(start_paused = true)]
async fn a_suspect_waits_for_all_and_all_wait_for_it() {
    let company = company();
    let (first, second) = (company.enter_at_once(), company.enter_at_once());
    let alone = suspect(&company);
    yield_now().await;
    assert!(company.is_closed());
    assert!(company.enter_at_once().is_none());
    drop(first);
    yield_now().await;
    assert!(!alone.is_finished());
    drop(second);
    let alone = alone.await.expect("no panic").expect("its turn");
    assert!(alone.is_alone());
    let behind = tokio::spawn({
        let company = company.clone();
        async move { company.enter().await }
    });
    yield_now().await;
    assert!(!behind.is_finished());
    drop(alone);
    assert!(behind.await.expect("no panic").is_some());
    assert!(!company.is_closed());
}

#[tokio::test(start_paused = true)]
async fn one_suspect_is_at_the_doors_and_the_others_stay_away() {
    let company = company();
    let _running = company.enter_at_once();
    let first = suspect(&company);
    yield_now().await;
    let away = suspect(&company).await.expect("no panic").err().expect("another one is there");
    assert!(away <= APART * 2, "{away:?}");
    assert!(!first.is_finished());
}

#[tokio::test(start_paused = true)]
async fn what_waits_for_too_long_is_released() {
    let company = company();
    let _alone = suspect(&company).await.expect("no panic").expect("nobody else is there");
    let began = Instant::now();
    assert!(company.enter().await.is_none(), "another worker may have room for it");
    assert!(began.elapsed() <= LINGER * 2);
}

#[tokio::test(start_paused = true)]
async fn beside_jobs_that_take_hours_a_suspect_starts_all_the_same() {
    let company = company();
    let _hours = company.enter_at_once();
    let began = Instant::now();
    let place = suspect(&company).await.expect("no panic").expect("it may start");
    assert!(began.elapsed() <= BUDGET, "{:?}", began.elapsed());
    assert!(!place.is_alone(), "and nobody says so");
    assert!(!company.is_closed());
    assert!(suspect(&company).await.expect("no panic").is_err(), "but no other suspect begins so soon");
}

#[tokio::test(start_paused = true)]
async fn a_suspect_that_waits_no_longer_opens_the_doors() {
    let room: Arc<Notify> = Arc::default();
    let company = Isolation::new(room.clone());
    let _running = company.enter_at_once();
    let waits = suspect(&company);
    yield_now().await;
    waits.abort();
    room.notified().await;
    assert!(!company.is_closed());
    assert_eq!(company.doors().running, 1);
}

#[tokio::test(start_paused = true)]
async fn one_that_opens_lets_others_in() {
    let room: Arc<Notify> = Arc::default();
    let company = Isolation::new(room.clone());
    let mut alone = suspect(&company).await.expect("no panic").expect("nobody else is there");
    assert!(company.enter_at_once().is_none());
    alone.open();
    room.notified().await;
    assert!(company.enter_at_once().is_some());
    assert!(!alone.is_alone());
}

/// So many suspects, each of which runs for so long, on a worker that also has jobs which were never lost. Returns how
/// long the doors were closed in the worst minute, and how many suspects have ended.
async fn closed(suspects: usize, runs: Duration, others: Duration) -> (Duration, usize) {
    const LOOK: Duration = Duration::from_millis(100);
    const TIME: Duration = Duration::from_secs(600);
    let company = company();
    let ended = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    for _ in 0..suspects {
        let (company, ended) = (company.clone(), ended.clone());
        tokio::spawn(async move {
            let mut place = loop {
                match company.enter_suspect().await {
                    Ok(place) => break place,
                    Err(away) => sleep(away).await,
                }
            };
            let end = Instant::now() + runs;
            if let Some(until) = place.at_doors_until {
                sleep_until(until.min(end)).await;
                place.open();
            }
            sleep_until(end).await;
            ended.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        });
    }
    tokio::spawn({
        let company = company.clone();
        async move {
            loop {
                match company.enter().await {
                    Some(place) => {
                        sleep(others).await;
                        drop(place);
                    }
                    None => sleep(LOOK).await,
                }
            }
        }
    });
    let (mut seen, mut worst) = (0, Duration::ZERO);
    for _ in 0..TIME.as_millis() / LOOK.as_millis() {
        sleep(LOOK).await;
        let doors = company.doors();
        worst = worst.max(doors.shut(Instant::now()));
        seen += u32::from(doors.closed.is_some());
    }
    // what they say of themselves is what others see
    assert!(LOOK * seen <= BUDGET * 11 + SECOND * 5, "seen closed for {:?} of {TIME:?}", LOOK * seen);
    (worst, ended.load(std::sync::atomic::Ordering::Relaxed))
}

/// Beyond the time for which the doors may be closed, suspects still begin one after the other.
#[tokio::test(start_paused = true)]
async fn suspects_begin_apart_from_each_other() {
    let company = company();
    let mut begun: Vec<Instant> = Vec::new();
    let mut places = Vec::new();
    while begun.len() < 12 {
        match company.enter_suspect().await {
            Ok(mut place) => {
                begun.push(Instant::now());
                let until = place.at_doors_until.expect("a suspect");
                assert!(company.enter_suspect().await.is_err(), "another one is there");
                sleep_until(until).await;
                place.open();
                places.push(place);
            }
            Err(away) => sleep(away).await,
        }
    }
    let apart = begun.windows(2).map(|pair| pair[1] - pair[0]);
    assert!(apart.clone().all(|apart| (LEAST..=BUDGET * 2).contains(&apart)), "{:?}", apart.collect::<Vec<_>>());
}

/// A review saw 120 s of 120 s with 8 jobs that take hours, and half an hour with 32.
#[tokio::test(start_paused = true)]
async fn whatever_the_number_of_suspects_the_doors_are_closed_for_ten_seconds_a_minute() {
    for suspects in [1, 8, 32, 1_000] {
        for (runs, others) in [(SECOND, SECOND / 20), (SECOND * 3_000, SECOND / 20), (SECOND, SECOND * 3_000)] {
            let (worst, ended) = closed(suspects, runs, others).await;
            assert!(worst <= BUDGET, "{suspects} suspects of {runs:?} beside {others:?}: {worst:?}");
            assert!(runs > SECOND || ended >= suspects.min(100), "{ended} of {suspects} ended");
        }
    }
}
