//! Producers of unique jobs: tasks in worker processes, which are killed and suspended together with them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use anyhow::{Result, anyhow};
use fastrand::Rng;
use queue::unique::{Enqueued, UniqueUntil};
use queue::{Enqueue, Job as _};
use queue_test_support::{Db, each};
use sqlx::Connection as _;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::jobs::{Plan, Work};
use crate::record::{Journal, Options, Request, What, now};
use crate::worker;

/// Time limit of an enqueue. After it, the outcome is unknown. Longer than a process is suspended: one that holds the
/// lock of a key must not end the requests of all others.
const PATIENCE: Duration = Duration::from_secs(10);
/// Longest pause between two enqueues of a producer.
const PAUSE: Duration = Duration::from_millis(20);
/// Most jobs in a bulk enqueue.
const BULK: usize = 12;
/// Retries of each job.
const RETRIES: u32 = 20;
/// How many tags each process has.
const TAGS: i64 = 1 << 24;

/// The producers of a worker process.
#[derive(Clone, Debug, clap::Args)]
pub struct Order {
    /// Producers of unique jobs in this process
    #[arg(long, default_value_t = 0)]
    producers: u32,
    /// How many keys they have
    #[arg(long, default_value_t = 100)]
    keys: u32,
    /// Seed of their random choices
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

/// The file in the folder of the record that ends all producers.
pub fn end_of_work(folder: &Path) -> PathBuf {
    folder.join("produced-enough")
}

/// Until when a job is the only one with this key.
pub fn until(key: u32) -> UniqueUntil {
    if key.is_multiple_of(2) { UniqueUntil::End } else { UniqueUntil::Start }
}

/// Starts the producers of this process, if it has any.
///
/// # Errors
/// When the address is not one.
pub fn start(order: &Order, url: &str, folder: &Path, journal: &Journal) -> Result<()> {
    if order.producers == 0 {
        return Ok(());
    }
    let process = i64::from(std::process::id());
    let tags = Arc::new(AtomicI64::new(process * TAGS));
    let mut rng = Rng::with_seed(order.seed ^ process.cast_unsigned());
    let db = worker::pool(url, order.producers + 1, PATIENCE)?;
    let mut tasks = JoinSet::new();
    for _ in 0..order.producers {
        let producer = Producer {
            journal: journal.clone(),
            url: url.to_owned(),
            db: db.clone(),
            keys: order.keys,
            tags: tags.clone(),
            rng: rng.fork(),
        };
        tasks.spawn(producer.run(end_of_work(folder)));
    }
    let journal = journal.clone();
    tokio::spawn(async move {
        tasks.join_all().await;
        journal.write(What::Produced);
    });
    Ok(())
}

/// A job that a producer asks for.
#[derive(Clone, Debug)]
struct Wish {
    tag: i64,
    key: u32,
    plan: Plan,
    delay_ms: u64,
}

impl Wish {
    fn job(&self) -> Enqueue<Work> {
        let Wish { tag, key, plan, delay_ms } = self.clone();
        let job = Work { tag, plan }.max_retries(RETRIES).unique_key(name(key)).unique_until(until(key));
        if delay_ms == 0 { job } else { job.after(Duration::from_millis(delay_ms)) }
    }
}

/// In the order of the numbers.
fn name(key: u32) -> String {
    format!("key-{key:05}")
}

/// How a producer asks.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// Through a pool.
    Pool { bulk: bool },
    /// In a transaction.
    Transaction { bulk: bool, commit: bool },
    /// In a transaction that commits, those in the middle in a savepoint that is rolled back.
    Savepoint,
}

/// What became of the wishes.
#[derive(Debug)]
enum Outcome {
    /// These are committed since the commit was asked for, and no others.
    Committed { since: i64, answers: Vec<(Wish, Enqueued)> },
    /// Nothing is committed.
    RolledBack,
    /// The connection may have been lost after the commit.
    Unknown,
}

