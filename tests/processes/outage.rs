//! Failures of the network between workers and server.

use std::time::Duration;

use queue_test_support::Proxy;
use tokio::time::sleep;

use crate::checker::Checker;
use crate::figures;
use crate::jobs::{Note, WaitForFile, now};
use crate::records::{Record, What, percentiles, seconds};
use crate::scene::{PATIENCE, Process, Scene, keeps_within, text, touch, touch_for};

const OUTAGE: Duration = Duration::from_secs(5);
/// What a user expects after the database is back.
const BACK_WITHIN: Duration = Duration::from_secs(3);
/// What a user expects for jobs whose worker loses its network silently.
const ELSEWHERE_WITHIN: Duration = Duration::from_secs(15);
/// Limit of log lines: one per change of state (database lost, back, lease lost), and a margin.
const FEW_LINES: usize = 10;

/// P23: All connections of two workers break at once, and new ones are refused for a while. Default settings.
pub(crate) async fn the_database_goes_away_and_comes_back(scene: &Scene) {
    keeps_within(scene.engine(), "work went on after the end of the outage in", BACK_WITHIN, outage).await;
}

/// Returns how long after its end the last job ran that had come meanwhile.
async fn outage(scene: &Scene) -> Duration {
    let mut proxy = Proxy::start(scene.engine(), scene.base.url()).await;
    let url = proxy.url(scene.base.url());
    let mut one = scene.worker("one").url(&url).concurrency(4).start().await;
    let mut two = scene.worker("two").url(&url).concurrency(4).start().await;
    let go = scene.path("go");
    let held = (0..4).map(|_| WaitForFile { path: text(&go) });
    let mut ids = scene.db.enqueue_all(held.collect()).await;
    scene.wait_for_records("all held jobs run", PATIENCE, |records| records.len() == 4).await;

    let logged = lines(&one) + lines(&two);
    proxy.cut().await;
    sleep(OUTAGE / 2).await;
    let notes = scene.db.enqueue_all((0..20).map(|_| Note {}).collect()).await;
    touch(&go);
    sleep(OUTAGE / 2).await;
    proxy.heal().await;
    let healed = now();
    let is_note = |it: &Record| it.what == What::Start && notes.contains(&it.job);
    let records = scene
        .wait_for_records("work goes on", PATIENCE, |records| records.iter().filter(|it| is_note(it)).count() >= 20)
        .await;
    let delays: Vec<i64> = records.iter().filter(|it| is_note(it)).map(|it| it.at - healed).collect();
    let last = delays.iter().copied().max().unwrap_or_default();
    scene.wait_for_rows("queue_jobs", 0, PATIENCE).await;
    // both of them, not only the quicker one
    let tail = scene.db.enqueue_all(vec![Note {}]).await;
    scene.wait_for_rows("queue_jobs", 0, PATIENCE).await;
    sleep(Duration::from_secs(1)).await;
    let logged = lines(&one) + lines(&two) - logged;
    for worker in [&mut one, &mut two] {
        worker.wait_for_log("database.back", PATIENCE).await;
        worker.end(PATIENCE).await;
    }

    figures(
        scene.engine(),
        "outage of 5 s",
        &format!(
            "first work {}, last {} after its end; {logged} log lines of two workers",
            seconds(*delays.iter().min().unwrap_or(&0)),
            seconds(last)
        ),
    );
    let mut checker = Checker::of(scene).await;
    ids.extend(notes);
    ids.extend(tail);
    checker.completed_exactly_once(&ids);
    if logged > 2 * FEW_LINES {
        checker.violation(None, format!("{logged} log lines:\n{}\n{}", one.log(), two.log()));
    }
    checker.verdict();
    Duration::from_micros(last.max(0).cast_unsigned())
}

/// P21, P23: A firewall forgets the connections of one worker: they stay open, but pass nothing. Default settings.
pub(crate) async fn packets_vanish(scene: &Scene) {
    keeps_within(scene.engine(), "the last job ran elsewhere after", ELSEWHERE_WITHIN, silence).await;
}

