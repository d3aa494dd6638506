//! Settings of a session, and options of a pool, that would change what statements mean: everything works all the same,
//! or the library says which setting is in the way.
//!
//! Promise: P43.

use std::time::Duration;

use chrono::TimeDelta;
use futures_util::future::join_all;
use queue::admin::Filter;
use queue::unique::Enqueued;
use queue::{Enqueue, JobId, JobState};
use queue_test_support::Engine;
use queue_tests::jobs::{Note, Play};
use queue_tests::{AnyPool, DEADLINE, Db, Running, Step, each};
use serde_json::json;

conformance! {
    of_a_session_lose_nothing,
    of_a_session_lose_nothing_more,
    of_a_session_lose_nothing_at_last,
}

/// What is said to each new connection of the pool, and the name of the setting where the library may refuse it.
type Setting = (&'static str, Option<&'static str>);

const POSTGRES: &[Setting] = &[
    ("SET default_transaction_isolation = 'serializable'", None),
    ("SET default_transaction_isolation = 'repeatable read'", None),
    ("SET default_transaction_deferrable = on", None),
    ("SET default_transaction_read_only = on", Some("default_transaction_read_only")),
    ("SET search_path = ''", Some("search_path")),
    ("SET client_encoding = 'LATIN1'", Some("client_encoding")),
    ("SET DateStyle = 'SQL, DMY'; SET TimeZone = 'Asia/Kathmandu'; SET IntervalStyle = 'sql_standard'", None),
    ("SET bytea_output = 'escape'; SET standard_conforming_strings = off; SET xmloption = 'document'", None),
    ("SET array_nulls = off; SET transform_null_equals = on; SET extra_float_digits = -15", None),
    (
        "SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_nestloop = off; SET enable_sort = off",
        None,
    ),
    ("SET plan_cache_mode = 'force_custom_plan'; SET jit = on; SET jit_above_cost = 0", None),
    ("SET session_replication_role = 'replica'; SET row_security = off; SET synchronous_commit = off", None),
    ("SET lock_timeout = '200ms'; SET quote_all_identifiers = on; SET client_min_messages = 'error'", None),
    ("SET idle_in_transaction_session_timeout = '1s'; SET constraint_exclusion = on; SET geqo_threshold = 2", None),
    ("SET from_collapse_limit = 1; SET join_collapse_limit = 1; SET work_mem = '64kB'", None),
];

const MYSQL: &[Setting] = &[
    ("SET SESSION autocommit = 0", None),
    ("SET SESSION completion_type = 1", None),
    ("SET SESSION completion_type = 2", None),
    ("SET SESSION sql_safe_updates = 1", None),
    ("SET SESSION sql_mode = ''", None),
    ("SET SESSION sql_mode = 'TRADITIONAL,ANSI,ONLY_FULL_GROUP_BY,NO_UNSIGNED_SUBTRACTION,HIGH_NOT_PRECEDENCE'", None),
    ("SET SESSION sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PAD_CHAR_TO_FULL_LENGTH,NO_AUTO_VALUE_ON_ZERO'", None),
    ("SET SESSION sql_mode = 'IGNORE_SPACE,REAL_AS_FLOAT,NO_DIR_IN_CREATE,ALLOW_INVALID_DATES'", None),
    ("SET SESSION group_concat_max_len = 4, div_precision_increment = 0", None),
    ("SET SESSION sql_select_limit = 1", None),
    ("SET SESSION sql_select_limit = 0", Some("sql_select_limit")),
    ("SET SESSION max_join_size = 1", None),
    ("SET SESSION sql_auto_is_null = 1, foreign_key_checks = 0, unique_checks = 0, big_tables = 1", None),
    ("SET SESSION time_zone = '+05:45', lc_time_names = 'de_DE'", None),
    ("SET SESSION timestamp = 1000000000", None),
    ("SET SESSION auto_increment_increment = 7, auto_increment_offset = 3", None),
    ("SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE", None),
    ("SET SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED", None),
    ("SET SESSION TRANSACTION READ ONLY", Some("transaction_read_only")),
    ("SET NAMES utf8mb4 COLLATE utf8mb4_general_ci", None),
    ("SET NAMES latin1", Some("character_set_client")),
    ("SET SESSION innodb_lock_wait_timeout = 1, low_priority_updates = 1, updatable_views_with_limit = 0", None),
];

