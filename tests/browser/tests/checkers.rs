//! The checkers find what they are for, on pages that have it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::http::header::CONTENT_SECURITY_POLICY;
use axum::response::Html;
use axum::routing::get;
use queue_browser_tests::{Browser, Look, Page, check, serve};

/// A page with this in its body. `policy`: its content policy.
fn serves(policy: &'static str, body: &'static str) -> axum::routing::MethodRouter {
    let html = format!(
        "<!doctype html><html lang=en><head><title>A page</title><meta name=viewport content='width=device-width'>
         <link rel=icon href='data:,'></head><body>{body}</body></html>"
    );
    get(move || async move { ([(CONTENT_SECURITY_POLICY, policy)], Html(html)) })
}

const ANY: &str = "default-src * data: 'unsafe-inline'";

/// What is found on a page, and how many requests it took.
async fn found(page: &mut Page, policy: &'static str, body: &'static str) -> (Vec<String>, usize) {
    let requests = Arc::new(AtomicUsize::new(0));
    let count = requests.clone();
    let router = Router::new().route("/", serves(policy, body)).fallback(async || "").layer(axum::middleware::from_fn(
        move |request: axum::extract::Request, next: axum::middleware::Next| {
            count.fetch_add(1, Ordering::Relaxed);
            next.run(request)
        },
    ));
    let (address, server) = serve(router).await;
    page.go(&format!("http://{address}/")).await;
    let found = check::all(page, &format!("http://{address}")).await;
    server.abort();
    (found, requests.load(Ordering::Relaxed))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_checker_finds_what_it_is_for() {
    let Some(browser) = Browser::start().await else { return };
    let mut pages = [browser.page(Look::DESK).await, browser.page(Look::ALL[0]).await];
    for (policy, body, expected) in [
        (ANY, "<p>All is well</p>", ""),
        (ANY, "<p style='color:#aaa;background:#fff'>Hard to read</p>", "color-contrast: "),
        (ANY, "<input>", "label: "),
        (
            ANY,
            "<p><a href=/a style='display:inline-block;width:9px;height:9px;overflow:hidden'>one</a><a href=/b \
               style='display:inline-block;width:9px;height:9px;overflow:hidden'>two</a>",
            "target-size: ",
        ),
        (ANY, "<img alt='' src='http://127.0.0.2:9/picture.png'>", "it asks for http://127.0.0.2:9/"),
        (ANY, "<script>fetch('http://localhost:9/').catch(() => 0)</script>", "it asks for http://localhost:9/"),
        (ANY, "<script>console.error('a slip')</script>", "console.error: "),
        (ANY, "<script>throw new Error('a slip')</script>", "exception: "),
        ("default-src 'none'; img-src data:", "<script>document.title = 'x'</script>", "content policy: "),
        ("default-src 'none'; img-src data:", "<p style='color:red'>Red</p>", "content policy: "),
        (ANY, "<div style='width:2000px'>Wide</div>", "it is 20"),
    ] {
        // what depends on the width is tried on a phone as well
        let looks = if expected.is_empty() || expected.starts_with("it is ") { 2 } else { 1 };
        for page in &mut pages[..looks] {
            let (found, _) = found(page, policy, body).await;
            match expected {
                "" => assert_eq!(found, [""; 0]),
                _ => assert!(found.iter().any(|it| it.starts_with(expected)), "{body}: {expected}: {found:?}"),
            }
        }
    }
    let files = "<img alt='' src=/1><img alt='' src=/2><img alt='' src=/3>";
    let (_, requests) = found(&mut pages[0], ANY, files).await;
    assert_eq!((requests, check::too_many(requests, 3)), (4, vec!["4 requests, not 3".to_owned()]));
    browser.close().await;
}
