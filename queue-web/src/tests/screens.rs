//! What the screens show, where they are, and what they cost.

use std::collections::HashSet;

use super::*;
use crate::Colour;

#[tokio::test]
async fn an_empty_database_says_what_to_do() {
    let site = Site::new(Rights::ALL).await;
    for (path, parts) in [
        ("/", &["Nothing here yet", "Start a worker", "Enqueue a job"][..]),
        ("/failures", &["Nothing fails"]),
        ("/jobs", &["No job is here yet"]),
        ("/jobs?q=state:dead", &["No job matches."]),
        ("/queues", &["Nothing waits"]),
        ("/workers", &["No worker has run here"]),
        ("/schedules", &["There is no schedule", "#[job(schedule"]),
        ("/operations", &["Nobody has changed anything yet"]),
    ] {
        site.get(path).await.is(200).says(parts);
    }
    site.get("/jobs/77").await.is(404).says(&["there is no job 77"]);
    site.get("/nothing").await.is(404).says(&["There is no such page."]);
}

#[tokio::test]
async fn the_overview_names_the_worst_first() {
    let site = Site::new(Rights::ALL).await;
    site.waiting().await;
    let page = site.get("/").await;
    page.says(&["<title>No worker is alive", "1 job waits.", "Start a worker.", "class=\"worst\""]);
    site.run(&["nobody", "ada"]).await;
    site.post("/queues", &[("resume", "mail")]).await.is(303);
    let page = site.get("/?range=24h").await;
    page.says(&["All well", "1 dead letter", "550 no such user", "24 h</a>", "The same as a table"]);
    assert_eq!(page.text.matches("<div><dt>").count(), 5, "five figures");
    assert_eq!(page.text.matches("<tr><td>").count() - 1, 24, "a row for each hour");
}

#[tokio::test]
async fn a_database_that_is_away_is_a_page_that_says_so() {
    let site = Site::new(Rights::ALL).await;
    site.pool.close().await;
    for path in ["/", "/jobs", "/jobs/1", "/queues"] {
        site.get(path).await.is(503).says(&["The database did not answer", "cannot ", "Overview</a>"]);
    }
    site.post("/queues", &[("pause", "mail")]).await.is(503).says(&["cannot "]);
}

#[tokio::test]
async fn a_search_says_what_it_does_not_understand() {
    let site = Site::new(Rights::ALL).await;
    let id = site.run(&["nobody"]).await[0];
    assert_eq!(site.get(&format!("/jobs?q={id}")).await.is(303).to(), format!("/jobs/{id}"));
    site.get("/jobs?q=stat:dead").await.is(200).says(&["did you mean `state`?", "kind:send_email"]);
    site.get("/jobs?q=kind:send_emial").await.says(&["Did you mean kind:send_email?"]);
    site.get("/jobs?q=kind:send_email+args.to:nobody+error:550").await.says(&["1 shown", "args.to:nobody"]);
}

#[tokio::test]
async fn a_job_tells_its_story() {
    let site = Site::new(Rights::ALL).await;
    let ids = site.run(&["busy", "ada"]).await;
    let page = site.get(&format!("/jobs/{}", ids[0])).await;
    page.says(&["Its last attempt did not succeed", "421 too many connections", "1 failed", "of it</span>", "1 of 4"]);
    site.get(&format!("/jobs/{}", ids[1])).await.says(&["It has completed", "<dd class=\"m\">1</dd>"]);
}

