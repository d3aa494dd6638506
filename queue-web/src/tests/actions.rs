//! Each action from the page that offers it to what it does, without a script.

use super::*;

#[tokio::test]
async fn one_dead_letter_goes_back_from_its_page() {
    let site = Site::new(Rights::ACT).await;
    let id = site.run(&["nobody"]).await[0];
    let path = format!("/jobs/{id}");
    site.get(&path).await.says(&["It is dead", "value=\"send_back\"", "mailbox is gone"]);
    let done = site.post(&path, &[("do", "send_back"), ("reason", "it is back")]).await;
    assert_eq!((done.is(303).to(), &*site.state(id).await), (&*format!("/jobs/{id}?done=send_back.1"), "ready"));
    site.get(done.to()).await.says(&["1 job was sent back.", "Who touched it", "<b>ada</b>", "“it is back”"]);
    site.post(&path, &[("do", "send_back")]).await.is(409).says(&["only dead letters can be sent back"]);
}

#[tokio::test]
async fn a_job_that_waits_is_retried_and_cancelled() {
    let site = Site::new(Rights::ACT).await;
    let id = site.run(&["busy"]).await[0];
    let path = format!("/jobs/{id}");
    site.get(&path).await.says(&["Its last attempt did not succeed", "Retry now"]);
    site.post(&path, &[("do", "retry")]).await.is(303);
    assert_eq!(site.state(id).await, "ready");
    let done = site.post(&path, &[("do", "reschedule"), ("after", "2h")]).await;
    assert_eq!((done.is(303).to(), &*site.state(id).await), (&*format!("{path}?done=reschedule.1"), "scheduled"));
    site.post(&path, &[("do", "reschedule"), ("after", "soon")]).await.is(422).says(&["write 30s, 20m or 2h"]);
    let plan = site.get(&format!("/plan?do=cancel&id={id}&from=jobs/{id}")).await;
    plan.is(200).says(&["Cancel 1 job", "dry run: nothing has changed yet", "never runs again"]);
    assert_eq!(site.state(id).await, "scheduled");
    let done = site.post("/plan", &[("do", "cancel"), ("id", &id.to_string()), ("from", &format!("jobs/{id}"))]).await;
    assert_eq!((done.is(303).to(), &*site.state(id).await), (&*format!("/jobs/{id}?done=cancel.1"), "cancelled"));
}

#[tokio::test]
async fn a_delete_needs_a_reason() {
    let site = Site::new(Rights::DELETE).await;
    let id = site.run(&["nobody"]).await[0];
    let form = [("do", "delete"), ("id", &*id.to_string()), ("from", "jobs?q=state:dead")];
    site.get(&format!("/plan?do=delete&id={id}")).await.says(&["required;", "class=\"del\""]);
    site.post("/plan", &form).await.is(422).says(&["a reason is missing"]);
    assert_eq!(site.state(id).await, "dead");
    let done = site.post("/plan", &[&form[..], &[("reason", "a test")]].concat()).await;
    assert_eq!((done.is(303).to(), &*site.state(id).await), ("/jobs?q=state:dead&done=delete.1", "gone"));
    let last = &site.admin.operations(None).await.expect("records")[0];
    assert_eq!((&*last.actor, last.reason.as_deref(), &*last.action), ("ada", Some("a test"), "delete"));
}

#[tokio::test]
async fn checked_jobs_are_changed_and_no_others() {
    let site = Site::new(Rights::ACT_ON_MANY).await;
    let ids = site.run(&["nobody"; 5]).await;
    let checked = format!("id={}&id={}", ids[1], ids[3]);
    let page = site.get("/jobs?q=state:dead").await;
    page.says(&["name=\"id\"", "Send back…", "all that match"]);
    let plan = site.get(&format!("/plan?q=state:dead&on=checked&do=send_back&{checked}")).await;
    plan.says(&["Send back 2 jobs", &format!("queue send-back {} {}", ids[3], ids[1])]);
    let done = site.post_text("/plan", format!("do=send_back&q=state:dead&from=jobs&{checked}")).await;
    assert_eq!(done.is(303).to(), "/jobs?done=send_back.2");
    let mut states = Vec::new();
    for id in ids {
        states.push(site.state(id).await);
    }
    assert_eq!(states, ["dead", "ready", "dead", "ready", "dead"]);
    site.get("/plan?q=state:dead&on=checked&do=send_back").await.is(422).says(&["No job is checked"]);
    let partly = site.post_text("/plan", format!("do=send_back&{checked}&id={}", 777)).await;
    partly.is(409).says(&["0 of 3 were changed"]);
}