struct Producer {
    journal: Journal,
    url: String,
    db: Db,
    keys: u32,
    tags: Arc<AtomicI64>,
    rng: Rng,
}

impl Producer {
    async fn run(mut self, end: PathBuf) {
        while !end.exists() {
            self.ask().await;
            sleep(PAUSE.mul_f64(self.rng.f64())).await;
        }
    }

    /// Asks for some jobs in one of the possible ways, and records the answer.
    async fn ask(&mut self) {
        let (way, count) = match self.rng.u32(..10) {
            0..3 => (Way::Pool { bulk: false }, 1),
            3..5 => (Way::Pool { bulk: true }, self.rng.usize(2..=BULK)),
            5..7 => (Way::Transaction { bulk: false, commit: true }, self.rng.usize(1..4)),
            7 => (Way::Transaction { bulk: true, commit: true }, self.rng.usize(2..=BULK)),
            8 => (Way::Transaction { bulk: self.rng.bool(), commit: false }, self.rng.usize(1..4)),
            _ => (Way::Savepoint, self.rng.usize(2..5)),
        };
        // so that there are jobs that wait
        let delay_ms = if self.rng.u32(..4) == 0 { self.rng.u64(50..500) } else { 0 };
        let wishes = self.wishes(count, delay_ms);
        let tags: Vec<i64> = wishes.iter().map(|wish| wish.tag).collect();
        let delay = delay_ms.cast_signed();
        let options = Options { max_retries: RETRIES.into(), delay_ms: delay, ..Options::default() };
        self.journal.write(What::Asked { tags: tags.clone(), options });
        let outcome = match way {
            Way::Pool { bulk } => timeout(PATIENCE, through_pool(&self.db, wishes, bulk)).await,
            _ => timeout(PATIENCE, in_transaction(&self.db, wishes, way)).await,
        };
        if outcome.is_err()
            && let Ok(pool) = worker::pool(&self.url, 2, PATIENCE)
        {
            // as in `load`: its connection may hang
            self.db = pool;
        }
        match outcome.unwrap_or(Outcome::Unknown) {
            Outcome::Committed { since, answers } => self.committed(since, answers, tags),
            Outcome::RolledBack => self.journal.write(What::RolledBack { tags }),
            Outcome::Unknown => self.journal.write(What::Unknown { tags }),
        }
    }

    /// A wish that another job stands for must leave nothing behind, like one that was rolled back.
    fn committed(&self, since: i64, answers: Vec<(Wish, Enqueued)>, tags: Vec<i64>) {
        let new: Vec<i64> = answers.iter().filter(|(_, it)| it.is_new()).map(|(wish, _)| wish.tag).collect();
        let others: Vec<i64> = tags.into_iter().filter(|tag| !new.contains(tag)).collect();
        let request =
            |(wish, it): &(Wish, Enqueued)| Request { key: name(wish.key), job: it.id().get(), new: it.is_new() };
        self.journal.write(What::Stands { since, requests: answers.iter().map(request).collect() });
        if !new.is_empty() {
            self.journal.write(What::Committed { tags: new });
        }
        if !others.is_empty() {
            self.journal.write(What::RolledBack { tags: others });
        }
    }

    fn wishes(&mut self, count: usize, delay_ms: u64) -> Vec<Wish> {
        let first = self.tags.fetch_add(count as i64, Ordering::Relaxed);
        // half of them want one of a few keys
        let few = (self.keys / 10).max(1);
        let mut keys: Vec<u32> = (0..count)
            .map(|_| {
                let of = if self.rng.bool() { few } else { self.keys };
                self.rng.u32(..of)
            })
            .collect();
        // as documented for transactions with several keys; and a few who do not care, and run into deadlocks
        if self.rng.u32(..10) > 0 {
            keys.sort_unstable();
        }
        let wish = |(tag, key)| Wish { tag, key, plan: plan(&mut self.rng), delay_ms };
        (first..).zip(keys).map(wish).collect()
    }
}

