//! What the handlers see of the jobs.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

static SEEN: Mutex<Seen> = Mutex::new(Seen::new());

/// Jobs by their numbers: `batch` of them are enqueued by one call.
pub(crate) struct Seen {
    pub(crate) body: Duration,
    pub(crate) batch: i64,
    /// When the call began that enqueued the batch.
    pub(crate) calls: Vec<Instant>,
    /// One bit for each job: its handler has ended.
    ended: Vec<u64>,
    /// Jobs whose handler has ended at least once.
    pub(crate) handled: i64,
    /// Handlers that ran for a job whose handler had ended before.
    pub(crate) again: i64,
    /// From the call to the end of the handler, in milliseconds.
    pub(crate) ms: Vec<f64>,
}

impl Seen {
    const fn new() -> Seen {
        Seen {
            body: Duration::ZERO,
            batch: 1,
            calls: Vec::new(),
            ended: Vec::new(),
            handled: 0,
            again: 0,
            ms: Vec::new(),
        }
    }

    fn record(&mut self, n: i64) {
        let Ok(n) = usize::try_from(n) else { return };
        if self.ended.len() <= n / 64 {
            self.ended.resize(n / 64 + 1024, 0);
        }
        if self.ended[n / 64] & (1 << (n % 64)) != 0 {
            self.again += 1;
            return;
        }
        self.ended[n / 64] |= 1 << (n % 64);
        self.handled += 1;
        if let Some(call) = self.calls.get(n / self.batch as usize) {
            self.ms.push(call.elapsed().as_secs_f64() * 1e3);
        }
    }

    /// The first job of the next batch, if it fits into what may wait.
    pub(crate) fn next_batch(&mut self, backlog: i64) -> Option<i64> {
        let first = self.calls.len() as i64 * self.batch;
        (first + self.batch - self.handled <= backlog).then(|| {
            self.calls.push(Instant::now());
            first
        })
    }
}

pub(crate) fn seen() -> MutexGuard<'static, Seen> {
    SEEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The body of every job: nothing, or the sleep that the workload wants. Pick-ups have no body: the end is the start.
pub async fn handle(n: i64) {
    let body = seen().body;
    if body > Duration::ZERO {
        tokio::time::sleep(body).await;
    }
    seen().record(n);
}
