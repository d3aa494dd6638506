//! Real workers are killed, stopped, continued and told to end. Triggers in the database log every change of a row, and
//! the model must allow each change. It must also refuse doctored traces.
//!
//! Promises: P1, P4, P5, P6, P8, P9, P18, P31.

#[path = "../src/jobs.rs"]
#[expect(dead_code, reason = "only workers open the file")]
mod jobs;
#[path = "trace/scene.rs"]
mod scene;

use std::time::Duration;

use queue::Job as _;
use queue_model::replay::replay;
use queue_model::trace::{Event, Trace, What};
use queue_test_support::Engine;

use crate::jobs::{Doze, Nap, Pay, Stumble};
use crate::scene::Scene;

const HOUR: Duration = Duration::from_secs(3600);

/// The jobs that complete in transactions of their own.
const PAID: usize = 74;

/// Everything that can happen to workers and jobs, on a real database.
async fn lively(engine: Engine) -> Option<Trace> {
    let scene = Scene::new(engine).await?;
    let mut killed = scene.worker();
    let mut stopped = scene.worker();
    let mut ended = scene.worker();

    // some fail, once or for ever; some snooze; some are cancelled
    let dawn = scene.path("dawn");
    scene.enqueue(6, || Stumble { times: 1 }).await;
    scene.enqueue(4, || Pay { ms: 10, rolls_back: 1 }).await;
    let hopeless = scene.enqueue(4, || Stumble { times: 9 }).await;
    scene.enqueue(3, || Doze { file: dawn.clone() }).await;
    let later = scene.enqueue(2, || Nap { ms: 10 }.after(HOUR)).await;
    scene.cancel(&later).await;
    let long = scene.enqueue(2, || Nap { ms: 60_000 }).await;
    scene.wait_until_held(&long).await;
    scene.cancel(&long).await;
    scene.wait_until_ended(&long).await;
    scene.wait_until_ended(&hopeless).await;

    // kill -9, with jobs in hand that have no retries
    let single = scene.enqueue(30, || Nap { ms: 2000 }.max_retries(0)).await;
    scene.wait_until_runs(&killed, &single).await;
    scene.kill(&mut killed);
    let mut other = scene.worker();
    // kill -9, with transactions that may be open
    let mut unlucky = scene.worker();
    let paid = scene.enqueue(60, || Pay { ms: 500, rolls_back: 0 }).await;
    scene.wait_until_runs(&unlucky, &paid).await;
    scene.kill(&mut unlucky);

    // SIGSTOP past the lease, and SIGCONT
    let naps = scene.enqueue(30, || Nap { ms: 2000 }).await;
    scene.enqueue(10, || Pay { ms: 2000, rolls_back: 0 }).await;
    scene.wait_until_runs(&stopped, &naps).await;
    scene.pause(&mut stopped).await;
    scene.wait_until_gone(&stopped).await;
    stopped.resume();

    // SIGTERM, with jobs in hand
    let naps = scene.enqueue(20, || Nap { ms: 1000 }).await;
    scene.wait_until_runs(&ended, &naps).await;
    ended.terminate();
    scene.ended(&mut ended).await;
    std::fs::write(&dawn, "").expect("a file");
    scene.wait_until_over().await;
    for worker in [&mut stopped, &mut other] {
        worker.terminate();
        scene.ended(worker).await;
    }
    Some(scene.trace().await)
}