#[tokio::test]
async fn links_are_right_under_any_prefix() {
    let pool = database().await;
    let id = SendEmail::new("ada", 1u32).enqueue(&pool).await.expect("enqueued");
    for prefix in ["", "/admin/jobs", "/t/{tenant}/jobs"] {
        let dashboard = Dashboard::new(Admin::new(&pool)).instance("production", Colour::Red).open_to_everybody();
        let router = match prefix {
            "" => dashboard,
            // a layer of routers, as applications have them
            _ => Router::new().nest("/a", Router::new().nest(prefix, dashboard)),
        };
        let prefix = if prefix.is_empty() { String::new() } else { format!("/a{}", prefix.replace("{tenant}", "7")) };
        let site = Site { router, admin: Admin::new(&pool), pool: pool.clone() };
        let (mut seen, mut todo) =
            (HashSet::new(), vec![if prefix.is_empty() { "/".to_owned() } else { prefix.clone() }]);
        while let Some(path) = todo.pop() {
            if !seen.insert(path.clone()) || seen.len() > 120 {
                continue;
            }
            let page = site.get(&path).await;
            assert!([200, 303, 422].contains(&page.status.as_u16()), "{path}: {}", page.status);
            let here = path.split('?').next().unwrap_or_default().to_owned();
            let links = page.text.split("href=\"").skip(1).map(|it| it.split('"').next().unwrap_or_default());
            for link in links.chain(Some(page.to())).filter(|it| !it.is_empty() && !it.starts_with(['#', 'd'])) {
                let link = link.replace("&amp;", "&").replace("&#38;", "&");
                let link = if link.starts_with('?') { format!("{here}{link}") } else { link };
                assert!(link.starts_with(&prefix), "{path}: {link}");
                todo.push(link.split('#').next().unwrap_or_default().to_owned());
            }
            for action in page.text.split("action=\"").skip(1) {
                assert!(action.starts_with(&prefix) && action.starts_with('/'), "{path}: {action}");
            }
        }
        assert!(seen.contains(&format!("{prefix}/jobs/{id}")) && seen.contains(&format!("{prefix}/keys")), "{seen:?}");
        let done = site.post(&format!("{prefix}/queues"), &[("pause", "mail")]).await;
        assert_eq!(done.is(303).to(), format!("{prefix}/queues?done=pause.1"));
        site.post(&format!("{prefix}/queues"), &[("resume", "mail")]).await.is(303);
        let parts = ["data-instance=\"red\"", "· production · queue</title>", "<b title=\"production\">production</b>"];
        site.get(done.to()).await.says(&parts);
    }
}

#[tokio::test]
async fn a_page_that_has_not_changed_is_not_sent_again() {
    let site = Site::new(Rights::ALL).await;
    site.run(&["nobody"]).await;
    let tag = site.get("/jobs").await.headers["etag"].clone();
    let again = || Request::get("/jobs").header("if-none-match", &tag).body(Body::empty()).expect("a request");
    let same = site.ask(again()).await;
    assert_eq!((same.is(304).text.as_str(), &same.headers["cache-control"]), ("", &"no-store".parse().expect("text")));
    site.waiting().await;
    site.ask(again()).await.is(200).says(&["ready"]);
}

#[tokio::test]
async fn a_theme_is_kept_in_a_cookie() {
    let site = Site::new(Rights::ALL).await;
    let chosen = site.get("/theme?to=dark&from=jobs%3Fq%3Dstate%253Adead").await;
    assert_eq!(chosen.is(303).to(), "/jobs?q=state%3Adead");
    assert!(chosen.headers["set-cookie"].to_str().expect("text").starts_with("queue-theme=dark; Path=/; "));
    let dark = Request::get("/jobs").header("cookie", "queue-theme=dark").body(Body::empty()).expect("a request");
    site.ask(dark).await.says(&["data-theme=\"dark\""]);
    let auto = site.get("/theme?to=auto&from=").await;
    assert!(auto.headers["set-cookie"].to_str().expect("text").contains("Max-Age=0"));
}

#[test]
fn the_files_are_small() {
    let (css, js) = (include_str!("../../assets/queue.css"), include_str!("../../assets/queue.js"));
    assert!(js.len() <= 10_000 && css.len() + js.len() <= 25_000, "{} {}", css.len(), js.len());
    assert!(!css.contains("url(") && !css.contains("@import"), "nothing is loaded");
}

/// A class that no rule names would look like nothing.
#[test]
fn templates_use_only_classes_of_the_style_sheet() {
    let css = include_str!("../../assets/queue.css");
    let place = concat!(env!("CARGO_MANIFEST_DIR"), "/templates");
    for file in std::fs::read_dir(place).expect("the templates") {
        let path = file.expect("a file").path();
        let text = std::fs::read_to_string(&path).expect("a template");
        for classes in text.split("class=\"").skip(1).map(|it| it.split('"').next().unwrap_or_default()) {
            // what a value or a condition adds is looked at where it is made
            let fixed = ["%}", "}}"].iter().zip(["{%", "{{"]).fold(classes.to_owned(), |text, (end, begin)| {
                text.split(begin).map(|it| it.split(end).last().unwrap_or_default()).collect::<Vec<_>>().join(" ")
            });
            for class in fixed.split_whitespace() {
                let known = class == "st" || class == "r" || css.contains(&format!(".{class}"));
                assert!(known, "{class} in {}", path.display());
            }
        }
    }
}
