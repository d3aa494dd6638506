//! `docs/mistakes.md` shows what people get, word by word.

use std::path::Path;

use queue::admin::Filter;
use queue::{Error, Job, JobState, Worker, job};
use queue_test_support::Engine;
use queue_tests::jobs::Note;
use queue_tests::{AnyPool, Db};

use crate::logs;

/// The longest message of the library. (The compiler adds its own lines to what a trait says.)
const LINES: usize = 12;

#[job]
async fn measure(value: f64) {
    let _ = value;
}

/// P39, P40.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_shows_what_people_get() {
    if Db::empty(Engine::Sqlite).await.is_none() {
        return; // not among the engines that are asked for
    }
    let page = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/mistakes.md"));
    let page = page.expect("the page");
    let blocks: Vec<&str> = page.split("```text\n").skip(1).filter_map(|rest| rest.split("\n```").next()).collect();
    let mut told = Vec::new();
    queue_tests::on(Engine::Sqlite, async |db| told = said(&db).await).await;
    assert_eq!(told.len(), 10);
    told.extend(logged().await);
    let compiled = page.lines().filter_map(|line| line.strip_prefix("<!-- tests/ui/fail/")?.strip_suffix(" -->"));
    let compiled: Vec<&str> = compiled.collect();
    assert_eq!((compiled.len(), blocks.len()), (3, 3 + told.len()), "a block is compared with nothing");
    let details = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/macro-errors.md"));
    let details = details.expect("the page of the macro");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").nth(2));
    let begins: Vec<&str> = rows.filter(|cell| !cell.starts_with("The message") && !cell.starts_with("--")).collect();
    assert_eq!(begins.len(), 6);
    for begin in begins {
        assert!(details.contains(begin), "no message of the macro has: {begin}");
    }
    for name in compiled {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("ui/fail/{name}.stderr"));
        let message = std::fs::read_to_string(file).expect(name);
        assert!(blocks.contains(&message.trim_end()), "{name}: the page shows another message than the test");
    }
    for message in told {
        assert!(message.lines().count() <= LINES, "{message}");
        assert!(blocks.contains(&message.as_str()), "the page does not show:\n{message}");
    }
}

/// The messages of errors, in the order of the page.
async fn said(db: &Db) -> Vec<String> {
    let AnyPool::Sqlite(pool) = db.pool() else { unreachable!("it is SQLite") };
    let admin = db.admin();
    let empty = db.another().await;
    let AnyPool::Sqlite(unmigrated) = empty.pool() else { unreachable!("it is SQLite") };
    let text = |error: Error| format!("{error:#}");
    let note = || Note::new("a");

    let no_tables = note().enqueue(unmigrated).await.expect_err("no tables");
    let worker = db.worker_on(empty.pool()).build().expect("no I/O so far");
    let no_tables_at_start = worker.run(std::future::ready(())).await.expect_err("no tables");
    let no_state = Worker::builder(pool).build().expect_err("the jobs of this program take a probe");
    let no_kinds = Worker::builder(pool).only_registered().build().expect_err("no job");
    let not_finite = Measure::new(f64::NAN).enqueue(pool).await.expect_err("NaN");
    let too_large = Note::new("x".repeat(queue::limits::MAX_ARGS_BYTES)).enqueue(pool).await.expect_err("too large");
    let odd_queue = note().queue("mail ").enqueue(pool).await.expect_err("a blank");
    let id = note().enqueue(pool).await.expect("enqueued");
    let no_object = admin.edit_args(id, &serde_json::json!(["a"])).await.expect_err("no object");
    let worker = db.start(db.worker());
    db.reaches(id, JobState::Completed).await;
    let finished = admin.retry(id).await.expect_err("completed");
    // a producer in another language
    db.sql("INSERT INTO queue_jobs (kind, args) VALUES ('note', '{\"lable\": \"a\"}')".to_owned()).await;
    let dead = Filter::new().state(JobState::Dead);
    let misfit = queue_tests::eventually("a dead letter", async || {
        admin.jobs(&dead).await.ok()?.items.into_iter().next()?.error
    });
    let misfit = misfit.await;
    worker.stop().await;
    let mut all: Vec<String> =
        [no_tables, no_tables_at_start, no_state, no_kinds, not_finite, too_large, odd_queue, no_object, finished]
            .map(text)
            .into();
    all.push(misfit);
    all
}

/// The warnings about queues and pools, in the order of the page.
async fn logged() -> Vec<String> {
    let log = logs::captured(Engine::Sqlite, "queue=warn", async |db| {
        let worker = db.start(db.worker().only_registered().register::<Note>().queue("mial", 1));
        db.beats(1).await;
        worker.stop().await;
    });
    let log = log.await;
    ["worker.queues_undeclared", "worker.jobs_unserved"]
        .map(|event| {
            let line = log.lines().find(|line| line.contains(event));
            let line = line.unwrap_or_else(|| panic!("no {event} in {log}"));
            // without time, level and place
            line.split_once("queue::").and_then(|(_, rest)| rest.split_once(": ")).expect("a place").1.to_owned()
        })
        .into()
}
