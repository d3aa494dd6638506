//! Schedules: in code, at run time and by SQL; several workers, deploys and bad rows.
//!
//! Promise: P35.

use std::time::{Duration, Instant};

use queue::testing::TestQueue;

use queue::admin::Admin;
use queue::schedule::{Missed, Overlap, Periodic, Schedule, ScheduleInfo};
use queue::{Error, Job, JobContext, JobError, JobState, State, WorkerBuilder, job};
use queue_tests::jobs::Note;
use queue_tests::{AnyPool, Db, What, each, eventually};
use serde::{Deserialize, Serialize};

conformance! {
    fire_what_the_code_declares,
    fire_what_was_made_at_run_time,
    are_a_contract_of_sql,
    pause_and_resume,
    fire_by_hand,
    tell_a_handler_its_tick,
    pass_over_a_tick_while_the_job_of_the_last_one_is_there,
    let_bad_rows_keep_no_good_one_from_firing,
    converge_to_what_the_latest_worker_declares,
    leave_the_names_of_others_alone,
    move_with_a_renamed_program,
    go_on_without_a_right,
    fire_in_a_test_as_time_passes,
    begin_in_a_test_when_it_says,
    a_month_of_minutes_passes_in_a_test,
}

/// Declares a schedule by hand, so that it is not in the workers of other tests. Returns its tick.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Ticks {
    shop: u32,
}

/// The first release.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct First {}

/// The second release.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Second {}

fn every(seconds: u64) -> Schedule {
    Schedule::every(Duration::from_secs(seconds)).expect("an interval")
}

fn hourly() -> Schedule {
    Schedule::cron("7 * * * * Europe/Berlin").expect("an expression")
}

impl Job for Ticks {
    const KIND: &'static str = "ticks";
    type Output = Option<(String, i64)>;

    async fn run(self, ctx: JobContext) -> Result<Self::Output, JobError> {
        let tick = ctx.tick().await?;
        Ok(tick.map(|tick| (tick.schedule, tick.at.timestamp())))
    }

    fn schedules() -> Result<Vec<Periodic<Self>>, Error> {
        // each of them, on a machine that stood still for some seconds as well
        let all = Missed::All { within: Duration::from_secs(3600) };
        Ok(vec![Periodic::new("ticks", every(1).missed(all), Self { shop: 7 })])
    }
}

macro_rules! release {
    ($of:ident, $kind:literal, $($name:literal: $schedule:expr),*) => {
        impl Job for $of {
            const KIND: &'static str = $kind;
            type Output = ();

            async fn run(self, _: JobContext) -> Result<(), JobError> {
                Ok(())
            }

            fn schedules() -> Result<Vec<Periodic<Self>>, Error> {
                Ok(vec![$(Periodic::new($name, $schedule, Self {})),*])
            }
        }
    };
}
release!(First, "release", "stays": hourly(), "changes": hourly(), "goes": hourly());
release!(Second, "release", "stays": hourly(), "changes": every(3600), "comes": hourly());

async fn schedule(admin: &Admin, name: &str) -> Option<ScheduleInfo> {
    admin.schedules(None).await.expect("a list").into_iter().find(|it| it.name == name)
}

/// Waits for so many jobs of ticks of this schedule.
async fn fired(db: &Db, name: &str, count: usize) -> Vec<i64> {
    eventually("jobs of ticks", async || {
        let ticks = db.admin().ticks(name, None).await.ok()?;
        let mut ticks: Vec<_> = ticks.iter().filter(|it| it.outcome == "fired").map(|it| it.at.timestamp()).collect();
        ticks.sort_unstable();
        (ticks.len() >= count).then_some(ticks)
    })
    .await
}