async fn is_allowed(engine: Engine) {
    let Some(trace) = lively(engine).await else { return };
    let steps = replay(&trace).unwrap_or_else(|refused| panic!("{engine}: {refused}"));
    println!("{engine}: {} changes; {steps:?}", trace.events.len());
    for step in [
        "claim",
        "complete",
        "complete with its effect",
        "fail",
        "bury",
        "snooze",
        "cancel",
        "stop as cancelled",
        "release",
        "rescue",
        "rescue: dead",
    ] {
        assert!(steps.contains_key(step), "the trace has no {step:?}: {steps:?}");
    }
    assert_eq!(steps["complete with its effect"], PAID, "of each job one: {steps:?}");
    let gone = steps["expire"] + steps.get("declare").copied().unwrap_or_default();
    assert!(steps["join"] >= 5 && gone >= 2, "a killed and a stopped worker, and a second life: {steps:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_model_allows_what_sqlite_did() {
    is_allowed(Engine::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_model_allows_what_postgres_did() {
    is_allowed(Engine::Postgres).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_model_allows_what_mariadb_did() {
    is_allowed(Engine::MariaDb).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_model_allows_what_mysql_did() {
    is_allowed(Engine::MySql).await;
}

/// A short real trace: two workers, one killed. `None` when SQLite is not selected.
async fn short() -> Option<Trace> {
    let scene = Scene::new(Engine::Sqlite).await?;
    let mut killed = scene.worker();
    let naps = scene.enqueue(8, || Nap { ms: 500 }).await;
    scene.wait_until_runs(&killed, &naps).await;
    scene.kill(&mut killed);
    let mut other = scene.worker();
    scene.wait_until_over().await;
    other.terminate();
    scene.ended(&mut other).await;
    Some(scene.trace().await)
}

/// The place of the first change of this sort.
fn first(trace: &Trace, is: impl Fn(&Event) -> bool) -> usize {
    trace.events.iter().position(is).expect("the trace has one")
}

fn is_claim(event: &Event) -> bool {
    matches!(&event.what, What::Changed(was, is, _) if was.worker == 0 && is.worker != 0)
}

fn is_rescue(event: &Event) -> bool {
    matches!(&event.what, What::Changed(was, is, _) if was.worker != 0 && is.worker == 0)
}

/// The model refuses the trace for this reason.
fn refused(trace: &Trace, why: &str) {
    match replay(trace) {
        Ok(steps) => panic!("a doctored trace was allowed: {steps:?}"),
        Err(refused) => assert!(refused.why.contains(why), "refused, but not because {why:?}: {refused}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn doctored_traces_are_refused() {
    let Some(trace) = short().await else { return };
    replay(&trace).unwrap_or_else(|refused| panic!("{refused}"));

    // a claim long after the lease of its worker
    let mut doctored = trace.clone();
    let claim = first(&trace, is_claim);
    doctored.events[claim].at += 60_000_000;
    refused(&doctored, "its worker has no lease");

    // a claim that does not count the attempt, or does not raise the lease
    let mut doctored = trace.clone();
    let What::Changed(_, is, _) = &mut doctored.events[claim].what else { unreachable!() };
    is.attempt -= 1;
    refused(&doctored, "the model's row is");
    let mut doctored = trace.clone();
    let What::Changed(_, is, _) = &mut doctored.events[claim].what else { unreachable!() };
    is.fence -= 1;
    refused(&doctored, "the model's row is");

    // a rescue that comes before the worker is gone
    let mut doctored = trace.clone();
    let rescue = first(&trace, is_rescue);
    doctored.events[rescue].at = doctored.events[claim].at;
    refused(&doctored, "not gone");

    // a job taken from one worker and given to another at once
    let mut doctored = trace.clone();
    doctored.events.remove(rescue);
    refused(&doctored, "");

    // a completion that no handler of the holder returned for: some other process wrote it
    let mut doctored = trace.clone();
    let gone = first(&trace, |event| matches!(&event.what, What::Over(..)));
    doctored.returned.retain(|(job, ..)| *job != trace.events[gone].id);
    refused(&doctored, "did not return in the process that holds the job");

    // a job that is nowhere any more
    let mut doctored = trace.clone();
    doctored.events.remove(gone);
    refused(&doctored, "in no table any more");

    // a completion that was written twice
    let mut doctored = trace.clone();
    doctored.events.extend_from_within(gone..gone + 1);
    refused(&doctored, "without a change of its row");

    // an effect of another attempt than the one that completes, one that stands alone, and two of one job
    let effect = |attempt| Event { what: What::Effect(attempt), ..trace.events[gone].clone() };
    let mut doctored = trace.clone();
    doctored.events.insert(gone, effect(9));
    refused(&doctored, "with the effect of attempt 9");
    let mut doctored = trace.clone();
    doctored.events.push(effect(1));
    refused(&doctored, "an effect is committed without a completion");
    let mut doctored = trace.clone();
    doctored.events.splice(gone..gone, [effect(1), effect(1)]);
    refused(&doctored, "a second effect");

    // a worker that was killed, declared gone while its lease ran
    let mut doctored = trace.clone();
    let stops = first(&trace, |event| matches!(event.what, What::Stops));
    doctored.events[stops].at = doctored.events[claim].at;
    refused(&doctored, "before its lease ran out");

    // a worker that lives, declared gone while its lease ran: it does not say that it left, or only when it learns it
    let living = trace.events.iter().rfind(|event| matches!(event.what, What::Stops)).expect("it ended");
    let mut doctored = trace.clone();
    doctored.left.remove(&living.id).expect("the other worker said that it left");
    refused(&doctored, "a worker that lives, and did not leave, is declared gone");
    let mut doctored = trace.clone();
    doctored.left.insert(living.id, living.at + 500_000);
    refused(&doctored, "a worker that lives, and did not leave, is declared gone");

    // one that was declared gone and goes on
    let mut doctored = trace.clone();
    let mut beat = doctored.events[stops].clone();
    beat.what = What::Beats(i64::MAX);
    doctored.events.insert(stops + 1, beat);
    refused(&doctored, "the lease of a worker that is gone is extended");
}

/// P6: Not the record is doctored but the database: somebody writes without the fence, and the record of that is
/// refused.
#[tokio::test(flavor = "multi_thread")]
async fn a_write_without_the_fence_is_refused() {
    let Some(scene) = Scene::new(Engine::Sqlite).await else { return };
    let mut worker = scene.worker();
    let job = scene.enqueue(1, || Nap { ms: 300 }).await;
    scene.wait_until_held(&job).await;
    scene.sql("UPDATE queue_jobs SET worker_id = 0, claimed_at = NULL").await;
    scene.wait_until_over().await;
    worker.terminate();
    scene.ended(&mut worker).await;
    refused(&scene.trace().await, "the model's row is");
}
