//! Secret arguments are on no page.

use super::*;
use crate::routes;

const PLANTED: &str = "pl4nted";

/// Repeats its secret in all ways.
#[job(queue = "bank", max_retries = 0)]
async fn pay(#[secret] card: String, how: String) -> Result<String, JobError> {
    match how.as_str() {
        "fail" => Err(JobError::dead(format!("{card} {card:?}"))),
        "panic" => panic!("{card}"),
        "wait" => Err(JobError::snooze_because(std::time::Duration::from_secs(3600), card)),
        _ => Ok(card),
    }
}

async fn pay_in_all_ways(site: &Site) -> Vec<JobId> {
    let mut ids = Vec::new();
    for how in ["fail", "panic", "wait", "return"] {
        ids.push(Pay::new("pl4nted \"card\"", how).enqueue(&site.pool).await.expect("enqueued"));
    }
    let _ = TestQueue::new(&site.pool).drain().await.expect("it runs");
    ids
}

/// All pages, of each job and search.
fn paths(ids: &[JobId]) -> Vec<String> {
    let searches = ["", "?q=state:dead", "?q=kind:pay", "?q=args.card:pl4ntd", "?do=send_back&q=state:dead"];
    let mut paths = Vec::new();
    for (_, path, _) in routes().into_iter().filter(|(method, path, _)| *method == "GET" && !path.contains("file")) {
        for id in ids {
            let path = path.replace("{queue_web_id}", &id.to_string());
            paths.extend(searches.map(|search| format!("{path}{search}")));
            paths.extend([format!("{path}?as=json"), format!("{path}?copy={id}"), format!("{path}?do=delete&id={id}")]);
        }
    }
    paths
}

#[tokio::test]
async fn secrets_are_on_no_page() {
    let site = Site::new(Rights::ALL).await;
    let ids = pay_in_all_ways(&site).await;
    site.admin.cancel(ids[2]).await.expect("cancelled");
    let mut marks = 0;
    for path in paths(&ids) {
        let page = site.get(&path).await;
        assert!(page.status != 500 && !page.text.contains(PLANTED), "{path}: {}", page.text);
        marks += usize::from(page.text.contains("••••"));
    }
    assert!(marks > 20, "{marks} pages show that there is a secret");
    site.get("/jobs?q=args.card:x").await.says(&["`card` is a secret argument of `pay`"]);
    // what is not hidden is found
    let open = Dashboard::new(site.admin.reveal_secrets()).open_to_everybody();
    let page = Site { router: open, ..site }.get(&format!("/jobs/{}", ids[0])).await;
    assert!(page.text.contains(PLANTED), "{}", page.text);
}

#[tokio::test]
async fn an_edit_keeps_a_secret_or_writes_a_new_one() {
    let site = Site::new(Rights::ALL).await;
    let id = pay_in_all_ways(&site).await[0];
    let path = format!("/jobs/{id}/edit");
    let stored = async || site.admin.reveal_secrets().job(id).await.expect("read").expect("there").args;
    let save = async |form: &[(&str, &str)]| {
        let shown = site.post(&path, form).await;
        let seen = shown.is(200).text.split("name=\"seen\" value=\"").nth(1).expect("a field")[..16].to_owned();
        (shown, site.post(&path, &[form, &[("do", "save"), ("seen", &seen)]].concat()).await)
    };
    let (shown, done) = save(&[("arg.card", "••••"), ("arg.how", "return")]).await;
    assert!(!shown.text.contains("<th scope=\"row\">card"), "{}", shown.text);
    done.is(303);
    assert_eq!(stored().await, r#"{"card":"pl4nted \"card\"","how":"return"}"#);
    let (shown, done) = save(&[("arg.card", "new card"), ("arg.how", "return")]).await;
    shown.says(&["<ins>••••</ins>"]);
    done.is(303);
    assert_eq!(stored().await, r#"{"card":"new card","how":"return"}"#);
    let (_, refused) = save(&[("arg.card", "x••••")]).await;
    refused.is(422).says(&["is secret, and `••••` only stands for its value"]);
    site.post(&path, &[("arg.card", "4711")]).await.is(422).says(&["in quotes"]);
    let copy = [("kind", "pay"), ("args", r#"{"card":"••••","how":"return"}"#)];
    site.post("/enqueue", &copy).await.is(422).says(&["`card` is secret"]);
}
