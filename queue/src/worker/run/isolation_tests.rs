use std::collections::HashMap;

use proptest::prelude::*;
use tokio::time::Instant;

use super::*;

fn company() -> Arc<Isolation> {
    Isolation::new(Arc::default())
}

/// Enters in a task of its own.
fn enter(company: &Arc<Isolation>, most: Option<u32>) -> tokio::task::JoinHandle<Option<Admission>> {
    let company = company.clone();
    tokio::spawn(async move { company.enter(most).await })
}

async fn place(company: &Arc<Isolation>, most: Option<u32>) -> Admission {
    company.enter(most).await.expect("it may start")
}

#[test]
fn a_job_runs_in_smaller_and_smaller_company() {
    let most = |losses, attempt| most(losses, attempt, 20, 32);
    assert_eq!([most(0, 1), most(1, 2), most(2, 3), most(3, 4), most(9, 10)], [None, None, Some(4), Some(1), Some(1)]);
}

#[test]
fn an_attempt_that_may_be_the_last_runs_alone_once_the_job_was_lost_twice() {
    for (losses, attempt, retries, expected) in [
        (0, 4, 3, None),
        (1, 4, 3, None),
        (2, 2, 3, Some(2)),
        (2, 3, 3, Some(1)),
        (2, 4, 3, Some(1)),
        (2, 3, 9, Some(2)),
    ] {
        assert_eq!(
            most(losses, attempt, retries, 4),
            expected,
            "{losses} losses, attempt {attempt}, {retries} retries"
        );
    }
}

#[tokio::test]
async fn jobs_that_were_never_lost_never_wait() {
    let company = company();
    let mut places = Vec::new();
    for _ in 0..1000 {
        places.push(place(&company, None).await);
    }
    assert!(!company.is_closed());
}

#[tokio::test(start_paused = true)]
async fn one_alone_waits_for_all_and_all_wait_for_it() {
    let company = company();
    let (first, second) = (place(&company, None).await, place(&company, None).await);
    let alone = enter(&company, Some(1));
    tokio::task::yield_now().await;
    assert!(company.is_closed());
    let behind = enter(&company, None);
    tokio::task::yield_now().await;
    drop(first);
    tokio::task::yield_now().await;
    assert!(!alone.is_finished());
    drop(second);
    let alone = alone.await.expect("no panic").expect("its turn");
    assert_eq!(alone.max_neighbours(), Some(0));
    tokio::task::yield_now().await;
    assert!(!behind.is_finished());
    assert!(company.is_closed());
    drop(alone);
    assert!(behind.await.expect("no panic").is_some());
    assert!(!company.is_closed());
}

#[tokio::test(start_paused = true)]
async fn a_job_that_is_not_next_is_released() {
    let company = company();
    let running = place(&company, None).await;
    let next = enter(&company, Some(1));
    tokio::task::yield_now().await;
    assert!(company.enter(None).await.is_none(), "another worker may have room for it");
    assert!(!next.is_finished());
    drop(running);
    assert!(next.await.expect("no panic").is_some());
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_without_end() {
    let company = company();
    let _hours = place(&company, None).await;
    let began = Instant::now();
    let place = place(&company, Some(1)).await;
    assert!(began.elapsed() <= PATIENCE + LINGER * 2, "{:?}", began.elapsed());
    assert_eq!(place.max_neighbours(), None, "it is not alone, and nobody says so");
    assert!(!company.is_closed());
}

#[tokio::test(start_paused = true)]
async fn one_that_opens_lets_others_in() {
    let company = company();
    let mut alone = place(&company, Some(1)).await;
    let other = enter(&company, None);
    tokio::task::yield_now().await;
    assert!(!other.is_finished());
    alone.open();
    assert!(other.await.expect("no panic").is_some());
    assert_eq!(alone.max_neighbours(), None);
}

#[tokio::test(start_paused = true)]
async fn the_claim_loop_hears_when_it_opens() {
    let room: Arc<Notify> = Arc::default();
    let company = Isolation::new(room.clone());
    let alone = place(&company, Some(1)).await;
    assert!(company.is_closed());
    drop(alone);
    room.notified().await;
}

#[derive(Debug, Clone)]
enum Act {
    Enter(Option<u32>),
    /// The n-th of those that run or wait ends, or waits no longer.
    Leave(usize),
    Open(usize),
    Pass,
}

fn step() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => prop::option::weighted(0.4, 1..5u32).prop_map(Act::Enter),
        3 => any::<usize>().prop_map(Act::Leave),
        1 => any::<usize>().prop_map(Act::Open),
        1 => Just(Act::Pass),
    ]
}

proptest! {
    /// However they come, wait and leave: no limit is passed, nobody is forgotten, and in the end all is as before.
    #[test]
    fn no_limit_is_passed(steps in prop::collection::vec(step(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let company = company();
            let mut tasks = HashMap::new();
            let mut places: Vec<Admission> = Vec::new();
            for (number, step) in steps.into_iter().enumerate() {
                match step {
                    Act::Enter(most) => drop(tasks.insert(number, enter(&company, most))),
                    Act::Leave(n) if !places.is_empty() && n % 2 == 0 => drop(places.swap_remove(n % places.len())),
                    Act::Leave(n) if !tasks.is_empty() => {
                        let key = *tasks.keys().nth(n % tasks.len()).unwrap();
                        tasks.remove(&key).unwrap().abort();
                    }
                    Act::Open(n) if !places.is_empty() => {
                        let n = n % places.len();
                        places[n].open();
                    }
                    _ => tokio::time::advance(LINGER / 3).await,
                }
                for _ in 0..4 {
                    tokio::task::yield_now().await;
                }
                let done: Vec<_> = tasks.extract_if(|_, task| task.is_finished()).collect();
                for (_, task) in done {
                    places.extend(task.await.ok().flatten());
                }
                let limit = places.iter().filter_map(|place| place.most).min();
                let running = company.lock().running as usize;
                assert_eq!(running, places.len());
                // a job that ran out of patience may be one more
                assert!(limit.is_none_or(|limit| running <= limit as usize) || company.lock().waited > 0);
                assert_eq!(company.lock().waiting.len(), tasks.len());
            }
            places.clear();
            for (_, task) in tasks {
                if let Some(place) = task.await.unwrap() {
                    drop(place);
                }
            }
            let inner = company.lock();
            assert_eq!((inner.running, inner.limits.len(), inner.waiting.len()), (0, 0, 0));
        });
    }
}
