//! What the script adds: a page that stays fresh, and keys.
//!
//! The clock of these pages is the test's: a timer fires when the test says so.

use queue_browser_tests::world::{incident, invoice};
use queue_browser_tests::{Asked, Browser, Look, Page, Site};
use queue_tests::Db;

browser!(
    a_live_page_asks_again_and_keeps_its_place,
    nobody_is_disturbed,
    a_hidden_tab_asks_for_nothing,
    a_page_can_be_stopped,
    keys_go_everywhere,
    help_is_over_the_page,
);

/// `clock.run()` fires all timers; `clock.set()` waits until there is one.
const CLOCK: &str = "
    window.clock = {
        timers: new Map(), next: 1, waiting: [],
        run() { const due = [...this.timers.values()]; this.timers.clear(); due.forEach(call => call()); },
        set() { return new Promise(done => this.timers.size ? done() : this.waiting.push(done)); },
    };
    window.setTimeout = call => {
        clock.timers.set(clock.next, call);
        clock.waiting.splice(0).forEach(done => done());
        return clock.next++;
    };
    window.clearTimeout = id => { clock.timers.delete(id); };
    window.setInterval = () => 0;
";

async fn open(browser: &Browser, site: &Site, path: &str) -> Page {
    let mut page = browser.page(Look::DESK).await;
    page.before_scripts(CLOCK).await;
    page.go(&site.url(path)).await;
    page.eval("clock.set()").await;
    page
}

/// Lets the time come at which it asks again, and waits until it has the answer.
async fn poll(page: &Page, site: &Site) -> Asked {
    let before = site.log().len();
    page.eval("clock.run()").await;
    let asked = site.asked_after(before).await;
    page.eval("clock.set()").await;
    asked[0].clone()
}

/// Lets the time come, and sees that nothing is asked for.
async fn asks_for_nothing(page: &Page, site: &Site) {
    let before = site.log().len();
    // a request of the test's own, which is behind any other
    page.eval("clock.run(), fetch('/keys').then(answer => answer.text())").await;
    let asked = site.asked_after(before).await;
    assert_eq!(asked.iter().map(|it| &*it.path).collect::<Vec<_>>(), ["/keys"]);
}

async fn a_live_page_asks_again_and_keeps_its_place(browser: &Browser, db: &Db) {
    incident(db, 60).await;
    let site = Site::of(db).await;
    let page = open(browser, &site, "jobs?q=state:dead").await;
    let first = poll(&page, &site).await;
    assert_eq!((first.status, first.tagged, first.if_none_match), (200, true, false));
    let second = poll(&page, &site).await;
    assert_eq!((second.status, second.if_none_match), (304, true), "nothing has changed");
    for _ in 0..9 {
        page.press("j").await;
    }
    page.eval("window.kept = { on: document.activeElement, top: document.activeElement.getBoundingClientRect().top }")
        .await;
    assert!(page.eval("scrollY = 0, kept.on.closest('[data-k]') !== null").await == true);
    let id = incident(db, 1).await[0];
    let third = poll(&page, &site).await;
    assert_eq!(third.status, 200);
    let row = format!("document.querySelector('[data-k=\"{id}\"]') !== null");
    assert_eq!(page.eval(&row).await, true, "the new row is there");
    assert_eq!(page.eval("document.activeElement === kept.on").await, true, "the focus stays");
}

async fn nobody_is_disturbed(browser: &Browser, db: &Db) {
    incident(db, 60).await;
    let site = Site::of(db).await;
    let page = open(browser, &site, "jobs?q=state:dead").await;
    // somebody has scrolled down
    page.eval("scrollTo(0, 400)").await;
    let top = "document.querySelectorAll('[data-k]')[20].getBoundingClientRect().top";
    let before = page.eval(top).await;
    poll(&page, &site).await;
    assert_eq!((page.eval("scrollY").await.as_f64(), page.eval(top).await), (Some(400.0), before));
    // somebody selects a text
    page.eval("getSelection().selectAllChildren(document.querySelector('h1'))").await;
    asks_for_nothing(&page, &site).await;
    assert_eq!(page.text_of("getSelection().toString()").await, "Dead letters");
    page.eval("getSelection().removeAllRanges()").await;
    poll(&page, &site).await;
    // somebody checks a row
    page.click("[data-k] [type=checkbox]").await;
    asks_for_nothing(&page, &site).await;
    assert_eq!(page.eval("document.querySelectorAll('tbody :checked').length").await, 1);
    page.click("[data-k] [type=checkbox]").await;
    poll(&page, &site).await;
    // somebody types
    page.fill("#q", "state:de").await;
    asks_for_nothing(&page, &site).await;
    assert_eq!(
        (page.focus().await, page.text_of("document.querySelector('#q').value").await),
        ("q".into(), "state:de".into())
    );
}

