//! How much memory a worker uses for jobs with large arguments.

use std::{env, fs};

use crate::figures;
use crate::jobs::{Haul, Note};
use crate::scene::Scene;

const LIGHT: usize = 10_000;
/// The default number of heavy jobs. `QUEUE_TEST_HEAVY` changes it.
pub(crate) const HEAVY: usize = 200;
/// Bytes of a heavy argument. With the field's name, this is the limit of the library.
const LOAD: usize = (1 << 20) - 64;
/// Limit of memory beyond the worker's base, in bytes: a fraction of what a thousand heavy jobs in one claim would
/// take.
const MOST: u64 = 64 << 20;

/// The number of heavy jobs. The full test has 1,000.
pub(crate) fn heavy_jobs() -> usize {
    env::var("QUEUE_TEST_HEAVY").ok().and_then(|jobs| jobs.parse().ok()).unwrap_or(HEAVY)
}

/// P25: After very short jobs, a worker claims a thousand at once. The jobs behind them are heavy.
pub(crate) async fn heavy_jobs_behind_light_ones(scene: &Scene) {
    let worker = scene.worker("one").concurrency(32).start().await;
    let base = peak(worker.id());
    drop(worker);
    let heavy_jobs = heavy_jobs();
    scene.db.enqueue_all((0..LIGHT).map(|_| Note {}).collect::<Vec<_>>()).await;
    for _ in 0..heavy_jobs / 10 {
        // due after the light ones, so that these come first
        let heavy = (0..10).map(|_| Haul { load: "x".repeat(LOAD) }).collect::<Vec<_>>();
        scene.db.enqueue_all(heavy).await;
    }
    let worker = scene.worker("two").concurrency(32).start().await;
    scene.wait_for_rows("queue_jobs", 0, crate::limit()).await;
    let grown = peak(worker.id()) - base;
    figures(
        scene.engine(),
        "jobs of 1 MiB behind 10,000 light ones",
        &format!("{heavy_jobs} of them: {} MiB beyond the base", grown >> 20),
    );
    assert_eq!(scene.db.count("queue_history").await, (LIGHT + heavy_jobs) as i64);
    assert!(grown <= MOST, "{} MiB", grown >> 20);
}

/// The peak memory of a process, in bytes.
fn peak(process: i64) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).expect("the process runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("the most memory");
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse().expect("a number");
    kib << 10
}
