//! The load: producers that enqueue in every possible way, and record the answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use anyhow::Result;
use fastrand::Rng;
use queue::{Enqueue, Job as _};
use queue_test_support::{Db, each};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::jobs::{Plan, Work};
pub use crate::mix::{Mix, brisk, everyday, late, long, quick, short};
use crate::record::{Journal, Options, What};
use crate::worker;

/// A table that producers write in the transaction of an enqueue.
pub const LEDGER: &str = "faults_ledger";
/// Time limit of an enqueue. After it, the outcome is unknown.
const PATIENCE: Duration = Duration::from_secs(5);
/// Pause after a failed enqueue.
const PAUSE: Duration = Duration::from_millis(100);

/// What all producers of a scene share.
#[derive(Clone, Debug)]
pub struct Desk {
    /// The record.
    pub journal: Journal,
    /// The next job's tag.
    pub tags: Arc<AtomicI64>,
    /// How many jobs were committed so far, by anyone.
    pub committed: Arc<AtomicUsize>,
    /// The number of retries of each job.
    pub max_retries: u32,
}

impl Desk {
    /// Records that the database has confirmed the commit.
    pub fn commit(&self, tags: Vec<i64>) {
        self.committed.fetch_add(tags.len(), Ordering::Relaxed);
        self.journal.write_for_good(What::Committed { tags });
    }
}

/// Producers at work, until [`Load::stop`].
#[derive(Debug)]
pub struct Load {
    over: Arc<AtomicBool>,
    enqueued: Arc<AtomicUsize>,
    tasks: JoinSet<()>,
}

impl Load {
    /// Starts producers. Waiting jobs are counted through `own`, connections that the fault does not affect.
    ///
    /// # Errors
    /// When the address is not one.
    pub fn start(desk: &Desk, url: &str, own: &Db, mix: &Mix, rng: &mut Rng) -> Result<Load> {
        let db = worker::pool(url, mix.producers as u32 + 2, PATIENCE)?;
        let mut load = Load { over: Arc::default(), enqueued: Arc::default(), tasks: JoinSet::new() };
        let waiting = Arc::new(AtomicI64::new(0));
        if mix.ahead.is_some() {
            load.tasks.spawn(watch(own.clone(), waiting.clone(), load.over.clone()));
        }
        for _ in 0..mix.producers {
            let (desk, db, mix, waiting) = (desk.clone(), db.clone(), mix.clone(), waiting.clone());
            let producer = Producer { desk, db, url: url.to_owned(), mix, rng: rng.fork(), waiting };
            let (over, enqueued) = (load.over.clone(), load.enqueued.clone());
            load.tasks.spawn(producer.run(over, enqueued));
        }
        Ok(load)
    }

    /// How many jobs were committed so far.
    pub fn enqueued(&self) -> usize {
        self.enqueued.load(Ordering::Relaxed)
    }

    /// Lets the producers finish their current enqueue, and stops them. Returns how many jobs were committed.
    pub async fn stop(self) -> usize {
        self.over.store(true, Ordering::Relaxed);
        self.tasks.join_all().await;
        self.enqueued.load(Ordering::Relaxed)
    }
}

struct Producer {
    desk: Desk,
    db: Db,
    url: String,
    mix: Mix,
    rng: Rng,
    /// The number of waiting jobs.
    waiting: Arc<AtomicI64>,
}

/// Counts the waiting jobs from time to time. While the database does not answer, the last count remains valid.
async fn watch(db: Db, waiting: Arc<AtomicI64>, over: Arc<AtomicBool>) {
    while !over.load(Ordering::Relaxed) {
        let count = async {
            each!(&db, pool =>
                sqlx::query_scalar("SELECT COUNT(*) FROM queue_jobs WHERE worker_id = 0").fetch_one(pool).await)
        };
        if let Ok(Ok(count)) = timeout(PATIENCE, count).await {
            waiting.store(count, Ordering::Relaxed);
        }
        sleep(PAUSE).await;
    }
}

/// The outcome of an enqueue.
enum Answer {
    Committed,
    RolledBack,
    Unknown,
}

impl Producer {
    async fn run(mut self, over: Arc<AtomicBool>, enqueued: Arc<AtomicUsize>) {
        while !over.load(Ordering::Relaxed) {
            if self.mix.ahead.is_some_and(|ahead| self.waiting.load(Ordering::Relaxed) > ahead) {
                sleep(PAUSE / 4).await;
                continue;
            }
            let count = self.enqueue().await;
            enqueued.fetch_add(count, Ordering::Relaxed);
            let pause = if count == 0 { PAUSE } else { Duration::ZERO };
            sleep(pause + self.mix.pause.mul_f64(self.rng.f64())).await;
        }
    }

