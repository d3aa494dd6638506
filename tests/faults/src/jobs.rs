//! The jobs of the load. Each records when it begins and how it ends.

use std::hint::black_box;
use std::time::{Duration, Instant};

use queue::{JobContext, JobError, State, job};
use serde::{Deserialize, Serialize};
use tokio::time::sleep;

use crate::point::Point;
use crate::record::{How, Journal, What};

/// What a handler does. Times are in milliseconds.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Plan {
    /// Takes its time.
    Ok {
        /// How long.
        ms: u64,
    },
    /// Fails in its first attempts, then succeeds.
    Fail {
        /// How many fail.
        times: u32,
        /// The delay that it requests.
        retry_ms: u64,
    },
    /// Panics in its first attempt.
    Panic,
    /// Snoozes now and then.
    Snooze {
        /// How long.
        ms: u64,
    },
    /// Returns `JobError::dead`.
    Dead,
    /// Returns `JobError::cancel`.
    Cancel,
    /// Waits in each attempt, then follows another plan.
    Late {
        /// How long.
        ms: u64,
        /// The other plan.
        then: Box<Plan>,
    },
    /// Aborts its process in each attempt.
    Abort,
    /// Blocks its thread in the first attempt, sleeping.
    Block {
        /// How long.
        ms: u64,
    },
    /// Blocks its thread in the first attempt, computing: it never yields.
    Spin {
        /// How long.
        ms: u64,
    },
    /// Ignores its cancellation in the first attempt.
    Ignore {
        /// How long.
        ms: u64,
    },
    /// Allocates memory in its first attempt until there is none left.
    Eat,
    /// The same in each attempt.
    EatAll,
}

/// An attempt whose end is not recorded yet.
pub(crate) struct Running {
    journal: Journal,
    job: i64,
    tag: i64,
    attempt: u32,
    over: bool,
}

impl Running {
    pub(crate) fn start(ctx: &JobContext, journal: Journal, tag: i64) -> Running {
        let running = Running { journal, job: ctx.id().get(), tag, attempt: ctx.attempt(), over: false };
        let Running { job, tag, attempt, .. } = running;
        running.journal.write(What::Started { job, tag, attempt: attempt.into() });
        Point::Handler.reach();
        running
    }

    pub(crate) fn end(mut self, how: How) {
        self.write(how);
    }

    fn write(&mut self, how: How) {
        self.over = true;
        let Running { job, tag, attempt, .. } = *self;
        self.journal.write(What::Ended { job, tag, attempt: attempt.into(), how });
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.over {
            self.write(How::Dropped);
        }
    }
}

/// Follows its plan.
///
/// # Errors
/// When it is told to fail.
#[job(max_retries = 20)]
pub async fn work(ctx: JobContext, State(journal): State<Journal>, tag: i64, plan: Plan) -> Result<(), JobError> {
    let running = Running::start(&ctx, journal.clone(), tag);
    act(&ctx, running, &journal, plan).await
}

/// The same with a timeout.
///
/// # Errors
/// When it is told to fail.
#[job(max_retries = 3, timeout = "1s", backoff = fixed("100ms"))]
pub async fn limited(ctx: JobContext, State(journal): State<Journal>, tag: i64, plan: Plan) -> Result<(), JobError> {
    let running = Running::start(&ctx, journal.clone(), tag);
    act(&ctx, running, &journal, plan).await
}

/// The job of a schedule. What becomes of it is in the tables.
///
/// # Errors
/// Never.
#[job(max_retries = 20)]
pub async fn tick(schedule: String) -> Result<(), JobError> {
    let _ = schedule;
    Ok(())
}

