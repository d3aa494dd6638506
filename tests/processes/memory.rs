//! What a worker keeps in memory of jobs that are heavy.

use std::{env, fs};

use crate::figures;
use crate::jobs::{Haul, Note};
use crate::scene::Scene;

const LIGHT: usize = 10_000;
/// As many as there are at least. `QUEUE_TEST_HEAVY` asks for more.
pub(crate) const HEAVY: usize = 200;
/// Bytes of a heavy one: with its field's name the most that is taken.
const LOAD: usize = (1 << 20) - 64;
/// What the worker may have at most beyond its base, in bytes: by what claims of a thousand heavy jobs would bring, it
/// is a fraction.
const MOST: u64 = 64 << 20;

/// How many heavy jobs there are: in full, 1,000.
pub(crate) fn heavy_jobs() -> usize {
    env::var("QUEUE_TEST_HEAVY").ok().and_then(|jobs| jobs.parse().ok()).unwrap_or(HEAVY)
}

/// After jobs that take no time a worker claims a thousand at once, and what comes then is heavy.
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

/// The most memory that a process ever had, in bytes.
fn peak(process: i64) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).expect("the process runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("the most memory");
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse().expect("a number");
    kib << 10
}