async fn a_hidden_tab_asks_for_nothing(browser: &Browser, db: &Db) {
    let site = Site::of(db).await;
    db.enqueue(invoice("ada")).await;
    let page = open(browser, &site, "jobs").await;
    page.eval("window.turns = 0; document.addEventListener('visibilitychange', () => turns++)").await;
    let other = page.beside().await;
    other.to_front().await;
    page.eval("new Promise(done => document.hidden ? done() : document.addEventListener('visibilitychange', done))")
        .await;
    assert_eq!(page.eval("document.hidden").await, true);
    asks_for_nothing(&page, &site).await;
    // seen again, it asks at once
    let before = site.log().len();
    page.to_front().await;
    let asked = site.asked_after(before).await;
    assert_eq!((&*asked[0].path, asked[0].status), ("/jobs", 200));
}

async fn a_page_can_be_stopped(browser: &Browser, db: &Db) {
    let site = Site::of(db).await;
    db.enqueue(invoice("ada")).await;
    let page = open(browser, &site, "jobs").await;
    page.press(".").await;
    assert_eq!(page.text_of("document.querySelector('#live').innerText").await, "Stopped");
    asks_for_nothing(&page, &site).await;
    let before = site.log().len();
    page.click("#live").await;
    assert_eq!(site.asked_after(before).await[0].path, "/jobs", "it goes on at once");
    assert_eq!(page.text_of("document.querySelector('#live').innerText").await, "Live");
}

async fn keys_go_everywhere(browser: &Browser, db: &Db) {
    let ids = incident(db, 3).await;
    let site = Site::of(db).await;
    let mut page = browser.page(Look::DESK).await;
    page.go(&site.url("")).await;
    for (key, path) in [
        ("f", "/failures"),
        ("d", "/jobs?q=state:dead"),
        ("j", "/jobs"),
        ("q", "/queues"),
        ("w", "/workers"),
        ("s", "/schedules"),
        ("a", "/operations"),
        ("o", "/"),
    ] {
        page.catch_up();
        page.press("g").await;
        page.press(key).await;
        page.loaded().await;
        assert_eq!(page.path().await.replace("%3A", ":"), path);
    }
    page.go(&site.url("jobs?q=state:dead")).await;
    // the newest is the first
    for (key, id) in [("j", ids[2]), ("j", ids[1]), ("j", ids[0]), ("j", ids[0]), ("k", ids[1])] {
        page.press(key).await;
        assert_eq!(page.focus().await, id.to_string());
    }
    let checked = "[...document.querySelectorAll('tbody :checked')].map(it => it.value).join()";
    page.press("x").await;
    assert_eq!(page.text_of(checked).await, ids[1].to_string());
    page.press("X").await;
    assert_eq!(page.text_of(checked).await.split(',').count(), 3);
    page.press("X").await;
    assert_eq!(page.text_of(checked).await, "");
    page.press("/").await;
    assert_eq!(page.focus().await, "q");
    page.press("Escape").await;
    assert_ne!(page.focus().await, "q");
    // in a field, a key is a letter
    page.fill("#q", "gf?x").await;
    assert_eq!(page.text_of("document.querySelector('#q').value").await, "gf?x");
    page.press("Escape").await;
    page.press("j").await;
    page.catch_up();
    page.press("Enter").await;
    page.loaded().await;
    assert_eq!(page.path().await, format!("/jobs/{}", ids[2]));
    page.catch_up();
    page.press("e").await;
    page.loaded().await;
    assert_eq!(page.path().await, format!("/jobs/{}/edit", ids[2]));
}

async fn help_is_over_the_page(browser: &Browser, db: &Db) {
    let site = Site::of(db).await;
    let page = open(browser, &site, "queues").await;
    page.press("?").await;
    page.until("document.querySelector('dialog[open]')").await;
    let text = page.text_of("document.querySelector('dialog').innerText").await;
    assert!(text.contains("dead letters") && text.contains("confirm a plan"), "{text}");
    // nothing behind it moves
    page.press(".").await;
    assert_eq!(page.text_of("document.querySelector('#live').innerText").await, "Live");
    asks_for_nothing(&page, &site).await;
    page.press("Escape").await;
    page.until("!document.querySelector('dialog')").await;
    assert_eq!(page.path().await, "/queues");
}
