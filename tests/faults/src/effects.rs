//! Jobs with an effect that must happen exactly once: they commit it together with their completion.

use std::pin::pin;
use std::sync::atomic::{AtomicI64, Ordering};
use std::task::Poll;
use std::time::Duration;

use anyhow::Result;
use fastrand::Rng;
use futures_util::poll;
use queue::{Error, Job as _, JobContext, JobError, State, Tx, WorkerBuilder, job};
use queue_test_support::{Db, each};
use serde::{Deserialize, Serialize};
use sqlx::AssertSqlSafe;
use tokio::time::sleep;

use crate::jobs::Running;
use crate::load::Desk;
use crate::point::Point;
use crate::record::{How, Journal, Options, What};

/// The effects, each with the number of the attempt that wrote it. No key: a second effect must show.
pub const EFFECTS: &str = "faults_effects";
/// The steps before them, which commit apart.
pub const STEPS: &str = "faults_steps";
/// Retries of each job.
const RETRIES: u32 = 20;
/// How much longer a later attempt takes.
const LONGER: Duration = Duration::from_millis(200);
/// How many tags each process has for follow-ups.
const TAGS: i64 = 1 << 24;

/// What a job does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deal {
    /// How long it waits before its transaction, in milliseconds.
    pub ms: u64,
    /// How many steps it commits before, each under a guard. None with a `Tx`.
    pub steps: i64,
    /// Whether its transaction enqueues a further job.
    pub follow_up: bool,
    /// How it ends.
    pub end: End,
}

/// How an attempt ends. Other ends than a commit are for the first attempt only, apart from `Dead`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// Commits.
    Commit,
    /// Rolls back and fails.
    RollBack,
    /// Panics, with its transaction open.
    Panic,
    /// Rolls back, and succeeds all the same.
    Forget,
    /// Commits and fails.
    Late,
    /// Rolls back and gives the job up.
    Dead,
}

impl Deal {
    /// Every kind of deal, mostly good ones.
    pub fn any(rng: &mut Rng) -> Deal {
        let end = match rng.u32(..20) {
            0..2 => End::RollBack,
            2 => End::Panic,
            3..6 => End::Forget,
            6 => End::Late,
            7..9 => End::Dead,
            _ => End::Commit,
        };
        let steps = if rng.u32(..4) == 0 { rng.i64(1..=3) } else { 0 };
        Deal { ms: rng.u64(..30), steps, follow_up: rng.u32(..3) == 0, end }
    }

    fn end_of(&self, attempt: u32) -> End {
        if attempt == 1 || self.end == End::Dead { self.end } else { End::Commit }
    }
}

/// Makes the tables of the effects.
///
/// # Errors
/// When the database refuses one.
pub async fn make_tables(db: &Db) -> Result<()> {
    for (table, last) in [(EFFECTS, "attempt"), (STEPS, "step")] {
        let sql = AssertSqlSafe(format!("CREATE TABLE {table} (job BIGINT NOT NULL, {last} BIGINT NOT NULL)"));
        each!(db, pool => sqlx::raw_sql(sql).execute(pool).await.map(drop))?;
    }
    Ok(())
}

/// The handlers of these jobs, and their connections.
pub(crate) fn register(builder: WorkerBuilder, db: Db) -> WorkerBuilder {
    let builder = match &db {
        Db::Postgres(_) => builder.register::<postgres::Charge>(),
        Db::MySql(_) => builder.register::<mysql::Charge>(),
        Db::Sqlite(_) => builder.register::<sqlite::Charge>(),
    };
    builder.register::<Settle>().register::<Follow>().state(db)
}

