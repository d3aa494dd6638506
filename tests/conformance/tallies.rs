//! Tallies: what workers count of what started and ended, and how it is read.
//!
//! Promise: P46.

use std::collections::BTreeMap;
use std::time::Duration;

use queue::Job;
use queue::admin::TallyOutcome;
use queue::telemetry::Event;
use queue_tests::jobs::{Note, Play};
use queue_tests::{Db, Step, eventually};
use tokio::sync::mpsc;

use crate::complete_in::Completes;

conformance! {
    tallies_equal_the_records,
    nothing_is_written_while_nothing_happens,
    what_could_not_be_written_is_added_to_the_next_write,
    old_tallies_go,
    throughput_is_read_by_minutes_or_by_hours,
}

const OFTEN: Duration = Duration::from_millis(20);

/// The attempts of a span, by outcome.
async fn tallied(db: &Db, span: i64) -> BTreeMap<String, i64> {
    let rows = db.sql(format!("SELECT outcome, SUM(attempts) FROM queue_tallies WHERE span = {span} GROUP BY outcome"));
    let pair = |row: Vec<Option<String>>| {
        let [Some(outcome), Some(attempts)] = &row[..] else { panic!("{row:?}") };
        (outcome.clone(), attempts.parse().expect("a number"))
    };
    rows.await.into_iter().map(pair).collect()
}

async fn tallies_equal_the_records(db: Db) {
    let play = |steps: &[Step]| Play::new("a", steps.to_vec());
    for _ in 0..20 {
        db.enqueue(play(&[Step::Complete])).await;
        db.enqueue(play(&[Step::Fail("once".into()), Step::Snooze(1), Step::Complete])).await;
        db.enqueue(play(&[Step::Cancel("no more".into())]).queue("mail")).await;
        db.enqueue(play(&[Step::Panic("one".into()), Step::Fail("two".into()), Step::Die("three".into())])).await;
    }
    db.enqueue(Completes::new(false)).await;
    let never = db.enqueue(Note::new("never").after(Duration::from_secs(3600))).await;
    db.admin().cancel(never).await.expect("cancelled before it started");
    let workers = [db.worker_apart().await, db.worker_apart().await].map(|it| db.start(it.tally_every(OFTEN)));
    eventually("all are over", async || (db.counts().await == (0, 62, 20)).then_some(())).await;
    for worker in workers {
        worker.stop().await;
    }
    let recorded = async |outcome: &str| db.count(&format!("queue_attempts WHERE outcome = '{outcome}'")).await;
    let (dead, failed) = (db.count("queue_dead").await, recorded("failed").await + recorded("panicked").await);
    let completed = db.count("queue_history WHERE state = 'completed'").await;
    let (cancelled, snoozed) = (recorded("cancelled").await, recorded("snoozed").await);
    let mut expected = BTreeMap::from([
        ("cancelled", cancelled),
        ("completed", completed),
        ("dead", dead),
        ("failed", failed - dead),
        ("snoozed", snoozed),
    ]);
    assert_eq!(expected.values().copied().collect::<Vec<_>>(), [20, 41, 20, 60, 20]);
    expected.insert("started", expected.values().sum());
    let expected: BTreeMap<String, i64> = expected.into_iter().map(|(name, count)| (name.to_owned(), count)).collect();
    assert_eq!((tallied(&db, 60).await, tallied(&db, 3600).await), (expected.clone(), expected));
    let odd = "queue_tallies WHERE longest_us > total_us OR total_us < 0 OR attempts < 1";
    assert_eq!(db.count(odd).await, 0);
    // the way from due to start of those in the queue of its own
    let read = db.admin().throughput(Duration::from_secs(600)).await.expect("tallies").tallies;
    let mail = read.iter().filter(|it| it.queue == "mail" && it.kind == "play" && it.outcome == TallyOutcome::Started);
    let (starts, longest) = mail.fold((0, Duration::ZERO), |(n, most), it| (n + it.attempts, most.max(it.longest)));
    assert!(starts == 20 && longest > Duration::ZERO && longest < Duration::from_secs(60), "{starts}, {longest:?}");
}

async fn nothing_is_written_while_nothing_happens(db: Db) {
    let worker = db.start(db.worker().tally_every(OFTEN));
    db.enqueue(Note::new("a")).await;
    db.finished(1).await;
    eventually("both tallies", async || (tallied(&db, 3600).await.len() == 2).then_some(())).await;
    // without its table, a write would fail
    db.sql("ALTER TABLE queue_tallies RENAME TO queue_elsewhere").await;
    db.beats(5).await;
    db.sql("ALTER TABLE queue_elsewhere RENAME TO queue_tallies").await;
    assert_eq!(tallied(&db, 60).await, BTreeMap::from([("completed".to_owned(), 1), ("started".to_owned(), 1)]));
    worker.stop().await;
}

