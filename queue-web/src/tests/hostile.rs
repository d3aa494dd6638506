//! Texts that want to be more than text.

use queue::admin::{Filter, RawJob};

use super::*;

const NASTY: &str = "<script>alert(1)</script>\"'>&\u{1b}[31m\u{202e}drow\u{0}\u{200f}";

/// The page shows it, and none of it works.
fn is_harmless(page: &Got, path: &str) {
    assert!(!page.text.contains("<script>alert"), "{path}");
    let hidden = |char: char| char.is_control() && char != '\n' && char != '\t' || "\u{202e}\u{200f}".contains(char);
    assert!(!page.text.contains(hidden), "{path}: {:?}", page.text.chars().find(|char| hidden(*char)));
}

#[tokio::test]
async fn kinds_errors_and_arguments_are_only_text() {
    let site = Site::new(Rights::ALL).await;
    // no kind of a program looks like this, but SQL may write it
    let (kind, queue, error) = ("<b>kind</b>\u{202e}'\"", "<i>queue</i>&", format!("{NASTY}\n{NASTY}"));
    let args = serde_json::json!({ "<u>name</u>\u{202e}": NASTY, "to": NASTY }).to_string();
    let id = site.run(&["nobody"]).await[0];
    for (table, sql) in [
        ("dead", "UPDATE queue_dead SET kind = ?, queue = ?, args = ?, error = ?"),
        ("attempts", "UPDATE queue_attempts SET error = ?"),
    ] {
        let binds: Vec<&str> = if table == "dead" { vec![kind, queue, &args, &error] } else { vec![&error] };
        let update = binds.into_iter().fold(sqlx::query(sql), |query, bind| query.bind(bind.to_owned()));
        if let Err(why) = update.execute(&site.pool).await {
            panic!("{table}: {why}");
        }
    }
    site.admin.acting(queue::admin::Actor::new(NASTY).reason(NASTY)).pause("mail").await.expect("paused");
    let search = crate::text::encoded(&format!("state:dead error:\"{}\"", NASTY.replace('"', "")));
    for path in [
        "/".to_owned(),
        "/failures".to_owned(),
        "/jobs".to_owned(),
        format!("/jobs?q={search}"),
        format!("/jobs?q={}", crate::text::encoded(NASTY)),
        format!("/jobs/{id}"),
        format!("/jobs/{id}/edit"),
        format!("/jobs/{id}/edit?as=json"),
        format!("/plan?do=send_back&q={search}"),
        format!("/plan?do=send_back&id={id}&from={}", crate::text::encoded(NASTY)),
        "/queues".to_owned(),
        "/operations".to_owned(),
        "/operations/1".to_owned(),
        format!("/enqueue?copy={id}"),
        format!("/workers?host={}", crate::text::encoded(NASTY)),
        format!("/no/{}", crate::text::encoded(NASTY)),
    ] {
        is_harmless(&site.get(&path).await, &path);
    }
    site.get(&format!("/jobs/{id}")).await.says(&["&#60;b&#62;kind", "\\u{1b}[31m", "\\u{202e}drow"]);
}