const MARIADB_ONLY: &[Setting] = &[
    ("SET SESSION sql_mode = 'EMPTY_STRING_IS_NULL,SIMULTANEOUS_ASSIGNMENT,TIME_ROUND_FRACTIONAL'", None),
    ("SET SESSION check_constraint_checks = 0, sql_big_selects = 0, join_cache_level = 0", None),
];

const MYSQL_ONLY: &[Setting] = &[
    ("SET SESSION sql_mode = 'TIME_TRUNCATE_FRACTIONAL'", None),
    ("SET SESSION sql_require_primary_key = 1, sql_generate_invisible_primary_key = 1", None),
];

/// Options of the pool: name, value.
const SQLITE: &[(&str, &str, Option<&str>)] = &[
    ("recursive_triggers", "ON", None),
    ("ignore_check_constraints", "ON", None),
    ("reverse_unordered_selects", "ON", None),
    ("case_sensitive_like", "ON", None),
    ("defer_foreign_keys", "ON", None),
    ("cell_size_check", "ON", None),
    ("trusted_schema", "OFF", None),
    ("read_uncommitted", "ON", None),
    ("automatic_index", "OFF", None),
    ("short_column_names", "OFF", None),
    ("full_column_names", "ON", None),
    ("foreign_keys", "OFF", None),
    ("legacy_alter_table", "ON", None),
    ("empty_result_callbacks", "ON", None),
    ("count_changes", "ON", Some("count_changes")),
    ("query_only", "ON", Some("query_only")),
    ("journal_mode", "DELETE", Some("journal_mode")),
    ("journal_mode", "TRUNCATE", Some("journal_mode")),
    ("journal_mode", "MEMORY", Some("journal_mode")),
    ("locking_mode", "EXCLUSIVE", Some("locking_mode")),
];

async fn of_a_session_lose_nothing(db: Db) {
    walk_a_third(&db, 0).await;
}

async fn of_a_session_lose_nothing_more(db: Db) {
    walk_a_third(&db, 1).await;
}

async fn of_a_session_lose_nothing_at_last(db: Db) {
    walk_a_third(&db, 2).await;
}