/// Enqueues deals: half of them for handlers with a transaction of their own, half for such with a `Tx`.
///
/// # Errors
/// When the database refuses them.
pub async fn enqueue(desk: &Desk, db: &Db, mut deals: Vec<Deal>) -> Result<()> {
    let first = desk.tags.fetch_add(deals.len() as i64, Ordering::Relaxed);
    let tags: Vec<i64> = (first..).take(deals.len()).collect();
    desk.journal.write(What::Asked { tags: tags.clone(), options: options() });
    let given = deals.split_off(deals.len() / 2);
    let mut numbers = tags.iter().copied();
    let settles: Vec<_> = deals.into_iter().zip(&mut numbers).map(|(deal, tag)| Settle { tag, deal }).collect();
    each!(db, pool => queue::enqueue_all(pool, settles).await)?;
    let given = given.into_iter().map(|deal| Deal { steps: 0, ..deal }).zip(numbers);
    match db {
        Db::Postgres(pool) => drop(queue::enqueue_all(pool, given.map(postgres::charge_of)).await?),
        Db::MySql(pool) => drop(queue::enqueue_all(pool, given.map(mysql::charge_of)).await?),
        Db::Sqlite(pool) => drop(queue::enqueue_all(pool, given.map(sqlite::charge_of)).await?),
    }
    desk.commit(tags);
    Ok(())
}

fn options() -> Options {
    Options { max_retries: RETRIES.into(), ..Options::default() }
}

fn effect_of(ctx: &JobContext) -> AssertSqlSafe<String> {
    AssertSqlSafe(format!("INSERT INTO {EFFECTS} (job, attempt) VALUES ({}, {})", ctx.id(), ctx.attempt()))
}

/// Comes after another job.
#[job(max_retries = 20)]
pub(crate) async fn follow(ctx: JobContext, State(journal): State<Journal>, tag: i64, of: i64) {
    let _ = of;
    Running::start(&ctx, journal, tag).end(How::Ok);
}

/// A follow-up of this job, which is about to be enqueued.
fn follow_up(ctx: &JobContext, journal: &Journal) -> Follow {
    static NUMBER: AtomicI64 = AtomicI64::new(0);
    let tag = i64::from(std::process::id()) * TAGS + NUMBER.fetch_add(1, Ordering::Relaxed);
    journal.write(What::Asked { tags: vec![tag], options: options() });
    Follow { tag, of: ctx.id().get() }
}

/// In a transaction of its own, after steps that it guards.
#[job(max_retries = 20, backoff = fixed("20ms"))]
pub(crate) async fn settle(
    ctx: JobContext,
    State(journal): State<Journal>,
    State(db): State<Db>,
    tag: i64,
    deal: Deal,
) -> Result<(), JobError> {
    let mut running = Some(Running::start(&ctx, journal.clone(), tag));
    // an earlier one that wakes up is to find it at work
    let longer = if ctx.attempt() > 1 { LONGER } else { Duration::ZERO };
    sleep(Duration::from_millis(deal.ms) + longer).await;
    let done = match steps(&ctx, &db, &deal).await {
        Ok(()) => complete(&ctx, &journal, &db, &deal, &mut running).await,
        Err(error) => Err(error),
    };
    match done {
        Err(Failed { error, lost }) => {
            if lost {
                journal.write(What::Refused { job: ctx.id().get() });
            }
            // unless it was told to fail, and has told how
            if let Some(running) = running {
                running.end(FAILED);
            }
            Err(error)
        }
        Ok(()) => Ok(()),
    }
}

const FAILED: How = How::Failed { retry_ms: 0 };

/// Why a handler fails.
struct Failed {
    error: JobError,
    /// The attempt is not current any more.
    lost: bool,
}

impl From<JobError> for Failed {
    fn from(error: JobError) -> Failed {
        Failed { error, lost: false }
    }
}

impl From<Error> for Failed {
    fn from(error: Error) -> Failed {
        Failed { lost: matches!(error, Error::LeaseLost { .. }), error: error.into() }
    }
}

impl From<sqlx::Error> for Failed {
    fn from(error: sqlx::Error) -> Failed {
        JobError::from(error).into()
    }
}

/// Takes the steps that no earlier attempt has taken.
async fn steps(ctx: &JobContext, db: &Db, deal: &Deal) -> Result<(), Failed> {
    for step in 1..=deal.steps {
        let (id, look) = (ctx.id(), format!("SELECT COUNT(*) FROM {STEPS} WHERE job = {} AND step = {step}", ctx.id()));
        let take = AssertSqlSafe(format!("INSERT INTO {STEPS} (job, step) VALUES ({id}, {step})"));
        each!(db, pool => {
            let mut tx = pool.begin().await?;
            ctx.guard(&mut tx).await?;
            let taken: i64 = sqlx::query_scalar(AssertSqlSafe(look)).fetch_one(&mut *tx).await?;
            if taken == 0 {
                sqlx::query(take).execute(&mut *tx).await?;
            }
            Point::Guarded.reach();
            tx.commit().await?;
        });
    }
    Ok(())
}

