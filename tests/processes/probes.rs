//! What the probes of a platform see of a worker.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use queue_test_support::Proxy;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep};

use crate::checker::Checker;
use crate::figures;
use crate::jobs::{BlockTheRuntime, Note, WaitForFile};
use crate::records::What;
use crate::scene::{PATIENCE, Process, Scene, Setup, text, touch};

/// After this time without a beat, a worker is not alive.
const STILL: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(100);

/// P23: An outage is no reason for a restart.
pub(crate) async fn probes_tell_of_an_outage(scene: &Scene) {
    outage(scene, Duration::from_secs(5)).await;
}

/// P23.
pub(crate) async fn probes_tell_of_an_outage_of_a_minute(scene: &Scene) {
    outage(scene, Duration::from_secs(60)).await;
}

async fn outage(scene: &Scene, lasts: Duration) {
    let mut proxy = Proxy::start(scene.engine(), scene.base.url()).await;
    let mut worker = Probed::start(scene, scene.worker("probed").url(&proxy.url(scene.base.url()))).await;
    worker.answers("/readyz", 200, "ready").await;

    proxy.cut().await;
    let cut = Instant::now();
    worker.answers("/readyz", 503, "the database has not answered for ").await;
    let noticed = cut.elapsed();
    let touched = worker.touched();
    while cut.elapsed() < lasts {
        assert_eq!(worker.get("/livez").await, (200, "alive".to_owned()));
        let (status, reason) = worker.get("/readyz").await;
        assert!(status == 503 && reason.starts_with("the database has not answered for "), "{status} {reason}");
        sleep(LOOK).await;
    }
    worker.is_touched_after(touched).await;
    proxy.heal().await;
    worker.answers("/readyz", 200, "ready").await;

    let id = scene.db.enqueue(Note {}).await.get();
    scene.wait_for_rows("queue_jobs", 0, PATIENCE).await;
    worker.process.end(PATIENCE).await;
    figures(scene.engine(), "probes", &format!("outage of {lasts:?}: not ready after {noticed:.1?}"));
    let mut checker = Checker::of(scene).await;
    checker.completed_exactly_once(&[id]);
    checker.verdict();
}

/// P46: A handler blocks the only thread of the worker's runtime for 40 s. No engine matters: SQLite alone.
pub(crate) async fn probes_tell_of_a_runtime_that_stands_still(scene: &Scene) {
    const BLOCKED: Duration = Duration::from_secs(40);
    let mut worker = Probed::start(scene, scene.worker("probed")).await;
    worker.answers("/readyz", 200, "ready").await;
    let go = scene.path("go");
    let id = scene.db.enqueue(BlockTheRuntime { path: text(&go) }).await.get();
    scene.wait_for_records("the runtime is blocked", PATIENCE, |records| records.len() == 1).await;
    let blocked = Instant::now();

    worker.answers("/livez", 503, "its runtime has stood still for 30 s").await;
    let noticed = blocked.elapsed();
    worker.answers("/readyz", 503, "its runtime has stood still for 30 s").await;
    let touched = worker.touched();
    let age = SystemTime::now().duration_since(touched).expect("a time in the past");
    // written a little after the beat
    assert!(age > STILL - Duration::from_secs(5), "{age:?}");
    sleep(BLOCKED.saturating_sub(blocked.elapsed())).await;
    assert_eq!(worker.get("/livez").await.0, 503);
    assert_eq!(worker.touched(), touched);
    touch(&go);
    worker.answers("/livez", 200, "alive").await;
    worker.is_touched_after(touched).await;
    worker.answers("/readyz", 200, "ready").await;

    scene.wait_for_rows("queue_jobs", 0, PATIENCE).await;
    worker.process.end(PATIENCE).await;
    figures(scene.engine(), "probes", &format!("blocked runtime: not alive after {noticed:.1?}"));
    let mut checker = Checker::of(scene).await;
    checker.completed_exactly_once(&[id]);
    checker.verdict();
}

/// P9: It is not ready while its job still runs, and alive until the end.
pub(crate) async fn probes_tell_of_a_worker_that_stops(scene: &Scene) {
    let mut worker = Probed::start(scene, scene.worker("probed")).await;
    let go = scene.path("go");
    let id = scene.db.enqueue(WaitForFile { path: text(&go) }).await.get();
    scene.wait_for_records("the job runs", PATIENCE, |records| records.len() == 1).await;
    worker.answers("/readyz", 200, "ready").await;

    worker.process.helper.terminate();
    let told = Instant::now();
    worker.answers("/readyz", 503, "it is stopping").await;
    let noticed = told.elapsed();
    assert_eq!(worker.get("/livez").await, (200, "alive".to_owned()));
    assert!(scene.records().iter().all(|it| it.what == What::Start), "the job has ended");
    touch(&go);
    worker.process.ended(PATIENCE).await;

    figures(scene.engine(), "probes", &format!("SIGTERM: not ready after {noticed:.1?}"));
    let mut checker = Checker::of(scene).await;
    checker.completed_exactly_once(&[id]);
    checker.verdict();
}

/// A worker, where it answers probes, and the file that it touches.
struct Probed {
    process: Process,
    address: String,
    file: PathBuf,
}

impl Probed {
    async fn start(scene: &Scene, setup: Setup) -> Self {
        let file = scene.path("alive");
        let mut process = setup.probes(&file).start().await;
        let line = process.helper.wait_for("probes: ", PATIENCE).await;
        let address = line.trim_start_matches("probes: ").to_owned();
        Self { process, address, file }
    }

    /// The status and the text of an answer.
    async fn get(&self, path: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.address).await.expect("a connection");
        let request = format!("GET {path} HTTP/1.1\r\nHost: worker\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("an answer");
        let (head, text) = answer.split_once("\r\n\r\n").expect("a head and a text");
        let status = head.split(' ').nth(1).expect("a status").parse().expect("a number");
        (status, text.to_owned())
    }

    /// Waits for an answer that begins like this.
    async fn answers(&self, path: &str, status: u16, text: &str) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let answer = self.get(path).await;
            if answer.0 == status && answer.1.starts_with(text) {
                return;
            }
            assert!(Instant::now() < deadline, "{path} answers {answer:?}, not {status}\n{}", self.process.log());
            sleep(LOOK / 5).await;
        }
    }

    /// When the file was touched last.
    fn touched(&self) -> SystemTime {
        fs::metadata(&self.file).and_then(|it| it.modified()).expect("the alive file")
    }

    async fn is_touched_after(&self, time: SystemTime) {
        let deadline = Instant::now() + PATIENCE;
        while self.touched() <= time {
            assert!(Instant::now() < deadline, "the alive file is not touched\n{}", self.process.log());
            sleep(LOOK).await;
        }
    }
}
