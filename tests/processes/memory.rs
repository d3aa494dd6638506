//! What a worker keeps in memory of jobs that are heavy.

use std::fs;

use crate::figures;
use crate::jobs::{Haul, Note};
use crate::scene::{PATIENCE, Scene};

const LIGHT: usize = 3000;
const HEAVY: usize = 200;
/// Bytes of a heavy one.
const LOAD: usize = 1_000_000;
/// What the worker may have at most beyond its base, in bytes: by what claims of a thousand heavy jobs would bring, it
/// is a fraction.
const MOST: u64 = 64 << 20;

/// After jobs that take no time a worker claims a thousand at once, and what comes then is heavy.
pub(crate) async fn heavy_jobs_behind_light_ones(scene: &Scene) {
    let worker = scene.worker("one").concurrency(16).start().await;
    let base = peak(worker.id());
    drop(worker);
    scene.db.enqueue_all((0..LIGHT).map(|_| Note {}).collect::<Vec<_>>()).await;
    for _ in 0..HEAVY / 10 {
        // due after the light ones, so that these come first
        let heavy = (0..10).map(|_| Haul { load: "x".repeat(LOAD) }).collect::<Vec<_>>();
        scene.db.enqueue_all(heavy).await;
    }
    let worker = scene.worker("two").concurrency(16).start().await;
    scene.wait_for_rows("queue_jobs", 0, PATIENCE * 3).await;
    let grown = peak(worker.id()) - base;
    figures(
        scene.engine(),
        "200 jobs of 1 MB behind 3,000 light ones",
        &format!("{} MiB beyond the base", grown >> 20),
    );
    assert_eq!(scene.db.count("queue_history").await, (LIGHT + HEAVY) as i64);
    assert!(grown <= MOST, "{} MiB", grown >> 20);
}

/// The most memory that a process ever had, in bytes.
fn peak(process: i64) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).expect("the process runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("the most memory");
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse().expect("a number");
    kib << 10
}