/// P13.
async fn fire_what_the_code_declares(db: Db) {
    let worker = db.start(db.worker().register::<Ticks>());
    let second = db.start(db.worker_apart().await.register::<Ticks>());
    let ticks = fired(&db, "ticks", 3).await;
    worker.stop().await;
    second.stop().await;
    assert!(ticks.windows(2).all(|two| two[1] == two[0] + 1), "one after the other: {ticks:?}");
    let doubled = "SELECT COUNT(*) FROM (SELECT schedule_id, tick_at FROM queue_ticks WHERE job_id IS NOT NULL \
                   GROUP BY schedule_id, tick_at HAVING COUNT(*) > 1) AS d";
    assert_eq!(db.int(doubled).await, 0);
    let jobs = db.count("queue_history").await + db.count("queue_jobs").await;
    assert_eq!(jobs, db.count("queue_ticks WHERE outcome = 'fired'").await, "each tick is one job");
    let found = schedule(&db.admin(), "ticks").await.expect("it is there");
    assert_eq!((found.kind.as_str(), found.args.as_str()), ("ticks", r#"{"shop":7}"#));
    assert!(found.app.is_some_and(|app| app == "conformance"), "the name of the program");
}

async fn fire_what_was_made_at_run_time(db: Db) {
    let worker = db.start(db.worker());
    let admin = db.admin();
    let note = Note::new("of a schedule").priority(-2).max_retries(3);
    admin.schedule("made", every(1).missed(Missed::None), note).await.expect("made");
    // a running worker sees it within 30 seconds
    tokio::time::timeout(Duration::from_secs(60), async {
        while db.count("queue_ticks").await == 0 {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    })
    .await
    .expect("a tick");
    fired(&db, "made", 2).await;
    let refused = admin.remove_schedule("none").await.expect_err("unknown").to_string();
    assert_eq!(refused, "there is no schedule `none`; it may have been removed");
    admin.remove_schedule("made").await.expect("removed");
    let ticks = db.count("queue_ticks").await;
    assert!(schedule(&admin, "made").await.is_some_and(|it| it.retired_at.is_some() && it.next_at.is_none()));
    worker.stop().await;
    assert_eq!(db.count("queue_ticks").await, ticks);
    let jobs = "queue_history WHERE priority = -2 AND max_retries = 3";
    assert!(db.count(jobs).await + db.count(&jobs.replace("history", "jobs")).await >= 2);
}

/// P33.
async fn are_a_contract_of_sql(db: Db) {
    let args = r#"{"label":"by hand"}"#;
    db.sql(format!(
        "INSERT INTO queue_schedules (name, kind, expression, args) VALUES ('plain', 'note', 'every 1s', '{args}')"
    ))
    .await;
    let worker = db.start(db.worker());
    fired(&db, "plain", 1).await;
    let epoch = if db.dialect() == queue::migration::Engine::Sqlite { "0" } else { "'1970-01-01 00:00:00'" };
    db.sql(format!("UPDATE queue_schedules SET expression = '0 0 1 1 *', next_at = {epoch}")).await;
    eventually("the changed row to be seen", async || {
        schedule(&db.admin(), "plain")
            .await
            .filter(|it| it.next_at.is_some_and(|next| next.to_rfc3339().contains("-01-01T00:00")))
    })
    .await;
    worker.stop().await;
}

async fn pause_and_resume(db: Db) {
    let admin = db.admin();
    admin.schedule("one", every(1), Note::new("x")).await.expect("made");
    admin.pause_schedule("one").await.expect("paused");
    let worker = db.start(db.worker().register::<Ticks>());
    fired(&db, "ticks", 2).await;
    assert!(admin.ticks("one", None).await.expect("ticks").is_empty(), "paused");
    admin.schedule("one", every(1), Note::new("y")).await.expect("changed");
    assert!(schedule(&admin, "one").await.is_some_and(|it| it.paused_at.is_some() && it.next_at.is_none()));
    admin.resume_schedule("one").await.expect("resumed");
    let ticks = fired(&db, "one", 1).await;
    worker.stop().await;
    assert!(!ticks.is_empty());
    assert_eq!(db.count("queue_ticks WHERE outcome = 'missed'").await, 0, "nothing was missed in the pause");
}

async fn fire_by_hand(db: Db) {
    let admin = db.admin();
    admin.schedule("yearly", Schedule::cron("@yearly").expect("a year"), Note::new("now")).await.expect("made");
    let id = admin.fire_schedule("yearly").await.expect("fired");
    let worker = db.start(db.worker());
    db.reaches(id, JobState::Completed).await;
    worker.stop().await;
    let ticks = admin.ticks("yearly", None).await.expect("ticks");
    assert_eq!((ticks.len(), ticks[0].outcome.as_str(), ticks[0].job), (1, "hand", Some(id)));
    let refused = admin.fire_schedule("none").await.expect_err("unknown");
    assert!(matches!(refused, Error::NoSchedule(name) if name == "none"));
}

/// P29.
async fn tell_a_handler_its_tick(db: Db) {
    let alone = db.enqueue(Ticks { shop: 1 }).await;
    let worker = db.start(db.worker().register::<Ticks>());
    let ticks = fired(&db, "ticks", 1).await;
    let ticked = db.admin().ticks("ticks", None).await.expect("ticks").pop().and_then(|it| it.job).expect("a job");
    let done = db.reaches(ticked, JobState::Completed).await;
    assert_eq!(done.result, Some(serde_json::json!(["ticks", ticks[0]]).to_string()));
    assert_eq!(db.reaches(alone, JobState::Completed).await.result, None);
    worker.stop().await;
}

async fn pass_over_a_tick_while_the_job_of_the_last_one_is_there(db: Db) {
    let admin = db.admin();
    let never = Note::new("waits").queue("nobody serves it");
    admin.schedule("busy", every(1).overlap(Overlap::Skip), never).await.expect("made");
    let worker = db.start(db.worker().queue("default", 4));
    let outcomes = eventually("a tick that is passed over", async || {
        let ticks = admin.ticks("busy", None).await.ok()?;
        ticks.iter().any(|it| it.outcome == "overlap").then_some(ticks)
    })
    .await;
    worker.stop().await;
    assert_eq!(outcomes.iter().filter(|it| it.outcome == "fired").count(), 1);
    assert_eq!(db.count("queue_jobs").await, 1);
}

/// P38.
async fn let_bad_rows_keep_no_good_one_from_firing(db: Db) {
    let bad = [
        ("garbage", "note", "whenever", "UTC", "{}"),
        ("impossible", "note", "0 0 31 2 *", "UTC", "{}"),
        ("zone", "note", "@hourly", "Mars/Base", "{}"),
        ("kind", "nobodys", "every 1s", "UTC", "{}"),
        ("args", "note", "every 1s", "UTC", r#"{"label":7}"#),
    ];
    for (name, kind, expression, zone, args) in bad {
        db.sql(format!(
            "INSERT INTO queue_schedules (name, kind, expression, zone, args) \
             VALUES ('{name}', '{kind}', '{expression}', '{zone}', '{args}')"
        ))
        .await;
    }
    // so that workers need not wait for a minute until it counts as nobody's
    db.sql(format!("UPDATE queue_schedules SET changed_at = {}", db.time(-120_000))).await;
    let worker = db.start(db.worker().register::<Ticks>());
    let ticks = fired(&db, "ticks", 3).await;
    let errors = eventually("the errors", async || {
        let rows = db.admin().schedules(None).await.ok()?;
        let bad: Vec<_> = rows.into_iter().filter(|row| row.name != "ticks").collect();
        bad.iter().all(|row| row.error.is_some()).then_some(bad)
    })
    .await;
    worker.stop().await;
    assert!(ticks.windows(2).all(|two| two[1] == two[0] + 1), "{ticks:?}");
    let said = |name: &str| errors.iter().find(|row| row.name == name).and_then(|row| row.error.clone()).expect(name);
    assert!(said("garbage").contains("five fields"), "{}", said("garbage"));
    assert!(said("impossible").contains("never happens"), "{}", said("impossible"));
    assert!(said("zone").contains("`Mars/Base` is no time zone"), "{}", said("zone"));
    assert_eq!(said("kind"), "no live worker knows the kind `nobodys`");
    assert!(said("args").starts_with("the arguments do not fit `note`"), "{}", said("args"));
    assert_eq!(db.count("queue_jobs WHERE kind NOT IN ('ticks', 'note')").await, 0);
    // another build may be able to decode them
    let written = db.count("queue_jobs WHERE kind = 'note'").await + db.count("queue_dead WHERE kind = 'note'").await;
    assert!(written > 0);
    assert!(errors.iter().all(|row| row.watched == (row.kind == "note")));
}

/// Name, whether it is retired, and the expression.
async fn rows(db: &Db) -> Vec<(String, bool, String)> {
    let rows = db.admin().schedules(None).await.expect("a list");
    rows.into_iter().map(|it| (it.name, it.retired_at.is_some(), it.expression)).collect()
}

fn of(names: &[(&str, bool, &str)]) -> Vec<(String, bool, String)> {
    names.iter().map(|(name, retired, expression)| ((*name).into(), *retired, (*expression).into())).collect()
}

async fn become_rows(db: &Db, expected: &[(&str, bool, &str)]) {
    eventually("the declared schedules", async || (rows(db).await == of(expected)).then_some(())).await;
}

async fn converge_to_what_the_latest_worker_declares(db: Db) {
    const HOURLY: &str = "7 * * * *";
    let app = |worker: WorkerBuilder| worker.app("shop").only_registered();
    db.admin().schedule("made", hourly(), Note::new("x")).await.expect("made");
    let first = db.start(app(db.worker()).register::<First>());
    let before =
        [("changes", false, HOURLY), ("goes", false, HOURLY), ("made", false, HOURLY), ("stays", false, HOURLY)];
    become_rows(&db, &before).await;
    db.admin().pause_schedule("changes").await.expect("paused");
    let second = db.start(app(db.worker_apart().await).register::<Second>());
    let after = [
        ("changes", false, "every 3600s"),
        ("comes", false, HOURLY),
        ("goes", true, HOURLY),
        ("made", false, HOURLY),
        ("stays", false, HOURLY),
    ];
    become_rows(&db, &after).await;
    first.stop().await;
    become_rows(&db, &after).await;
    // the rollback
    let third = db.start(app(db.worker_apart().await).register::<First>());
    second.stop().await;
    let again = [
        ("changes", false, HOURLY),
        ("comes", true, HOURLY),
        ("goes", false, HOURLY),
        ("made", false, HOURLY),
        ("stays", false, HOURLY),
    ];
    become_rows(&db, &again).await;
    assert!(schedule(&db.admin(), "changes").await.is_some_and(|it| it.paused_at.is_some()), "a pause survives");
    third.stop().await;
    become_rows(&db, &again).await;
}

async fn leave_the_names_of_others_alone(db: Db) {
    let one = db.start(db.worker().app("one").only_registered().register::<First>());
    eventually("its schedules", async || schedule(&db.admin(), "goes").await).await;
    let other = db.start(db.worker_apart().await.app("other").only_registered().register::<Second>());
    let comes = eventually("those of the other", async || schedule(&db.admin(), "comes").await).await;
    assert_eq!(comes.app.as_deref(), Some("other"));
    let stays = schedule(&db.admin(), "stays").await.expect("it is there");
    assert_eq!((stays.app.as_deref(), stays.retired_at), (Some("one"), None));
    let refused = db.admin().schedule("stays", hourly(), Note::new("x")).await.expect_err("declared").to_string();
    assert!(refused.contains("declared by the code of `one`"), "{refused}");
    let refused = db.admin().remove_schedule("stays").await.expect_err("declared").to_string();
    assert!(refused.contains("or pause it"), "{refused}");
    one.stop().await;
    other.stop().await;
}

async fn move_with_a_renamed_program(db: Db) {
    let old = db.start(db.worker().app("old").only_registered().register::<First>());
    eventually("its schedules", async || schedule(&db.admin(), "goes").await).await;
    old.stop().await;
    let new = db.start(db.worker().app("new").only_registered().register::<First>());
    eventually("the new owner", async || {
        schedule(&db.admin(), "goes").await.filter(|it| it.app.as_deref() == Some("new"))
    })
    .await;
    new.stop().await;
}

/// P41: A worker whose database lacks the tables goes on with its jobs.
async fn go_on_without_a_right(db: Db) {
    let worker = db.start(db.worker().register::<Ticks>());
    fired(&db, "ticks", 1).await;
    db.sql("DROP TABLE queue_schedulers").await;
    let id = db.enqueue(Note::new("all the same")).await;
    db.reaches(id, JobState::Completed).await;
    worker.stop().await;
}

/// Enqueues a note for ten seconds later, at each third tick.
#[job]
async fn leaves(ctx: JobContext, State(pool): State<AnyPool>) -> Result<(), JobError> {
    let tick = ctx.tick().await?.expect("a tick");
    if tick.at.timestamp() / 60 % 3 == 0 {
        let note = Note::new(tick.at.to_rfc3339()).after(Duration::from_secs(10));
        pool.enqueue(note).await?;
    }
    Ok(())
}

/// Does nothing.
#[job]
async fn silent() {}

/// P44.
async fn fire_in_a_test_as_time_passes(db: Db) {
    let (admin, began_at) = (db.admin(), db.now().await);
    admin.schedule("minutely", Schedule::cron("* * * * *").expect("minutes"), Leaves {}).await.expect("made");
    admin.schedule("hourly", Schedule::cron("0 * * * *").expect("hours"), Note::new("hour")).await.expect("made");
    each!(AnyPool, db.pool(), pool => {
        let mut queue = TestQueue::new(pool).state(db.pool().clone()).state(db.probe.clone());
        assert_eq!(queue.advance("2h").await.unwrap().runs(), 0, "not without `schedules`");
        let (mut queue, began) = (queue.schedules(), Instant::now());
        let drained = queue.advance("3h").await.unwrap().expect_ok();
        // the clock goes on while the test runs: two more jobs for each minute, and those of the hour
        let later = 2 * u32::try_from(began.elapsed().as_secs() / 60).unwrap() + 3;
        assert!((180 + 60 + 3 - 1..=180 + 60 + 3 + later).contains(&drained.completed), "{drained:?}, {later}");
    });
    let ticks = admin.ticks("minutely", None).await.expect("ticks");
    assert!(ticks.windows(2).all(|two| two[0].at - two[1].at == chrono::TimeDelta::minutes(1)), "one a minute");
    // the note of the last tick is left if time stopped within ten seconds of that tick
    assert!(db.count("queue_jobs").await <= 1);
    // ten seconds after its tick, before the next one: in the order of time
    let order = db.probe.labels(What::Started);
    let hours = order.iter().filter(|label| *label == "hour").count();
    assert!(
        hours == 3 || (hours == 4 && chrono::Timelike::hour(&db.now().await) != chrono::Timelike::hour(&began_at)),
        "{hours}"
    );
    let hour = order.iter().position(|label| label == "hour").expect("an hour");
    assert!(order[hour + 1].contains(":00:00"), "the note of the full hour follows it: {:?}", order[hour + 1]);
}

/// P44.
async fn begin_in_a_test_when_it_says(db: Db) {
    let admin = db.admin();
    for year in ["2001", "2101"] {
        let start = format!("{year}-01-10T12:00:00Z").parse().expect("a time");
        let (nightly, hourly) = (format!("nightly {year}"), format!("hourly {year}"));
        let cron = |text| Schedule::cron(text).expect(text);
        admin.schedule(&nightly, cron("30 2 * * * Europe/Berlin"), Silent {}).await.expect("made");
        let ran = each!(AnyPool, db.pool(), pool => {
            let mut queue = TestQueue::new(pool).schedules_from(start);
            let mut ran = vec![queue.drain().await.unwrap().runs()];
            ran.push(queue.advance("13h").await.unwrap().expect_ok().completed);
            ran.push(queue.advance("1h").await.unwrap().expect_ok().completed);
            // it counts from then on, too
            admin.schedule(&hourly, cron("30 * * * *"), Silent {}).await.expect("made");
            ran.push(queue.advance("2h").await.unwrap().expect_ok().completed);
            ran
        });
        assert_eq!(ran, [0, 0, 1, 2], "{year}");
        let ticks = async |name: &str| -> Vec<String> {
            let ticks = admin.ticks(name, None).await.expect("ticks");
            ticks.iter().map(|tick| format!("{} {}", tick.outcome, tick.at.format("%Y-%m-%d %H:%M"))).collect()
        };
        let at = |time: &str| format!("fired {year}-01-11 {time}");
        assert_eq!(ticks(&nightly).await, [at("01:30")]);
        assert_eq!(ticks(&hourly).await, [at("03:30"), at("02:30")]);
        for name in [nightly, hourly] {
            admin.remove_schedule(&name).await.expect("removed");
        }
    }
}

/// P25, P44.
async fn a_month_of_minutes_passes_in_a_test(db: Db) {
    db.admin().schedule("silent", Schedule::cron("* * * * *").expect("minutes"), Silent {}).await.expect("made");
    each!(AnyPool, db.pool(), pool => {
        let mut queue = TestQueue::new(pool).state(db.pool().clone()).state(db.probe.clone()).schedules();
        // from now on this process is told for a minute that jobs may have been committed; that must not slow it down
        let mut tx = pool.begin().await.expect("begins");
        Silent {}.enqueue(&mut *tx).await.expect("enqueued");
        tx.rollback().await.expect("rolled back");
        let began = Instant::now();
        let days = if db.dialect() == queue::migration::Engine::Sqlite { 30 } else { 1 };
        let drained = queue.advance(Duration::from_secs(days * 86_400)).await.unwrap().expect_ok();
        // the clock goes on while the test runs
        let later = u32::try_from(began.elapsed().as_secs() / 60).unwrap() + 1;
        let expected = u32::try_from(days * 1_440).unwrap();
        assert!((expected - 1..=expected + later).contains(&drained.completed), "{drained:?}, {later}");
        println!("{days} days took {:?}", began.elapsed());
        // each batch of ticks, and each step between, has a worker of its own
        let batches = db.count("queue_workers").await;
        assert!(batches < 100, "{batches} batches and steps");
    });
}
