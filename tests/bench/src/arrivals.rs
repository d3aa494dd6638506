//! Jobs that arrive at a constant rate, whoever runs them.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;

use crate::figures::wall_us;
use crate::setting;

/// What is not counted, at the beginning.
pub(crate) const WARM_UP: Duration = Duration::from_secs(2);
/// How often a group of jobs arrives.
const TICK: Duration = Duration::from_millis(5);
/// Groups that are written at a time.
const AT_ONCE: usize = 4;

/// Jobs a second that are to arrive.
pub(crate) fn wanted() -> Result<f64> {
    let rate = setting("BENCH_RATE", 0);
    ensure!(rate > 0, "set BENCH_RATE to the jobs a second that are to arrive");
    Ok(rate as f64)
}

/// Enqueues groups at a steady pace. Each job carries the time at which its enqueue was due, so that the measurement
/// includes an enqueue that waits.
///
/// `write` enqueues so many, due at such a time.
pub(crate) async fn arrive<W>(rate: f64, length: Duration, write: impl Fn(i64, i64) -> W) -> Result<()>
where
    W: Future<Output = Result<()>> + Send + 'static,
{
    let mut ticks = ticks(length);
    let room = Arc::new(Semaphore::new(AT_ONCE));
    let mut writing = JoinSet::new();
    let (mut due, mut sent) = (0.0, 0);
    let begin = Instant::now();
    while let Some(us) = ticks.recv().await {
        if begin.elapsed() > length {
            break; // more arrives than can be written
        }
        due += rate * TICK.as_secs_f64();
        let group = due as i64 - sent;
        sent += group;
        while let Some(written) = writing.try_join_next() {
            written??;
        }
        let permit = room.clone().acquire_owned().await?;
        let written = write(group, us);
        writing.spawn(async move {
            let result = written.await;
            drop(permit);
            result
        });
    }
    while let Some(written) = writing.join_next().await {
        written??;
    }
    Ok(())
}

/// Sends the moment at which each group is due, when it comes. It uses a thread, because tokio's timers have
/// millisecond resolution and may be 1.5 ms late, which would distort the measurement.
fn ticks(length: Duration) -> mpsc::UnboundedReceiver<i64> {
    let (tell, told) = mpsc::unbounded_channel();
    thread::spawn(move || {
        let (first, first_us) = (Instant::now(), wall_us());
        let mut after = Duration::ZERO;
        while after < length {
            thread::sleep(after.saturating_sub(first.elapsed()));
            if tell.send(first_us + after.as_micros() as i64).is_err() {
                return;
            }
            after += TICK;
        }
    });
    told
}
