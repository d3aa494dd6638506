//! Each action by clicks and typing, without scripts and with them: what it does, and what the page says.

use chrono::TimeDelta;
use queue::JobState;
use queue::admin::{Filter, Progress};
use queue_browser_tests::world::{fill, incident, invoice};
use queue_browser_tests::{Browser, Look, Page, Site, check};
use queue_tests::Db;

browser!(
    a_job_is_retried_rescheduled_and_cancelled,
    a_dead_letter_is_sent_back_and_another_deleted,
    arguments_are_edited_after_a_look_at_what_changes,
    a_queue_is_paused_and_resumed,
    a_schedule_is_fired_paused_and_resumed,
    a_copy_is_enqueued,
    a_group_is_discarded,
    one_goes_first_and_then_all_spread,
    checked_jobs_are_sent_back,
    an_operation_is_stopped,
    colours_are_chosen_and_jobs_are_found,
);

const LOOKS: [Look; 2] = [Look::NO_SCRIPTS, Look::DESK];

async fn page(browser: &Browser, site: &Site, look: Look, path: &str) -> Page {
    let mut page = browser.page(look).await;
    page.go(&site.url(path)).await;
    let runs = page.eval("document.documentElement.classList.contains('js')").await;
    assert_eq!(runs, look.scripts, "whether the script has run");
    page
}

/// The page says what has been done, and all of these.
async fn says(page: &Page, told: &str, parts: &[&str]) {
    assert_eq!(page.told().await, told, "{}", page.text().await);
    reads(page, parts).await;
}

async fn reads(page: &Page, parts: &[&str]) {
    let text = page.text().await;
    for part in parts {
        assert!(text.contains(part), "{part}\n{text}");
    }
}

/// What the last change of this kind has on record: who, and why.
async fn on_record(db: &Db, action: &str) -> (String, Option<String>) {
    let all = db.admin().operations(None).await.expect("operations");
    let last = all.into_iter().find(|it| it.action == action).expect("on record");
    (last.actor, last.reason)
}

fn by_ada(reason: &str) -> (String, Option<String>) {
    ("ada".to_owned(), Some(reason.to_owned()))
}

async fn a_job_is_retried_rescheduled_and_cancelled(browser: &Browser, db: &Db) {
    let site = Site::of(db).await;
    for look in LOOKS {
        let id = fill_one_retrying(db).await;
        let mut page = page(browser, &site, look, &format!("jobs/{id}")).await;
        reads(&page, &["Its last attempt did not succeed"]).await;
        page.follow("Retry now").await;
        says(&page, "1 job is ready now.", &["No worker"]).await;
        assert_eq!(db.state(id).await, JobState::Ready);
        page.fill("[name=after]", "2h").await;
        page.follow("Reschedule").await;
        says(&page, "The job has another due time now.", &["retrying"]).await;
        let (job, now) = (db.job(id).await.job, db.now().await);
        assert_eq!(job.state, JobState::Scheduled);
        assert!((job.run_at - now - TimeDelta::hours(2)).abs() < TimeDelta::minutes(10), "{} {now}", job.run_at);
        page.follow("Cancel…").await;
        reads(&page, &["Cancel 1 job", "dry run: nothing has changed yet", "never runs again"]).await;
        assert_eq!(db.state(id).await, JobState::Scheduled);
        page.fill("[name=reason]", "the order is void").await;
        page.follow("Cancel 1 job").await;
        says(&page, "1 job was cancelled or told to stop.", &["It was cancelled", "the order is void"]).await;
        assert_eq!(
            (db.state(id).await, on_record(db, "cancel").await),
            (JobState::Cancelled, by_ada("the order is void"))
        );
    }
}

/// A job that failed once and waits for another attempt.
async fn fill_one_retrying(db: &Db) -> queue::JobId {
    let id = db.enqueue(invoice("busy")).await;
    db.sql(format!(
        "INSERT INTO queue_attempts (job_id, fence, attempt, worker_id, started_at, ended_at, outcome, error)
         VALUES ({id}, 1, 1, 1, {0}, {0}, 'failed', '421 too many connections')",
        db.time(-60_000)
    ))
    .await;
    let due = db.time(3_600_000);
    db.sql(format!("UPDATE queue_jobs SET attempt = 1, fence = 1, started_fence = 1, run_at = {due} WHERE id = {id}"))
        .await;
    id
}

async fn a_dead_letter_is_sent_back_and_another_deleted(browser: &Browser, db: &Db) {
    let (site, ids) = (Site::of(db).await, incident(db, 16).await);
    for (look, ids) in LOOKS.into_iter().zip(ids.chunks(2)) {
        let mut page = page(browser, &site, look, &format!("jobs/{}", ids[0])).await;
        page.follow("Send back").await;
        says(&page, "1 job was sent back.", &["ready", "Who touched it"]).await;
        assert_eq!(db.state(ids[0]).await, JobState::Ready);
        page.go(&site.url(&format!("jobs/{}", ids[1]))).await;
        page.follow("Delete…").await;
        reads(&page, &["Delete 1 job", "It cannot be undone."]).await;
        // a reason is required: the browser itself stays where it is
        page.click("main button[name=scope]").await;
        assert_eq!(page.eval("document.querySelector('[name=reason]').validity.valueMissing").await, true);
        assert!(page.path().await.starts_with("/plan?do=delete"));
        page.fill("[name=reason]", "a test").await;
        page.follow("main button[name=scope]").await;
        says(&page, "1 job was deleted.", &["Jobs"]).await;
        assert!(db.admin().job(ids[1]).await.expect("an answer").is_none());
        assert_eq!(on_record(db, "delete").await, by_ada("a test"));
    }
}