/// Returns how long after the loss the last job ran elsewhere.
async fn silence(scene: &Scene) -> Duration {
    const JOBS: usize = 8;
    let mut proxy = Proxy::start(scene.engine(), scene.base.url()).await;
    let go = scene.path("go");
    let held = (0..JOBS).map(|_| WaitForFile { path: text(&go) });
    let mut ids = scene.db.enqueue_all(held.collect()).await;
    let cut_off = scene.worker("cut-off").url(&proxy.url(scene.base.url())).start().await;
    scene.wait_for_records("all jobs run", PATIENCE, |records| records.len() == JOBS).await;
    let mut other = scene.worker("other").start().await;

    proxy.freeze();
    let frozen = now();
    let elsewhere = |it: &Record| it.what == What::Start && it.process == other.id();
    let records = scene
        .wait_for_records("all jobs run elsewhere", PATIENCE, |records| {
            records.iter().filter(|it| elsewhere(it)).count() >= JOBS
        })
        .await;
    let delays: Vec<i64> = records.iter().filter(|it| elsewhere(it)).map(|it| it.at - frozen).collect();
    let last = delays.iter().copied().max().unwrap_or_default();
    // by then the worker that is cut off has stopped its attempts by itself
    cut_off.wait_for_log("worker.lease_lost", PATIENCE).await;
    touch(&go);
    scene.wait_for_rows("queue_jobs", 0, PATIENCE).await;

    // new connections work again; the old ones never do
    proxy.heal().await;
    let healed = now();
    other.end(PATIENCE).await;
    ids.push(scene.db.enqueue(Note {}).await.get());
    let cut_off_id = cut_off.id();
    let records = scene
        .wait_for_records("the worker that was cut off works again", PATIENCE * 2, |records| {
            records.iter().any(|it| it.job == ids[JOBS] && it.process == cut_off_id)
        })
        .await;
    scene.wait_for_rows("queue_jobs", 0, PATIENCE).await;
    let back = records.iter().find(|it| it.job == ids[JOBS]).map_or(0, |it| it.at - healed);
    figures(
        scene.engine(),
        "packets vanish",
        &format!(
            "run elsewhere: last {}, {}; the worker worked again {} after the network did; it logged {} lines",
            seconds(last),
            percentiles(delays),
            seconds(back),
            lines(&cut_off)
        ),
    );
    let mut checker = Checker::of(scene).await;
    checker.completed_exactly_once(&ids);
    for &id in &ids[..JOBS] {
        let late = checker.records(id).iter().any(|it| it.what == What::End && it.process == cut_off_id);
        if late {
            checker.violation(id, "the worker that was cut off let it run past its lease");
        }
    }
    checker.verdict();
    Duration::from_micros(last.max(0).cast_unsigned())
}

/// P6: The network delays a worker's writes until its lease has run out and others have run its jobs.
pub(crate) async fn writes_arrive_late(scene: &Scene) {
    const JOBS: usize = 8;
    const LEASE: Duration = Duration::from_secs(4);
    let proxy = Proxy::start(scene.engine(), scene.base.url()).await;
    let url = proxy.url(scene.base.url());
    let go = scene.path("go");
    let held = (0..JOBS).map(|_| WaitForFile { path: text(&go) });
    let ids = scene.db.enqueue_all(held.collect()).await;
    // a job that ends now and then, so that the statement for endings is prepared and goes out in one packet
    let warm = scene.db.enqueue_all(vec![Note {}]).await;
    let late = scene.worker("late").url(&url).lease(LEASE).start().await;
    scene.wait_for_records("all jobs run", PATIENCE, |records| records.len() == JOBS + 2).await;
    scene.wait_for_rows("queue_history", 1, PATIENCE).await;

    proxy.freeze();
    let before = proxy.statements();
    touch_for(late.id(), &go);
    let late_id = late.id();
    scene.wait_for_records("all jobs end", PATIENCE, |records| records.len() == 2 * JOBS + 2).await;
    // nobody has heard of it
    let other = scene.worker("other").start().await;
    let elsewhere = |it: &&Record| it.what == What::Start && it.process == other.id();
    scene
        .wait_for_records("all jobs run elsewhere", PATIENCE, |records| {
            records.iter().filter(elsewhere).count() == JOBS
        })
        .await;
    proxy.thaw();
    sleep(Duration::from_secs(1)).await;
    let mut checker = Checker::of(scene).await;
    checker.held_by(other.id(), 2, &ids);
    checker.verdict();
    touch_for(other.id(), &go);
    scene.wait_for_rows("queue_jobs", 0, PATIENCE).await;

    let refused = late.log().matches("job.refused").count();
    let statements = proxy.statements() - before;
    figures(
        scene.engine(),
        "writes arrive late",
        &format!("{statements} statements, {refused} ends refused to the worker's face"),
    );
    let mut checker = Checker::of(scene).await;
    if statements == 0 {
        checker.violation(None, "nothing was held back");
    }
    checker.completed_exactly_once(&[ids.clone(), warm].concat());
    for id in ids {
        checker.started(id, 2);
        let ended_late = checker.records(id).iter().any(|it| it.what == What::End && it.process == late_id);
        let row = checker.row(id).cloned();
        if !ended_late || row.is_some_and(|row| checker.process(row.worker) != Some(other.id()) || row.fence != 2) {
            checker.violation(id, "not ended by the one worker and completed by the other, under the second lease");
        }
    }
    checker.verdict();
}

fn lines(worker: &Process) -> usize {
    // sqlx warns of each statement that a busy machine made slow
    worker.log().lines().filter(|line| !line.contains("sqlx::")).count()
}