async fn walk_a_third(db: &Db, which: usize) {
    let mut failures = Vec::new();
    let mut told = |what: String, allowed: Option<&str>, result: Result<(), String>| match (allowed, result) {
        (_, Ok(())) => {}
        (Some(name), Err(error)) if error.contains(name) => {}
        (_, Err(error)) => failures.push(format!("{what}: {error}")),
    };
    if db.engine() == Engine::Sqlite {
        for (name, value, allowed) in SQLITE.iter().skip(which).step_by(3) {
            let empty = db.another().await;
            let pool = empty.open_sqlite(6, |options| options.pragma(*name, *value)).await;
            told(format!("{name} = {value}"), *allowed, walk(&empty, &pool).await);
        }
    } else {
        let settings = match db.engine() {
            Engine::Postgres => POSTGRES.to_vec(),
            Engine::MariaDb => [MYSQL, MARIADB_ONLY].concat(),
            _ => [MYSQL, MYSQL_ONLY].concat(),
        };
        let settings: Vec<_> = settings.into_iter().skip(which).step_by(3).collect();
        for some in settings.chunks(3) {
            let results = join_all(some.iter().map(async |(sql, _)| {
                let empty = db.another().await;
                let pool = empty.open_with(8, sql).await;
                walk(&empty, &pool).await
            }));
            for ((sql, allowed), result) in some.iter().zip(results.await) {
                told((*sql).to_owned(), *allowed, result);
            }
        }
    }
    assert!(failures.is_empty(), "{}:\n{}", db.engine(), failures.join("\n"));
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Everything that the library does, through a pool with a setting, seen through connections without it.
async fn walk(db: &Db, pool: &AnyPool) -> Result<(), String> {
    tokio::time::timeout(2 * DEADLINE, walk_on(db, pool)).await.unwrap_or_else(|_| Err("too late".into()))
}

async fn walk_on(db: &Db, pool: &AnyPool) -> Result<(), String> {
    pool.migrate().await.map_err(|error| format!("migrate: {error}"))?;
    let mut jobs = enqueue_in_every_way(pool).await?;
    let seen = db.count("queue_jobs").await;
    if seen != jobs.len() as i64 {
        return Err(format!("{seen} of {} jobs are there", jobs.len()));
    }
    let order = "SELECT id FROM queue_jobs WHERE kind = 'note' ORDER BY id";
    let labels = db.column(order).await;
    jobs.sort();
    if labels.len() != jobs.len() || labels.iter().zip(&jobs).any(|(seen, id)| *seen != id.to_string()) {
        return Err(format!("other numbers: {labels:?}, {jobs:?}"));
    }
    administrate(pool).await?;
    run(db, pool).await
}

fn note(label: &str) -> Enqueue<Note> {
    Note::new(label).into()
}

async fn enqueue_in_every_way(pool: &AnyPool) -> Result<Vec<JobId>, String> {
    let failed = |error| format!("enqueue: {error}");
    let mut jobs = vec![pool.enqueue(note("one")).await.map_err(failed)?];
    jobs.push(pool.enqueue(note("später").queue("größer").priority(-3)).await.map_err(failed)?);
    jobs.push(pool.enqueue(note("later").after(Duration::from_secs(3600))).await.map_err(failed)?);
    for result in join_all((0..12).map(|n| pool.enqueue(note(&format!("beside {n}"))))).await {
        jobs.push(result.map_err(failed)?);
    }
    jobs.extend(pool.enqueue_all((0..3).map(|n| Note::new(format!("bulk {n}")))).await.map_err(failed)?);
    let mixed = (0..3).map(|n| note("mixed").priority(n).after(Duration::from_secs(60)));
    jobs.extend(pool.enqueue_all(mixed).await.map_err(failed)?);
    let unique = |key: &str| note(key).unique_key(key);
    for key in ["one", "two"] {
        let first = pool.enqueue(unique(key)).await.map_err(failed)?;
        let second = pool.enqueue_unique(unique(key)).await.map_err(failed)?;
        if second != Enqueued::Kept(first) {
            return Err(format!("unique: {second:?} for {first}"));
        }
        jobs.push(first);
    }
    // they read several rows, and a session may have to read no more than one
    let reads_too_much = |error: &queue::Error| error.to_string().contains("MAX_JOIN_SIZE=#");
    match pool.enqueue_all_unique(["one", "three", "two"].map(unique)).await {
        Ok(batch) if batch.iter().map(|it| it.is_new()).eq([false, true, false]) => jobs.push(batch[1].id()),
        Ok(batch) => return Err(format!("unique: {batch:?}")),
        Err(error) if reads_too_much(&error) => {}
        Err(error) => return Err(failed(error)),
    }
    let mut tx = pool.begin().await;
    match tx.enqueue_unique(unique("one")).await {
        Ok(Enqueued::Kept(_)) => {}
        Ok(other) => return Err(format!("unique: {other:?}")),
        Err(error) if reads_too_much(&error) => {}
        Err(error) => return Err(failed(error)),
    }
    jobs.push(tx.enqueue(note("in a transaction")).await.map_err(failed)?);
    jobs.extend(tx.enqueue_all((0..3).map(|n| Note::new(format!("in bulk {n}")))).await.map_err(failed)?);
    tx.commit().await;
    each!(AnyPool, pool, pool => {
        let mut conn = pool.acquire().await.map_err(text)?;
        jobs.push(note("on a connection").enqueue(&mut conn).await.map_err(failed)?);
        jobs.extend(queue::enqueue_all(&mut conn, (0..3).map(|_| note("many"))).await.map_err(failed)?);
        // what is on the caller's own connection is the caller's to commit
        let _ = sqlx::raw_sql("COMMIT").execute(&mut *conn).await;
    });
    Ok(jobs)
}

async fn administrate(pool: &AnyPool) -> Result<(), String> {
    let admin = pool.admin();
    let failed = |error| format!("admin: {error}");
    let check = |holds: bool, what: &str| if holds { Ok(()) } else { Err(format!("admin: {what}")) };
    admin.pause("größer").await.map_err(failed)?;
    let queues = admin.queues().await.map_err(failed)?;
    check(queues.iter().any(|it| it.queue == "größer" && it.paused_at.is_some()), "it is not paused")?;
    admin.resume("größer").await.map_err(failed)?;
    check(admin.queues().await.map_err(failed)?.iter().all(|it| it.paused_at.is_none()), "it is still paused")?;
    let id = pool.enqueue(note("administrated").after(Duration::from_secs(60))).await.map_err(failed)?;
    let state = async || admin.job(id).await.map_err(failed).map(|found| found.map(|found| found.job.state));
    admin.reschedule(id, chrono::Utc::now() + TimeDelta::hours(2)).await.map_err(failed)?;
    check(state().await? == Some(JobState::Scheduled), "it is not rescheduled")?;
    admin.edit_args(id, &json!({"label": "größer"})).await.map_err(failed)?;
    admin.merge_args(id, "{\"label\":\"größer!\"}").await.map_err(failed)?;
    admin.retry(id).await.map_err(failed)?;
    check(state().await? == Some(JobState::Ready), "it is not retried")?;
    admin.cancel(id).await.map_err(failed)?;
    check(state().await? == Some(JobState::Cancelled), "it is not cancelled")?;
    admin.delete(id).await.map_err(failed)?;
    check(state().await?.is_none(), "it is not deleted")?;
    check(!admin.stats().await.map_err(failed)?.is_empty(), "no stats")?;
    let all = admin.jobs(&Filter::new()).await.map_err(failed)?;
    check(all.items.len() > 10, "few jobs")?;
    admin.workers().await.map_err(failed).map(drop)
}

async fn run(db: &Db, pool: &AnyPool) -> Result<(), String> {
    let failed = |error| format!("enqueue: {error}");
    let play = |steps: &[Step]| Enqueue::from(Play::new("play", steps.to_vec()));
    let fails = play(&[Step::Fail("größer".into()), Step::Snooze(1), Step::Return(json!("größer"))]);
    let completes = pool.enqueue(fails).await.map_err(failed)?;
    let dies = pool.enqueue(play(&[Step::Die("größer".into())])).await.map_err(failed)?;
    let cancelled = pool.enqueue(play(&[Step::Cancel("größer".into())])).await.map_err(failed)?;
    let worker = db.worker_on(pool).build().map_err(text)?;
    let others: Vec<_> = (0..1).map(|_| Running::start(db.worker().build().expect("a good configuration"))).collect();
    let worker = Running::start(worker);
    let left = format!("queue_jobs WHERE kind = 'play' OR worker_id <> 0 OR run_at <= {}", db.time(0));
    while !worker.is_over() && (db.count(&left).await > 0 || db.count("queue_dead").await == 0) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    drop(others);
    if worker.is_over() {
        return Err(worker.ended().await.map_or_else(text, |()| "the worker ended".to_owned()));
    }
    worker.stop().await;
    let detail = db.job(completes).await;
    let outcomes: Vec<_> = detail.attempts.iter().map(|it| it.outcome.as_str()).collect();
    if outcomes != ["failed", "snoozed", "completed"] || detail.result.as_deref() != Some("\"größer\"") {
        return Err(format!("{detail:?}"));
    }
    let ends = (db.job(dies).await.job, db.job(cancelled).await.job);
    if (ends.0.state, ends.1.state) != (JobState::Dead, JobState::Cancelled)
        || [&ends.0.error, &ends.1.error] != [&Some("größer".into()), &Some("größer".into())]
    {
        return Err(format!("{ends:?}"));
    }
    pool.admin().send_back(dies).await.map_err(text)?;
    (db.state(dies).await == JobState::Ready).then_some(()).ok_or_else(|| "it is not sent back".into())
}
