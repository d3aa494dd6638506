//! Rows that a hostile producer, or a faulty program, can write with plain SQL. The worker stays up and serves the good
//! rows, and each bad row ends where docs/security.md says.
//!
//! Promise: P38.

use queue::limits::{MAX_ARGS_BYTES, MAX_ARGS_DEPTH};
use queue::{Error, Job, JobError, JobState, job};
use queue_test_support::Engine;
use queue_tests::jobs::{Note, Play};
use queue_tests::{Db, Step, What, eventually};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::logs::captured;

conformance! {
    arguments_over_the_limit_never_reach_the_worker,
    arguments_that_nest_too_deeply_are_refused_or_set_aside,
    numbers_at_their_end_do_not_stop_the_claim,
    times_at_their_end_are_in_the_past_or_wait,
    times_that_no_calendar_has_are_refused_or_read,
    absurd_priorities_and_retries_are_taken_at_their_word,
    a_thousand_lanes_are_all_served,
    error_texts_are_cut,
    error_texts_that_grow_on_the_way_are_recorded,
    results_that_the_database_would_refuse_are_not_kept,
    names_cannot_forge_a_line_of_the_log,
}

const INSERT: &str = "INSERT INTO queue_jobs (kind, args) VALUES";

/// SQL: `n` times the text.
fn repeat(db: &Db, text: &str, n: usize) -> String {
    match db.engine() {
        Engine::Sqlite => format!("replace(hex(zeroblob({n})), '00', '{text}')"),
        _ => format!("repeat('{text}', {n})"),
    }
}

/// SQL: JSON, of texts one after the other.
fn concat(db: &Db, parts: &[String]) -> String {
    match db.engine() {
        Engine::MariaDb | Engine::MySql => format!("CONCAT({})", parts.join(", ")),
        Engine::Postgres => format!("({})::json", parts.join(" || ")),
        Engine::Sqlite => parts.join(" || "),
    }
}

/// The largest row that the engine takes, as far as a test has time for it; QUEUE_TEST_LARGE_MIB=100 for more.
fn large(db: &Db) -> usize {
    let given = std::env::var("QUEUE_TEST_LARGE_MIB").ok().and_then(|mib| mib.parse().ok()).unwrap_or(12usize);
    let most = match db.engine() {
        Engine::MariaDb => 15, // max_allowed_packet is 16 MiB, and 64 on MySQL
        Engine::MySql => 63,
        _ => usize::MAX,
    };
    given.min(most) << 20
}