async fn what_could_not_be_written_is_added_to_the_next_write(db: Db) {
    let (told, mut failures) = mpsc::unbounded_channel();
    let worker = db.start(db.worker().tally_every(OFTEN).observe(move |event| {
        if let Event::DutyFailed { feature: "tallies", .. } = event {
            let _ = told.send(());
        }
    }));
    db.enqueue(Note::new("a")).await;
    eventually("both tallies", async || (tallied(&db, 3600).await.len() == 2).then_some(())).await;
    db.sql("ALTER TABLE queue_tallies RENAME TO queue_elsewhere").await;
    db.enqueue(Note::new("b")).await;
    db.finished(2).await;
    failures.recv().await.expect("a failure");
    failures.recv().await.expect("another one");
    db.sql("ALTER TABLE queue_elsewhere RENAME TO queue_tallies").await;
    let both = BTreeMap::from([("completed".to_owned(), 2), ("started".to_owned(), 2)]);
    eventually("the next write", async || (tallied(&db, 3600).await == both).then_some(())).await;
    assert_eq!(tallied(&db, 60).await, both);
    worker.stop().await;
}

/// Writes tallies that began so many hours ago, one of each kind.
async fn put(db: &Db, span: i64, hours_ago: f64, kinds: usize) {
    let at = db.time((hours_ago * -3_600_000.0) as i64);
    let row = |n: usize| format!("({span}, {at}, 'q', 'old {n}', 'started', 1, 7, 7)");
    let rows = (0..kinds).map(row).collect::<Vec<_>>().join(", ");
    let columns = "span, began_at, queue, kind, outcome, attempts, total_us, longest_us";
    db.sql(format!("INSERT INTO queue_tallies ({columns}) VALUES {rows}")).await;
}

const HOUR: Duration = Duration::from_secs(60 * 60);

async fn old_tallies_go(db: Db) {
    // more than one statement removes
    put(&db, 60, 3.1, 1_500).await;
    put(&db, 60, 2.0, 2).await;
    put(&db, 3600, 36.0 * 24.0, 2).await;
    put(&db, 3600, 34.0 * 24.0, 2).await;
    let worker = db.start(db.worker().tally_every(Duration::from_millis(2)));
    // old ones go with one write in sixty
    eventually("the old ones to go", async || {
        db.enqueue(Note::new("a")).await;
        (db.count("queue_tallies WHERE kind LIKE 'old%'").await == 4).then_some(())
    })
    .await;
    worker.stop().await;
    assert_eq!(db.count("queue_tallies WHERE span = 3600 AND kind = 'old 1'").await, 1);
}

async fn throughput_is_read_by_minutes_or_by_hours(db: Db) {
    let admin = db.admin();
    let nothing = admin.throughput(HOUR).await.expect("an answer");
    assert!(nothing.complete && nothing.tallies.is_empty() && nothing.span == Duration::from_secs(60));
    assert!((db.now().await - nothing.open_since).num_seconds() < 120, "{nothing:?}");
    put(&db, 60, 1.0, 3).await;
    put(&db, 60, 0.5, 1).await;
    put(&db, 60, -0.1, 1).await;
    put(&db, 3600, 5.0, 2).await;
    put(&db, 3600, 6.0 * 24.0, 1).await;
    let minutes = admin.throughput(HOUR / 4 * 3).await.expect("an answer");
    assert_eq!((minutes.tallies.len(), minutes.over().count()), (2, 1), "{minutes:?}");
    let one = &minutes.tallies[0];
    assert_eq!((&*one.queue, &*one.kind, one.outcome, one.attempts), ("q", "old 0", TallyOutcome::Started, 1));
    assert_eq!((one.total, one.longest), (Duration::from_micros(7), Duration::from_micros(7)));
    assert!(minutes.tallies.is_sorted_by_key(|it| it.began_at));
    assert_eq!(admin.throughput(HOUR * 3).await.expect("an answer").tallies.len(), 5);
    let day = admin.throughput(HOUR * 24).await.expect("an answer");
    assert_eq!((day.span, day.tallies.len(), day.over().count()), (HOUR, 2, 2));
    assert_eq!(admin.throughput(HOUR * 24 * 7).await.expect("an answer").tallies.len(), 3);
    assert_eq!(admin.throughput(Duration::MAX).await.expect("an answer").tallies.len(), 3);
    // what an older or a later version counts is left out
    db.sql("UPDATE queue_tallies SET outcome = 'evaporated' WHERE kind = 'old 1'").await;
    assert_eq!(admin.throughput(HOUR * 24).await.expect("an answer").tallies.len(), 1);
}
