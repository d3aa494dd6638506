//! Schedules: looking, firing, what applications declare.

use std::sync::Arc;

use super::*;
use crate::engine::Engine;
use crate::limits::START_OF_9999;
use crate::schedule::definition::Definition;
use crate::schedule::plan::KnownKind;
use crate::schedule::spec::Schedule;
use crate::schedule::spec::{Missed, Overlap};
use crate::store::ScheduleStore;
use crate::store::schedules::{Change, Kinds, NotThere, Scheduler};

on_each!(
    a_tick_becomes_one_job,
    two_workers_fire_different_schedules,
    what_another_worker_fires_is_skipped,
    a_refused_row_keeps_no_other_from_firing,
    a_trigger_that_refuses_one_job_keeps_no_other_from_firing,
    a_declaration_that_the_database_refuses_keeps_no_other_out,
    a_pause_ends_with_its_schedule,
    the_order_of_keys_is_no_change,
    a_job_by_hand_does_not_end_the_wait_for_the_last_one,
    a_clock_that_was_ahead_silences_nothing_for_good,
    kinds_that_nobody_knows_are_marked,
    the_latest_worker_decides,
    applications_keep_their_names,
    the_administration_changes_what_no_code_declares,
    old_ticks_are_removed_with_their_jobs,
);

const DAY: i64 = 86_400_000_000;

