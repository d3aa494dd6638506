//! A realistic mix: 20 kinds, 5 queues, priorities. One job in ten fails once, one in twenty waits for a second.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::Result;
use queue::{Enqueue, Job, JobContext, State, job};
use serde_json::Value;
use tokio::time::sleep;

use super::beside;
use super::jobs::Seen;
use crate::database::{Db, each};
use crate::figures::rate;
use crate::{MANY, S32};

/// Fails in its first attempt when `n` says so.
fn work(seen: &Seen, ctx: &JobContext, n: i64) -> Result<(), &'static str> {
    if n % 10 == 3 && ctx.attempt() == 1 {
        return Err("not yet");
    }
    seen.one_less();
    Ok(())
}

/// The options of a job by its number.
fn options<J: Job>(job: J, n: i64) -> Enqueue<J> {
    let job = job.priority((n % 3) as i16);
    if n % 20 == 7 { job.after(Duration::from_secs(1)) } else { job }
}

macro_rules! kinds {
    ($($function:ident $kind:ident $queue:literal,)*) => {
        $(
            #[job(queue = $queue, backoff = fixed("100ms"))]
            async fn $function(
                ctx: JobContext,
                State(seen): State<Seen>,
                n: i64,
                s: String,
            ) -> Result<(), &'static str> {
                let _ = s;
                work(&seen, &ctx, n)
            }
        )*

        /// The same number of jobs of each kind.
        async fn enqueue(db: &Db, each_kind: i64) -> Result<()> {
            $(
                let jobs = (0..each_kind).map(|n| options($kind { n, s: S32.to_owned() }, n));
                each!(db, pool => queue::enqueue_all(pool, jobs).await)?;
            )*
            Ok(())
        }

        const KINDS: i64 = [$(stringify!($kind)),*].len() as i64;
    };
}

kinds! {
    mixed00 Mixed00 "q0", mixed01 Mixed01 "q1", mixed02 Mixed02 "q2", mixed03 Mixed03 "q3", mixed04 Mixed04 "q4",
    mixed05 Mixed05 "q0", mixed06 Mixed06 "q1", mixed07 Mixed07 "q2", mixed08 Mixed08 "q3", mixed09 Mixed09 "q4",
    mixed10 Mixed10 "q0", mixed11 Mixed11 "q1", mixed12 Mixed12 "q2", mixed13 Mixed13 "q3", mixed14 Mixed14 "q4",
    mixed15 Mixed15 "q0", mixed16 Mixed16 "q1", mixed17 Mixed17 "q2", mixed18 Mixed18 "q3", mixed19 Mixed19 "q4",
}

/// From the start of the worker to the record of the last job.
pub(super) async fn run(db: &Db) -> Result<Value> {
    let seen = Seen::expecting(MANY);
    enqueue(db, MANY / KINDS).await?;
    let worker = db.worker(&seen).build()?;
    let start = Instant::now();
    let done = async {
        while seen.left.load(Ordering::Acquire) > 0 {
            seen.news.notified().await;
        }
        while db.number("SELECT count(*) FROM queue_history WHERE state = 'completed'").await? < MANY {
            sleep(Duration::from_millis(1)).await;
        }
        Ok(rate(MANY, start))
    };
    beside(worker, done).await
}