    /// One enqueue of a random kind. Returns how many jobs were committed.
    async fn enqueue(&mut self) -> usize {
        let ledger = self.rng.u32(..10) < 4;
        let count = if self.rng.u32(..10) < 3 { 1 } else { self.rng.usize(1..=self.mix.bulk) };
        let first = self.desk.tags.fetch_add(count as i64, Ordering::Relaxed);
        let tags: Vec<i64> = (first..).take(count).collect();
        let options = self.options(ledger);
        self.desk.journal.write(What::Asked { tags: tags.clone(), options: options.clone() });
        // a time of day counts from after that
        let jobs: Vec<Enqueue<Work>> = tags.iter().map(|tag| self.job(*tag, &options)).collect();
        let answer = if ledger {
            let commit = self.rng.u32(..10) < 7;
            timeout(PATIENCE, in_transaction(&self.db, &tags, jobs, commit)).await
        } else {
            timeout(PATIENCE, through_pool(&self.db, jobs)).await
        };
        if answer.is_err()
            && let Ok(pool) = worker::pool(&self.url, 3, PATIENCE)
        {
            // its connection may hang, and sqlx's pool waits for it for ever: a user would restart the process
            self.db = pool;
        }
        match answer.unwrap_or(Answer::Unknown) {
            Answer::Committed => {
                self.desk.commit(tags);
                return count;
            }
            Answer::RolledBack => self.desk.journal.write(What::RolledBack { tags }),
            Answer::Unknown => self.desk.journal.write(What::Unknown { tags }),
        }
        0
    }

    fn options(&mut self, ledger: bool) -> Options {
        let varied = self.mix.varied;
        let delay_ms = if varied && self.rng.u32(..10) < self.mix.delayed { self.rng.i64(100..2000) } else { 0 };
        Options {
            delay_ms,
            absolute: delay_ms > 0 && self.rng.bool(),
            priority: if varied && self.rng.u32(..5) == 0 { self.rng.i16(-2..3) } else { 0 },
            max_retries: self.desk.max_retries.into(),
            by_claimer: false,
            ledger,
            ordered: self.mix.ordered.is_some(),
            blocking: false,
        }
    }

    fn job(&mut self, tag: i64, options: &Options) -> Enqueue<Work> {
        let plan = (self.mix.plan)(&mut self.rng);
        let job = Work { tag, plan }.max_retries(self.desk.max_retries).priority(options.priority);
        let job = later(job, options);
        match self.mix.ordered {
            Some(queue) => job.queue(queue),
            None => job,
        }
    }
}

/// Adds the delay, if any: a duration or a time of day.
fn later(job: Enqueue<Work>, options: &Options) -> Enqueue<Work> {
    match Duration::from_millis(options.delay_ms.cast_unsigned()) {
        Duration::ZERO => job,
        // engines that count in milliseconds cut off the rest
        delay if options.absolute => job.at((SystemTime::now() + delay + Duration::from_millis(1)).into()),
        delay => job.after(delay),
    }
}

async fn through_pool(db: &Db, mut jobs: Vec<Enqueue<Work>>) -> Answer {
    let result = match jobs.len() {
        1 => each!(db, pool => jobs.remove(0).enqueue(pool).await).map(drop),
        _ => each!(db, pool => queue::enqueue_all(pool, jobs).await).map(drop),
    };
    // the error does not say whether the database had committed before the connection broke
    if result.is_ok() { Answer::Committed } else { Answer::Unknown }
}

async fn in_transaction(db: &Db, tags: &[i64], jobs: Vec<Enqueue<Work>>, commit: bool) -> Answer {
    let placeholders = |word: &dyn Fn(usize) -> String| {
        let rows: Vec<String> = (1..=tags.len()).map(|number| format!("({})", word(number))).collect();
        sqlx::AssertSqlSafe(format!("INSERT INTO {LEDGER} (tag) VALUES {}", rows.join(", ")))
    };
    let sql = match db {
        Db::Postgres(_) => placeholders(&|number| format!("${number}")),
        _ => placeholders(&|_| "?".to_owned()),
    };
    each!(db, pool => {
        let Ok(mut tx) = pool.begin().await else { return Answer::RolledBack };
        let mut insert = sqlx::query(sql);
        for tag in tags {
            insert = insert.bind(tag);
        }
        // no commit was sent: whatever becomes of the connection, nothing is committed
        if insert.execute(&mut *tx).await.is_err() || queue::enqueue_all(&mut tx, jobs).await.is_err() {
            return Answer::RolledBack;
        }
        if !commit {
            let _ = tx.rollback().await;
            return Answer::RolledBack;
        }
        if tx.commit().await.is_ok() { Answer::Committed } else { Answer::Unknown }
    })
}

/// Enqueues one batch, which must succeed.
///
/// # Errors
/// When the database refuses it.
pub async fn enqueue_batch(
    desk: &Desk,
    db: &Db,
    plans: Vec<Plan>,
    options: Options,
    queue: Option<&str>,
) -> Result<Vec<i64>> {
    let first = desk.tags.fetch_add(plans.len() as i64, Ordering::Relaxed);
    let tags: Vec<i64> = (first..).take(plans.len()).collect();
    let retries = u32::try_from(options.max_retries)?;
    let jobs = tags.iter().zip(plans).map(|(&tag, plan)| {
        let job = later(Work { tag, plan }.max_retries(retries).priority(options.priority), &options);
        queue.map_or(job.clone(), |queue| job.queue(queue))
    });
    desk.journal.write(What::Asked { tags: tags.clone(), options: options.clone() });
    // a time of day counts from after that
    let jobs: Vec<_> = jobs.collect();
    each!(db, pool => queue::enqueue_all(pool, jobs).await)?;
    desk.commit(tags.clone());
    Ok(tags)
}
