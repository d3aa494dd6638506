//! Claiming: who gets which job, in which order, and when.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use chrono::TimeDelta;
use queue::{Job, JobState};
use queue_test_support::Engine;
use queue_tests::jobs::{Note, Placed, Play, Remark, Renamed};
use queue_tests::{DEADLINE, Db, Step, What};

conformance! {
    is_exclusive,
    is_exclusive_while_jobs_come_in,
    goes_by_priority_then_due_time_then_id,
    goes_by_the_same_order_over_kinds_and_queues,
    takes_the_newest_first_where_told,
    waits_for_the_due_time,
    takes_the_past_first,
    leaves_unknown_kinds_alone,
    leaves_kinds_to_workers_that_know_them,
    knows_former_names,
    serves_the_named_queues_only,
    keeps_to_the_limit_of_each_queue,
    limits_one_queue_and_serves_the_others,
    keeps_to_the_concurrency,
    keeps_to_the_concurrency_over_queues,
    is_prompt_on_each_of_several_limited_queues,
    finds_every_lane,
    stops_at_a_pause,
    lets_running_jobs_go_on_in_a_pause;
    servers:
    goes_around_locked_rows,
    is_not_held_up_by_an_open_enqueue,
    leaves_no_note_of_what_has_ended,
}

/// P4, P5: 32 workers want the same thousand jobs at the same time.
async fn is_exclusive(db: Db) {
    while !is_exclusive_among_32(db.another().await).await {}
}

/// `false`: the machine stood still for so long that workers were taken for lost, whose jobs may run again.
async fn is_exclusive_among_32(db: Db) -> bool {
    const JOBS: usize = 1000;
    const HANDS: i64 = 8;
    db.migrate().await.expect("the schema");
    let pool = db.open(170).await;
    let worker = || {
        let builder = db.worker_on(&pool).concurrency(2);
        builder.heartbeat(Duration::from_millis(500)).lease(DEADLINE)
    };
    let workers: Vec<_> = (0..32).map(|_| db.start(worker())).collect();
    queue_tests::eventually("32 workers", async || (db.count("queue_workers").await == 32).then_some(())).await;
    let mut jobs = 0;
    while db.int("SELECT COUNT(DISTINCT worker_id) FROM queue_history").await < HANDS {
        db.enqueue_all((jobs..jobs + JOBS).map(|n| Play::new(n.to_string(), [Step::Pause(3)]))).await;
        jobs += JOBS;
        // however long it takes, as long as it goes on
        let mut done = 0;
        while done < jobs {
            let more = async || Some(db.count("queue_history").await as usize).filter(|now| *now > done);
            done = queue_tests::eventually("another finished job", more).await;
        }
    }
    for worker in workers {
        worker.stop().await;
    }
    // who was taken for lost has joined again, under another number
    if db.count("queue_workers").await > 32 {
        return false;
    }
    let mut runs: HashMap<String, usize> = HashMap::new();
    for label in db.probe.labels(What::Started) {
        *runs.entry(label).or_default() += 1;
    }
    assert_eq!(runs.len(), jobs, "some never ran");
    assert!(
        runs.values().all(|n| *n == 1),
        "some ran twice: {:?}",
        runs.iter().filter(|(_, n)| **n > 1).collect::<Vec<_>>()
    );
    assert_eq!(db.counts().await, (0, jobs as i64, 0));
    assert_eq!(db.count("queue_history WHERE attempt = 1 AND state = 'completed'").await, jobs as i64);
    assert_eq!(db.count("queue_attempts").await, 0);
    true
}

/// P4, P5.
async fn is_exclusive_while_jobs_come_in(db: Db) {
    const JOBS: usize = 400;
    let mut workers = Vec::new();
    for _ in 0..3 {
        workers.push(db.start(db.worker_apart().await.concurrency(4)));
    }
    for n in 0..JOBS / 4 {
        db.enqueue(Note::new(n.to_string()).priority((n % 5) as i16)).await;
    }
    for bulk in 1..4 {
        let first = bulk * JOBS / 4;
        db.enqueue_all((first..first + JOBS / 4).map(|n| Remark::new(n.to_string()))).await;
    }
    db.finished(JOBS as i64).await;
    for worker in workers {
        worker.stop().await;
    }
    let mut ran = db.probe.labels(What::Started);
    ran.sort_by_key(|label| label.parse::<usize>().expect("a number"));
    assert_eq!(ran, (0..JOBS).map(|n| n.to_string()).collect::<Vec<_>>());
}