async fn arguments_are_edited_after_a_look_at_what_changes(browser: &Browser, db: &Db) {
    let (site, ids) = (Site::of(db).await, incident(db, 16).await);
    for (look, ids) in LOOKS.into_iter().zip(ids.chunks(2)) {
        for (id, button, told, state) in [
            (ids[0], "Save and send back", "1 job was sent back.", JobState::Ready),
            (ids[1], "Save", "1 job was edited.", JobState::Dead),
        ] {
            let mut page = page(browser, &site, look, &format!("jobs/{id}")).await;
            let before = db.job(id).await.args;
            page.follow("Edit arguments…").await;
            page.fill("[name='arg.to']", "lin@example.org").await;
            page.follow("Show what changes").await;
            let shown = page.text_of("document.querySelector('ins').innerText").await;
            assert_eq!(shown, "\"lin@example.org\"");
            reads(&page, &["Arguments that stay: 2."]).await;
            assert_eq!(db.job(id).await.args, before, "nothing is written before");
            if look.scripts {
                assert_eq!(check::all(&mut page, &site.origin).await, [""; 0]);
            }
            page.fill("[name=reason]", "a slip").await;
            page.follow(button).await;
            says(&page, told, &["lin@example.org", "a slip"]).await;
            assert_eq!(db.state(id).await, state);
            let args: serde_json::Value = serde_json::from_str(&db.job(id).await.args).expect("JSON");
            assert_eq!(args["to"], "lin@example.org");
        }
    }
}

async fn a_queue_is_paused_and_resumed(browser: &Browser, db: &Db) {
    let site = Site::of(db).await;
    db.enqueue(invoice("ada")).await;
    for look in LOOKS {
        let mut page = page(browser, &site, look, "queues").await;
        page.fill("[name=reason]", "INC-2").await;
        page.follow("[data-k=mail] [name=pause]").await;
        says(&page, "1 queue was paused. Its running jobs continue.", &["by ada: “INC-2”"]).await;
        let paused = db.admin().gauges().await.expect("gauges").paused;
        assert_eq!(paused.iter().map(|it| &*it.queue).collect::<Vec<_>>(), ["mail"]);
        page.follow("[data-k=mail] [name=resume]").await;
        says(&page, "1 queue was resumed.", &[]).await;
        assert!(db.admin().gauges().await.expect("gauges").paused.is_empty());
        assert_eq!(on_record(db, "pause").await, by_ada("INC-2"));
    }
}

async fn a_schedule_is_fired_paused_and_resumed(browser: &Browser, db: &Db) {
    fill(db).await;
    let site = Site::of(db).await;
    let schedule = async || {
        let all = db.admin().schedules(None).await.expect("schedules");
        all.into_iter().find(|it| it.name == "nightly-report").expect("the schedule")
    };
    for look in LOOKS {
        let mut page = page(browser, &site, look, "schedules").await;
        page.fill("[name=reason]", "the books close").await;
        page.follow("[data-k=nightly-report] [name=fire]").await;
        let job = db.admin().jobs(&Filter::new().kind("export_report")).await.expect("jobs").items[0].id;
        says(&page, &format!("The schedule was fired: job {job}."), &[]).await;
        assert_eq!(db.state(job).await, JobState::Ready);
        page.follow("[data-k=nightly-report] [name=pause]").await;
        says(&page, "The schedule is paused. A deploy does not resume it.", &[]).await;
        assert!(schedule().await.paused_at.is_some());
        page.follow("[data-k=nightly-report] [name=resume]").await;
        says(&page, "The schedule goes on with its next tick.", &[]).await;
        assert!(schedule().await.paused_at.is_none());
    }
}

