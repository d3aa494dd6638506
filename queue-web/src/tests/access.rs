//! Who may see and change what.

use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{Method, Request};

use super::*;
use crate::routes;

const NONE: Rights = Rights::LOOK;
const SETS: [Rights; 6] = [NONE, Rights::ACT, Rights::ACT_ON_MANY, Rights::EDIT, Rights::DELETE, Rights::ALL];

/// What each route needs: the least rights of each form, and the form. A page that everybody may see needs none.
fn needs(method: &str, path: &str, id: JobId) -> Vec<(Rights, String, String)> {
    let one = |rights: Rights, path: String, form: &str| vec![(rights, path, form.to_owned())];
    let to =
        |path: &str| path.replace("{queue_web_id}", &id.to_string()).replace("{queue_web_file}", crate::assets::css());
    match (method, path) {
        ("GET", "/jobs/{queue_web_id}/edit" | "/enqueue") => one(Rights::EDIT, to(path), ""),
        ("GET", "/plan") => [
            (Rights::ACT_ON_MANY, "do=send_back&q=state:dead".to_owned()),
            (Rights::ACT, format!("do=cancel&id={id}")),
            (Rights::DELETE, format!("do=delete&id={id}")),
            (Rights::DELETE | Rights::ACT_ON_MANY, "do=delete&q=state:dead".to_owned()),
        ]
        .into_iter()
        .map(|(rights, query)| (rights, format!("/plan?{query}"), String::new()))
        .collect(),
        ("GET", "/operations/{queue_web_id}") => one(NONE, "/operations/1".to_owned(), ""),
        ("GET", _) => one(NONE, to(path), ""),
        ("POST", "/jobs/{queue_web_id}") => one(Rights::ACT, to(path), "do=retry"),
        ("POST", "/jobs/{queue_web_id}/edit") => one(Rights::EDIT, to(path), "arg.to=x"),
        ("POST", "/queues") => one(Rights::ACT, to(path), "pause=mail"),
        ("POST", "/schedules") => one(Rights::ACT, to(path), "pause=none"),
        ("POST", "/operations/{queue_web_id}") => one(Rights::ACT, "/operations/1".to_owned(), ""),
        ("POST", "/enqueue") => one(Rights::EDIT, to(path), "kind=none"),
        ("POST", "/plan") => [
            (Rights::ACT_ON_MANY, "do=send_back&q=state:dead&scope=all".to_owned()),
            (Rights::ACT, format!("do=cancel&id={id}")),
            (Rights::ACT_ON_MANY, format!("do=cancel&id={id}&id=7")),
            (Rights::DELETE, format!("do=delete&id={id}&reason=x")),
            (Rights::DELETE | Rights::ACT_ON_MANY, "do=delete&q=state:dead&reason=x".to_owned()),
        ]
        .into_iter()
        .map(|(rights, form)| (rights, to(path), form))
        .collect(),
        _ => panic!("{method} {path} has no row: say which rights it needs"),
    }
}

fn request(method: &str, path: &str, form: &str) -> axum::http::request::Builder {
    let _ = form;
    Request::builder().method(Method::from_bytes(method.as_bytes()).expect("a method")).uri(path)
}

#[tokio::test]
async fn each_route_needs_its_rights_and_no_others() {
    for rights in SETS {
        let site = Site::new(rights).await;
        site.admin.pause("x").await.expect("the first operation");
        for (method, path, _) in routes() {
            let id = site.waiting().await;
            for (needed, path, form) in needs(method, path, id) {
                let request = request(method, &path, &form).header("sec-fetch-site", "same-origin");
                let got = site.ask(request.body(Body::from(form.clone())).expect("a request")).await;
                let may = rights.include(needed);
                assert_eq!(got.status != 403, may, "{rights:?} {method} {path} {form}: {}", got.text);
                assert!(got.status != 500 && got.status != 405, "{method} {path}: {}", got.text);
            }
        }
    }
}

#[tokio::test]
async fn whoever_may_only_look_is_offered_no_change() {
    let site = Site::new(NONE).await;
    let ids = site.run(&["nobody", "busy"]).await;
    for path in ["/", "/failures", "/jobs", "/jobs?q=state:dead", "/queues", "/schedules", "/operations", "/workers"] {
        let page = site.get(path).await;
        assert!(!page.is(200).text.contains("method=\"post\"><button"), "{path}");
        assert!(!page.text.contains("…</button>") && !page.text.contains("Delete"), "{path}");
    }
    let page = site.get(&format!("/jobs/{}", ids[0])).await;
    assert!(!page.says(&["It is dead"]).text.contains("<button name"), "{}", page.text);
}