fn definition(name: &str, schedule: Schedule, kind: &'static str) -> Definition {
    let job = NewJob { args: r#"{"a":"it's \"x\""}"#.into(), ..NewJob::example(kind) };
    Definition::new(name.into(), &schedule, job).unwrap()
}

fn daily() -> Schedule {
    Schedule::cron("@daily").unwrap()
}

fn kinds(known: &[&str]) -> Kinds {
    let kind = KnownKind { secrets: &[], max_retries: 7, decodes: |_| Ok(()) };
    Arc::new(known.iter().map(|name| ((*name).to_owned(), kind)).collect())
}

async fn scheduler<DB: TestDb>(db: &Db<DB>, app: &str) -> Scheduler {
    let by = Scheduler { worker: db.worker().await, app: app.into() };
    assert_eq!(db.store.look(&by, &[], 0).await.unwrap().since, None);
    db.store.register(&by, None).await.unwrap();
    by
}

/// Looks `ahead` and fires what is due. Returns the number of jobs.
async fn fire<DB: TestDb>(db: &Db<DB>, by: &Scheduler, ahead: i64) -> usize {
    let seen = db.store.look(by, &["a".to_owned(), "it's".to_owned()], ahead).await.unwrap();
    assert!(seen.since.is_some());
    db.store.fire(&seen.due, &kinds(&["a", "it's"]), ahead).await.unwrap().jobs
}

async fn a_tick_becomes_one_job<DB: TestDb>(db: Db<DB>) {
    let by = scheduler(&db, "app").await;
    db.store.define(&definition("one", daily(), "a"), note()).await.unwrap().unwrap();
    assert_eq!(fire(&db, &by, 0).await, 0, "its next tick is computed");
    let seen = db.store.look(&by, &["a".to_owned()], 0).await.unwrap();
    assert!(seen.due.is_empty() && seen.orphans.is_empty());
    if let Some(next) = seen.next {
        assert!(next <= Duration::from_secs(35), "{next:?}");
    }
    assert_eq!(fire(&db, &by, DAY).await, 1);
    assert_eq!(fire(&db, &by, DAY).await, 0, "once");
    let jobs = db.take(by.worker, 9).await;
    assert_eq!(jobs.len(), 1);
    let job = &jobs[0];
    assert_eq!((job.args.as_deref(), job.max_retries), (Ok(r#"{"a":"it's \"x\""}"#), 0));
    let (name, tick, outcome) = db.store.tick_of(job.id.get()).await.unwrap().unwrap();
    assert_eq!((name.as_str(), tick % DAY, outcome.as_str()), ("one", 0, "fired"));
    let (row, watched) = db.store.list("", 9).await.unwrap().remove(0);
    assert_eq!((row.last_at, row.last_job_id, row.next_at), (Some(tick), Some(job.id.get()), Some(tick + DAY)));
    assert!(watched, "the worker of the test knows the kind");
    assert_eq!(db.store.history("one", START_OF_9999, 9).await.unwrap().unwrap().len(), 1);
    // much later, the last of all
    assert!((1..=2).contains(&fire(&db, &by, 600 * DAY).await), "the last one");
    let told = db.store.history("one", START_OF_9999, 9).await.unwrap().unwrap();
    let told: Vec<_> = told.iter().map(|it| (it.outcome.as_str(), it.skipped > 500)).collect();
    assert_eq!(told.iter().filter(|it| **it == ("missed", true)).count(), 1, "{told:?}");
}

async fn two_workers_fire_different_schedules<DB: TestDb>(db: Db<DB>) {
    let (one, other) = (scheduler(&db, "app").await, scheduler(&db, "app").await);
    let second = SqlStore::<DB>::new(db.pool.clone());
    for number in 0..40 {
        db.store.define(&definition(&format!("s{number}"), daily(), "a"), note()).await.unwrap().unwrap();
    }
    assert_eq!(fire(&db, &one, 0).await, 0);
    let fire = async |store: &SqlStore<DB>, by: &Scheduler| {
        let due = store.look(by, &["a".to_owned()], DAY).await.unwrap().due;
        let mut jobs = 0;
        for chunk in due.chunks(7) {
            jobs += store.fire(chunk, &kinds(&["a"]), DAY).await.unwrap().jobs;
        }
        jobs
    };
    let (jobs, others) = tokio::join!(fire(&db.store, &one), fire(&second, &other));
    assert_eq!(jobs + others + fire(&second, &other).await, 40);
    assert_eq!(db.int("SELECT COUNT(*) FROM queue_jobs").await, 40);
    assert_eq!(db.int("SELECT COUNT(*) FROM queue_ticks WHERE outcome = 'fired'").await, 40);
    assert_eq!(db.int("SELECT COUNT(*) FROM queue_schedules WHERE error IS NOT NULL").await, 0, "nobody was refused");
}

async fn what_another_worker_fires_is_skipped<DB: TestDb>(db: Db<DB>) {
    if DB::ONE_WRITER {
        return; // nobody else can be firing
    }
    let by = scheduler(&db, "app").await;
    for number in 0..6 {
        db.store.define(&definition(&format!("s{number}"), daily(), "a"), note()).await.unwrap().unwrap();
    }
    assert_eq!(fire(&db, &by, 0).await, 0);
    let mut due = db.store.look(&by, &["a".to_owned()], DAY).await.unwrap().due;
    due.sort_unstable();
    let mut other = db.pool.begin().await.unwrap();
    let held = ids::<DB>(&mut other, DB::SCHEDULES.lock, &[due[..2].into(), DAY.into()]).await.unwrap();
    assert_eq!(held, due[..2]);
    let fired = tokio::time::timeout(HANG, db.store.fire(&due, &kinds(&["a"]), DAY)).await;
    let fired = fired.expect("it waits for nobody").unwrap();
    assert_eq!((fired.locked, fired.jobs), (4, 4));
    other.rollback().await.unwrap();
    assert_eq!(fire(&db, &by, DAY).await, 2, "the other one was killed");
}

async fn a_refused_row_keeps_no_other_from_firing<DB: TestDb>(db: Db<DB>) {
    let by = scheduler(&db, "app").await;
    for name in ["b", "good", "z"] {
        db.store.define(&definition(name, daily(), "a"), note()).await.unwrap().unwrap();
    }
    assert_eq!(fire(&db, &by, 0).await, 0);
    // one that is there already is decided
    let taken = "INSERT INTO queue_ticks (schedule_id, tick_at, outcome) \
                 SELECT id, next_at, 'fired' FROM queue_schedules WHERE name = 'b'";
    db.sql(taken).await;
    db.sql("UPDATE queue_schedules SET zone = 'Mars/Base' WHERE name = 'z'").await;
    assert_eq!(fire(&db, &by, DAY).await, 1, "the good one");
    let rows = db.store.list("", 9).await.unwrap();
    let errors: Vec<_> = rows.iter().map(|(row, _)| (row.definition.name.as_str(), row.error.is_some())).collect();
    assert_eq!(errors, [("b", false), ("good", false), ("z", true)]);
    assert!(rows[2].0.error.as_ref().unwrap().contains("`Mars/Base` is no time zone"));
    db.sql("UPDATE queue_schedules SET zone = 'UTC' WHERE name = 'z'").await;
    assert_eq!(fire(&db, &by, 12 * DAY).await, 3, "mended rows fire again");
    assert!(db.store.list("", 9).await.unwrap().iter().all(|(row, _)| row.error.is_none()));
}

/// Refuses rows for which `condition` holds.
async fn trigger<DB: TestDb>(db: &Db<DB>, table: &str, condition: &str) {
    let [postgres, mysql] = [
        format!(
            "CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF {condition} THEN \
             RAISE EXCEPTION 'over the quota'; END IF; RETURN NEW; END $$; \
             CREATE TRIGGER no BEFORE INSERT OR UPDATE ON {table} FOR EACH ROW EXECUTE FUNCTION no()"
        ),
        format!(
            "CREATE TRIGGER no BEFORE INSERT ON {table} FOR EACH ROW IF {condition} THEN \
             SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'over the quota'; END IF"
        ),
    ];
    let sql = match DB::KIND {
        Engine::Postgres => postgres,
        Engine::MySql => mysql,
        Engine::Sqlite => format!(
            "CREATE TRIGGER no BEFORE INSERT ON {table} WHEN {condition} BEGIN SELECT RAISE(ABORT, 'over the quota'); END"
        ),
    };
    let mut conn = db.pool.acquire().await.unwrap();
    DB::raw(&mut conn, Box::leak(sql.into_boxed_str())).await.unwrap();
}

async fn a_trigger_that_refuses_one_job_keeps_no_other_from_firing<DB: TestDb>(db: Db<DB>) {
    let by = scheduler(&db, "app").await;
    for (name, kind) in [("b", "it's"), ("good", "a"), ("z", "a")] {
        db.store.define(&definition(name, daily(), kind), note()).await.unwrap().unwrap();
    }
    assert_eq!(fire(&db, &by, 0).await, 0);
    trigger(&db, "queue_jobs", "NEW.kind = 'it''s'").await;
    assert_eq!(fire(&db, &by, DAY).await, 2);
    let rows = db.store.list("", 9).await.unwrap();
    let errors: Vec<_> = rows.iter().map(|(row, _)| row.error.as_deref().map(|it| it.contains("quota"))).collect();
    assert_eq!(errors, [Some(true), None, None]);
    assert_eq!(db.int("SELECT COUNT(*) FROM queue_ticks").await, 2, "the tick of the refused one is open");
}

async fn a_declaration_that_the_database_refuses_keeps_no_other_out<DB: TestDb>(db: Db<DB>) {
    let by = scheduler(&db, "app").await;
    trigger(&db, "queue_schedules", "NEW.name = 'it''s'").await;
    let declared: Arc<[Definition]> =
        ["a", "it's", "z"].iter().map(|name| definition(name, daily(), "a")).collect::<Vec<_>>().into();
    let done = db.store.converge(&by, &declared, "1").await.unwrap();
    assert_eq!(done.written, ["a", "z"]);
    let refused: Vec<_> = done.refused.iter().map(|(name, why)| (name.as_str(), why.contains("quota"))).collect();
    assert_eq!(refused, [("it's", true)]);
    assert_eq!(names(&db).await, [("a".to_owned(), false), ("z".to_owned(), false)]);
    assert_ne!(db.store.look(&by, &[], 0).await.unwrap().digest.as_deref(), Some("1"), "it tries again");
}

async fn a_pause_ends_with_its_schedule<DB: TestDb>(db: Db<DB>) {
    let by = scheduler(&db, "app").await;
    let made = definition("made", daily(), "a");
    db.store.define(&made, note()).await.unwrap().unwrap();
    db.store.change("made", Change::Pause, note()).await.unwrap().unwrap();
    db.store.define(&definition("made", Schedule::cron("@hourly").unwrap(), "a"), note()).await.unwrap().unwrap();
    assert_eq!((fire(&db, &by, 0).await, fire(&db, &by, DAY).await), (0, 0), "a change ends no pause");
    db.store.change("made", Change::Remove, note()).await.unwrap().unwrap();
    db.store.define(&made, note()).await.unwrap().unwrap();
    assert_eq!((fire(&db, &by, 0).await, fire(&db, &by, DAY).await), (0, 1));
    // the same for what code declares
    let declared: Arc<[Definition]> = [definition("code", daily(), "a")].into();
    db.store.converge(&by, &declared, "1").await.unwrap();
    db.store.change("code", Change::Pause, note()).await.unwrap().unwrap();
    db.store.converge(&by, &Arc::from([]), "2").await.unwrap();
    db.store.converge(&by, &declared, "1").await.unwrap();
    let (row, _) = db.store.list("", 1).await.unwrap().remove(0);
    assert_eq!((row.definition.name.as_str(), row.paused_at, row.next_at), ("code", None, Some(0)));
}

async fn the_order_of_keys_is_no_change<DB: TestDb>(db: Db<DB>) {
    let by = scheduler(&db, "app").await;
    let with = |args: &str| Definition { args: args.into(), ..definition("x", daily(), "a") };
    let (one, other) = (with(r#"{"a":1,"b":{"c":2,"d":3}}"#), with(r#"{"b":{"d":3,"c":2},"a":1}"#));
    db.store.define(&one, note()).await.unwrap().unwrap();
    assert_eq!(fire(&db, &by, 0).await, 0);
    let next = db.store.list("", 1).await.unwrap().remove(0).0.next_at;
    assert!(next > Some(0));
    let unchanged = async || db.store.list("", 1).await.unwrap().remove(0).0.next_at == next;
    db.store.define(&other, note()).await.unwrap().unwrap();
    assert!(unchanged().await);
    db.store.define(&with(r#"{"b":{"d":3,"c":2},"a":2}"#), note()).await.unwrap().unwrap();
    assert!(!unchanged().await);
    db.store.change("x", Change::Remove, note()).await.unwrap().unwrap();
    assert_eq!(db.store.converge(&by, &[one].into(), "1").await.unwrap().written, ["x"]);
    assert_eq!(db.store.converge(&by, &[other].into(), "2").await.unwrap().written, [""; 0]);
}

async fn a_job_by_hand_does_not_end_the_wait_for_the_last_one<DB: TestDb>(db: Db<DB>) {
    let by = scheduler(&db, "app").await;
    let patient = Schedule::cron("@daily").unwrap().overlap(Overlap::Skip);
    db.store.define(&definition("one", patient, "a"), note()).await.unwrap().unwrap();
    let by_hand = async || {
        // two at one moment of the clock would be the same tick
        tokio::time::sleep(Duration::from_millis(5)).await;
        db.store.fire_by_hand("one", |_| 5, note()).await.unwrap().unwrap()
    };
    // in any order: a tick waits for all of them
    let delete = async |id: i64| db.store.delete(&[id], None).await.unwrap();
    let before = by_hand().await;
    assert_eq!((fire(&db, &by, 0).await, fire(&db, &by, DAY).await), (0, 0), "it is the last job");
    delete(before).await;
    let past = DB::in_seconds(-3);
    let mut ahead = DAY;
    for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
        ahead += DAY;
        assert_eq!(fire(&db, &by, ahead).await, 1, "nothing is there any more");
        // the clock of this test goes faster than that of the hands
        db.sql(format!("UPDATE queue_ticks SET tick_at = {past} WHERE outcome = 'fired'")).await;
        let mut jobs = vec![db.store.list("", 1).await.unwrap().remove(0).0.last_job_id.unwrap()];
        jobs.extend([by_hand().await, by_hand().await]);
        for which in order {
            ahead += DAY;
            assert_eq!(fire(&db, &by, ahead).await, 0, "one of {jobs:?} is there");
            delete(jobs[which]).await;
        }
        db.sql("DELETE FROM queue_ticks WHERE outcome <> 'overlap'").await;
    }
    assert_eq!(db.int("SELECT COUNT(*) FROM queue_schedules WHERE error IS NOT NULL").await, 0);
}

async fn a_clock_that_was_ahead_silences_nothing_for_good<DB: TestDb>(db: Db<DB>) {
    let by = scheduler(&db, "app").await;
    for name in ["changed", "made again", "resumed", "silent"] {
        db.store.define(&definition(name, daily(), "a"), note()).await.unwrap().unwrap();
    }
    assert_eq!((fire(&db, &by, 0).await, fire(&db, &by, DAY).await), (0, 4));
    assert_eq!(fire(&db, &by, 2 * DAY).await, 4, "the clock is two days ahead");
    assert_eq!(fire(&db, &by, 0).await, 0);
    assert_eq!(db.store.silent().await.unwrap(), ["changed", "made again", "resumed", "silent"]);
    db.store.define(&definition("changed", Schedule::cron("5 0 * * *").unwrap(), "a"), note()).await.unwrap().unwrap();
    db.store.change("made again", Change::Remove, note()).await.unwrap().unwrap();
    db.store.define(&definition("made again", daily(), "a"), note()).await.unwrap().unwrap();
    db.store.change("resumed", Change::Pause, note()).await.unwrap().unwrap();
    db.store.change("resumed", Change::Resume, note()).await.unwrap().unwrap();
    assert_eq!(fire(&db, &by, 0).await, 0, "their next ticks are computed");
    assert_eq!(db.store.silent().await.unwrap(), ["silent"]);
    // of the ticks of these two days, those that were fired while the clock was ahead are decided
    assert_eq!((fire(&db, &by, DAY).await, fire(&db, &by, 2 * DAY).await), (1, 1), "only the changed one has others");
    assert_eq!(fire(&db, &by, 3 * DAY).await, 4);
    assert_eq!(db.int("SELECT COUNT(*) FROM queue_schedules WHERE error IS NOT NULL").await, 0);
}

async fn kinds_that_nobody_knows_are_marked<DB: TestDb>(db: Db<DB>) {
    let by = scheduler(&db, "app").await;
    db.store.define(&definition("lost", daily(), "nobodys"), note()).await.unwrap().unwrap();
    assert_eq!(fire(&db, &by, 2 * DAY).await, 0);
    let seen = db.store.look(&by, &["a".to_owned()], 2 * DAY).await.unwrap();
    assert_eq!((seen.due.len(), seen.orphans.len()), (0, 1));
    let failed = db.store.mark_orphans(&seen.orphans, 2 * DAY).await.unwrap();
    assert_eq!(failed, [("lost".to_owned(), "no live worker knows the kind `nobodys`".to_owned())]);
    assert!(db.store.look(&by, &["a".to_owned()], 2 * DAY).await.unwrap().orphans.is_empty());
    let (row, watched) = db.store.list("", 9).await.unwrap().remove(0);
    assert!(row.error.is_some() && !watched);
    // another worker knows it
    db.store.define(&definition("known", daily(), "a"), note()).await.unwrap().unwrap();
    let seen = db.store.look(&by, &["b".to_owned()], 2 * DAY).await.unwrap();
    assert!(!seen.orphans.is_empty());
    assert!(db.store.mark_orphans(&seen.orphans, 2 * DAY).await.unwrap().is_empty());
    // one that knows it comes back
    let seen = db.store.look(&by, &["nobodys".to_owned()], 10 * DAY).await.unwrap();
    assert_eq!(db.store.fire(&seen.due, &kinds(&["nobodys"]), 10 * DAY).await.unwrap().jobs, 1, "its ticks waited");
    assert!(db.store.list("lost", 1).await.unwrap().is_empty());
    assert_eq!(db.int("SELECT COUNT(*) FROM queue_schedules WHERE error IS NOT NULL").await, 0);
}

/// What an application has: names, and whether each is retired.
async fn names<DB: TestDb>(db: &Db<DB>) -> Vec<(String, bool)> {
    let rows = db.store.list("", 99).await.unwrap();
    rows.into_iter().map(|(row, _)| (row.definition.name, row.retired_at.is_some())).collect()
}

async fn the_latest_worker_decides<DB: TestDb>(db: Db<DB>) {
    let old: Arc<[Definition]> =
        [definition("a", daily(), "a"), Definition { priority: -3, ..definition("b", daily(), "a") }].into();
    let hourly = Schedule::cron("@hourly Europe/Berlin").unwrap().missed(Missed::None).overlap(Overlap::Skip);
    let new: Arc<[Definition]> = [definition("b", hourly, "a"), definition("c", daily(), "a")].into();
    let one = scheduler(&db, "app").await;
    let written = db.store.converge(&one, &old, "old").await.unwrap();
    assert_eq!(written.written, ["a", "b"]);
    db.store.change("b", Change::Pause, note()).await.unwrap().unwrap();
    tokio::time::sleep(Duration::from_millis(5)).await;
    let two = scheduler(&db, "app").await;
    let done = db.store.converge(&two, &new, "new").await.unwrap();
    assert_eq!((done.written, done.retired), (vec!["b".into(), "c".into()], vec!["a".into()]));
    let seen = db.store.look(&one, &[], 0).await.unwrap();
    assert!(!seen.decides, "an older worker of the application");
    assert!(db.store.converge(&one, &old, "old").await.unwrap().written.is_empty());
    assert!(db.store.look(&two, &[], 0).await.unwrap().decides);
    // it joins again, and is as old as before
    db.store.leave(one.worker, Duration::ZERO).await.unwrap();
    let again = Scheduler { worker: db.worker().await, ..one.clone() };
    db.store.register(&again, seen.since).await.unwrap();
    assert!(!db.store.look(&again, &[], 0).await.unwrap().decides);
    // the rollback
    db.store.leave(two.worker, Duration::ZERO).await.unwrap();
    let seen = db.store.look(&again, &[], 0).await.unwrap();
    assert!(seen.decides);
    assert_eq!(seen.digest.as_deref(), Some("new"));
    assert_eq!(db.store.converge(&again, &old, "old").await.unwrap().written, ["a", "b"]);
    let found = names(&db).await;
    assert_eq!(found, [("a".to_owned(), false), ("b".to_owned(), false), ("c".to_owned(), true)]);
    let rows = db.store.list("", 9).await.unwrap();
    assert_eq!(rows[1].0.definition, old[1]);
    assert!(rows[1].0.paused_at.is_some(), "a pause survives");
    assert_eq!(fire(&db, &again, 0).await, 0);
    assert_eq!(fire(&db, &again, DAY).await, 1, "only `a`");
    db.store.change("b", Change::Resume, note()).await.unwrap().unwrap();
    assert_eq!(fire(&db, &again, 0).await, 0, "nothing was missed in the pause");
}

async fn applications_keep_their_names<DB: TestDb>(db: Db<DB>) {
    let (one, other) = (scheduler(&db, "one").await, scheduler(&db, "other").await);
    db.store.define(&definition("mine", daily(), "a"), note()).await.unwrap().unwrap();
    let declared = |names: &[&str]| names.iter().map(|name| definition(name, daily(), "a")).collect::<Arc<[_]>>();
    db.store.converge(&one, &declared(&["a", "mine"]), "1").await.unwrap();
    let done = db.store.converge(&other, &declared(&["a", "b"]), "2").await.unwrap();
    assert_eq!((done.written, done.conflicts), (vec!["b".into()], vec![("a".into(), "one".into())]));
    let rows = db.store.list("", 9).await.unwrap();
    let apps: Vec<_> = rows.iter().map(|(row, _)| row.app.as_str()).collect();
    assert_eq!(apps, ["one", "other", ""]);
    let seen = db.store.look(&other, &[], 0).await.unwrap();
    assert_eq!(seen.digest.as_deref(), Some(""), "it compares again");
    // given up: the other application may have it
    db.store.converge(&one, &declared(&[]), "3").await.unwrap();
    assert_eq!(db.store.converge(&other, &declared(&["a", "b"]), "2").await.unwrap().written, ["a"]);
    // an application without workers, because its program was renamed
    db.store.leave(other.worker, Duration::ZERO).await.unwrap();
    assert_eq!(db.store.converge(&one, &declared(&["a", "b"]), "4").await.unwrap().written, ["a", "b"]);
}

async fn the_administration_changes_what_no_code_declares<DB: TestDb>(db: Db<DB>) {
    let by = scheduler(&db, "app").await;
    let declared: Arc<[Definition]> = [definition("code", daily(), "a")].into();
    db.store.converge(&by, &declared, "1").await.unwrap();
    let refused = db.store.define(&definition("code", daily(), "a"), note()).await.unwrap().unwrap_err();
    assert!(matches!(refused, NotThere::Declared(app) if app == "app"));
    assert!(db.store.change("code", Change::Remove, note()).await.unwrap().is_err());
    assert!(matches!(db.store.change("none", Change::Pause, note()).await.unwrap(), Err(NotThere::Unknown)));
    let raw = Definition { max_retries: None, ..definition("it's", daily(), "it's") };
    db.store.define(&raw, note()).await.unwrap().unwrap();
    let job = db.store.fire_by_hand("it's", |_| 5, note()).await.unwrap().unwrap();
    assert_eq!(db.store.tick_of(job).await.unwrap().unwrap().2, "hand");
    assert_eq!(db.int("SELECT max_retries FROM queue_jobs").await, 5);
    assert_eq!(fire(&db, &by, 0).await, 0);
    assert_eq!(fire(&db, &by, DAY).await, 2);
    assert_eq!(db.int("SELECT COUNT(*) FROM queue_jobs WHERE max_retries = 7").await, 1, "the default of the kind");
    db.store.change("it's", Change::Remove, note()).await.unwrap().unwrap();
    assert_eq!(fire(&db, &by, 2 * DAY).await, 1);
    assert!(db.store.change("it's", Change::Pause, note()).await.unwrap().is_err(), "it is gone");
    db.store.define(&raw, note()).await.unwrap().unwrap();
    assert_eq!(names(&db).await, [("code".to_owned(), false), ("it's".to_owned(), false)]);
}

async fn old_ticks_are_removed_with_their_jobs<DB: TestDb>(db: Db<DB>) {
    let by = scheduler(&db, "app").await;
    db.store.define(&definition("one", daily(), "a"), note()).await.unwrap().unwrap();
    assert_eq!(fire(&db, &by, 0).await, 0);
    for ahead in 1..4 {
        assert_eq!(fire(&db, &by, ahead * DAY).await, 1);
    }
    let jobs = db.take(by.worker, 1).await;
    db.store.end(by.worker, &[done(&jobs[0])]).await.unwrap();
    let old = DB::in_seconds(-86_400);
    db.sql(format!("UPDATE queue_ticks SET tick_at = {old} WHERE job_id = {}", jobs[0].id)).await;
    db.sql(format!("UPDATE queue_ticks SET at = {old}")).await;
    let hour = Duration::from_secs(3600);
    assert_eq!(db.store.purge_ticks(hour, 9).await.unwrap(), 0, "its job is in the history");
    db.store.delete(&[jobs[0].id.get()], None).await.unwrap();
    assert_eq!(db.store.purge_ticks(hour, 9).await.unwrap(), 1);
    db.store.change("one", Change::Remove, note()).await.unwrap().unwrap();
    db.sql(format!("UPDATE queue_schedules SET retired_at = {old}")).await;
    db.store.purge_ticks(hour, 9).await.unwrap();
    assert_eq!(names(&db).await.len(), 1, "it has ticks");
    db.sql("DELETE FROM queue_ticks").await;
    db.store.purge_ticks(hour, 9).await.unwrap();
    assert!(names(&db).await.is_empty());
}
