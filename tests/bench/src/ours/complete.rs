//! A handler's own transaction that also ends its job: by the library, or by hand.

use std::time::{Duration, Instant};

use anyhow::Result;
use queue::{BoxError, JobContext, State, job};
use serde_json::{Value, json};

use super::beside;
use super::jobs::Seen;
use crate::database::{Db, Engine, each, url};

/// How many transactions are timed.
const TRANSACTIONS: i64 = 2_000;

/// Notes an effect, and completes its job in the same transaction.
#[job]
pub(super) async fn charge(
    ctx: JobContext,
    State(db): State<Db>,
    State(seen): State<Seen>,
    n: i64,
) -> Result<(), BoxError> {
    let texts = Texts::of(&db);
    let began = Instant::now();
    each!(&db, pool => {
        let mut tx = pool.begin().await?;
        sqlx::query(texts.effect).bind(n).execute(&mut *tx).await?;
        ctx.complete_in(&mut tx, &()).await?;
        tx.commit().await?;
    });
    seen.latencies.note(i64::try_from(began.elapsed().as_micros())?);
    seen.one_less();
    Ok(())
}

/// The same with a table of its own for what is to do and one for what is done.
#[job]
pub(super) async fn charge_by_hand(State(db): State<Db>, State(seen): State<Seen>, n: i64) -> Result<(), BoxError> {
    let texts = Texts::of(&db);
    let began = Instant::now();
    each!(&db, pool => {
        let mut tx = pool.begin().await?;
        sqlx::query(texts.effect).bind(n).execute(&mut *tx).await?;
        sqlx::query(texts.done).bind(n).bind("charge").bind("{}").execute(&mut *tx).await?;
        sqlx::query(texts.delete).bind(n).execute(&mut *tx).await?;
        tx.commit().await?;
    });
    seen.latencies.note(i64::try_from(began.elapsed().as_micros())?);
    seen.one_less();
    Ok(())
}

struct Texts {
    effect: &'static str,
    done: &'static str,
    delete: &'static str,
}

impl Texts {
    fn of(db: &Db) -> Texts {
        match db {
            Db::Postgres(_) => Texts {
                effect: "INSERT INTO hand_effects (n) VALUES ($1)",
                done: "INSERT INTO hand_done (id, kind, args) VALUES ($1, $2, $3)",
                delete: "DELETE FROM hand_jobs WHERE id = $1",
            },
            _ => Texts {
                effect: "INSERT INTO hand_effects (n) VALUES (?)",
                done: "INSERT INTO hand_done (id, kind, args) VALUES (?, ?, ?)",
                delete: "DELETE FROM hand_jobs WHERE id = ?",
            },
        }
    }
}

/// One transaction after the other. The rate is that of the transactions alone.
pub(super) async fn run(db: &Db, by_hand: bool) -> Result<Value> {
    let now = url()?.0.pick(
        "timestamptz DEFAULT now()",
        "datetime(6) DEFAULT (UTC_TIMESTAMP(6))",
        "text DEFAULT CURRENT_TIMESTAMP",
    );
    let id = if matches!(url()?.0, Engine::Sqlite) { "integer" } else { "bigint" };
    db.run("CREATE TABLE hand_effects (n bigint)").await?;
    for table in ["hand_jobs", "hand_done"] {
        db.run(&format!("CREATE TABLE {table} (id {id} PRIMARY KEY, kind varchar(128), args text, at {now})")).await?;
    }
    let rows: Vec<String> = (0..TRANSACTIONS).map(|n| format!("({n}, 'charge', '{{}}')")).collect();
    db.run(&format!("INSERT INTO hand_jobs (id, kind, args) VALUES {}", rows.join(", "))).await?;
    match by_hand {
        true => each!(db, pool => queue::enqueue_all(pool, (0..TRANSACTIONS).map(|n| ChargeByHand { n })).await)?,
        false => each!(db, pool => queue::enqueue_all(pool, (0..TRANSACTIONS).map(|n| Charge { n })).await)?,
    };
    let seen = Seen::expecting(TRANSACTIONS);
    let worker = db.worker(&seen).concurrency(1).build()?;
    let all = async {
        tokio::time::timeout(Duration::from_secs(120), seen.news.notified()).await?;
        Ok(())
    };
    beside(worker, all).await?;
    let ms = seen.latencies.take();
    Ok(json!({ "jobs_per_second": ms.len() as f64 * 1e3 / ms.iter().sum::<f64>() }))
}
