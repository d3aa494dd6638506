//! A shop with its mails, pictures and reports, some of which go wrong. It is written as plain rows, so it is the same
//! on every engine, and its times have the same distance from now whenever it is made.

use std::fmt::Write as _;
use std::time::Duration;

use chrono::{DateTime, DurationRound as _, TimeDelta, Utc};
use queue::admin::{Action, Actor, Filter};
use queue::schedule::Schedule;
use queue::{Job as _, JobId, job};
use queue_test_support::Engine;
use queue_tests::Db;

const MINUTE: i64 = 60_000;
const HOUR: i64 = 60 * MINUTE;

/// Characters that want to be markup, that turn the line around, and that colour a terminal.
pub const HOSTILE: &str = "<script>alert(1)</script>\"'>&\u{1b}[31m\u{202e}drow\u{200f}";

/// A mail with an invoice.
#[job(queue = "mail", max_retries = 3, backoff = fixed("1h"))]
pub async fn send_invoice(to: String, invoice: u64, cents: u64) {
    let _ = (to, invoice, cents);
}

#[job(queue = "media", max_retries = 5)]
async fn resize_image(image: u64, widths: Vec<u32>) {
    let _ = (image, widths);
}

#[job(queue = "reports", timeout = "5m", max_retries = 5)]
async fn export_report(year: u32, format: String) {
    let _ = (year, format);
}

/// Takes money, once for an account at a time.
#[job(queue = "billing", unique(by = (account)))]
pub async fn charge(account: u64, cents: i64) {
    let _ = (account, cents);
}

#[job(queue = "archive")]
async fn archive(bucket: String) {
    let _ = bucket;
}

#[job(queue = "warehouse")]
async fn sync_stock(warehouse: u32) {
    let _ = warehouse;
}

/// An invoice to somebody.
pub fn invoice(to: &str) -> SendInvoice {
    SendInvoice::new(to, 20_441_u64, 4_900_u64)
}

/// A job with a unique key.
pub fn charging(account: u64) -> Charge {
    Charge::new(account, 129_900)
}

/// The jobs that screens show in particular.
#[derive(Debug, Clone, Copy)]
pub struct World {
    /// A dead letter with four attempts.
    pub dead: JobId,
    /// One that runs.
    pub running: JobId,
    /// One that waits for another attempt.
    pub retrying: JobId,
    /// One with a unique key, in a paused queue.
    pub unique: JobId,
    /// One that took less than a second.
    pub completed: JobId,
    /// One that somebody cancelled.
    pub cancelled: JobId,
    /// An operation that runs, and one that was refused a job.
    pub operations: [i64; 2],
}

/// A text in SQL.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// A time in SQL.
fn literal(engine: Engine, time: DateTime<Utc>) -> String {
    match engine {
        Engine::Postgres => format!("'{}'::timestamptz", time.to_rfc3339()),
        Engine::MariaDb | Engine::MySql => format!("'{}'", time.format("%F %T%.6f")),
        Engine::Sqlite => time.timestamp_millis().to_string(),
    }
}

fn list(ids: &[JobId]) -> String {
    ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// How an attempt went.
#[derive(Debug, Clone, Copy)]
struct Attempt {
    /// How many milliseconds ago it began.
    began: i64,
    /// How many it took.
    took: i64,
    outcome: &'static str,
    error: &'static str,
}

/// Writes the attempts of these jobs, the first one first.
async fn attempts(db: &Db, ids: &[JobId], worker: i64, all: &[Attempt]) {
    for (place, it) in all.iter().enumerate() {
        let error = if it.error.is_empty() { "NULL".to_owned() } else { quoted(it.error) };
        let (began, ended) = (db.time(-it.began), db.time(it.took - it.began));
        let (number, outcome) = (place + 1, it.outcome);
        for id in ids {
            db.sql(format!(
                "INSERT INTO queue_attempts (job_id, fence, attempt, worker_id, started_at, ended_at, outcome, error)
                 VALUES ({id}, {number}, {number}, {worker}, {began}, {ended}, '{outcome}', {error})"
            ))
            .await;
        }
    }
}

/// What becomes of jobs that waited.
struct End<'a> {
    worker: i64,
    attempt: u32,
    /// How many milliseconds ago they were enqueued, began for the last time, and ended.
    times: [i64; 3],
    /// An expression in SQL.
    error: &'a str,
}