/// Short jobs. Some fail once.
fn plan(rng: &mut Rng) -> Plan {
    match rng.u32(..10) {
        0 => Plan::Fail { times: 1, retry_ms: rng.u64(20..200) },
        1 => Plan::Ok { ms: rng.u64(50..200) },
        _ => Plan::Ok { ms: rng.u64(..10) },
    }
}

/// Whoever gets an error here does not know whether the database had committed before.
async fn through_pool(db: &Db, wishes: Vec<Wish>, bulk: bool) -> Outcome {
    let since = now();
    let answers = if bulk {
        let jobs: Vec<_> = wishes.iter().map(Wish::job).collect();
        each!(db, pool => queue::enqueue_all_unique(pool, jobs).await)
    } else {
        each!(db, pool => wishes[0].job().enqueue_unique(pool).await).map(|answer| vec![answer])
    };
    match answers {
        Ok(answers) => Outcome::Committed { since, answers: wishes.into_iter().zip(answers).collect() },
        Err(error) => {
            tracing::info!(%error, "an enqueue through a pool failed");
            Outcome::Unknown
        }
    }
}

async fn in_transaction(db: &Db, wishes: Vec<Wish>, way: Way) -> Outcome {
    match try_in_transaction(db, wishes, way).await {
        Ok(outcome) => outcome,
        // no commit was sent: whatever becomes of the connection, nothing is committed
        Err(error) => {
            tracing::info!(%error, ?way, "an enqueue in a transaction failed");
            Outcome::RolledBack
        }
    }
}

/// Enqueues wishes in a transaction or a savepoint.
macro_rules! enqueue {
    ($tx:expr, $wishes:expr, $bulk:expr) => {{
        let jobs = $wishes.iter().map(Wish::job);
        if $bulk {
            queue::enqueue_all_unique($tx, jobs).await?
        } else {
            let mut answers = Vec::new();
            for job in jobs {
                answers.push(job.enqueue_unique($tx).await?);
            }
            answers
        }
    }};
}

async fn try_in_transaction(db: &Db, wishes: Vec<Wish>, way: Way) -> Result<Outcome> {
    each!(db, pool => {
        let mut conn = pool.acquire().await?;
        if matches!(db, Db::MySql(_)) {
            // what documentation says of transactions with unique jobs
            sqlx::raw_sql("SET TRANSACTION ISOLATION LEVEL READ COMMITTED").execute(&mut *conn).await?;
        }
        let mut tx = conn.begin().await?;
        let (answers, commit) = match way {
            Way::Pool { .. } => return Err(anyhow!("a pool is no transaction")),
            Way::Transaction { bulk, commit } => {
                let answers = enqueue!(&mut tx, &wishes, bulk);
                (wishes.into_iter().zip(answers).collect(), commit)
            }
            Way::Savepoint => {
                let [first, between @ .., last] = wishes.as_slice() else {
                    return Err(anyhow!("too few wishes for a savepoint"));
                };
                let before = first.job().enqueue_unique(&mut tx).await?;
                let mut savepoint = tx.begin().await?;
                // the last one's key as well: the rollback must free it
                let mut within = between.to_vec();
                within.push(Wish { tag: -last.tag, ..last.clone() });
                let _ = enqueue!(&mut savepoint, &within, within.len() > 2);
                savepoint.rollback().await?;
                let after = last.job().enqueue_unique(&mut tx).await?;
                (vec![(first.clone(), before), (last.clone(), after)], true)
            }
        };
        if !commit {
            tx.rollback().await?;
            return Ok(Outcome::RolledBack);
        }
        let since = now();
        match tx.commit().await {
            Ok(()) => Ok(Outcome::Committed { since, answers }),
            Err(error) => {
                tracing::info!(%error, "a commit failed");
                Ok(Outcome::Unknown)
            }
        }
    })
}
