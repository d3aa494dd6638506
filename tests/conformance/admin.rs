//! Administration: every operation on a job in every state, lists of many jobs, and many hands at once.
//!
//! Promise: P36.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use queue::admin::{Admin, Filter, JobDetail};
use queue::{Error, Job as _, JobId, JobState};
use queue_test_support::Engine;
use queue_tests::jobs::Play;
use queue_tests::{Db, Step, eventually};

conformance! {
    every_state_is_listed_counted_and_shown,
    jobs_are_found_by_their_failures,
    a_job_that_fails_is_seen_while_it_is_retried,
    an_empty_database_has_nothing_to_show,
    pages_go_through_all_tables_from_the_newest_job_on,
    jobs_are_found_by_their_worker,
    jobs_are_found_by_their_arguments,
    a_search_ends_soon_and_says_how_far_it_looked,
    a_job_that_moves_during_a_search_is_not_missed,
    retry_makes_scheduled_and_dead_jobs_ready,
    cancel_ends_waiting_jobs_and_marks_running_ones,
    delete_removes_what_no_worker_holds,
    reschedule_moves_waiting_jobs,
    send_back_starts_dead_letters_afresh,
    edit_replaces_the_arguments_of_waiting_and_dead_jobs,
    a_pause_is_kept_until_it_is_taken_back,
    operations_on_thousands_reach_all_that_match_and_no_other,
    many_hands_change_each_job_once,
    what_is_retried_is_not_retried_again_when_it_dies_at_once,
    a_job_on_the_move_is_in_one_place_and_never_missed,
    odd_numbers_and_times_are_shown_as_well_as_they_can_be,
    one_odd_row_breaks_no_list,
    gauges_count_what_waits_runs_and_is_dead,
    gauges_stop_counting_and_say_so,
}

/// A database whose jobs were not put there by the library, so that each state can be had at will.
struct Desk {
    db: Db,
    admin: Admin,
}

/// A worker that holds jobs; its row is there.
const WORKER: i64 = 7;

impl Desk {
    async fn new(db: Db) -> Self {
        let desk = Self { admin: db.admin(), db };
        let (now, later, own) = (desk.in_secs(0), desk.in_secs(3600), desk.own_ids());
        desk.db
            .sql(format!(
                "INSERT INTO queue_workers (id, host, pid, concurrency, queues, kinds, started_at)
                 {own} VALUES ({WORKER}, 'host', 42, 5, '[]', '[\"a\",\"b\"]', {now});
                 INSERT INTO queue_heartbeats (worker_id, heartbeat_at, expires_at) VALUES ({WORKER}, {now}, {later})"
            ))
            .await;
        desk
    }

    fn own_ids(&self) -> &'static str {
        if self.db.engine() == Engine::Postgres { "OVERRIDING SYSTEM VALUE" } else { "" }
    }

    /// SQL for a time from now.
    fn in_secs(&self, secs: i64) -> String {
        self.db.time(secs * 1000)
    }

    /// Puts jobs there as if they had come to this state: enqueued an hour ago, the second attempt under fence 5.
    async fn put(&self, state: JobState, ids: impl IntoIterator<Item = i64>, kind: &str, queue: &str) {
        let hour_ago = self.in_secs(-3600);
        let run_at = self.in_secs(if state == JobState::Scheduled { 3600 } else { -60 });
        let (start, end) = (self.in_secs(-30), self.in_secs(-10));
        let own = self.own_ids();
        let (mut jobs, mut attempts) = (Vec::new(), Vec::new());
        for id in ids {
            let common = format!("({id}, '{kind}', '{queue}', '{{\"n\": {id}}}', 3, 1, 2, 5, {hour_ago}, {run_at}");
            jobs.push(match state {
                JobState::Completed => format!("{common}, 'completed', {WORKER}, {start}, {end}, '\"done\"', NULL)"),
                JobState::Cancelled => format!("{common}, 'cancelled', {WORKER}, {start}, {end}, NULL, 'no more')"),
                JobState::Dead => format!("{common}, {WORKER}, {start}, {end}, 'boom')"),
                JobState::Running => format!("{common}, {WORKER}, {start})"),
                _ => format!("{common})"),
            });
            attempts.push(format!("({id}, 2, 1, {WORKER}, {start}, {end}, 'failed', 'first boom')"));
            if !matches!(state, JobState::Completed | JobState::Running) {
                attempts.push(format!("({id}, 5, 2, {}, {start}, {end}, 'panicked', 'second boom')", WORKER + 1));
            }
        }
        let common = "id, kind, queue, args, priority, max_retries, attempt, fence, enqueued_at, run_at";
        let into = match state {
            JobState::Completed | JobState::Cancelled => {
                format!("queue_history ({common}, state, worker_id, started_at, finished_at, result, error)")
            }
            JobState::Dead => format!("queue_dead ({common}, worker_id, started_at, finished_at, error)"),
            JobState::Running => format!("queue_jobs ({common}, worker_id, claimed_at) {own}"),
            _ => format!("queue_jobs ({common}) {own}"),
        };
        for jobs in jobs.chunks(500) {
            self.db.sql(format!("INSERT INTO {into} VALUES {}", jobs.join(", "))).await;
        }
        if state == JobState::Running {
            self.db.note_claim(&format!("worker_id = {WORKER}"), WORKER).await;
        }
        for attempts in attempts.chunks(500) {
            self.db.sql(format!(
                "INSERT INTO queue_attempts (job_id, fence, attempt, worker_id, started_at, ended_at, outcome, error) \
                 VALUES {}",
                attempts.join(", ")
            ))
            .await;
        }
    }

    /// One job in each state: its number is the state's place in `JobState::ALL`, from 1.
    async fn put_one_of_each(&self) {
        for state in JobState::ALL {
            self.put(state, [id_of(state).get()], "a", "q").await;
        }
    }

    async fn detail(&self, id: JobId) -> JobDetail {
        self.admin.job(id).await.unwrap().unwrap_or_else(|| panic!("no job {id}"))
    }

    /// None: it is gone.
    async fn state(&self, id: JobId) -> Option<JobState> {
        self.admin.job(id).await.unwrap().map(|detail| detail.job.state)
    }

    /// The ids on all pages, in ascending order.
    async fn all(&self, filter: &Filter) -> Vec<i64> {
        let (mut filter, mut ids) = (filter.clone(), Vec::new());
        loop {
            let page = self.admin.jobs(&filter).await.unwrap();
            assert_eq!(page.complete, page.next.is_none());
            ids.extend(page.items.iter().map(|job| job.id.get()));
            match page.next {
                Some(next) => filter = filter.before(next),
                None => break,
            }
        }
        assert!(ids.is_sorted_by(|one, next| one > next), "newest first: {ids:?}");
        ids.reverse();
        ids
    }

    async fn attempts(&self) -> i64 {
        self.db.count("queue_attempts").await
    }
}

fn id_of(state: JobState) -> JobId {
    JobId::from(1 + JobState::ALL.iter().position(|s| *s == state).unwrap() as i64)
}

