//! Bad input in bulk: SQL writes rows like those of a broken or hostile producer, among good ones. The worker stays up,
//! the good rows complete, and every bad row ends where docs/security.md says.
//!
//! With figures: `cargo xtask faults --fault bad-rows`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use queue_test_support::Engine;
use queue_test_support::bad_rows::{COLUMNS, End, Rows};
use queue_tests::jobs::Note;
use queue_tests::{DEADLINE, Db, What};

conformance! {
    ends_where_the_contract_says,
}

/// Writes good and bad rows in turns, and runs a worker until it has nothing left to do. Then checks each row, and
/// counts how many ended where.
async fn trial(db: &Db, good: usize, bad: usize, patience: Duration, seed: u64) -> BTreeMap<End, usize> {
    let mut rows = Rows::new(db.engine(), seed);
    let mut ended: BTreeMap<End, usize> = BTreeMap::new();
    let mut expected: BTreeMap<i64, End> = BTreeMap::new();
    let (mut good_left, mut bad_left) = (good, bad);
    while good_left + bad_left > 0 {
        let chunk = good_left.min(400);
        db.enqueue_all((0..chunk).map(|_| Note::new("good"))).await;
        good_left -= chunk;
        for end in End::TAKEN {
            let chunk = bad_left.min(100);
            bad_left -= chunk;
            expected.extend(insert(db, &mut rows, end, chunk).await.map(|id| (id, end)));
        }
        for _ in 0..bad_left.min(4) {
            bad_left -= 1;
            let sql = format!("INSERT INTO queue_jobs ({COLUMNS}) VALUES {}", rows.row(End::Refused).values());
            assert!(db.pool().sql(&sql).await.is_err(), "seed {seed}: {sql}");
            *ended.entry(End::Refused).or_default() += 1;
        }
    }
    let begin = Instant::now();
    let worker = db.start(db.worker());
    let waiting = expected.values().filter(|end| matches!(end, End::Ready | End::Scheduled)).count() as i64;
    loop {
        let done = db.probe.count(What::Ended, "good");
        if done == good && db.count("queue_jobs").await == waiting {
            break;
        }
        assert!(!worker.is_over(), "seed {seed}: the worker ended");
        assert!(begin.elapsed() < patience, "seed {seed}: {done} of {good} good rows, {:?}", db.counts().await);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    worker.stop().await;
    assert_eq!(db.count("queue_attempts WHERE outcome = 'panicked'").await, 0, "seed {seed}: a panic");
    let found = db.sql("SELECT id, state FROM queue_all").await;
    assert_eq!(found.len(), good + expected.len(), "seed {seed}: rows were lost");
    for row in found {
        let [Some(id), Some(state)] = &row[..] else { panic!("{row:?}") };
        let end = expected.remove(&id.parse().expect("a number")).unwrap_or(End::Completed);
        if end.state() != state {
            let args = if db.engine() == Engine::Postgres { "left(args::text, 200)" } else { "substr(args, 1, 200)" };
            let job = db.sql(format!("SELECT kind, queue, {args}, error FROM queue_all WHERE id = {id}")).await;
            panic!("seed {seed}: job {id} is {state}, not {end:?}: {job:?}");
        }
        *ended.entry(end).or_default() += 1;
    }
    assert!(expected.is_empty(), "seed {seed}: rows without a job: {expected:?}");
    *ended.get_mut(&End::Completed).expect("some") -= good;
    ended
}

/// Writes rows and returns their numbers.
async fn insert(db: &Db, rows: &mut Rows, end: End, count: usize) -> impl Iterator<Item = i64> {
    let last = db.int("SELECT COALESCE(MAX(id), 0) FROM queue_jobs").await;
    let mut sql = format!("INSERT INTO queue_jobs ({COLUMNS}) VALUES ");
    for number in 0..count {
        let _ = write!(sql, "{}{}", if number > 0 { ", " } else { "" }, rows.row(end).values());
    }
    let mut ids = Vec::new();
    if count > 0 {
        db.sql(sql).await;
        ids = db.column(format!("SELECT id FROM queue_jobs WHERE id > {last}")).await;
        assert_eq!(ids.len(), count);
    }
    ids.into_iter().map(|id| id.parse().expect("a number"))
}

fn seed() -> u64 {
    let given = std::env::var("QUEUE_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    given.unwrap_or_else(|| fastrand::u64(..))
}

/// P38.
async fn ends_where_the_contract_says(db: Db) {
    let seed = seed();
    let ended = trial(&db, 1500, 1500, 4 * DEADLINE, seed).await;
    assert_eq!(ended.values().sum::<usize>(), 1500, "seed {seed}: {ended:?}");
    assert!(ended.len() == 5, "seed {seed}: not every end: {ended:?}");
}