#[tokio::test]
async fn an_edit_keeps_characters_that_are_not_seen() {
    let site = Site::new(Rights::ALL).await;
    let args = serde_json::json!({ "to": "a\u{202e}b", "size": 1 }).to_string();
    let id = site.admin.enqueue(RawJob::new("send_email", &args)).await.expect("enqueued").id();
    let form = site.get(&format!("/jobs/{id}/edit")).await;
    form.says(&[r#"value="&#34;a\u202eb&#34;""#]);
    let same = [("arg.to", r#""a\u202eb""#), ("arg.size", "1")];
    site.post(&format!("/jobs/{id}/edit"), &same).await.says(&["Nothing: the job has these arguments."]);
}

#[tokio::test]
async fn a_megabyte_of_arguments_does_not_make_a_large_page() {
    let site = Site::new(Rights::ALL).await;
    let args = format!(r#"{{"to":"{}","size":1}}"#, "<".repeat(1_000_000));
    let id = site.admin.enqueue(RawJob::new("send_email", args)).await.expect("enqueued").id();
    let page = site.get(&format!("/jobs/{id}")).await;
    assert!(page.is(200).text.len() < 30_000, "{}", page.text.len());
    site.get(&format!("/jobs/{id}/edit")).await.is(422).says(&["too long for a form", "queue edit"]);
    site.get(&format!("/enqueue?copy={id}")).await.is(422).says(&["too long for a form"]);
    let form =
        format!("kind=send_email&args={}", crate::text::encoded(&format!("{{\"to\":\"{}\"}}", "ü".repeat(600_000))));
    site.post_text("/enqueue", form).await.is(422);
    let huge = "kind=send_email&args=".to_owned() + &"x".repeat(5_000_000);
    site.post_text("/enqueue", huge).await.is(413);
}

#[tokio::test]
async fn a_link_leads_nowhere_else() {
    let site = Site::new(Rights::ALL).await;
    for (from, to) in [
        ("//evil.example", "/evil.example"),
        ("/\\evil.example", "/evil.example"),
        ("https://evil.example", "/https://evil.example"),
        ("jobs\r\nset-cookie: a=b", "/jobsset-cookie:a=b"),
    ] {
        let got = site.get(&format!("/theme?to=dark&from={}", crate::text::encoded(from))).await;
        assert_eq!(got.is(303).to(), to);
    }
    let id = site.waiting().await;
    for from in ["/evil.example", "\\evil.example", "\t/evil.example", "//evil.example"] {
        let plan = site.get(&format!("/plan?do=cancel&id={id}&from={}", crate::text::encoded(from))).await;
        plan.is(200).says(&["href=\"/evil.example\">Leave"]);
    }
    let said = site.get("/?done=call+555.1").await;
    assert!(!said.text.contains("555.1."), "an address says nothing of its own");
}

#[tokio::test]
async fn only_links_that_a_browser_only_follows_are_shown() {
    let pool = database().await;
    let dashboard = Dashboard::new(Admin::new(&pool))
        .trace_url("https://traces.example/{trace_id}")
        .link("Script", |_| Some("javascript:alert(1)".to_owned()))
        .link("Elsewhere", |_| Some("//evil.example".to_owned()))
        .link("Order", |job| Some(format!("/orders/{}\"<", job.job.id)));
    let site = Site { router: dashboard.open_to_everybody(), admin: Admin::new(&pool), pool };
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let id = SendEmail::new("ada", 1u32).meta("traceparent", trace).enqueue(&site.pool).await.expect("enqueued");
    let page = site.get(&format!("/jobs/{id}")).await;
    page.says(&["https://traces.example/4bf92f3577b34da6a3ce929d0e0e4736", &format!("/orders/{id}&#34;&#60;")]);
    assert!(!page.text.contains("javascript:") && !page.text.contains("evil.example"));
}

#[tokio::test]
async fn a_list_stays_small_whatever_is_in_it() {
    let site = Site::new(Rights::ALL).await;
    site.run(&["nobody"; 60]).await;
    let (kind, error) = ("<".repeat(60), "'<&>\"".repeat(400));
    let update = sqlx::query("UPDATE queue_dead SET kind = ?, queue = ?, error = ?");
    update.bind(&kind).bind(&kind).bind(&error).execute(&site.pool).await.expect("updated");
    let page = site.get("/jobs?q=state:dead").await;
    assert_eq!(page.text.matches("<tr data-k=").count(), 50);
    assert!(page.text.len() <= 40_000, "{}", page.text.len());
    let found = site.admin.jobs(&Filter::new().limit(1_000)).await.expect("jobs").items.len();
    assert_eq!(found, 60);
    page.says(&["50 shown, searched back to", "Next 50"]);
    let next = page.text.split("href=\"?q=state%3Adead&#38;before=").nth(1).expect("a link");
    let next: String = next.chars().take_while(char::is_ascii_digit).collect();
    let rest = site.get(&format!("/jobs?q=state:dead&before={next}")).await;
    assert_eq!(rest.text.matches("<tr data-k=").count(), 10);
    rest.says(&["these are all"]);
}