#[tokio::test]
async fn nobody_gets_in_whom_the_application_does_not_know() {
    async fn by_header(request: &Parts) -> Option<Viewer> {
        Some(Viewer::new(request.headers.get("x-user")?.to_str().ok()?).may(Rights::ALL))
    }
    let site = Site::with(by_header).await;
    for (method, path, _) in routes() {
        let got = site.ask(request(method, path, "").body(Body::empty()).expect("a request")).await;
        got.is(403).says(&["Sign in"]);
    }
    site.get("/no/such/page").await.is(403);
    let known = request("GET", "/", "").header("x-user", "grace").body(Body::empty()).expect("a request");
    site.ask(known).await.is(200).says(&["<span>grace</span>"]);
}

#[tokio::test]
async fn a_change_from_another_site_is_refused() {
    let site = Site::new(Rights::ALL).await;
    let id = site.waiting().await;
    for (name, value) in [
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
        ("sec-fetch-site", "none"),
        ("origin", "https://evil.example"),
        ("x-nothing", ""),
    ] {
        for (method, path, _) in routes().into_iter().filter(|(method, ..)| *method == "POST") {
            for (_, path, form) in needs(method, path, id) {
                let request = request(method, &path, &form).header("host", "jobs.example").header(name, value);
                let got = site.ask(request.body(Body::from(form)).expect("a request")).await;
                got.is(403).says(&["it came from another site"]);
            }
        }
    }
    assert_eq!(site.state(id).await, "ready");
    let own = request("POST", "/queues", "").header("host", "jobs.example").header("origin", "https://jobs.example");
    site.ask(own.body(Body::from("pause=mail")).expect("a request")).await.is(303);
    assert_eq!(site.admin.queues().await.expect("queues").len(), 1);
}

#[tokio::test]
async fn every_answer_is_strict_and_only_files_are_kept() {
    let site = Site::new(Rights::ALL).await;
    let (css, js) = (format!("/assets/{}", crate::assets::css()), format!("/assets/{}", crate::assets::js()));
    for path in ["/", "/jobs", "/no/such/page", "/jobs/77", "/assets/queue-0.css", "/keys", &css, &js] {
        let got = site.get(path).await;
        let header = |name| got.headers.get(name).map_or("", |value| value.to_str().expect("text"));
        let policy = header("content-security-policy");
        for part in ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "base-uri 'none'"] {
            assert!(policy.contains(part) && !policy.contains("unsafe"), "{path}: {policy}");
        }
        assert_eq!((header("x-content-type-options"), header("referrer-policy")), ("nosniff", "same-origin"), "{path}");
        let kept = path == css || path == js;
        let expected = if kept { "public, max-age=31536000, immutable" } else { "no-store" };
        assert_eq!(header("cache-control"), expected, "{path}");
        assert!(!got.text.contains(" style=") && !got.text.contains(" onclick="), "{path}");
        assert!(kept || !got.text.contains("<script>"), "{path}");
    }
}

#[tokio::test]
async fn a_database_that_only_reads_is_a_banner_and_no_button() {
    let place = tempfile::tempdir().expect("a place");
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(place.path().join("jobs.sqlite"));
    let writes = SqlitePool::connect_with(options.clone().create_if_missing(true)).await.expect("a database");
    queue::migrate(&writes).await.expect("it migrates");
    let id = SendEmail::new("ada", 1u32).enqueue(&writes).await.expect("enqueued");
    let pool = SqlitePool::connect_with(options.read_only(true)).await.expect("it opens");
    let admin = Admin::new(&pool);
    let router = Dashboard::new(admin.clone()).open_to_everybody();
    let site = Site { pool, admin, router };
    site.get("/queues").await.is(200).says(&["Pause</button>"]);
    let refused = site.post("/queues", &[("pause", "mail")]).await;
    refused.is(403).says(&["This database only reads.", "readonly"]);
    let page = site.get("/queues").await;
    assert!(!page.says(&["This database only reads."]).text.contains("Pause</button>"));
    site.get(&format!("/jobs/{id}")).await.is(200).says(&["No worker is alive"]);
}