/// P11.
async fn goes_by_priority_then_due_time_then_id(db: Db) {
    let now = db.now().await;
    let past = |s: u64| now - Duration::from_secs(s);
    db.enqueue(Note::new("g").at(past(10))).await;
    db.enqueue(Note::new("e").at(past(30))).await;
    db.enqueue(Note::new("b").priority(-5).at(past(5))).await;
    db.enqueue(Note::new("j").priority(5).at(past(999))).await;
    db.enqueue(Note::new("f").at(past(20))).await;
    db.enqueue(Note::new("a").priority(-5).at(past(6))).await;
    db.enqueue_all(["c", "d"].map(|label| Note::new(label).priority(-1).at(past(1)))).await;
    db.enqueue_all(["h", "i"].map(|label| Note::new(label).at(past(10)))).await;
    let worker = db.start(db.worker().concurrency(1));
    db.probe.wait_for_all(What::Ended, 10).await;
    worker.stop().await;
    assert_eq!(db.probe.labels(What::Started), ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"]);
}

/// P11.
async fn goes_by_the_same_order_over_kinds_and_queues(db: Db) {
    let now = db.now().await;
    let mut expected = Vec::new();
    for n in 0..40u64 {
        let (priority, due) = ((n * 7 % 3) as i16, now - Duration::from_secs(1000 + n * 13 % 17));
        let (label, queue) = (n.to_string(), ["default", "mail", "third"][(n % 3) as usize]);
        let id = match n % 4 {
            0 => db.enqueue(Note::new(&*label).queue(queue).priority(priority).at(due)).await,
            1 => db.enqueue(Remark::new(&*label).queue(queue).priority(priority).at(due)).await,
            2 => db.enqueue(Play::new(&*label, []).queue(queue).priority(priority).at(due)).await,
            _ => db.enqueue(Renamed::new(&*label).queue(queue).priority(priority).at(due)).await,
        };
        expected.push((priority, due, id, label));
    }
    expected.sort();
    let worker = db.start(db.worker().concurrency(1));
    db.probe.wait_for_all(What::Ended, 40).await;
    worker.stop().await;
    assert_eq!(db.probe.labels(What::Started), expected.into_iter().map(|it| it.3).collect::<Vec<_>>());
}

/// P11.
async fn takes_the_newest_first_where_told(db: Db) {
    let now = db.now().await;
    for n in 0..12u64 {
        let due = now - Duration::from_secs(100 - n);
        db.enqueue(Note::new(format!("mail {n}")).queue("mail").at(due)).await;
        db.enqueue(Note::new(format!("{n}")).at(due)).await;
    }
    db.enqueue(Note::new("mail first").queue("mail").priority(-1).at(now - Duration::from_secs(500))).await;
    let worker = db.start(db.worker().queue("mail", 1).queue("default", 1).lifo("mail"));
    db.probe.wait_for_all(What::Ended, 25).await;
    worker.stop().await;
    let (mail, other): (Vec<_>, Vec<_>) =
        db.probe.labels(What::Started).into_iter().partition(|label| label.starts_with("mail"));
    let newest_first = std::iter::once("mail first".to_owned()).chain((0..12).rev().map(|n| format!("mail {n}")));
    assert_eq!(mail, newest_first.collect::<Vec<_>>());
    assert_eq!(other, (0..12).map(|n| n.to_string()).collect::<Vec<_>>());
}

/// P12, P24.
async fn waits_for_the_due_time(db: Db) {
    // its next heartbeat, which would also find what is due, is far away
    let patient = db.worker().heartbeat(2 * DEADLINE).lease(6 * DEADLINE);
    let worker = db.start(patient.concurrency(1));
    let far = db.enqueue(Note::new("far").after(Duration::from_secs(3600))).await;
    assert_eq!(db.state(far).await, JobState::Scheduled);
    // sooner than what it waits for; in the reverse order of their time, counted from one moment
    let after = |label, ms| Note::new(label).after(Duration::from_millis(ms));
    let delayed = [after("late", 1200), after("at", 800), after("soon", 500), after("now", 0)];
    let ids = db.enqueue_all(delayed).await;
    db.probe.wait_for_all(What::Ended, 4).await;
    assert_eq!(db.probe.labels(What::Started), ["now", "soon", "at", "late"]);
    for id in ids {
        let job = db.reaches(id, JobState::Completed).await.job;
        let waited = job.claimed_at.expect("it ran") - job.run_at;
        assert!(waited >= TimeDelta::zero(), "job {id} started {waited} before its time");
    }
    worker.stop().await;
}

/// P11.
async fn takes_the_past_first(db: Db) {
    db.enqueue(Note::new("young")).await;
    let past = db.enqueue(Note::new("old").at(db.now().await - Duration::from_secs(86_400))).await;
    db.enqueue(Note::new("ancient").at("1970-01-01T00:00:00Z".parse().expect("a time"))).await;
    assert_eq!(db.state(past).await, JobState::Ready);
    let worker = db.start(db.worker().concurrency(1));
    db.probe.wait_for_all(What::Ended, 3).await;
    worker.stop().await;
    assert_eq!(db.probe.labels(What::Started), ["ancient", "old", "young"]);
}

/// P26.
async fn leaves_unknown_kinds_alone(db: Db) {
    for n in 0..20 {
        db.sql(format!("INSERT INTO queue_jobs (kind, args, priority) VALUES ('of_the_future', '{{}}', {})", n - 10))
            .await;
        // a kind is not a pattern, and its case counts
        db.sql("INSERT INTO queue_jobs (kind, args) VALUES ('NOTE', '{\"label\":\"no\"}')").await;
    }
    let worker = db.start(db.worker().concurrency(1));
    for n in 0..20 {
        db.enqueue(Note::new(n.to_string())).await;
    }
    db.probe.wait_for_all(What::Ended, 20).await;
    db.finished(20).await;
    db.beats(3).await;
    worker.stop().await;
    assert_eq!(db.counts().await, (40, 20, 0));
    assert_eq!(db.count("queue_jobs WHERE worker_id = 0 AND attempt = 0 AND fence = 0").await, 40);
}

/// P26, P42: A rolling deploy: the old build runs what it knows, the new one the rest.
async fn leaves_kinds_to_workers_that_know_them(db: Db) {
    let old = db.start(db.worker_apart().await.only_registered().register::<Note>());
    let remark = db.enqueue(Remark::new("new")).await;
    let note = db.enqueue(Note::new("old")).await;
    db.reaches(note, JobState::Completed).await;
    assert_eq!(db.state(remark).await, JobState::Ready);
    let new = db.start(db.worker_apart().await.only_registered().register::<Note>().register::<Remark>());
    db.reaches(remark, JobState::Completed).await;
    let kinds: Vec<_> = db.admin().workers().await.expect("an answer").into_iter().map(|worker| worker.kinds).collect();
    assert_eq!(kinds, [vec!["note".to_owned()], vec!["note".to_owned(), "remark".to_owned()]]);
    old.stop().await;
    new.stop().await;
}

/// P26.
async fn knows_former_names(db: Db) {
    for (n, kind) in ["former_name", "first_name", "renamed"].into_iter().enumerate() {
        db.sql(format!("INSERT INTO queue_jobs (kind, args) VALUES ('{kind}', '{{\"label\":\"{n}\"}}')")).await;
    }
    let worker = db.start(db.worker().concurrency(1));
    db.probe.wait_for_all(What::Ended, 3).await;
    worker.stop().await;
    let kinds: Vec<_> = db.probe.log().into_iter().filter(|e| e.what == What::Started).map(|e| e.kind).collect();
    assert_eq!(kinds, ["former_name", "first_name", "renamed"], "the context has the kind of the row");
    assert_eq!(db.counts().await, (0, 3, 0));
}

/// P26.
async fn serves_the_named_queues_only(db: Db) {
    let other = db.enqueue(Note::new("other").priority(-100)).await;
    let case = db.enqueue(Note::new("case").queue("Mail")).await;
    let longer = db.enqueue(Note::new("longer").queue("mail2")).await;
    db.enqueue(Placed::new("mail")).await;
    let worker = db.start(db.worker().queue("mail", 4).queue("unused", 4));
    db.probe.wait_for(What::Ended, "mail", 1).await;
    db.enqueue(Note::new("mail").queue("mail")).await;
    db.probe.wait_for(What::Ended, "mail", 2).await;
    db.beats(2).await;
    for id in [other, case, longer] {
        let job = db.job(id).await.job;
        assert_eq!((job.state, job.attempt), (JobState::Ready, 0), "{}", job.queue);
    }
    let info = db.admin().workers().await.expect("an answer").remove(0);
    assert_eq!((info.concurrency, info.queues), (8, vec!["mail".to_owned(), "unused".to_owned()]));
    worker.stop().await;
}

/// P27.
async fn keeps_to_the_limit_of_each_queue(db: Db) {
    let holds = |queue: &'static str, n: usize| (0..n).map(move |_| Play::new(queue, [Step::hold("go")]).queue(queue));
    db.enqueue_all(holds("a", 8)).await;
    db.enqueue_all(holds("b", 6)).await;
    db.enqueue_all(holds("c", 3)).await;
    let worker = db.start(db.worker().queue("a", 3).queue("b", 1));
    db.probe.wait_for(What::Started, "a", 3).await;
    db.probe.wait_for(What::Started, "b", 1).await;
    db.beats(3).await;
    let running = |queue: &str| format!("queue_jobs WHERE worker_id <> 0 AND queue = '{queue}'");
    assert_eq!(
        (db.count(&running("a")).await, db.count(&running("b")).await, db.count(&running("c")).await),
        (3, 1, 0)
    );
    db.probe.release("go");
    db.probe.wait_for_all(What::Ended, 14).await;
    worker.stop().await;
    assert_eq!(db.probe.peak(|event| event.queue == "a"), 3);
    assert_eq!(db.probe.peak(|event| event.queue == "b"), 1);
    assert_eq!(db.count("queue_jobs WHERE queue = 'c' AND attempt = 0").await, 3);
}

/// P27.
async fn limits_one_queue_and_serves_the_others(db: Db) {
    let holds = |queue: &'static str, n: usize| (0..n).map(move |_| Play::new(queue, [Step::hold("go")]).queue(queue));
    db.enqueue_all(holds("transcode", 6)).await;
    let worker = db.start(db.worker().concurrency(5).limit_queue("transcode", 2));
    db.probe.wait_for(What::Started, "transcode", 2).await;
    db.enqueue_all(holds("default", 1)).await;
    db.enqueue_all(holds("unheard of", 2)).await;
    db.probe.wait_for(What::Started, "default", 1).await;
    db.probe.wait_for(What::Started, "unheard of", 2).await;
    assert!(db.admin().workers().await.expect("an answer").remove(0).queues.is_empty(), "it serves all");
    db.probe.release("go");
    db.probe.wait_for_all(What::Ended, 9).await;
    worker.stop().await;
    assert_eq!(db.probe.peak(|event| event.queue == "transcode"), 2);
}

/// P27.
async fn keeps_to_the_concurrency(db: Db) {
    db.enqueue_all((0..12).map(|n| Play::new(n.to_string(), [Step::hold("go")]))).await;
    let worker = db.start(db.worker().concurrency(3));
    db.probe.wait_for_all(What::Started, 3).await;
    db.beats(3).await;
    assert_eq!(db.count("queue_jobs WHERE worker_id <> 0").await, 3, "slow jobs are not claimed in advance");
    db.probe.release("go");
    db.probe.wait_for_all(What::Ended, 12).await;
    worker.stop().await;
    assert_eq!(db.probe.peak(|_| true), 3);
}

/// P27.
async fn keeps_to_the_concurrency_over_queues(db: Db) {
    for queue in ["a", "b", "c"] {
        db.enqueue_all((0..4).map(|_| Play::new(queue, [Step::hold("go")]).queue(queue))).await;
    }
    let worker = db.start(db.worker().queue("a", 2).queue("b", 2).queue("c", 2).concurrency(3));
    db.probe.wait_for_all(What::Started, 3).await;
    db.beats(3).await;
    assert_eq!(db.count("queue_jobs WHERE worker_id <> 0").await, 3);
    db.probe.release("go");
    db.probe.wait_for_all(What::Ended, 12).await;
    worker.stop().await;
    let peak = db.probe.peak(|_| true);
    assert!(peak <= 3, "{peak} at a time");
}

/// P24: A job on a limited queue starts at once, whatever ran on another queue before. It once waited for the next
/// heartbeat, if an idle worker had claimed ahead for the other queue.
async fn is_prompt_on_each_of_several_limited_queues(db: Db) {
    const TRIES: usize = 9;
    let limits: [&[(&str, u32)]; 4] =
        [&[("a", 1), ("b", 1)], &[("a", 8), ("b", 1)], &[("a", 1), ("b", 8)], &[("a", 2), ("b", 4), ("c", 1)]];
    let mut jobs = 0;
    for limits in limits {
        let builder = db.worker().heartbeat(2 * DEADLINE).lease(6 * DEADLINE);
        let worker = db.start(limits.iter().fold(builder, |builder, (queue, limit)| builder.queue(*queue, *limit)));
        for n in 0..TRIES {
            // enough quick jobs for the worker to claim ahead
            db.enqueue_all((0..20).map(|_| Note::new("quick").queue("a"))).await;
            jobs += 20;
            db.probe.wait_for_all(What::Ended, jobs).await;
            let label = format!("{limits:?} {n}");
            db.enqueue(Note::new(&*label).queue("b")).await;
            jobs += 1;
            db.probe.wait_for(What::Started, &label, 1).await;
        }
        worker.stop().await;
    }
}

/// P24: Many kinds, queues and priorities with few rows each. No lane is overlooked, whether it existed before or is
/// new.
async fn finds_every_lane(db: Db) {
    let lanes = |round: u64| {
        (0..60u64).map(move |n| {
            Note::new(format!("{round} {n}")).queue(format!("queue {}", n % 20)).priority((n / 20) as i16 - 1)
        })
    };
    db.enqueue_all(lanes(1)).await;
    let worker = db.start(db.worker());
    db.probe.wait_for_all(What::Ended, 60).await;
    db.enqueue_all(lanes(2)).await;
    db.enqueue(Renamed::new("3").queue("another")).await;
    db.probe.wait_for_all(What::Ended, 121).await;
    worker.stop().await;
    assert_eq!(db.counts().await, (0, 121, 0));
}

/// P26.
async fn stops_at_a_pause(db: Db) {
    let admin = db.admin();
    admin.pause("mail").await.expect("paused");
    let early = db.enqueue(Placed::new("early")).await;
    let workers = [db.start(db.worker_apart().await), db.start(db.worker_apart().await.queue("mail", 2))];
    db.enqueue(Note::new("other")).await;
    db.probe.wait_for(What::Ended, "other", 1).await;
    db.beats(2).await;
    assert_eq!((db.state(early).await, db.job(early).await.job.attempt), (JobState::Ready, 0));
    admin.resume("mail").await.expect("resumed");
    db.probe.wait_for(What::Ended, "early", 1).await;
    // and once more, with workers that know the queue
    admin.pause("mail").await.expect("paused");
    admin.pause("mail").await.expect("twice is once");
    let late = db.enqueue(Placed::new("late")).await;
    db.enqueue(Note::new("other")).await;
    db.probe.wait_for(What::Ended, "other", 2).await;
    db.beats(2).await;
    assert_eq!((db.state(late).await, db.job(late).await.job.attempt), (JobState::Ready, 0));
    let queues = admin.queues().await.expect("an answer");
    let mail = queues.iter().find(|info| info.queue == "mail").expect("it has a job");
    assert!(mail.paused_at.is_some() && mail.ready.jobs == 1, "{mail:?}");
    admin.resume("mail").await.expect("resumed");
    db.reaches(late, JobState::Completed).await;
    for worker in workers {
        worker.stop().await;
    }
}

/// P26.
async fn lets_running_jobs_go_on_in_a_pause(db: Db) {
    let worker = db.start(db.worker().concurrency(1));
    let running = db.enqueue(Play::new("running", [Step::hold("go")])).await;
    db.probe.wait_for(What::Started, "running", 1).await;
    let waiting = db.enqueue(Note::new("waiting")).await;
    db.admin().pause("default").await.expect("paused");
    db.probe.release("go");
    db.reaches(running, JobState::Completed).await;
    db.beats(2).await;
    assert_eq!(db.job(waiting).await.job.attempt, 0);
    db.admin().resume("default").await.expect("resumed");
    db.reaches(waiting, JobState::Completed).await;
    worker.stop().await;
}

/// P24: A locked row (by another claim, or an administrator in `psql`) delays no other row. This holds for one lane and
/// for several that are claimed together, from either end.
async fn goes_around_locked_rows(db: Db) {
    let mut before = 0;
    for (queue, lanes) in [("old", 1), ("old", 4), ("new", 1), ("new", 4)] {
        let of_lane = |n: i16| Note::new(n.to_string()).queue(queue).priority(n % lanes);
        let ids = db.enqueue_all((0..20).map(of_lane)).await;
        let held = [0, 1, 2, 3, 10, 16, 17, 18, 19].map(|n| ids[n]);
        let mut tx = db.begin().await;
        for id in held {
            tx.sql(&format!("SELECT id FROM queue_jobs WHERE id = {id} FOR UPDATE")).await.expect("locked");
        }
        let wide = db.worker_apart().await.queue("old", 8).queue("new", 8).lifo("new");
        let narrow = db.worker_apart().await.queue("old", 1).queue("new", 1).lifo("new");
        let workers = [db.start(wide), db.start(narrow)];
        db.finished(before + 20 - held.len() as i64).await;
        for id in held {
            assert_eq!(db.job(id).await.job.attempt, 0, "{queue}, {lanes} lanes");
        }
        tx.rollback().await;
        before += 20;
        db.finished(before).await;
        for worker in workers {
            worker.stop().await;
        }
    }
}

/// P24: A caller may keep the transaction in which it enqueued open for as long as it likes.
async fn is_not_held_up_by_an_open_enqueue(db: Db) {
    let worker = db.start(db.worker());
    let mut open = db.begin().await;
    open.enqueue(Note::new("open")).await.expect("enqueued");
    open.enqueue_all((0..1500).map(|_| Note::new("open in bulk").priority(-1))).await.expect("enqueued");
    let mut other = db.begin().await;
    other.enqueue(Note::new("other")).await.expect("enqueued");
    db.enqueue(Note::new("pool")).await;
    db.enqueue_all((0..1500).map(|_| Note::new("bulk").priority(1))).await;
    other.commit().await;
    db.finished(1502).await;
    db.admin().pause("elsewhere").await.expect("paused");
    let failing = db.enqueue(Play::new("failing", [Step::Fail("no".into())])).await;
    db.reaches(failing, JobState::Dead).await;
    assert_eq!(db.probe.count(What::Started, "open") + db.probe.count(What::Started, "open in bulk"), 0);
    open.commit().await;
    db.finished(3003).await;
    worker.stop().await;
}

/// P25: Where there are notes of claims, the next heartbeat removes those of which every job has ended, however it did.
async fn leaves_no_note_of_what_has_ended(db: Db) {
    let first = match db.engine() {
        Engine::Postgres => "job_ids[1]",
        Engine::MariaDb | Engine::MySql => "JSON_EXTRACT(job_ids, '$[0]')",
        Engine::Sqlite => return,
    };
    // seldom, so that the heartbeat that looks at all notes does not come within the test
    let worker = db.start(db.worker().heartbeat(Duration::from_secs(1)).lease(Duration::from_secs(15)));
    // The worker learns of claims only after the answer to its first heartbeat. It joins with one time, and a second
    // heartbeat is sent after the first one was answered, so the third time proves it.
    let mut times = BTreeSet::new();
    let answered = async || {
        times.extend(db.column("SELECT CAST(heartbeat_at AS CHAR(40)) FROM queue_heartbeats").await);
        (times.len() >= 3).then_some(())
    };
    queue_tests::eventually("an answered heartbeat", answered).await;
    let held = db.enqueue(Play::new("held", [Step::hold("until")])).await;
    db.probe.wait_for(What::Started, "held", 1).await;
    let fail = [Step::Fail("no".into()), Step::Cancel("no".into()), Step::Die("no".into())];
    db.enqueue_all(fail.map(|step| Play::new("ends", [step]))).await;
    db.enqueue_all((0..200).map(|n| Note::new(n.to_string()))).await;
    let waiting = "SELECT count(*) FROM queue_jobs";
    let gone = async || (db.column(waiting).await == ["1"] && db.count("queue_claims").await == 1).then_some(());
    queue_tests::eventually("one note", gone).await;
    assert_eq!(db.column(&format!("SELECT {first} FROM queue_claims")).await, [held.to_string()]);
    db.probe.release("until");
    queue_tests::eventually("no note", async || (db.count("queue_claims").await == 0).then_some(())).await;
    worker.stop().await;
}