/// Waiting jobs become dead letters. `which`: a condition in SQL.
async fn die(db: &Db, which: &str, end: &End<'_>) {
    let End { worker, attempt, times, error } = end;
    let [enqueued, began, ended] = times.map(|ago| db.time(-ago));
    db.sql(format!(
        "INSERT INTO queue_dead (id, kind, queue, args, priority, features, max_retries, attempt, fence, worker_id, \
         enqueued_at, run_at, started_at, finished_at, error, meta)
         SELECT id, kind, queue, args, priority, features, 3, {attempt}, {attempt}, {worker}, {enqueued}, {began}, \
         {began}, {ended}, {error}, meta FROM queue_jobs WHERE {which}"
    ))
    .await;
    db.sql(format!("DELETE FROM queue_jobs WHERE {which}")).await;
}

/// Waiting jobs end well, or are cancelled.
async fn finish(db: &Db, id: JobId, state: &str, end: &End<'_>, result: &str) {
    let End { worker, attempt, times, error } = end;
    let [enqueued, began, ended] = times.map(|ago| db.time(-ago));
    db.sql(format!(
        "INSERT INTO queue_history (id, kind, queue, state, args, priority, features, max_retries, attempt, fence, \
         worker_id, enqueued_at, run_at, started_at, finished_at, result, error, meta)
         SELECT id, kind, queue, '{state}', args, priority, features, 3, {attempt}, {attempt}, {worker}, {enqueued}, \
         {enqueued}, {began}, {ended}, {result}, {error}, meta FROM queue_jobs WHERE id = {id}"
    ))
    .await;
    db.sql(format!("DELETE FROM queue_jobs WHERE id = {id}")).await;
}

/// Mails that nobody takes any more: so many dead letters of one failure, which began some minutes ago.
pub async fn incident(db: &Db, jobs: u64) -> Vec<JobId> {
    let ids = db.enqueue_all((0..jobs).map(|n| SendInvoice::new(address(n), 20_000 + n, 1_000 + n % 90_000))).await;
    let (first, last) = (ids[0], ids[ids.len() - 1]);
    let text = |number: &str| format!("'550 5.1.1 <customer-' || {number} || '@example.org>: no such user here'");
    // as some databases see it, a number is no text
    let text = text(if db.engine() == Engine::Postgres { "id::text" } else { "id" });
    for part in 0..8 {
        let ago = 14 * MINUTE - part * 95_000;
        let end = End { worker: 1, attempt: 1, times: [ago + 700, ago + 400, ago], error: &text };
        die(db, &format!("id BETWEEN {first} AND {last} AND id % 8 = {part}"), &end).await;
    }
    let began = db.now().await - TimeDelta::minutes(14);
    db.sql("DELETE FROM queue_failures").await;
    for group in db.admin().failures().await.expect("failures").groups {
        remember(db, &group.group, [(began, group.dead.jobs)]).await;
    }
    ids
}

fn address(number: u64) -> String {
    const NAMES: [&str; 8] = ["ada", "grace", "lin", "mary", "kim", "joe", "noor", "ines"];
    format!("{}.{}@example.org", NAMES[usize::try_from(number % 8).unwrap_or(0)], 1_000 + number * 37 % 9_000)
}

/// How often a failure occurred, by hour.
async fn remember(db: &Db, group: &str, hours: impl IntoIterator<Item = (DateTime<Utc>, u64)>) {
    for (at, attempts) in hours {
        let hour = at.duration_trunc(TimeDelta::hours(1)).expect("an hour");
        let [hour, at] = [hour, at].map(|time| literal(db.engine(), time));
        db.sql(format!(
            "INSERT INTO queue_failures (failure, began_at, attempts, first_at, last_at)
             VALUES ({}, {hour}, {attempts}, {at}, {at})",
            quoted(group)
        ))
        .await;
    }
}