/// Writes the effect, completes the job and commits. Tells how the attempt ends before the commit: a process that dies
/// then cannot tell any more.
async fn complete(
    ctx: &JobContext,
    journal: &Journal,
    db: &Db,
    deal: &Deal,
    running: &mut Option<Running>,
) -> Result<(), Failed> {
    let end = deal.end_of(ctx.attempt());
    let mut tell = |how| running.take().into_iter().for_each(|it| it.end(how));
    let mut tags = Vec::new();
    each!(db, pool => {
        let mut tx = pool.begin().await?;
        Point::Begun.reach();
        sqlx::query(effect_of(ctx)).execute(&mut *tx).await?;
        if deal.follow_up {
            let job = follow_up(ctx, journal);
            tags.push(job.tag);
            job.enqueue(&mut tx).await?;
        }
        Point::Effects.reach();
        ctx.complete_in(&mut tx, &ctx.attempt()).await?;
        match end {
            End::Commit | End::Late => {}
            End::Panic => panic!("told to panic"),
            End::RollBack | End::Forget | End::Dead => {
                tx.rollback().await?;
                journal.write(What::RolledBack { tags });
                tell(if end == End::Dead { How::Dead } else { FAILED });
                return match end {
                    End::Forget => Ok(()),
                    End::Dead => Err(JobError::dead("told to give up").into()),
                    _ => Err(JobError::from("told to fail").into()),
                };
            }
        }
        Point::Completed.reach();
        tell(How::Ok);
        let mut commit = pin!(tx.commit());
        // sends it
        match poll!(&mut commit) {
            Poll::Ready(answer) => answer?,
            Poll::Pending => {
                Point::Commit.reach();
                commit.await?;
            }
        }
    });
    journal.write(What::Committed { tags });
    Point::Committed.reach();
    if end == End::Late { Err(JobError::from("told to fail late").into()) } else { Ok(()) }
}

/// A job like that of `examples/payment.rs`: the worker begins, completes and commits the transaction.
macro_rules! charge {
    ($module:ident, $DB:ty, $name:literal) => {
        mod $module {
            use super::{
                Deal, Duration, End, FAILED, How, JobContext, JobError, Journal, Point, Running, State, Tx, effect_of,
                follow_up, job, sleep,
            };
            use queue::Job as _;

            /// In the transaction that it is given.
            #[job(name = $name, max_retries = 20, backoff = fixed("20ms"))]
            pub(crate) async fn charge(
                ctx: &JobContext,
                tx: &mut Tx<$DB>,
                State(journal): State<Journal>,
                tag: i64,
                deal: Deal,
            ) -> Result<u32, JobError> {
                let running = Running::start(ctx, journal.clone(), tag);
                if let Err(error) = sqlx::query(effect_of(ctx)).execute(&mut **tx).await {
                    running.end(FAILED);
                    return Err(error.into());
                }
                if deal.follow_up
                    && let Err(error) = follow_up(ctx, &journal).enqueue(&mut *tx).await
                {
                    running.end(FAILED);
                    return Err(error.into());
                }
                Point::Effects.reach();
                sleep(Duration::from_millis(deal.ms)).await;
                match deal.end_of(ctx.attempt()) {
                    End::RollBack => {
                        running.end(FAILED);
                        Err("told to fail".into())
                    }
                    End::Dead => {
                        running.end(How::Dead);
                        Err(JobError::dead("told to give up"))
                    }
                    End::Panic => panic!("told to panic"),
                    // a commit that it cannot leave out, nor be late for
                    End::Commit | End::Forget | End::Late => {
                        running.end(How::Ok);
                        Ok(ctx.attempt())
                    }
                }
            }

            pub(super) fn charge_of((deal, tag): (Deal, i64)) -> Charge {
                Charge { tag, deal }
            }
        }
    };
}

charge!(postgres, sqlx::Postgres, "charge_postgres");
charge!(mysql, sqlx::MySql, "charge_mysql");
charge!(sqlite, sqlx::Sqlite, "charge_sqlite");