async fn act(ctx: &JobContext, running: Running, journal: &Journal, mut plan: Plan) -> Result<(), JobError> {
    let first = ctx.attempt() == 1;
    if let Plan::Late { ms, then } = plan {
        sleep(Duration::from_millis(ms)).await;
        plan = *then;
    }
    match plan {
        Plan::Ok { ms } if ms > 0 => sleep(Duration::from_millis(ms)).await,
        Plan::Fail { times, retry_ms } if ctx.attempt() <= times => {
            running.end(How::Failed { retry_ms: retry_ms.cast_signed() });
            return Err(JobError::retry_after(Duration::from_millis(retry_ms), "told to fail"));
        }
        Plan::Panic if first => panic!("told to panic"),
        Plan::Snooze { ms } if fastrand::bool() => {
            running.end(How::Snoozed { retry_ms: ms.cast_signed() });
            return Err(JobError::snooze(Duration::from_millis(ms)));
        }
        Plan::Dead => {
            running.end(How::Dead);
            return Err(JobError::dead("told to give up"));
        }
        Plan::Cancel => {
            running.end(How::Cancelled);
            return Err(JobError::cancel("told to"));
        }
        Plan::Abort => {
            journal.write(What::Killed);
            std::process::abort();
        }
        Plan::Block { ms } if first => std::thread::sleep(Duration::from_millis(ms)),
        Plan::Spin { ms } if first => {
            let end = Instant::now() + Duration::from_millis(ms);
            while Instant::now() < end {
                std::hint::spin_loop();
            }
        }
        Plan::Ignore { ms } if first => sleep(Duration::from_millis(ms)).await,
        Plan::Eat | Plan::EatAll if first || matches!(plan, Plan::EatAll) => {
            // without memory it may stand still before it ends
            journal.write(What::Stopped);
            let mut hoard = Vec::new();
            loop {
                hoard.push(black_box(vec![0_u8; 1 << 24]));
            }
        }
        _ => {}
    }
    running.end(How::Ok);
    Ok(())
}

/// Succeeds, or fails in each attempt.
fn end(running: Running, fails: bool) -> Result<(), JobError> {
    const PAUSE: u64 = 20;
    if fails {
        running.end(How::Failed { retry_ms: PAUSE.cast_signed() });
        return Err(JobError::retry_after(Duration::from_millis(PAUSE), "told to fail"));
    }
    running.end(How::Ok);
    Ok(())
}

/// The jobs of an old binary. The `deploy` fault runs it at the same time as [`new`].
pub mod old {
    use super::{How, JobContext, JobError, Journal, Running, State, end, job};

    /// Two arguments.
    ///
    /// # Errors
    /// When it is told to fail.
    #[job(name = "deployed", max_retries = 5)]
    pub async fn deployed(
        ctx: JobContext,
        State(journal): State<Journal>,
        tag: i64,
        fails: bool,
    ) -> Result<(), JobError> {
        end(Running::start(&ctx, journal, tag), fails)
    }

    /// Only in the old binary.
    ///
    /// # Errors
    /// Never.
    #[job(max_retries = 5)]
    pub async fn retired(ctx: JobContext, State(journal): State<Journal>, tag: i64) -> Result<(), JobError> {
        Running::start(&ctx, journal, tag).end(How::Ok);
        Ok(())
    }

    /// The new binary has another type for the amount: neither understands the other's jobs.
    ///
    /// # Errors
    /// Never.
    #[job(name = "reshaped", max_retries = 9)]
    pub async fn reshaped(
        ctx: JobContext,
        State(journal): State<Journal>,
        tag: i64,
        amount: i64,
    ) -> Result<(), JobError> {
        let _ = amount;
        Running::start(&ctx, journal, tag).end(How::Ok);
        Ok(())
    }
}

/// The jobs of a new binary.
pub mod new {
    use super::{How, JobContext, JobError, Journal, Running, State, end, job};

    fn friendly() -> String {
        "hello".into()
    }

    /// One more argument, with a default, and another number of retries.
    ///
    /// # Errors
    /// When it is told to fail, or the default is not what it should be.
    #[job(name = "deployed", max_retries = 9)]
    pub async fn deployed(
        ctx: JobContext,
        State(journal): State<Journal>,
        tag: i64,
        fails: bool,
        #[serde(default = "friendly")] greeting: String,
    ) -> Result<(), JobError> {
        if greeting.is_empty() {
            return Err(JobError::dead("no greeting"));
        }
        end(Running::start(&ctx, journal, tag), fails)
    }

    /// See [`old::reshaped`](super::old::reshaped).
    ///
    /// # Errors
    /// Never.
    #[job(name = "reshaped", max_retries = 9)]
    pub async fn reshaped(
        ctx: JobContext,
        State(journal): State<Journal>,
        tag: i64,
        amount: String,
    ) -> Result<(), JobError> {
        let _ = amount;
        Running::start(&ctx, journal, tag).end(How::Ok);
        Ok(())
    }

    /// Only in the new binary.
    ///
    /// # Errors
    /// Never.
    #[job(max_retries = 5)]
    pub async fn introduced(ctx: JobContext, State(journal): State<Journal>, tag: i64) -> Result<(), JobError> {
        Running::start(&ctx, journal, tag).end(How::Ok);
        Ok(())
    }
}