/// Expects an operation to succeed in some states (and where it leads to), and to be refused in all others.
async fn expect_states(
    db: &Desk,
    operation: impl AsyncFn(JobId) -> Result<(), Error>,
    allowed: &[(JobState, Option<JobState>)],
) {
    for state in JobState::ALL {
        let id = id_of(state);
        let result = operation(id).await;
        match allowed.iter().find(|(from, _)| *from == state) {
            Some((_, to)) => {
                result.unwrap_or_else(|error| panic!("{state}: {error}"));
                assert_eq!(db.state(id).await, *to, "from {state}");
            }
            None => {
                match result {
                    Err(Error::Conflict { id: of, state: is, .. }) => assert_eq!((of, is), (id, state)),
                    other => panic!("{state}: {other:?}"),
                }
                assert_eq!(db.state(id).await, Some(state));
            }
        }
    }
    let nobody = JobId::from(999);
    assert!(matches!(operation(nobody).await, Err(Error::NotFound(id)) if id == nobody));
}

fn near(time: DateTime<Utc>, secs_from_now: i64) -> bool {
    (time - Utc::now() - TimeDelta::seconds(secs_from_now)).abs() < TimeDelta::seconds(20)
}

async fn every_state_is_listed_counted_and_shown(db: Db) {
    let db = Desk::new(db).await;
    db.put_one_of_each().await;
    assert_eq!(db.all(&Filter::new()).await, [1, 2, 3, 4, 5, 6]);
    for state in JobState::ALL {
        let page = db.admin.jobs(&Filter::new().state(state)).await.unwrap();
        assert_eq!(page.next, None);
        let [job] = &page.items[..] else { panic!("{state}: {page:?}") };
        assert_eq!((job.id, job.state), (id_of(state), state));
        assert_eq!((job.kind.as_str(), job.queue.as_str(), job.priority), ("a", "q", 3));
        assert_eq!((job.attempt, job.max_retries), (2, Some(1)));
        assert!(near(job.enqueued_at, -3600), "{job:?}");
        assert!(near(job.run_at, if state == JobState::Scheduled { 3600 } else { -60 }), "{job:?}");
        assert_eq!(job.claimed_at.is_some(), state.is_final() || state == JobState::Running);
        assert_eq!(job.finished_at.is_some(), state.is_final());
        assert_eq!(job.worker, (state.is_final() || state == JobState::Running).then_some(WORKER));
        assert!(!job.cancel_requested);
        let error = match state {
            JobState::Dead => Some("boom"),
            JobState::Cancelled => Some("no more"),
            JobState::Scheduled | JobState::Ready => Some("second boom"),
            JobState::Running => Some("first boom"),
            _ => None,
        };
        assert_eq!(job.error.as_deref(), error);
        assert_eq!(job.retrying, matches!(state, JobState::Scheduled | JobState::Ready));

        let detail = db.detail(job.id).await;
        assert_eq!(detail.job, *job);
        assert_eq!(detail.args.replace(' ', ""), format!("{{\"n\":{}}}", job.id));
        assert_eq!(detail.result.as_deref(), (state == JobState::Completed).then_some("\"done\""));
        let [first, second] = &detail.attempts[..] else { panic!("{state}: {detail:?}") };
        assert_eq!((first.attempt, first.worker, first.worker_name.as_deref()), (1, WORKER, Some("host:42")));
        assert_eq!((first.outcome.as_str(), first.error.as_deref()), ("failed", Some("first boom")));
        assert!(near(first.started_at, -30) && first.ended_at.is_some_and(|end| near(end, -10)), "{first:?}");
        assert_eq!(second.attempt, 2);
        match state {
            JobState::Running | JobState::Completed => {
                assert_eq!(second.outcome, state.as_str());
                assert_eq!((second.worker, second.worker_name.as_deref()), (WORKER, Some("host:42")));
                assert_eq!((Some(second.started_at), second.ended_at), (job.claimed_at, job.finished_at));
            }
            _ => {
                assert_eq!(second.outcome, "panicked");
                assert_eq!((second.worker, second.worker_name.as_deref()), (WORKER + 1, None));
            }
        }
    }
    assert_eq!(db.admin.job(999.into()).await.unwrap(), None);

    // a worker records the end of an attempt after the job's row was read
    let times = format!("{}, {}", db.in_secs(-2), db.in_secs(-1));
    db.db
        .sql(format!(
            "INSERT INTO queue_attempts (job_id, fence, attempt, worker_id, started_at, ended_at, outcome)
             VALUES ({}, 5, 2, {WORKER}, {times}, 'failed'), ({}, 6, 3, {WORKER}, {times}, 'failed')",
            id_of(JobState::Running),
            id_of(JobState::Ready)
        ))
        .await;
    let running = db.detail(id_of(JobState::Running)).await;
    assert_eq!((running.attempts.len(), running.attempts[1].outcome.as_str()), (2, "running"));
    assert_eq!(db.detail(id_of(JobState::Ready)).await.attempts.len(), 2);

    db.put(JobState::Scheduled, [11, 12], "B", "q").await;
    let stats = db.admin.stats().await.unwrap();
    let counted: Vec<_> = stats.iter().map(|s| (s.kind.as_str(), s.queue.as_str(), s.state, s.jobs)).collect();
    let mut expected = vec![("B", "q", JobState::Scheduled, 2)];
    expected.extend(JobState::ALL.map(|state| ("a", "q", state, 1)));
    assert_eq!(counted, expected);
    for stat in &stats {
        let retrying = matches!(stat.state, JobState::Scheduled | JobState::Ready);
        assert_eq!(stat.retrying, if retrying { stat.jobs } else { 0 }, "{stat:?}");
        let oldest = match stat.state {
            JobState::Scheduled => 3600,
            JobState::Ready => -60,
            JobState::Running => -30,
            _ => -10,
        };
        assert!(near(stat.oldest, oldest), "{stat:?}");
    }

    let queues = db.admin.queues().await.unwrap();
    assert_eq!(queues.len(), 1);
    assert_eq!([queues[0].scheduled, queues[0].ready, queues[0].running].map(|count| count.jobs), [3, 1, 1]);

    let workers = db.admin.workers().await.unwrap();
    let [worker] = &workers[..] else { panic!("{workers:?}") };
    assert_eq!((worker.id, worker.host.as_str(), worker.pid, worker.concurrency), (WORKER, "host", 42, 5));
    assert_eq!((worker.queues.len(), &worker.kinds[..]), (0, &["a".to_owned(), "b".to_owned()][..]));
    assert!(worker.alive && worker.stopped_at.is_none() && near(worker.heartbeat_at, 0) && worker.running == 1);
    db.db.sql(format!("UPDATE queue_heartbeats SET expires_at = {}", db.in_secs(-1))).await;
    assert!(!db.admin.workers().await.unwrap()[0].alive);
    db.db.sql(format!("UPDATE queue_workers SET stopped_at = {}", db.in_secs(-5))).await;
    let worker = &db.admin.workers().await.unwrap()[0];
    assert!(!worker.alive && worker.stopped_at.is_some_and(|at| near(at, -5)));
}