async fn arguments_over_the_limit_never_reach_the_worker(db: Db) {
    let around = r#"{"label":""}"#.len();
    for bytes in [MAX_ARGS_BYTES, MAX_ARGS_BYTES + 1, large(&db)] {
        let args = concat(&db, &[r#"'{"label":"'"#.into(), repeat(&db, "x", bytes - around), r#"'"}'"#.into()]);
        db.sql(format!("{INSERT} ('note', {args})")).await;
    }
    let after = db.enqueue(Note::new("after")).await;
    let worker = db.start(db.worker());
    db.reaches(after, JobState::Completed).await;
    eventually("two dead letters", async || (db.counts().await == (0, 2, 2)).then_some(())).await;
    let errors = db.column("SELECT error FROM queue_dead ORDER BY id").await;
    for (error, bytes) in errors.iter().zip([MAX_ARGS_BYTES + 1, large(&db)]) {
        let told = error.contains(&bytes.to_string()) && error.contains(&MAX_ARGS_BYTES.to_string());
        assert!(told && error.len() < 500, "{error}");
    }
    // whole, for whoever looks into it; and no attempt follows
    let length = if db.engine() == Engine::Postgres { "octet_length(args::text)" } else { "length(args)" };
    assert_eq!(db.int(format!("SELECT max({length}) FROM queue_dead")).await, large(&db) as i64);
    assert_eq!(db.column("SELECT outcome FROM queue_attempts").await, ["undecodable", "undecodable"]);
    // sent back, they are set aside again
    let dead = db.int("SELECT min(id) FROM queue_dead").await.into();
    db.admin().send_back(dead).await.expect("sent back");
    db.reaches(dead, JobState::Dead).await;
    worker.stop().await;
}

#[job]
async fn echoes(value: Value) -> Result<Value, JobError> {
    Ok(value)
}

/// An argument that nests so deeply.
fn nested(levels: usize) -> Value {
    (1..levels).fold(Value::Array(vec![]), |inner, _| Value::Array(vec![inner]))
}

/// P38, P39.
async fn arguments_that_nest_too_deeply_are_refused_or_set_aside(db: Db) {
    // the object with the arguments is a level itself
    let most = match db.engine() {
        Engine::MariaDb => 31,
        Engine::MySql => 100,
        _ => MAX_ARGS_DEPTH,
    };
    let fits = db.enqueue(Echoes { value: nested(most - 1) }).await;
    let too_deep = Echoes { value: nested(MAX_ARGS_DEPTH) };
    let error = db.pool().enqueue(too_deep).await.expect_err("too deep");
    assert!(matches!(error, Error::TooDeep { kind: "echoes", depth, limit } if depth == limit + 1), "{error}");
    let mut set_aside = 0;
    for levels in [MAX_ARGS_DEPTH, 1_000, 100_000] {
        let args = concat(
            &db,
            &["'{\"value\":'".to_owned(), repeat(&db, "[", levels), repeat(&db, "]", levels), "'}'".to_owned()],
        );
        let written = db.pool().sql(&format!("{INSERT} ('echoes', {args})")).await;
        set_aside += i64::from(written.is_ok());
    }
    let expected = match db.engine() {
        Engine::MariaDb | Engine::MySql => 0,
        Engine::Sqlite => 1, // a thousand levels with the object is one too many
        Engine::Postgres => 2,
    };
    assert_eq!(set_aside, expected, "rows that the database took");
    let worker = db.start(db.worker());
    db.reaches(fits, JobState::Completed).await;
    eventually("dead letters", async || (db.counts().await == (0, 1, set_aside)).then_some(())).await;
    for error in db.column("SELECT error FROM queue_dead").await {
        assert!(error.contains("recursion limit"), "{error}");
    }
    worker.stop().await;
}

async fn numbers_at_their_end_do_not_stop_the_claim(db: Db) {
    for column in ["fence", "attempt"] {
        let retries = 2_147_483_647;
        db.sql(format!(
            "INSERT INTO queue_jobs (kind, args, {column}, max_retries)
             VALUES ('note', '{{\"label\":\"{column}\"}}', 1000000000, {retries})"
        ))
        .await;
    }
    let after = db.enqueue(Note::new("after")).await;
    let worker = db.start(db.worker());
    db.reaches(after, JobState::Completed).await;
    db.finished(3).await;
    worker.stop().await;
    assert_eq!(db.probe.labels(What::Ended).len(), 3);
}

async fn times_at_their_end_are_in_the_past_or_wait(db: Db) {
    let (past, future): (&[&str], &[&str]) = match db.engine() {
        Engine::Postgres => (&["'0001-01-01 00:00Z'", "'1970-01-01'"], &["'294276-12-31 23:59Z'", "'9999-12-31'"]),
        Engine::MariaDb | Engine::MySql => (&["'0001-01-01'", "'1969-12-31'"], &["'9999-12-31 23:59:59.999999'"]),
        Engine::Sqlite => (
            &["-9223372036854775808", "-9223372036854775", "-62167219200000", "0"],
            &["9223372036854775807", "9223372036854775", "253402300799999"],
        ),
    };
    let enqueued = match db.engine() {
        Engine::Postgres => ["'-infinity'", "'infinity'"],
        Engine::MariaDb | Engine::MySql => ["'1000-01-01'", "'9999-12-31 23:59:59'"],
        Engine::Sqlite => ["-9223372036854775808", "9223372036854775807"],
    };
    for time in past.iter().chain(future) {
        for enqueued_at in enqueued {
            db.sql(format!(
                "INSERT INTO queue_jobs (kind, args, run_at, enqueued_at) \
                 VALUES ('note', '{{\"label\":\"a\"}}', {time}, {enqueued_at})"
            ))
            .await;
        }
    }
    db.enqueue(Note::new("now")).await;
    let worker = db.start(db.worker());
    db.finished(past.len() as i64 * 2 + 1).await;
    db.beats(3).await;
    assert_eq!(db.counts().await, (future.len() as i64 * 2, past.len() as i64 * 2 + 1, 0));
    // whoever looks sees them all
    let page = db.admin().jobs(&queue::admin::Filter::new()).await.expect("a page");
    assert_eq!(page.items.len(), (past.len() + future.len()) * 2 + 1);
    for job in page.items {
        db.job(job.id).await;
    }
    db.admin().stats().await.expect("counts");
    worker.stop().await;
}

/// MySQL and MariaDB take the month 0 and the day 0 when their SQL mode allows it.
async fn times_that_no_calendar_has_are_refused_or_read(db: Db) {
    if !matches!(db.engine(), Engine::MariaDb | Engine::MySql) {
        return;
    }
    const GOOD: &str = "2024-01-10";
    let bad = ["0000-00-00", "2024-00-10", "2024-01-00"];
    let times: Vec<_> = bad.iter().flat_map(|bad| [(*bad, GOOD), (GOOD, *bad)]).collect();
    let insert = |(run_at, enqueued_at): (&str, &str)| {
        let columns = "kind, args, run_at, enqueued_at";
        format!(
            "INSERT INTO queue_jobs ({columns}) VALUES ('note', '{{\"label\":\"a\"}}', '{run_at}', '{enqueued_at}')"
        )
    };
    let mut tx = db.begin().await;
    tx.sql("SET SESSION sql_mode = ''").await.expect("any mode");
    for times in &times {
        assert!(tx.sql(&insert(*times)).await.is_err(), "{times:?}");
    }
    tx.sql(&insert((GOOD, GOOD))).await.expect("a good row");
    let (mut rows, mut dead) = (1, 0);
    if db.engine() == Engine::MariaDb {
        // there the checks can be switched off
        tx.sql("SET SESSION check_constraint_checks = OFF").await.expect("no checks");
        // whoever writes that it is due in the year 0 then asks for a job that never runs
        for times in times.iter().filter(|(run_at, _)| *run_at != "0000-00-00") {
            tx.sql(&insert(*times)).await.expect("without checks");
            rows += 1;
        }
        tx.sql("INSERT INTO queue_jobs (kind, args) VALUES ('note', 'no JSON')").await.expect("without checks");
        dead += 1;
    }
    tx.commit().await;
    let page = db.admin().jobs(&queue::admin::Filter::new()).await.expect("a page");
    assert_eq!(page.items.len() as i64, rows + dead);
    let worker = db.start(db.worker());
    eventually("an end of each", async || (db.counts().await == (0, rows, dead)).then_some(())).await;
    worker.stop().await;
}

async fn absurd_priorities_and_retries_are_taken_at_their_word(db: Db) {
    let fails = serde_json::to_string(&Play::new("fails", [Step::Fail("no".into()), Step::Die("enough".into())]));
    let fails = fails.expect("JSON");
    db.sql(format!("INSERT INTO queue_jobs (kind, args, max_retries) VALUES ('play', '{fails}', 2147483647)")).await;
    for priority in [32767, -32768] {
        db.sql(format!(
            "INSERT INTO queue_jobs (kind, args, priority) VALUES ('note', '{{\"label\":\"{priority}\"}}', {priority})"
        ))
        .await;
    }
    for (column, value) in [("priority", 32768), ("priority", -32769), ("max_retries", 2_147_483_648_i64)] {
        let sql = format!("INSERT INTO queue_jobs (kind, {column}) VALUES ('bare', {value})");
        assert!(db.pool().sql(&sql).await.is_err(), "{sql}");
    }
    let worker = db.start(db.worker().concurrency(1));
    eventually("all are over", async || (db.counts().await == (0, 2, 1)).then_some(())).await;
    worker.stop().await;
    let started = db.probe.labels(What::Started);
    assert_eq!((started[0].as_str(), started.len()), ("-32768", 4), "{started:?}");
    let error = db.column("SELECT error FROM queue_dead").await;
    assert_eq!(error, ["enough"]);
}

/// P24.
async fn a_thousand_lanes_are_all_served(db: Db) {
    const SLOTS: usize = 32;
    /// Longer than the worker goes without a look at all lanes, in heartbeats of 100 ms.
    const A_LOOK_IS_DUE: usize = 25;
    let lanes: usize = std::env::var("QUEUE_TEST_LANES").ok().and_then(|n| n.parse().ok()).unwrap_or(1000);
    for chunk in (0..lanes).collect::<Vec<_>>().chunks(500) {
        let row = |n: &usize| {
            let args = serde_json::to_string(&Play::new(n.to_string(), [Step::hold("gate")])).expect("JSON");
            format!("('play', '{args}', 'lane {n}', {})", n % 100)
        };
        let rows: Vec<_> = chunk.iter().map(row).collect();
        db.sql(format!("INSERT INTO queue_jobs (kind, args, queue, priority) VALUES {}", rows.join(", "))).await;
    }
    let worker = db.start(db.worker().concurrency(SLOTS as u32));
    db.probe.wait_for_all(What::Started, SLOTS).await;
    db.enqueue(Note::new("urgent").priority(-1)).await;
    db.beats(A_LOOK_IS_DUE).await;
    db.probe.release_all();
    db.finished(lanes as i64 + 1).await;
    worker.stop().await;
    let labels = db.probe.labels(What::Started);
    let urgent = labels.iter().position(|label| label == "urgent").expect("it ran");
    assert!(urgent < 2 * SLOTS, "number {urgent}: it waited for the others");
    // in order, but for what several slots and a late look make of it
    let early = labels[..lanes / 4].iter().filter_map(|label| label.parse::<usize>().ok()).map(|n| n % 100);
    assert!(early.max() < Some(40), "priorities are not respected");
}

#[job(max_retries = 1, backoff = fixed("1ms"))]
async fn fails_at_length(unit: String, times: usize) -> Result<(), JobError> {
    Err(JobError::retry(unit.repeat(times)))
}

/// P31.
async fn error_texts_are_cut(db: Db) {
    let id = db.enqueue(FailsAtLength::new("secret ", (100usize << 20) / 7)).await;
    let worker = db.start(db.worker());
    let detail = db.reaches(id, JobState::Dead).await;
    worker.stop().await;
    let error = detail.job.error.expect("an error");
    assert!(error.len() <= 8 * 1024 && error.starts_with("secret") && error.ends_with("(cut)"), "{}", error.len());
    assert_eq!(detail.attempts.len(), 2);
    assert!(detail.attempts.iter().all(|it| it.error.as_ref().is_some_and(|error| error.len() <= 8 * 1024)));
}

/// P31: In JSON a control character takes six bytes.
async fn error_texts_that_grow_on_the_way_are_recorded(db: Db) {
    const JOBS: i64 = 600;
    db.enqueue_all((0..JOBS).map(|_| FailsAtLength::new("\u{1}", 9000usize).max_retries(0))).await;
    let worker = db.start(db.worker().concurrency(600));
    eventually("dead letters", async || (db.counts().await == (0, 0, JOBS)).then_some(())).await;
    worker.stop().await;
}

#[job]
async fn returns_raw(open: String, close: String, times: usize) -> Result<Box<RawValue>, JobError> {
    Ok(RawValue::from_string(format!("{}{}", open.repeat(times), close.repeat(times)))?)
}

async fn results_that_the_database_would_refuse_are_not_kept(db: Db) {
    let deep = db.enqueue(ReturnsRaw::new("[", "]", 100_000usize)).await;
    let long = db.enqueue(ReturnsRaw::new("1", "0", 5usize << 20)).await;
    let fits = db.enqueue(ReturnsRaw::new("[", "]", 20usize)).await;
    let worker = db.start(db.worker());
    for id in [deep, long] {
        assert_eq!(db.reaches(id, JobState::Completed).await.result, None);
    }
    assert!(db.reaches(fits, JobState::Completed).await.result.is_some());
    worker.stop().await;
}

/// P40.
async fn names_cannot_forge_a_line_of_the_log(db: Db) {
    let log = captured(db.engine(), "debug", async |db| {
        let queue = "a\n2026-01-01T00:00:00Z ERROR everything is lost\u{1b}[2J";
        db.sql(format!("INSERT INTO queue_jobs (kind, args, queue) VALUES ('note', '{{\"label\":\"a\"}}', '{queue}')"))
            .await;
        let worker = db.start(db.worker());
        db.finished(1).await;
        worker.stop().await;
    })
    .await;
    let ours: Vec<_> = log.lines().filter(|line| line.contains("queue::")).collect();
    assert!(ours.iter().any(|line| line.contains("job.completed") && line.contains("everything is lost")), "{log}");
    assert!(ours.iter().all(|line| !line.contains('\u{1b}')), "{ours:?}");
    assert!(!log.lines().any(|line| line.starts_with("2026-01-01T00:00:00Z ERROR")), "{log}");
}