async fn a_copy_is_enqueued(browser: &Browser, db: &Db) {
    let site = Site::of(db).await;
    let id = db.enqueue(invoice("ada")).await;
    for look in LOOKS {
        let mut page = page(browser, &site, look, &format!("jobs/{id}")).await;
        page.follow("Enqueue a copy…").await;
        page.fill("[name=args]", r#"{"to": "kim", "invoice": 7, "cents": "many"}"#).await;
        page.follow("main button.pri").await;
        reads(&page, &["do not fit", "`cents`"]).await;
        page.fill("[name=args]", r#"{"to": "kim", "invoice": 7, "cents": 12}"#).await;
        page.fill("[name=after]", "30m").await;
        page.follow("main button.pri").await;
        let job = db.admin().jobs(&Filter::new()).await.expect("jobs").items[0].clone();
        says(&page, &format!("The job was enqueued as {}.", job.id), &["kim"]).await;
        assert_eq!((&*job.kind, &*job.queue, job.state), ("send_invoice", "mail", JobState::Scheduled));
        assert!(job.id > id);
    }
}

async fn a_group_is_discarded(browser: &Browser, db: &Db) {
    for look in LOOKS {
        // one that has seen nothing yet: a site remembers the counts for a while
        let site = Site::of(db).await;
        incident(db, 24).await;
        let mut page = page(browser, &site, look, "failures").await;
        page.follow("Discard…").await;
        reads(&page, &["Delete 24 jobs", "It cannot be undone."]).await;
        page.fill("[name=reason]", "they never existed").await;
        page.follow("main button.del").await;
        says(&page, "24 jobs were deleted.", &["Nothing fails"]).await;
        assert_eq!(db.counts().await, (0, 0, 0));
        assert_eq!(on_record(db, "delete").await, by_ada("they never existed"));
    }
}

async fn one_goes_first_and_then_all_spread(browser: &Browser, db: &Db) {
    for look in LOOKS {
        // one that has seen nothing yet: a site remembers the counts for a while
        let site = Site::of(db).await;
        let ids = incident(db, 24).await;
        let mut page = page(browser, &site, look, "failures").await;
        page.follow("One first…").await;
        reads(&page, &["Send back 24 jobs", "dry run: nothing has changed yet"]).await;
        assert_eq!(db.counts().await.2, 24);
        page.follow("Send back one first").await;
        says(&page, "1 job was sent back.", &["ready"]).await;
        assert_eq!((page.path().await, db.counts().await.2), (format!("/jobs/{}?done=send_back.1", ids[0]), 23));
        page.follow("nav [href$='/failures']").await;
        page.follow("All 23, spread…").await;
        page.fill("[name=reason]", "INC-3").await;
        page.follow("Send back 23 jobs").await;
        says(&page, "23 jobs were sent back.", &["Nothing fails"]).await;
        assert_eq!((db.counts().await.2, db.state(ids[23]).await), (0, JobState::Scheduled));
        let now = db.now().await;
        let all = db.admin().jobs(&Filter::new().state(JobState::Scheduled)).await.expect("jobs").items;
        let last = all.iter().map(|it| it.run_at - now).max().expect("some");
        assert!(last > TimeDelta::minutes(2) && last <= TimeDelta::minutes(10), "they are spread: {last}");
        assert_eq!(on_record(db, "send_back").await, by_ada("INC-3"));
        db.sql("DELETE FROM queue_jobs").await;
    }
}

async fn checked_jobs_are_sent_back(browser: &Browser, db: &Db) {
    let (site, ids) = (Site::of(db).await, incident(db, 12).await);
    for (look, ids) in LOOKS.into_iter().zip(ids.chunks(6)) {
        let mut page = page(browser, &site, look, "jobs?q=state:dead").await;
        for id in [ids[1], ids[3]] {
            page.click(&format!("[name=id][value='{id}']")).await;
        }
        assert_eq!(page.eval("document.querySelectorAll('tbody :checked').length").await, 2);
        page.follow("Send back…").await;
        reads(&page, &["Send back 2 jobs"]).await;
        page.follow("Send back 2 jobs").await;
        says(&page, "2 jobs were sent back.", &[]).await;
        for (place, id) in ids.iter().enumerate() {
            let expected = if place == 1 || place == 3 { JobState::Ready } else { JobState::Dead };
            assert_eq!(db.state(*id).await, expected, "{place}");
        }
    }
}

async fn an_operation_is_stopped(browser: &Browser, db: &Db) {
    let site = Site::of(db).await;
    incident(db, 3).await;
    for look in LOOKS {
        let dead = Filter::new().state(JobState::Dead);
        let plan = db.admin().plan(queue::admin::Action::SendBack, &dead).await.expect("a plan");
        let id = plan.begin().await.expect("begun").id;
        let mut page = page(browser, &site, look, "operations").await;
        page.follow("Stop").await;
        says(&page, "The operation was stopped. What it has changed stays.", &["0 changed", "stopped"]).await;
        assert_eq!(db.admin().operation(id).await.expect("there").progress, Progress::Stopped);
        assert_eq!(db.counts().await.2, 3);
    }
}

async fn colours_are_chosen_and_jobs_are_found(browser: &Browser, db: &Db) {
    let site = Site::of(db).await;
    let id = db.enqueue(invoice("ada")).await;
    for look in LOOKS {
        let mut page = page(browser, &site, look, "queues").await;
        let colour = "getComputedStyle(document.body).backgroundColor";
        let light = page.text_of(colour).await;
        page.follow("footer a[href*=dark]").await;
        assert!(page.path().await == "/queues" && page.text_of(colour).await != light, "{light}");
        page.follow("nav [href$='/jobs']").await;
        page.fill("#q", &id.to_string()).await;
        page.press("Enter").await;
        page.loaded().await;
        assert_eq!(page.path().await, format!("/jobs/{id}"));
        page.follow("footer a[href*=auto]").await;
        assert_eq!(page.text_of(colour).await, light);
    }
}