async fn jobs_are_found_by_their_failures(db: Db) {
    let db = Desk::new(db).await;
    db.put_one_of_each().await;
    let [scheduled, ready, running, completed, cancelled, dead] = JobState::ALL.map(|state| id_of(state).get());
    // never claimed; one that snoozes after a failure; and one that a shutdown released after a failure
    let (own, now) = (db.own_ids(), db.in_secs(0));
    db.db
        .sql(format!(
            "INSERT INTO queue_jobs (id, kind, queue, args, fence, attempt, enqueued_at, run_at)
             {own} VALUES (7, 'a', 'q', '{{}}', 0, 0, {now}, {now}), (8, 'a', 'q', '{{}}', 3, 0, {now}, {now}),
                 (9, 'a', 'q', '{{}}', 3, 1, {now}, {now});
             INSERT INTO queue_attempts (job_id, fence, attempt, worker_id, started_at, ended_at, outcome, error)
             VALUES (8, 2, 1, {WORKER}, {now}, {now}, 'failed', 'early'),
                 (8, 3, 0, {WORKER}, {now}, {now}, 'snoozed', NULL),
                 (9, 2, 1, {WORKER}, {now}, {now}, 'failed', 'late'),
                 (9, 3, 2, {WORKER}, {now}, {now}, 'released', NULL)"
        ))
        .await;
    let now = db.db.now().await;
    let ago = |secs| now - TimeDelta::seconds(secs);
    let all = Filter::new;
    for (filter, found) in [
        (all().retrying(), vec![scheduled, ready, 9]),
        (all().error("late"), vec![9]),
        (all().error("early"), vec![]),
        (all().retrying().state(JobState::Ready), vec![ready, 9]),
        (all().retrying().state(JobState::Dead), vec![]),
        (all().retrying().state(JobState::Running), vec![]),
        (all().error("boom"), vec![scheduled, ready, running, dead]),
        (all().error("first"), vec![running]),
        (all().error("Boom"), vec![]),
        (all().error("%"), vec![]),
        (all().error("no more"), vec![cancelled]),
        (all().min_attempt(2), vec![scheduled, ready, running, completed, cancelled, dead]),
        (all().min_attempt(3), vec![]),
        (all().failed_since(ago(300)), vec![scheduled, ready, running, dead, 9]),
        (all().failed_since(ago(-300)), vec![]),
        (all().failed_before(ago(300)), vec![]),
        (all().failed_before(ago(-300)).state(JobState::Dead), vec![dead]),
        (all().enqueued_since(ago(300)), vec![7, 8, 9]),
        (all().enqueued_before(ago(300)), vec![scheduled, ready, running, completed, cancelled, dead]),
        (all().enqueued_before(DateTime::<Utc>::MIN_UTC), vec![]),
        (all().enqueued_before(DateTime::<Utc>::MAX_UTC).kind("a").queue("q").error("second"), vec![scheduled, ready]),
    ] {
        let mut found = found;
        found.sort_unstable();
        assert_eq!(db.all(&filter).await, found, "{filter:?}");
    }
    // an operation meets those alone
    assert_eq!(db.admin.retry_all(&all().retrying()).await.unwrap(), 1);
    assert_eq!(db.state(id_of(JobState::Dead)).await, Some(JobState::Dead));
    assert_eq!(db.admin.send_back_all(&all().failed_before(ago(300))).await.unwrap(), 0);
    assert_eq!(db.admin.send_back_all(&all().failed_since(ago(300))).await.unwrap(), 1);
    let shown = db.db.column("SELECT id FROM queue_all WHERE retrying ORDER BY id").await;
    let expected: Vec<_> = db.all(&all().retrying()).await.iter().map(i64::to_string).collect();
    assert_eq!(shown, expected);
    assert_eq!(db.db.column("SELECT DISTINCT error FROM queue_all WHERE id = 2").await, ["second boom"]);
    let counted = db.db.int("SELECT sum(retrying) FROM queue_stats").await;
    assert_eq!(counted, i64::try_from(shown.len()).unwrap());
}

/// P31.
async fn a_job_that_fails_is_seen_while_it_is_retried(db: Db) {
    let fails = Play::new("fails", vec![Step::RetryAfter(3_600_000, "no route to host".into())]);
    let id = db.enqueue(fails).await;
    let worker = db.start(db.worker());
    db.reaches(id, JobState::Scheduled).await;
    let job = db.job(id).await.job;
    assert!(job.retrying && near(job.run_at, 3600), "{job:?}");
    assert_eq!((job.attempt, job.error.as_deref()), (1, Some("no route to host")));
    worker.stop().await;
}

async fn an_empty_database_has_nothing_to_show(db: Db) {
    let db = Desk::new(db).await;
    assert_eq!(db.admin.stats().await.unwrap(), []);
    assert_eq!(db.admin.queues().await.unwrap(), []);
    let page = db.admin.jobs(&Filter::new()).await.unwrap();
    assert_eq!((page.items.len(), page.next), (0, None));
    assert_eq!((page.searched, page.back_to, page.complete), (0, None, true));
    assert_eq!(db.admin.cancel_all(&Filter::new()).await.unwrap(), 0);
    assert_eq!(db.admin.delete_all(&Filter::new()).await.unwrap(), 0);
}

async fn pages_go_through_all_tables_from_the_newest_job_on(db: Db) {
    let db = Desk::new(db).await;
    // a thousand waiting, a thousand over, 500 dead, mixed
    db.put(JobState::Ready, (1..=2500).filter(|id| id % 5 < 2), "a", "q").await;
    db.put(JobState::Completed, (1..=2500).filter(|id| (2..4).contains(&(id % 5))), "a", "q").await;
    db.put(JobState::Dead, (1..=2500).filter(|id| id % 5 == 4), "b", "q").await;

    let page = db.admin.jobs(&Filter::new().limit(1000)).await.unwrap();
    assert!(page.items.iter().map(|job| job.id.get()).eq((1501..=2500).rev()));
    assert_eq!((page.next, page.complete, page.searched), (Some(1501.into()), false, 1001));
    let page = db.admin.jobs(&Filter::new().limit(5000).before(501.into())).await.unwrap();
    assert!(page.items.iter().map(|job| job.id.get()).eq((1..=500).rev()));
    assert_eq!((page.next, page.complete, page.searched), (None, true, 500));
    // the page is full and nothing comes after it
    let page = db.admin.jobs(&Filter::new().limit(500).before(501.into())).await.unwrap();
    assert_eq!((page.items.len(), page.next, page.complete), (500, None, true));
    assert_eq!(db.admin.jobs(&Filter::new()).await.unwrap().items.len(), 100);
    assert_eq!(db.admin.jobs(&Filter::new().limit(0)).await.unwrap().items.len(), 1);
    assert_eq!(db.admin.jobs(&Filter::new().limit(5000)).await.unwrap().items.len(), 1000);

    assert!(db.all(&Filter::new().limit(7)).await.into_iter().eq(1..=2500));
    assert!(db.all(&Filter::new().kind("b")).await.into_iter().eq((1..=2500).filter(|id| id % 5 == 4)));
    let ready = Filter::new().kind("a").queue("q").state(JobState::Ready).limit(300);
    assert!(db.all(&ready).await.into_iter().eq((1..=2500).filter(|id| id % 5 < 2)));
    assert_eq!(db.all(&Filter::new().queue("Q")).await, [0_i64; 0], "names are case sensitive");
    assert_eq!(db.all(&Filter::new().kind("' OR 1 = 1 --")).await, [0_i64; 0]);
    assert_eq!(db.all(&Filter::new().before(JobId::from(i64::MIN))).await, [0_i64; 0]);
}