/// The worker processes: three that live, one that was lost and one that ended. Returns their numbers.
async fn workers(db: &Db) -> Vec<i64> {
    let kinds = r#"["send_invoice","resize_image","export_report","charge","archive"]"#;
    let rows = [
        ("web-1.shop.example", 4_121, 16, r#"["mail","billing"]"#, "NULL", 11 * HOUR, 1_400, false),
        ("web-2.shop.example", 3_988, 16, r#"["mail","billing"]"#, "NULL", 11 * HOUR, 600, false),
        (
            "media-1.shop.example",
            871,
            24,
            r#"["media","reports"]"#,
            r#"'{"media":20,"reports":4}'"#,
            52 * HOUR,
            2_100,
            false,
        ),
        ("media-2.shop.example", 866, 24, r#"["media","reports"]"#, "NULL", 52 * HOUR, 6 * MINUTE, false),
        ("web-1.shop.example", 2_207, 16, r#"["mail","billing"]"#, "NULL", 30 * HOUR, 11 * HOUR, true),
    ];
    let mut ids = Vec::new();
    for (host, pid, slots, queues, limits, started, beat, ended) in rows {
        let (started, beat_at) = (db.time(-started), db.time(-beat));
        let stopped = if ended { &beat_at } else { "NULL" };
        db.sql(format!(
            "INSERT INTO queue_workers (host, pid, concurrency, queues, kinds, limits, started_at, heartbeat_at, \
             stopped_at)
             VALUES ('{host}', {pid}, {slots}, '{queues}', '{kinds}', {limits}, {started}, {beat_at}, {stopped})"
        ))
        .await;
        let id = db.int("SELECT MAX(id) FROM queue_workers").await;
        if !ended {
            let expires = db.time(if beat > MINUTE { 10_000 - beat } else { 24 * HOUR });
            db.sql(format!(
                "INSERT INTO queue_heartbeats (worker_id, heartbeat_at, expires_at) VALUES ({id}, {beat_at}, {expires})"
            ))
            .await;
            db.sql(format!("INSERT INTO queue_schedulers (worker_id, app) VALUES ({id}, '')")).await;
        }
        ids.push(id);
    }
    ids
}

/// What started and ended: an hour of minutes, and a week of hours. Mails fail for 14 minutes.
async fn tallies(db: &Db) {
    let now = db.now().await;
    let mut rows = String::new();
    let mut row =
        |span: i64, at: DateTime<Utc>, lane: (&str, &str), outcome: &str, number: i64, total: i64, longest| {
            let comma = if rows.is_empty() { "" } else { ",\n" };
            let (at, (queue, kind)) = (literal(db.engine(), at), lane);
            let _ =
                write!(rows, "{comma}({span}, {at}, '{queue}', '{kind}', '{outcome}', {number}, {total}, {longest})");
        };
    let minute = now.duration_trunc(TimeDelta::minutes(1)).expect("a minute");
    let hour = now.duration_trunc(TimeDelta::hours(1)).expect("an hour");
    let spans = (0..60).map(|it| (60, minute - TimeDelta::minutes(it), it, 1));
    let spans = spans.chain((0..168).map(|it| (3_600, hour - TimeDelta::hours(it), it, 55)));
    for (span, at, place, times) in spans {
        let swing = 12 + (place * 7 % 5) + (place * 3 % 4) + if span == 60 { 0 } else { ((place + 9) % 24 - 12).abs() };
        let is_down = span == 60 && place <= 14 || span == 3_600 && place == 0;
        for (lane, share, took) in [
            (("mail", "send_invoice"), 3, 120),
            (("media", "resize_image"), 2, 700),
            (("reports", "export_report"), 1, 9_000),
        ] {
            // the last one is not over
            let number = if place == 0 { swing * share * times / 3 } else { swing * share * times };
            let wait =
                if is_down && lane.0 == "mail" { 2_000 + (14 - place).max(0) * 9_000 } else { 30 + place % 7 * 25 };
            row(span, at, lane, "started", number, number * wait * 1_000, wait * 3_500);
            let failed = match lane.0 {
                "mail" if is_down => number * 2 / 3,
                "media" if place % 9 == 4 => 1,
                _ => 0,
            };
            row(span, at, lane, "completed", number - failed, (number - failed) * took * 1_000, took * 2_900);
            if failed > 0 {
                row(span, at, lane, "dead", failed, failed * 310_000, 700_000);
            }
        }
    }
    db.sql(format!(
        "INSERT INTO queue_tallies (span, began_at, queue, kind, outcome, attempts, total_us, longest_us) VALUES {rows}"
    ))
    .await;
}

/// Makes the world in an empty database.
pub async fn fill(db: &Db) -> World {
    let workers = workers(db).await;
    let [web, _, media, ..] = workers[..] else { unreachable!("five workers") };
    tallies(db).await;
    incident(db, 1_280).await;
    let dead = four_attempts(db, web).await;
    let images = db.enqueue_all((0..37).map(|n| ResizeImage::new(88_000 + n, vec![320_u32, 1_280]))).await;
    let error = quoted("unsupported colour space \"CMYK\" in image 88,014\ncaused by: no decoder for 4 channels");
    for (place, id) in images.iter().enumerate() {
        let ago = HOUR + i64::try_from(place).expect("few") * 2 * HOUR;
        let end = End { worker: media, attempt: 1, times: [ago + 2_600, ago + 1_900, ago], error: &error };
        die(db, &format!("id = {id}"), &end).await;
    }
    let retrying = reports(db, media).await;
    let completed = finished(db, web).await;
    let cancelled = db.enqueue(invoice("ines.4821@example.org")).await;
    let end = End { worker: 0, attempt: 0, times: [3 * HOUR, 2 * HOUR, 2 * HOUR], error: "NULL" };
    finish(db, cancelled, "cancelled", &end, "NULL").await;
    let running = waiting(db, &[web, web + 1, media]).await;
    history_of_failures(db).await;
    let (unique, operations) = administration(db).await;
    World { dead, running, retrying, unique, completed, cancelled, operations }
}

/// A dead letter that was tried four times in an hour.
async fn four_attempts(db: &Db, worker: i64) -> JobId {
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let dead = db.enqueue(invoice("grace.2110@example.org").meta("traceparent", trace)).await;
    let busy = "421 4.7.0 too many connections from 192.0.2.17, try again later";
    let full = "452 4.2.2 mailbox of grace.2110@example.org is full\ncaused by: quota of 2048 MB exceeded";
    let attempt = |began, took, outcome, error| Attempt { began, took, outcome, error };
    let all = [
        attempt(68 * MINUTE, 31_000, "failed", busy),
        attempt(64 * MINUTE, 29_500, "failed", busy),
        attempt(52 * MINUTE, 4 * MINUTE, "timed_out", "it took longer than 4 min"),
        attempt(18 * MINUTE, 8_200, "failed", full),
    ];
    attempts(db, &[dead], worker, &all).await;
    let times = [69 * MINUTE, 18 * MINUTE, 18 * MINUTE - 8_200];
    die(db, &format!("id = {dead}"), &End { worker, attempt: 4, times, error: &quoted(full) }).await;
    dead
}

/// Reports that time out and are tried again.
async fn reports(db: &Db, worker: i64) -> JobId {
    let ids = db.enqueue_all((2_011..2_025).map(|year| ExportReport::new(year, "pdf"))).await;
    let error = "it took longer than 5 min";
    let all = [
        Attempt { began: 47 * MINUTE, took: 5 * MINUTE, outcome: "timed_out", error },
        Attempt { began: 22 * MINUTE, took: 5 * MINUTE, outcome: "timed_out", error },
    ];
    attempts(db, &ids, worker, &all).await;
    let (enqueued, due) = (db.time(-48 * MINUTE), db.time(7 * MINUTE));
    db.sql(format!(
        "UPDATE queue_jobs SET attempt = 2, fence = 2, started_fence = 2, max_retries = 5, enqueued_at = {enqueued}, \
         run_at = {due} WHERE id IN ({})",
        list(&ids)
    ))
    .await;
    ids[3]
}

/// Jobs that ended well in the last minutes. Returns one.
async fn finished(db: &Db, worker: i64) -> JobId {
    let ids = db.enqueue_all((0..24).map(|n| SendInvoice::new(address(n * 5), 31_000 + n, 2_400 + n * 310))).await;
    for (place, id) in ids.iter().enumerate() {
        let ago = 20_000 + i64::try_from(place).expect("few") * 41_000;
        let all = [Attempt { began: ago + 240, took: 210, outcome: "completed", error: "" }];
        attempts(db, &[*id], worker, &all).await;
        let end = End { worker, attempt: 1, times: [ago + 290, ago + 240, ago + 30], error: "NULL" };
        finish(db, *id, "completed", &end, "'33400'").await;
    }
    ids[0]
}

/// Jobs that run, wait, are late, or that nobody serves. Returns one that runs.
async fn waiting(db: &Db, workers: &[i64; 3]) -> JobId {
    let mails = db.enqueue_all((0..318).map(|n| SendInvoice::new(address(n), 40_000 + n, 1_900 + n * 7))).await;
    let images = db.enqueue_all((0..21).map(|n| ResizeImage::new(91_000 + n, vec![320_u32, 640, 1_280]))).await;
    let later = |n: u32| ExportReport::new(2_020 + n, "csv").after(Duration::from_secs(9_000));
    db.enqueue_all((0..6).map(later)).await;
    let archived = db.enqueue_all(["photos-2019", "photos-2020", "photos-2021"].map(Archive::new)).await;
    let stock = db.enqueue(SyncStock::new(7_u32)).await;
    db.sql(format!(
        "UPDATE queue_jobs SET run_at = {0}, enqueued_at = {0} WHERE id IN ({1})",
        db.time(-4 * MINUTE),
        list(&mails)
    ))
    .await;
    db.sql(format!(
        "UPDATE queue_jobs SET run_at = {0}, enqueued_at = {0} WHERE id IN ({1})",
        db.time(-26 * MINUTE),
        list(&[&archived[..], &[stock]].concat())
    ))
    .await;
    for (ids, worker, ago) in
        [(&mails[..16], workers[0], 9_000), (&mails[16..30], workers[1], 4_000), (&images[..9], workers[2], 41_000)]
    {
        db.hand_over_all(&format!("id IN ({})", list(ids)), worker, 3).await;
        db.sql(format!(
            "UPDATE queue_jobs SET claimed_at = {}, enqueued_at = {1}, run_at = {1} WHERE id IN ({2})",
            db.time(-ago),
            db.time(-ago - 600),
            list(ids)
        ))
        .await;
    }
    images[2]
}

/// Adds a dead letter, a pause and a reason that want to be more than text. Returns the dead letter.
pub async fn hostile(db: &Db) -> JobId {
    let worker = 1;
    let admin = db.admin().acting(Actor::new(HOSTILE).reason(HOSTILE));
    admin.pause("<i>queue</i>").await.expect("paused");
    let id = db.enqueue(SendInvoice::new(HOSTILE, 1_u64, 1_u64)).await;
    let kind = quoted("<b>kind</b>\u{202e}\"");
    db.sql(format!("UPDATE queue_jobs SET kind = {kind}, queue = '<i>queue</i>' WHERE id = {id}")).await;
    let error = quoted(&format!("{HOSTILE} {}\n{HOSTILE}", "unbroken".repeat(60)));
    let end = End { worker, attempt: 1, times: [50 * MINUTE, 49 * MINUTE, 49 * MINUTE], error: &error };
    die(db, &format!("id = {id}"), &end).await;
    id
}

/// Which failures are known for days, and which one is back.
async fn history_of_failures(db: &Db) {
    let now = db.now().await;
    for group in db.admin().failures().await.expect("failures").groups {
        let hours: Vec<i64> = match &*group.kind {
            "resize_image" => (1..74).step_by(2).collect(),
            "export_report" => (50..70).chain(0..1).collect(),
            // of those in the last hour, each is counted already
            _ if group.dead.jobs > 1 => continue,
            _ => (0..1).collect(),
        };
        let hours = hours.into_iter().rev().map(|ago| {
            let number = u64::try_from(1 + ago % 3 + i64::from(ago == 0) * 11).unwrap_or(1);
            (now - TimeDelta::hours(ago) - TimeDelta::seconds(40), number)
        });
        remember(db, &group.group, hours).await;
    }
}

/// What people did. Returns a job with a unique key, and two operations: one that runs, and one that was refused a job.
async fn administration(db: &Db) -> (JobId, [i64; 2]) {
    let admin = db.admin();
    let mut charges = Vec::new();
    for account in 0..31 {
        charges.push(db.enqueue_unique(charging(4_000 + account)).await.id());
    }
    let [ada, grace] = [("ada", "the price feed is wrong"), ("grace", "INC-421: charges twice")]
        .map(|(who, why)| admin.acting(Actor::new(who).reason(why)));
    grace.pause("billing").await.expect("paused");
    let deploy = admin.acting(Actor::new("deploy"));
    let cron = |text| Schedule::cron(text).expect("a schedule");
    deploy.schedule("nightly-report", cron("15 2 * * *"), ExportReport::new(2_026_u32, "pdf")).await.expect("made");
    deploy.schedule("shop-7-prices", cron("*/10 8-20 * * MON-SAT"), Archive::new("prices")).await.expect("made");
    deploy.schedule("stock-of-warehouse-7", cron("5 * * * *"), SyncStock::new(7_u32)).await.expect("made");
    ada.pause_schedule("shop-7-prices").await.expect("paused");
    let [last, next] = [-9 * HOUR, 15 * HOUR].map(|ms| db.time(ms));
    db.sql(format!(
        "UPDATE queue_schedules SET last_at = {last}, next_at = {next}, last_job_id = 1 WHERE name = 'nightly-report'"
    ))
    .await;
    // two are sent back, and one of them was refused
    let few = Filter::new().kind("resize_image").state(queue::JobState::Dead).limit(2);
    let plan = ada.plan(Action::SendBack, &few).await.expect("a plan").first(2);
    let done = plan.run().await.expect("done").id;
    db.sql(format!(
        "INSERT INTO queue_refusals (operation_id, job_id, reason)
         VALUES ({done}, 1, 'a job with its unique key waits already')"
    ))
    .await;
    let mails = Filter::new().kind("send_invoice").state(queue::JobState::Dead);
    let acting = admin.acting(Actor::new("grace").reason("INC-430: the mail server is back"));
    let runs = acting.plan(Action::SendBack, &mails).await.expect("a plan").begin().await.expect("begun").id;
    db.sql(format!("UPDATE queue_operations SET changed = 312, beat_at = {} WHERE id = {runs}", db.time(0))).await;
    for (id, ago) in [(done, 3 * HOUR), (runs, 50_000)] {
        db.sql(format!("UPDATE queue_operations SET started_at = {} WHERE id = {id}", db.time(-ago))).await;
    }
    db.sql(format!("UPDATE queue_operations SET ended_at = {} WHERE id = {done}", db.time(-3 * HOUR + 2_000))).await;
    let (paused, at) = (db.time(-38 * MINUTE), db.time(-38 * MINUTE));
    db.sql(format!("UPDATE queue_paused SET paused_at = {paused}")).await;
    db.sql(format!("UPDATE queue_operations SET started_at = {at} WHERE action = 'pause'")).await;
    (charges[4], [runs, done])
}
