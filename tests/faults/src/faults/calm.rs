//! No fault, on an overloaded machine: no worker may be declared lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use super::Ground;
use crate::checker::Checker;
use crate::load::Mix;

/// P22.
pub(super) async fn nobody_dies(ground: &Ground) -> Result<Vec<String>> {
    let mut scene = ground.scene().await?;
    let mut crew = scene.crew();
    crew.hire_many(3, &scene.worker())?;
    // so many jobs that an hour of them fits into the checker's memory; what takes the cores is beside them
    let load = scene.load(None, &Mix { bulk: 20, pause: Duration::from_millis(600), ..Mix::usual() })?;
    let time = Duration::from_secs(scene.rounds(8, 3600).into());
    let hogs = Hogs::start();
    crew.work(time).await?;
    let turns = hogs.stop();
    let told = scene.number("SELECT COUNT(*) FROM queue_workers WHERE stopped_at IS NOT NULL").await?;
    let history = scene.judge(Some(load), crew).await?;
    let learned = Checker::new(&history).false_deaths();
    if told > 0 || learned > 0 {
        bail!("{told} workers were declared gone, {learned} lost their lease\n{}", scene.logs());
    }
    scene.note(format!("{time:?} with {turns} threads that compute: nobody was declared gone"));
    Ok(scene.notes)
}

/// Threads that compute, one per core.
struct Hogs {
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Hogs {
    fn start() -> Hogs {
        let over = Arc::new(AtomicBool::new(false));
        let cores = thread::available_parallelism().map_or(2, usize::from);
        let hog = |over: Arc<AtomicBool>| {
            move || {
                let mut sum = 0u64;
                let begin = Instant::now();
                while !over.load(Ordering::Relaxed) {
                    sum =
                        std::hint::black_box(sum.wrapping_mul(31).wrapping_add(begin.elapsed().subsec_nanos().into()));
                }
            }
        };
        let threads = (0..cores).map(|_| thread::spawn(hog(over.clone()))).collect();
        Hogs { over, threads }
    }

    /// Returns the number of threads.
    fn stop(self) -> usize {
        self.threads.len()
    }
}

impl Drop for Hogs {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