async fn jobs_are_found_by_their_worker(db: Db) {
    let db = Desk::new(db).await;
    use JobState::{Cancelled, Completed, Dead, Running};
    db.put_one_of_each().await;
    let of_worker = Filter::new().worker(WORKER);
    let expected = [Running, Completed, Cancelled, Dead].map(|state| id_of(state).get());
    assert_eq!(db.all(&of_worker).await, expected);
    let running = db.admin.jobs(&of_worker.clone().state(Running)).await.unwrap();
    assert_eq!(running.items.iter().map(|job| job.id).collect::<Vec<_>>(), [id_of(Running)]);
    assert_eq!((running.searched, running.complete), (1, true), "it looks at no waiting job");
    for other in [0, WORKER + 1] {
        assert_eq!(db.all(&Filter::new().worker(other)).await, [0_i64; 0], "{other}");
    }
    // an operation meets those alone
    assert_eq!(db.admin.delete_all(&of_worker).await.unwrap(), 3);
    assert_eq!(db.all(&Filter::new()).await, [1, 2, id_of(Running).get()]);
}

async fn jobs_are_found_by_their_arguments(db: Db) {
    let (engine, db) = (db.engine(), Desk::new(db).await);
    use JobState::{Completed, Dead, Ready, Running};
    let long = format!(r#"{{"text": "{}", "order": {{"id": 42}}}}"#, "x".repeat(20_000));
    let args = [
        r#"{"order": {"id": 42, "paid": true, "note": null}, "to": "ada@example.org"}"#,
        r#"{"order": {"id": 421, "paid": false, "lines": [{"sku": "a-7"}, {"sku": "b\"8\\"}]}, "to": "42"}"#,
        // as producers write it that keep to ASCII
        r#"{"to": "\u767a\u9001\ud83d\ude42", "\u006f": "\/x", "order": "42"}"#,
        r#"{"to": "発送🙂", "order": {"id": 42.50}}"#,
        &long,
    ];
    let mut texts: Vec<_> = args.into_iter().map(str::to_owned).collect();
    match engine {
        // it takes no other text, but this one it cannot decode
        Engine::Postgres => texts.push(r#"{"odd": "\u0000\ud800", "order": {"id": 42}}"#.to_owned()),
        _ => texts.push(r#"{"order": {"id": 42}"#.to_owned()),
    }
    let escaped = |text: &str| match engine {
        Engine::MariaDb | Engine::MySql => text.replace('\\', "\\\\"),
        Engine::Postgres | Engine::Sqlite => text.to_owned(),
    };
    let tables = [Ready, Running, Dead, Completed].into_iter().zip(["jobs", "jobs", "dead", "history"]);
    for (place, (state, table)) in (0..).zip(tables) {
        // only this table takes what is no JSON
        let texts = if state == Completed { &texts[..] } else { &texts[..5] };
        for (number, text) in (1..).zip(texts) {
            let id = place * 10 + number;
            db.put(state, [id], "a", "q").await;
            db.db.sql(format!("UPDATE queue_{table} SET args = '{}' WHERE id = {id}", escaped(text))).await;
        }
    }
    let odd = if engine == Engine::Postgres { vec![6] } else { vec![] };
    let found = |path, value, numbers: &[i64], odd: &[i64]| {
        let places = (0..4).flat_map(|place| numbers.iter().map(move |number| place * 10 + number));
        (Filter::new().arg(path, value), places.chain(odd.iter().map(|number| 30 + number)).collect::<Vec<_>>())
    };
    for (filter, mut expected) in [
        found("order.id", "42", &[1, 5], &odd),
        found("order.id", "42.50", &[4], &[]),
        found("order.id", "4", &[], &[]),
        found("order.paid", "true", &[1], &[]),
        found("order.note", "null", &[1], &[]),
        found("order.lines.0.sku", "a-7", &[2], &[]),
        found("order.lines.1.sku", "b\"8\\", &[2], &[]),
        found("order.lines.2.sku", "a-7", &[], &[]),
        found("order.lines", "[]", &[], &[]),
        found("order", "42", &[3], &[]),
        found("to", "42", &[2], &[]),
        found("to", "発送🙂", &[3, 4], &[]),
        found("to", "発送", &[], &[]),
        found("to", "Ada@example.org", &[], &[]),
        found("o", "/x", &[3], &[]),
        found("to.x", "42", &[], &[]),
        found("missing", "null", &[], &[]),
        found("", "", &[], &[]),
        found("to", "' OR 1 = 1 --", &[], &[]),
    ] {
        expected.sort_unstable();
        assert_eq!(db.all(&filter).await, expected, "{filter:?}");
    }
    let both = Filter::new().arg("order.id", "42").arg("to", "ada@example.org");
    assert_eq!(db.all(&both).await, [1, 11, 21, 31]);
    assert_eq!(db.all(&both.clone().state(Running)).await, [11]);
    // an operation meets those alone
    assert_eq!(db.admin.send_back_all(&both).await.unwrap(), 1);
    assert_eq!((db.state(21.into()).await, db.state(22.into()).await), (Some(Ready), Some(Dead)));
}

async fn a_search_ends_soon_and_says_how_far_it_looked(db: Db) {
    const ROWS: u64 = 60_000;
    let db = Desk::new(db).await;
    let (ago, numbers) = (db.in_secs(-7200), numbers(5));
    db.db
        .sql(format!(
            "INSERT INTO queue_history (id, kind, queue, state, args, priority, attempt, fence, worker_id, \
             enqueued_at, run_at, started_at, finished_at) \
             SELECT 1000 + n, 'a', 'q', 'completed', '{{}}', 0, 1, 1, 1, {ago}, {ago}, {ago}, {ago} \
             FROM {numbers} AS numbers WHERE n < {ROWS}"
        ))
        .await;
    // the oldest job of all, and the newest
    db.put(JobState::Dead, [7], "rare", "q").await;
    db.put(JobState::Ready, [1_000_000], "a", "q").await;

    let nothing = Filter::new().kind("nothing");
    let first = db.admin.jobs(&nothing).await.unwrap();
    assert!(first.items.is_empty() && !first.complete && first.next.is_some(), "{first:?}");
    assert!((101..=50_000).contains(&first.searched), "{}", first.searched);
    assert!(first.back_to.is_some_and(|time| near(time, -7200)), "{first:?}");
    let (mut page, mut searched) = (first.clone(), first.searched);
    while let Some(next) = page.next {
        page = db.admin.jobs(&nothing.clone().before(next)).await.unwrap();
        searched += page.searched;
    }
    assert!(page.complete && page.items.is_empty(), "{page:?}");
    assert!(page.back_to.is_some_and(|time| near(time, -3600)), "of the oldest job: {page:?}");
    assert_eq!(searched, ROWS + 2, "each row once");

    // a full page goes no further
    let full = db.admin.jobs(&Filter::new().limit(10)).await.unwrap();
    assert_eq!((full.items.len(), full.searched, full.complete), (10, 11, false));
    assert_eq!((full.next, full.back_to), (Some(full.items[9].id), Some(full.items[9].enqueued_at)));

    // what is rare is found behind pages without items, and by operations
    assert_eq!(db.all(&Filter::new().kind("rare")).await, [7]);
    assert_eq!(db.admin.delete_all(&Filter::new().kind("rare")).await.unwrap(), 1);
    assert_eq!(db.admin.cancel_all(&Filter::new().before(1_000_000.into())).await.unwrap(), 0);
    assert_eq!(db.admin.cancel_all(&Filter::new().before(1_000_001.into())).await.unwrap(), 1);
}

/// P3.
async fn a_job_that_moves_during_a_search_is_not_missed(db: Db) {
    const JOBS: i64 = 100;
    let db = Arc::new(Desk::new(db).await);
    db.put(JobState::Ready, 1..=JOBS, "a", "q").await;
    let mover = tokio::spawn({
        let (db, ago) = (Arc::clone(&db), db.in_secs(-1));
        async move {
            let columns = "id, kind, queue, args, priority, attempt, fence, worker_id, enqueued_at, run_at";
            for id in 1..=JOBS {
                let (into, more, values) = match id % 2 {
                    0 => ("queue_history", "state, started_at, finished_at", format!("'completed', {ago}, {ago}")),
                    _ => ("queue_dead", "error, started_at, finished_at", format!("'boom', {ago}, {ago}")),
                };
                let insert = format!(
                    "INSERT INTO {into} ({columns}, {more}) SELECT {columns}, {values} FROM queue_jobs WHERE id = {id}"
                );
                let mut tx = db.db.begin().await;
                tx.sql(&insert).await.unwrap();
                tx.sql(&format!("DELETE FROM queue_jobs WHERE id = {id}")).await.unwrap();
                tx.commit().await;
            }
        }
    });
    loop {
        let is_over = mover.is_finished();
        for limit in [1000, 7] {
            assert!(db.all(&Filter::new().limit(limit)).await.into_iter().eq(1..=JOBS), "by {limit}");
        }
        if is_over {
            break;
        }
    }
    mover.await.unwrap();
    assert_eq!(db.db.counts().await, (0, JOBS / 2, JOBS / 2));
}

async fn retry_makes_scheduled_and_dead_jobs_ready(db: Db) {
    let db = Desk::new(db).await;
    use JobState::{Dead, Ready, Scheduled};
    db.put_one_of_each().await;
    let to = Some(Ready);
    let allowed = [(Scheduled, to), (Ready, to), (Dead, to)];
    expect_states(&db, async |id| db.admin.retry(id).await, &allowed).await;
    assert!(near(db.detail(id_of(Ready)).await.job.run_at, -60), "a ready job keeps its place");
}

async fn cancel_ends_waiting_jobs_and_marks_running_ones(db: Db) {
    let db = Desk::new(db).await;
    use JobState::{Cancelled, Ready, Running, Scheduled};
    db.put_one_of_each().await;
    let to = Some(Cancelled);
    let allowed = [(Scheduled, to), (Ready, to), (Running, Some(Running)), (Cancelled, to)];
    expect_states(&db, async |id| db.admin.cancel(id).await, &allowed).await;
    let running = db.detail(id_of(Running)).await;
    assert!(running.job.cancel_requested);
    assert_eq!(running.job.worker, Some(WORKER), "its worker holds it as before");
    let cancelled = db.detail(id_of(Ready)).await;
    assert_eq!(cancelled.job.error.as_deref(), Some("cancelled by an administrator"));
    assert_eq!((cancelled.job.attempt, cancelled.job.worker, cancelled.attempts.len()), (2, None, 2));
    assert!(cancelled.job.finished_at.is_some_and(|at| near(at, 0)));
    assert_eq!(db.detail(id_of(Cancelled)).await.job.error.as_deref(), Some("no more"), "the first reason stays");
}

async fn delete_removes_what_no_worker_holds(db: Db) {
    let db = Desk::new(db).await;
    use JobState::{Cancelled, Completed, Dead, Ready, Scheduled};
    db.put_one_of_each().await;
    let allowed = [Scheduled, Ready, Completed, Cancelled, Dead].map(|state| (state, None));
    expect_states(&db, async |id| db.admin.delete(id).await, &allowed).await;
    assert_eq!(db.attempts().await, 1, "only that of the running job is left");
}

async fn reschedule_moves_waiting_jobs(db: Db) {
    let db = Desk::new(db).await;
    use JobState::{Ready, Scheduled};
    db.put_one_of_each().await;
    let later = Utc::now() + TimeDelta::seconds(7200);
    let allowed = [(Scheduled, Some(Scheduled)), (Ready, Some(Scheduled))];
    expect_states(&db, async |id| db.admin.reschedule(id, later).await, &allowed).await;
    let id = id_of(Ready);
    let off = db.detail(id).await.job.run_at - later;
    assert!(off.abs() <= TimeDelta::milliseconds(1), "{off}");
    let far = [
        (DateTime::<Utc>::MAX_UTC, Scheduled),
        (DateTime::<Utc>::MIN_UTC, Ready),
        (DateTime::UNIX_EPOCH, Ready),
        (DateTime::UNIX_EPOCH + TimeDelta::days(400), Ready), // SQLite's table takes this for a mistake
        (DateTime::UNIX_EPOCH - TimeDelta::milliseconds(1), Ready),
        (Utc::now() - TimeDelta::days(1), Ready),
    ];
    for (time, state) in far {
        db.admin.reschedule(id, time).await.unwrap_or_else(|error| panic!("{time}: {error}"));
        assert_eq!(db.state(id).await, Some(state), "{time}");
    }
}

async fn send_back_starts_dead_letters_afresh(db: Db) {
    let db = Desk::new(db).await;
    use JobState::{Dead, Ready};
    db.put_one_of_each().await;
    expect_states(&db, async |id| db.admin.send_back(id).await, &[(Dead, Some(Ready))]).await;
    let detail = db.detail(id_of(Dead)).await;
    let job = &detail.job;
    assert_eq!((job.kind.as_str(), job.queue.as_str(), job.priority), ("a", "q", 3));
    assert_eq!((job.attempt, job.max_retries, job.worker), (0, Some(1), None));
    assert!(near(job.run_at, 0) && near(job.enqueued_at, -3600) && job.finished_at.is_none());
    assert_eq!(detail.attempts.len(), 2, "what it had stays on record");
    let fence = db.db.int(format!("SELECT fence FROM queue_jobs WHERE id = {}", job.id)).await;
    assert_eq!(fence, 5, "the fence goes on from where it stood");
}

/// P36, P39.
async fn edit_replaces_the_arguments_of_waiting_and_dead_jobs(db: Db) {
    let db = Desk::new(db).await;
    use JobState::{Dead, Ready, Scheduled};
    db.put_one_of_each().await;
    let args = serde_json::json!({"to": "ö\"\\\u{1F600}\n'", "n": [1, null, "\u{0}".repeat(2)]});
    let allowed = [Scheduled, Ready, Dead].map(|state| (state, Some(state)));
    expect_states(&db, async |id| db.admin.edit_args(id, &args).await, &allowed).await;
    for (state, _) in allowed {
        let detail = db.detail(id_of(state)).await;
        assert_eq!(serde_json::from_str::<serde_json::Value>(&detail.args).unwrap(), args);
        assert_eq!(detail.job.attempt, 2);
    }
    let id = id_of(Dead);
    for other in [serde_json::json!([1]), serde_json::json!("a"), serde_json::Value::Null] {
        let refused = db.admin.edit_args(id, &other).await.unwrap_err().to_string();
        assert!(refused.contains("not a JSON object") && refused.contains("for example"), "{refused}");
    }
    let most = serde_json::json!({ "a": "\"".repeat((queue::limits::MAX_ARGS_BYTES - 8) / 2) });
    db.admin.edit_args(id, &most).await.unwrap();
    assert_eq!(db.detail(id).await.args, most.to_string());
    let more = serde_json::json!({ "a": "x".repeat(queue::limits::MAX_ARGS_BYTES) });
    assert!(matches!(db.admin.edit_args(id, &more).await, Err(Error::Config(_))));
}

/// P26.
async fn a_pause_is_kept_until_it_is_taken_back(db: Db) {
    let db = Desk::new(db).await;
    db.put(JobState::Ready, [1], "a", "mail").await;
    db.admin.pause("mail").await.unwrap();
    let first = db.admin.queues().await.unwrap()[0].paused_at.expect("paused");
    tokio::time::sleep(Duration::from_millis(5)).await;
    db.admin.pause("mail").await.unwrap();
    db.admin.pause("Mail").await.unwrap();
    let queues = db.admin.queues().await.unwrap();
    assert_eq!(queues.iter().map(|q| q.queue.as_str()).collect::<Vec<_>>(), ["Mail", "mail"]);
    assert_eq!((queues[0].ready.jobs, queues[1].ready.jobs), (0, 1));
    assert_eq!(queues[1].paused_at, Some(first), "the second pause changes nothing");
    db.admin.resume("Mail").await.unwrap();
    db.admin.resume("mail").await.unwrap();
    db.admin.resume("mail").await.unwrap();
    let queues = db.admin.queues().await.unwrap();
    assert_eq!((queues.len(), queues[0].paused_at), (1, None));
    assert!(matches!(db.admin.pause("").await, Err(Error::Config(_))));
    assert!(matches!(db.admin.pause(&"x".repeat(129)).await, Err(Error::Config(_))));
}

async fn operations_on_thousands_reach_all_that_match_and_no_other(db: Db) {
    let db = Desk::new(db).await;
    use JobState::{Cancelled, Completed, Dead, Ready, Running, Scheduled};
    db.put(Scheduled, 1..=2500, "a", "q").await;
    db.put(Ready, 2501..=2600, "a", "q").await;
    db.put(Running, 2601..=2700, "a", "q").await;
    db.put(Dead, 5001..=7500, "a", "q").await;
    db.put(Completed, 8001..=8100, "a", "q").await;
    db.put(Scheduled, [9001], "b", "q").await;
    db.put(Scheduled, [9002], "a", "other").await;
    db.put(Dead, [9003], "b", "q").await;
    let mine = Filter::new().kind("a").queue("q");
    let count = async |state| db.all(&mine.clone().state(state).limit(1000)).await.len();

    let later = Utc::now() + TimeDelta::hours(5);
    assert_eq!(db.admin.reschedule_all(&mine, later).await.unwrap(), 2600);
    assert_eq!((count(Scheduled).await, count(Ready).await), (2600, 0));
    assert_eq!(db.admin.reschedule_all(&mine.clone().state(Dead), later).await.unwrap(), 0);
    assert_eq!(db.admin.retry_all(&mine.clone().state(Scheduled)).await.unwrap(), 2600);
    assert_eq!((count(Scheduled).await, count(Ready).await, count(Dead).await), (0, 2600, 2500));
    assert_eq!(db.admin.send_back_all(&mine.clone().limit(1)).await.unwrap(), 1, "try one first");
    assert_eq!(db.admin.send_back_all(&mine.clone().limit(0)).await.unwrap(), 0);
    assert_eq!(db.admin.reschedule_all(&mine.clone().limit(1200), later).await.unwrap(), 1200);
    assert_eq!((count(Scheduled).await, count(Ready).await, count(Dead).await), (1200, 1401, 2499));
    assert_eq!(db.admin.retry_all(&mine.clone().limit(1300)).await.unwrap(), 1300, "scheduled and dead");
    assert_eq!((count(Scheduled).await, count(Ready).await, count(Dead).await), (0, 2701, 2399));
    assert_eq!(db.admin.retry_all(&mine).await.unwrap(), 2399);
    assert_eq!((count(Ready).await, count(Dead).await), (5100, 0));
    assert_eq!(db.admin.send_back_all(&Filter::new()).await.unwrap(), 1, "the dead letter of another kind");
    assert_eq!(db.admin.cancel_all(&mine.clone().state(Completed)).await.unwrap(), 0);
    assert_eq!(db.admin.cancel_all(&mine).await.unwrap(), 5200);
    assert_eq!((count(Cancelled).await, count(Running).await, count(Completed).await), (5100, 100, 100));
    assert_eq!(db.admin.delete_all(&mine).await.unwrap(), 5200);
    assert_eq!(db.all(&mine).await.len(), 100, "the running ones");
    assert!(db.all(&Filter::new().limit(1000)).await.ends_with(&[9001, 9002, 9003]));
    assert_eq!(db.attempts().await, 100 + 3 * 2);
}

/// P37.
async fn what_is_retried_is_not_retried_again_when_it_dies_at_once(db: Db) {
    const JOBS: i64 = 2_500; // several pages
    let hour = Duration::from_secs(3600);
    let fails = |n: i64| Play::new(n.to_string(), vec![Step::Fail("still down".into())]).after(hour).max_retries(0);
    db.pool().enqueue_all((0..JOBS).map(fails)).await.expect("enqueued");
    let worker = db.start(db.worker());
    assert_eq!(db.admin().retry_all(&Filter::new()).await.expect("an answer"), JOBS as u64);
    eventually("dead letters", async || (db.count("queue_dead").await == JOBS).then_some(())).await;
    worker.stop().await;
    assert_eq!((db.count("queue_dead").await, db.count("queue_attempts").await), (JOBS, JOBS));
}

async fn many_hands_change_each_job_once(db: Db) {
    let db = Desk::new(db).await;
    let db = Arc::new(db);
    let together = async |act: for<'a> fn(&'a Admin) -> Counting<'a>| {
        let tasks: Vec<_> = (0..8)
            .map(|_| {
                let db = Arc::clone(&db);
                tokio::spawn(async move { act(&db.admin).await.unwrap() })
            })
            .collect();
        let mut sum = 0;
        for task in tasks {
            sum += task.await.unwrap();
        }
        sum
    };
    db.put(JobState::Dead, 1..=1500, "a", "q").await;
    assert_eq!(together(|admin| Box::pin(async { admin.send_back_all(&Filter::new()).await })).await, 1500);
    assert_eq!(together(|admin| Box::pin(async { admin.cancel_all(&Filter::new()).await })).await, 1500);
    assert_eq!(together(|admin| Box::pin(async { admin.delete_all(&Filter::new()).await })).await, 1500);
    assert_eq!(db.attempts().await, 0);
}

type Counting<'a> = std::pin::Pin<Box<dyn Future<Output = Result<u64, Error>> + Send + 'a>>;

/// P3.
async fn a_job_on_the_move_is_in_one_place_and_never_missed(db: Db) {
    let db = Desk::new(db).await;
    // a worker that takes and gives back all the time, beside an administrator who cancels
    db.put(JobState::Ready, 1..=200, "a", "q").await;
    let take =
        format!("UPDATE queue_jobs SET worker_id = {WORKER} WHERE worker_id = 0 AND cancel_requested_at IS NULL");
    let give =
        format!("UPDATE queue_jobs SET worker_id = 0 WHERE worker_id = {WORKER} AND cancel_requested_at IS NULL");
    let worker = async {
        for _ in 0..40 {
            db.db.sql(&take).await;
            db.db.sql(&give).await;
        }
    };
    let administrator = async {
        for id in 1..=200 {
            db.admin.cancel(id.into()).await.unwrap_or_else(|error| panic!("{id}: {error}"));
            assert!(db.state(id.into()).await.is_some());
        }
    };
    tokio::join!(worker, administrator);
    let mut seen = BTreeSet::new();
    for job in db.admin.jobs(&Filter::new().limit(1000)).await.unwrap().items {
        assert!(job.state == JobState::Cancelled || job.cancel_requested, "{job:?}");
        assert!(seen.insert(job.id));
    }
    assert_eq!(seen.len(), 200);
    assert_eq!(db.db.count("queue_all").await, 200);
}

/// P38.
async fn odd_numbers_and_times_are_shown_as_well_as_they_can_be(db: Db) {
    let db = Desk::new(db).await;
    let own = db.own_ids();
    // what the tables take at the most; `enqueued_at` has no bounds of its own
    let [past, future, from, to] = match db.db.engine() {
        Engine::Postgres => ["'0001-01-01 00:00Z'", "'294276-12-31 00:00Z'", "'-infinity'", "'infinity'"],
        Engine::MariaDb | Engine::MySql => ["'0001-01-01'", "'9999-12-31 23:59:59'", "'1000-01-01'", "'9999-12-31'"],
        Engine::Sqlite => {
            ["-9223372036854775808", "9223372036854775807", "-9223372036854775808", "9223372036854775807"]
        }
    };
    db.db
        .sql(format!(
            "INSERT INTO queue_jobs (id, kind, run_at, enqueued_at, attempt) {own} \
         VALUES (1, 'a', {past}, {from}, 0), (2, 'a', {future}, {to}, 1000000000)"
        ))
        .await;
    let mut jobs = db.admin.jobs(&Filter::new()).await.unwrap().items;
    jobs.reverse();
    assert_eq!((jobs[0].state, jobs[0].attempt), (JobState::Ready, 0));
    assert_eq!((jobs[1].state, jobs[1].attempt), (JobState::Scheduled, 1_000_000_000));
    assert!(jobs[1].run_at > Utc::now() + TimeDelta::days(1_000_000), "{}", jobs[1].run_at);
    assert_eq!(db.detail(2.into()).await.job, jobs[1]);
    assert_eq!(db.admin.stats().await.unwrap().len(), 2);
    assert_eq!(db.admin.queues().await.unwrap()[0].scheduled.jobs, 1);
}

/// P38: Times that the engine itself cannot compute with, and bytes that are no text.
async fn one_odd_row_breaks_no_list(db: Db) {
    let (engine, db) = (db.engine(), Desk::new(db).await);
    let (times, text): (&[&str], &str) = match engine {
        Engine::Postgres => (&["'-infinity'", "'infinity'", "'294276-12-31 00:00Z'"], "'odd'"),
        Engine::MariaDb | Engine::MySql => (&["'0000-00-00'", "'2026-00-05'", "'9999-12-31 23:59:59.999999'"], "'odd'"),
        Engine::Sqlite => (&["-9223372036854775808", "9223372036854775807", "-1"], "CAST(x'ff' AS TEXT)"),
    };
    // a session that takes zero dates
    let pool = match engine {
        Engine::MariaDb | Engine::MySql => db.db.open_with(1, "SET SESSION sql_mode = ''").await,
        _ => db.db.open(1).await,
    };
    // PostgreSQL takes nothing but JSON
    let (own, list) = (db.own_ids(), if engine == Engine::Postgres { "'7'" } else { text });
    for (id, at) in (100..).step_by(10).zip(times) {
        let (dead, worker) = (id + 1, id + 2);
        for sql in [
            format!(
                "INSERT INTO queue_history (id, kind, queue, state, args, priority, attempt, fence, worker_id, \
                 enqueued_at, run_at, started_at, finished_at, result) VALUES ({id}, 'a', 'q', 'completed', '{{}}', 0, \
                 -1, -1, -1, {at}, {at}, {at}, {at}, NULL)"
            ),
            format!(
                "INSERT INTO queue_dead (id, kind, queue, args, priority, attempt, fence, worker_id, enqueued_at, \
                 run_at, started_at, finished_at, error) VALUES ({dead}, 'a', 'q', '{{}}', 0, 1, 1, {worker}, {at}, \
                 {at}, {at}, {at}, {text})"
            ),
            format!(
                "INSERT INTO queue_attempts (job_id, fence, attempt, worker_id, started_at, ended_at, outcome, error) \
                 VALUES ({dead}, 1, -1, {worker}, {at}, {at}, {text}, {text})"
            ),
            format!(
                "INSERT INTO queue_workers (id, host, pid, concurrency, queues, kinds, started_at, heartbeat_at, \
                 stopped_at) {own} VALUES ({worker}, {text}, -1, -1, {list}, {list}, {at}, {at}, {at})"
            ),
            format!("INSERT INTO queue_paused (queue, paused_at) VALUES ('paused {id}', {at})"),
            format!(
                "INSERT INTO queue_schedules (name, kind, expression, changed_at, next_at, last_at) \
                 VALUES ('odd {id}', 'a', '@daily', {at}, {at}, {at})"
            ),
            format!(
                "INSERT INTO queue_ticks (schedule_id, tick_at, outcome, skipped, at) \
                 SELECT id, {at}, 'odd', -1, {at} FROM queue_schedules WHERE name = 'odd {id}'"
            ),
        ] {
            pool.sql(&sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
        }
    }
    let count = times.len();
    assert_eq!(db.admin.stats().await.expect("counts").iter().map(|stat| stat.jobs).sum::<u64>(), 2 * count as u64);
    let jobs = db.admin.jobs(&Filter::new()).await.expect("a page").items;
    assert_eq!(jobs.len(), 2 * count);
    for job in jobs {
        db.detail(job.id).await;
    }
    let queues = db.admin.queues().await.expect("queues");
    assert_eq!(queues.iter().filter(|it| it.paused_at.is_some()).count(), count);
    assert_eq!(db.admin.workers().await.expect("workers").len(), count + 1);
    assert_eq!(db.admin.schedules(None).await.expect("schedules").len(), count);
    for id in (100..).step_by(10).take(count) {
        db.admin.ticks(&format!("odd {id}"), None).await.expect("ticks");
    }
    for view in ["queue_all", "queue_stats"] {
        assert!(db.db.count(view).await > 0, "{view}");
    }
}

async fn gauges_count_what_waits_runs_and_is_dead(db: Db) {
    let desk = Desk::new(db).await;
    assert_eq!(desk.admin.gauges().await.unwrap().workers, 1);
    for (state, ids, kind, queue) in [
        (JobState::Ready, 101..=103, "a", "p"),
        (JobState::Scheduled, 104..=105, "a", "p"),
        (JobState::Running, 106..=109, "a", "p"),
        (JobState::Dead, 110..=115, "a", "p"),
        (JobState::Completed, 120..=129, "a", "p"),
        (JobState::Scheduled, 130..=136, "b", "p"),
        (JobState::Running, 140..=141, "b", "q"),
        (JobState::Dead, 150..=152, "c", "q"),
        (JobState::Cancelled, 160..=163, "d", "q"),
    ] {
        desk.put(state, ids, kind, queue).await;
    }
    let other_priority = format!("INSERT INTO queue_jobs (kind, queue, priority, run_at) VALUES ('a', 'p', 9, {})", {
        desk.in_secs(-120)
    });
    desk.db.sql(other_priority).await;
    desk.admin.pause("q").await.unwrap();
    let gauges = desk.admin.gauges().await.unwrap();
    assert!(gauges.complete && gauges.workers == 1, "{gauges:?}");
    let seen: Vec<_> = gauges
        .depths
        .iter()
        .map(|depth| {
            let counts = [depth.ready, depth.scheduled, depth.running, depth.dead];
            assert!(counts.iter().all(|count| !count.or_more), "{depth:?}");
            (depth.kind.as_str(), depth.queue.as_str(), counts.map(|count| count.jobs), depth.paused)
        })
        .collect();
    let expected = [
        ("a", "p", [4, 2, 4, 6], false),
        ("b", "p", [0, 7, 0, 0], false),
        ("b", "q", [0, 0, 2, 0], true),
        ("c", "q", [0, 0, 0, 3], true),
    ];
    assert_eq!(seen, expected);
    let waits = gauges.depths[0].oldest_due.expect("jobs are due");
    assert!(waits >= Duration::from_secs(120) && waits < Duration::from_secs(3600), "{waits:?}");
    assert_eq!(gauges.depths[1].oldest_due, None, "nothing is due");

    let page = desk.admin.prometheus().await.unwrap();
    for line in [
        "queue_jobs{kind=\"a\",queue=\"p\",state=\"ready\"} 4",
        "queue_jobs{kind=\"c\",queue=\"q\",state=\"dead\"} 3",
        "queue_paused{kind=\"b\",queue=\"q\"} 1",
        "queue_oldest_due_seconds{kind=\"b\",queue=\"p\"} 0",
        "queue_workers 1",
        "queue_gauges_complete 1",
    ] {
        assert!(page.lines().any(|it| it == line), "`{line}` is not in\n{page}");
    }
}

async fn gauges_stop_counting_and_say_so(db: Db) {
    let desk = Desk::new(db).await;
    let numbers = numbers(4);
    let (ago, ahead) = (desk.in_secs(-60), desk.in_secs(3600));
    // more than a first look counts, more than any look counts, and both in the future
    for (kind, most, at) in
        [("few", 3_000, &ago), ("many", 10_000, &ago), ("later", 3_000, &ahead), ("last", 10_000, &ahead)]
    {
        desk.db
            .sql(format!(
                "INSERT INTO queue_jobs (kind, queue, run_at) SELECT '{kind}', 'q', {at} FROM {numbers} AS numbers \
                 WHERE n < {most}"
            ))
            .await;
    }
    desk.put(JobState::Ready, [100_001], "many", "q").await;
    let gauges = desk.admin.gauges().await.unwrap();
    let of = |kind: &str| gauges.depths.iter().find(|depth| depth.kind == kind).unwrap();
    assert_eq!((of("few").ready.to_string(), of("few").scheduled.to_string()), ("3000".into(), "0".into()));
    assert_eq!(
        (of("many").ready.to_string(), of("many").scheduled.to_string()),
        ("10001 or more".into(), "0".into()),
        "of two priorities"
    );
    assert_eq!((of("later").ready.to_string(), of("later").scheduled.to_string()), ("0".into(), "3000".into()));
    assert_eq!((of("last").ready.to_string(), of("last").scheduled.to_string()), ("0".into(), "10000 or more".into()));
    assert!(of("many").oldest_due.unwrap() >= Duration::from_secs(60), "{gauges:?}");

    // with many lanes, the looks are short
    for _ in 0..2 {
        desk.db
            .sql(format!(
                "INSERT INTO queue_jobs (kind, queue, run_at) SELECT 'lanes', CONCAT('q', n % 300), {ago} FROM {numbers} \
                 AS numbers"
            ))
            .await;
    }
    // one is due, and the others are not: it comes too late for a second look
    let now = desk.in_secs(0);
    desk.db.sql(format!("INSERT INTO queue_jobs (kind, queue, run_at) VALUES ('mixed', 'q', {now})")).await;
    desk.db
        .sql(format!(
            "INSERT INTO queue_jobs (kind, queue, run_at) SELECT 'mixed', 'q', {ahead} FROM {numbers} AS numbers \
             WHERE n < 100"
        ))
        .await;
    let gauges = desk.admin.gauges().await.unwrap();
    let mixed = gauges.depths.iter().find(|depth| depth.kind == "mixed").unwrap();
    assert!(mixed.ready.jobs == 1 && mixed.scheduled.jobs <= 100, "{mixed:?}");
    let lanes: Vec<_> = gauges.depths.iter().filter(|depth| depth.kind == "lanes").collect();
    assert_eq!(lanes.len(), 300);
    for depth in lanes {
        assert!(depth.oldest_due.unwrap() >= Duration::from_secs(60), "{depth:?}");
        assert!(depth.ready.or_more && depth.ready.jobs > 0 || (60..=70).contains(&depth.ready.jobs), "{depth:?}");
    }
}

/// SQL for a table of the numbers with so many digits.
fn numbers(digits: u32) -> String {
    let digit = "(SELECT 0 AS n UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 \
                 UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9)";
    let sum: Vec<_> = (0..digits).map(|place| format!("{} * d{place}.n", 10_i64.pow(place))).collect();
    let from: Vec<_> = (0..digits).map(|place| format!("{digit} AS d{place}")).collect();
    format!("(SELECT {} AS n FROM {})", sum.join(" + "), from.join(" CROSS JOIN "))
}

/// What a scrape costs: 1,000,000 waiting jobs in 1,000 queues, beside ten times as many finished ones.
/// `QUEUE_TEST_FINISHED_MILLIONS` sets another number of those.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "millions of jobs: minutes, and gigabytes of disk"]
async fn gauges_beside_millions_of_jobs() {
    let millions = std::env::var("QUEUE_TEST_FINISHED_MILLIONS").ok().and_then(|n| n.parse().ok()).unwrap_or(10);
    for engine in [Engine::Postgres, Engine::MySql, Engine::MariaDb, Engine::Sqlite] {
        let Some(db) = Db::empty(engine).await else { continue };
        db.migrate().await.expect("migrated");
        let (ago, numbers) = (db.time(-60_000), numbers(6));
        db.sql(format!(
            "INSERT INTO queue_jobs (kind, queue, run_at) \
             SELECT CONCAT('kind', n % 10), CONCAT('queue', n % 1000), {ago} FROM {numbers} AS numbers"
        ))
        .await;
        for million in 1..=millions {
            db.sql(format!(
                "INSERT INTO queue_history (id, kind, queue, state, args, priority, attempt, fence, worker_id, \
                 enqueued_at, run_at, started_at, finished_at) \
                 SELECT {million}000000 + n, CONCAT('kind', n % 10), CONCAT('queue', n % 1000), 'completed', '{{}}', 0, \
                 1, 1, 1, {ago}, {ago}, {ago}, {ago} FROM {numbers} AS numbers"
            ))
            .await;
        }
        if engine == Engine::Postgres {
            db.sql("VACUUM ANALYZE queue_jobs").await;
        }
        let admin = db.admin();
        let mut took = Vec::new();
        for _ in 0..50 {
            let began = std::time::Instant::now();
            let gauges = admin.gauges().await.expect("gauges");
            took.push(began.elapsed());
            assert!(gauges.complete && gauges.depths.len() == 1_000);
        }
        took.sort();
        println!("{engine}: median {:?}, longest {:?}", took[took.len() / 2], took[took.len() - 1]);
    }
}