#[tokio::test]
async fn one_first_and_then_all_spread() {
    let site = Site::new(Rights::ALL).await;
    let ids = site.run(&["nobody"; 4]).await;
    let failures = site.get("/failures").await;
    failures.says(&["One first…", "All 4, spread…", "Discard…", "550 no such user"]);
    let group = site.admin.failures().await.expect("failures").groups[0].group.clone();
    let query = format!("state:dead group:{group}");
    let path = format!("/plan?q={}&from=failures&do=send_back", crate::text::encoded(&query));
    let plan = site.get(&format!("{path}&first=1")).await;
    plan.says(&["Send back 4 jobs", "Send back one first", "Or all, spread over", "Samples"]);
    let form = [("q", &*query), ("do", "send_back"), ("from", "failures"), ("over", "600")];
    let one = site.post("/plan", &[&form[..], &[("scope", "one")]].concat()).await;
    assert_eq!(one.is(303).to(), format!("/jobs/{}?done=send_back.1", ids[0]));
    let all = site.post("/plan", &[&form[..], &[("scope", "all"), ("reason", "INC-1")]].concat()).await;
    assert_eq!(all.is(303).to(), "/failures?done=send_back.3");
    assert_eq!(site.state(ids[0]).await, "ready");
    assert_eq!(site.state(ids[3]).await, "scheduled", "it is spread");
    site.get("/operations").await.says(&["send back", "INC-1", &format!("group:{group}")]);
    site.get(&format!("{path}&over=600")).await.says(&["Nothing to do"]);
}

#[tokio::test]
async fn what_would_change_every_job_is_refused() {
    let site = Site::new(Rights::ALL).await;
    site.get("/plan?do=delete&q=").await.is(422).says(&["This would be every job"]);
    site.post("/plan", &[("do", "cancel"), ("q", " "), ("scope", "all")]).await.is(422);
    site.get("/plan?do=explode&q=state:dead").await.is(422);
}

#[tokio::test]
async fn a_queue_is_paused_with_a_reason_and_resumed() {
    let site = Site::new(Rights::ACT).await;
    let id = site.waiting().await;
    let done = site.post("/queues", &[("reason", "INC-2"), ("pause", "mail")]).await;
    assert_eq!(done.is(303).to(), "/queues?done=pause.1");
    site.get(done.to()).await.says(&["1 queue was paused", "by ada: “INC-2”", "Resume"]);
    site.get("/").await.says(&["mail is paused", "By ada, “INC-2”. 1 job waits.", "Resume mail"]);
    site.get(&format!("/jobs/{id}")).await.says(&["Its queue has been paused", "action=\"/queues\"", "Resume mail"]);
    site.post("/queues", &[("resume", "mail")]).await.is(303);
    assert!(site.admin.gauges().await.expect("gauges").paused.is_empty());
    site.post("/queues", &[]).await.is(422);
}

