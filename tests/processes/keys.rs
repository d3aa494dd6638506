//! Unique jobs from many producers, beside many workers.

use std::env;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use queue::unique::{Enqueued, OnConflict, UniqueUntil};
use queue::{Enqueue, Job as _};
use queue_test_support::{Db, each};
use sqlx::Connection as _;
use tokio::time::Instant;

use crate::deadlocks::Deadlocks;
use crate::figures;
use crate::jobs::Note;
use crate::scene::{PATIENCE, Scene};

const PROCESSES: usize = 4;
const EACH: u32 = 8;
const PRODUCERS: u64 = 8;
/// Few, so that producers often want the same one at the same time.
const KEYS: u64 = 40;

/// How long the producers enqueue. The acceptance test sets `QUEUE_TEST_SECONDS=1800`.
pub(crate) fn spell() -> Duration {
    let seconds = env::var("QUEUE_TEST_SECONDS");
    Duration::from_secs(seconds.map_or(3, |text| text.parse().expect("QUEUE_TEST_SECONDS is a number")))
}

/// P3, P32: No statement of unique jobs may deadlock with another one, or with the statements of workers. It does not
/// run on PostgreSQL, where its many signals would wake the idle workers of other tests.
pub(crate) async fn thirty_two_workers_of_unique_jobs(scene: &Scene) {
    let deadlocks = Deadlocks::watch(scene).await;
    let mut workers = Vec::new();
    for number in 0..PROCESSES {
        workers.push(scene.worker(&format!("worker-{number}")).concurrency(EACH).start().await);
    }
    let counts = Arc::<Counts>::default();
    let producers: Vec<_> =
        (0..PRODUCERS).map(|number| tokio::spawn(produce(scene.db.clone(), number, counts.clone()))).collect();
    for producer in producers {
        producer.await.expect("a producer");
    }
    scene.wait_for_rows("queue_jobs", 0, PATIENCE + spell()).await;
    for worker in &mut workers {
        worker.end(PATIENCE).await;
    }
    let found = deadlocks.found(scene).await;

    let Counts { new, kept, replaced } = &*counts;
    let [new, kept, replaced] = [new, kept, replaced].map(|count| count.load(Ordering::Relaxed));
    figures(
        scene.engine(),
        "32 workers of unique jobs",
        &format!("{:?}: {new} new, {kept} kept, {replaced} replaced; deadlocks: {found}", spell()),
    );
    assert_eq!(u64::try_from(scene.db.count("queue_history").await), Ok(new), "each new job is there once");
    assert_eq!(scene.db.count("queue_dead").await, 0);
    assert_eq!(found.ours, 0, "deadlocks");
    assert!(new > 0 && kept > 0 && replaced > 0, "{new} {kept} {replaced}");
}

#[derive(Debug, Default)]
struct Counts {
    new: AtomicU64,
    kept: AtomicU64,
    replaced: AtomicU64,
}

impl Counts {
    fn add(&self, answers: &[Enqueued]) {
        for answer in answers {
            let count = match answer {
                Enqueued::New(_) => &self.new,
                Enqueued::Kept(_) => &self.kept,
                Enqueued::Replaced(_) => &self.replaced,
            };
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Odd keys are held until the start, and replaced; even ones until the end.
fn job(key: u64) -> Enqueue<Note> {
    let job = Note {}.unique_key(format!("key-{key:03}"));
    match key % 2 {
        0 => job,
        _ => job
            .unique_until(UniqueUntil::Start)
            .on_conflict(OnConflict::Replace)
            .after(Duration::from_millis(100 + 10 * key)),
    }
}

/// Enqueues one at a time, in bulk in any order, and in transactions in the order of keys, as documented.
async fn produce(db: Db, number: u64, counts: Arc<Counts>) {
    let mut rng = fastrand::Rng::with_seed(number);
    let until = Instant::now() + spell();
    while Instant::now() < until {
        let mut keys: Vec<u64> = (0..KEYS).collect();
        rng.shuffle(&mut keys);
        let answers = match rng.u32(..10) {
            0 => {
                let jobs = keys.iter().take(20).map(|key| job(*key)).collect::<Vec<_>>();
                each!(&db, pool => queue::enqueue_all_unique(pool, jobs).await.expect("a batch"))
            }
            1..=3 => {
                keys.truncate(3);
                keys.sort_unstable();
                in_transaction(&db, &keys).await
            }
            _ => vec![each!(&db, pool => job(keys[0]).enqueue_unique(pool).await.expect("a job"))],
        };
        counts.add(&answers);
    }
}

async fn in_transaction(db: &Db, keys: &[u64]) -> Vec<Enqueued> {
    let mut answers = Vec::new();
    each!(db, pool => {
        let mut conn = pool.acquire().await.expect("a connection");
        if let Db::MySql(_) = db {
            let level = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED";
            sqlx::raw_sql(level).execute(&mut *conn).await.expect("a setting");
        }
        let begin = if let Db::Sqlite(_) = db { "BEGIN IMMEDIATE" } else { "BEGIN" };
        let mut tx = conn.begin_with(begin).await.expect("a transaction");
        for key in keys {
            answers.push(job(*key).enqueue_unique(&mut *tx).await.expect("a job"));
        }
        tx.commit().await.expect("a commit");
    });
    answers
}