#[tokio::test]
async fn arguments_are_shown_before_they_are_written() {
    let site = Site::new(Rights::EDIT | Rights::ACT).await;
    let id = site.run(&["nobody"]).await[0];
    let path = format!("/jobs/{id}/edit");
    site.get(&path).await.says(&["name=\"arg.to\" value=\"nobody\"", "name=\"arg.size\" value=\"0\""]);
    let form = [("arg.to", "grace"), ("arg.size", "0")];
    let shown = site.post(&path, &form).await;
    shown.is(200).says(&["<del>&#34;nobody&#34;</del>", "<ins>&#34;grace&#34;</ins>", "Arguments that stay: 1."]);
    let args = async || site.admin.job(id).await.expect("read").expect("there").args;
    assert!(args().await.contains("nobody"));
    // not what somebody has seen
    site.post(&path, &[&form[..], &[("do", "save"), ("seen", "0")]].concat()).await.is(200).says(&["<ins>"]);
    let seen = shown.text.split("name=\"seen\" value=\"").nth(1).expect("a field")[..16].to_owned();
    let done = site.post(&path, &[&form[..], &[("do", "send_back"), ("seen", &seen)]].concat()).await;
    assert_eq!(done.is(303).to(), format!("/jobs/{id}?done=send_back.1"));
    assert_eq!((&*args().await, &*site.state(id).await), (r#"{"to":"grace","size":0}"#, "ready"));
}

#[tokio::test]
async fn arguments_that_do_not_fit_are_refused_in_the_form() {
    let site = Site::new(Rights::EDIT).await;
    let id = site.waiting().await;
    let path = format!("/jobs/{id}/edit");
    let form = [("json", r#"{"to":"ada","size":"large"}"#), ("reason", "why not")];
    let shown = site.post(&path, &form).await;
    let seen = shown.is(200).text.split("name=\"seen\" value=\"").nth(1).expect("a field")[..16].to_owned();
    let refused = site.post(&path, &[&form[..], &[("do", "save"), ("seen", &seen)]].concat()).await;
    refused.is(422).says(&["do not fit", "`size`", "why not", "large"]);
    site.post(&path, &[("json", "{")]).await.is(422).says(&["not a JSON object"]);
    site.post(&path, &[("json", r#"{"to":"ada"}"#)]).await.is(422).says(&["`size` is missing"]);
}

#[tokio::test]
async fn a_job_is_enqueued_and_copied() {
    let site = Site::new(Rights::EDIT).await;
    site.get("/enqueue").await.says(&["<option>send_email", "<option>report"]);
    let form = [("kind", "send_email"), ("args", r#"{"to":"ada","size":7}"#), ("after", "2h"), ("priority", "-3")];
    let done = site.post("/enqueue", &form).await;
    let job = site.admin.jobs(&queue::admin::Filter::new()).await.expect("jobs").items[0].clone();
    assert_eq!(done.is(303).to(), format!("/jobs/{}?done=enqueued.{}", job.id, job.id));
    assert_eq!((&*job.queue, job.priority, job.state.as_str()), ("mail", -3, "scheduled"));
    let copy = site.get(&format!("/enqueue?copy={}", job.id)).await;
    copy.says(&["<option selected>send_email", "value=\"mail\"", "value=\"-3\"", "&#34;size&#34;:7"]);
    for (form, why) in [
        ([("kind", "send_email"), ("args", r#"{"to":7}"#)], "do not fit"),
        ([("kind", "send_email"), ("args", "[")], "not a JSON object"),
        ([("kind", "none"), ("args", "{}")], "Choose a kind"),
        ([("kind", "report"), ("after", "soon")], "not a span"),
        ([("kind", "report"), ("priority", "high")], "not a priority"),
    ] {
        site.post("/enqueue", &form).await.is(422).says(&[why]);
    }
}

#[tokio::test]
async fn a_schedule_is_paused_resumed_and_fired() {
    let site = Site::new(Rights::ACT).await;
    let every = queue::schedule::Schedule::cron("0 4 * * *").expect("a schedule");
    site.admin.schedule("nightly", every, SendEmail::new("ada", 1u32)).await.expect("scheduled");
    site.get("/schedules").await.says(&["nightly", "0 4 * * *", "does not fire", "no live worker knows the kind"]);
    site.post("/schedules", &[("pause", "nightly")]).await.is(303);
    site.get("/schedules?done=schedule_pause.1").await.says(&["Resume</button>", "A deploy does not resume it"]);
    site.post("/schedules", &[("resume", "nightly")]).await.is(303);
    let fired = site.post("/schedules", &[("fire", "nightly")]).await;
    let job = site.admin.jobs(&queue::admin::Filter::new()).await.expect("jobs").items[0].id;
    assert_eq!(fired.is(303).to(), format!("/schedules?done=schedule_fire.{job}"));
    site.get(fired.to()).await.says(&[&format!("The schedule was fired: job {job}.")]);
    site.post("/schedules", &[("pause", "none")]).await.is(404).says(&["there is no schedule"]);
}

#[tokio::test]
async fn a_running_operation_is_shown_and_stopped() {
    let site = Site::new(Rights::ACT).await;
    site.run(&["nobody"]).await;
    let dead = queue::admin::Filter::new().state(queue::JobState::Dead);
    let plan = site.admin.plan(queue::admin::Action::SendBack, &dead).await.expect("a plan");
    let id = plan.begin().await.expect("it begins").id;
    site.get("/operations").await.says(&["runs", "Stop</button>"]);
    site.get("/").await.says(&["send back of state:dead", "0 changed, none refused.", "Stop</button>"]);
    let path = format!("/operations/{id}");
    site.get(&path).await.says(&["0 changed", "Stop</button>"]);
    let done = site.post(&path, &[]).await;
    assert_eq!(done.is(303).to(), format!("{path}?done=stop.1"));
    site.get(done.to()).await.says(&["stopped", "What it has changed stays."]);
    assert_eq!(site.post(&path, &[]).await.to(), format!("{path}?done=over.1"));
    site.get("/operations/777").await.is(422);
}
