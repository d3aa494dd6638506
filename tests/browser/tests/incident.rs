//! A morning with 40,000 dead letters, by keyboard.

use queue::admin::{Filter, Progress};
use queue_browser_tests::world::incident;
use queue_browser_tests::{Browser, Look, Page, Site};
use queue_tests::{Db, eventually};

browser!(forty_thousand_dead_letters_go_back_in_twelve_keys);

/// So many keys, and no more.
const MOST: u32 = 12;

/// Presses keys, and counts them. The last one opens another page.
async fn press(page: &mut Page, keys: &[&str], pressed: &mut u32) {
    page.catch_up();
    for key in keys {
        page.press(key).await;
        *pressed += 1;
    }
    page.loaded().await;
}

async fn forty_thousand_dead_letters_go_back_in_twelve_keys(browser: &Browser, db: &Db) {
    const JOBS: u64 = 40_000;
    incident(db, JOBS).await;
    let site = Site::of(db).await;
    let (mut page, mut pressed) = (browser.page(Look::DESK).await, 0);
    page.go(&site.url("")).await;
    assert!(page.text().await.contains("send_invoice fails in a new way"), "{}", page.text().await);
    press(&mut page, &["g", "f"], &mut pressed).await;
    press(&mut page, &["1"], &mut pressed).await;
    press(&mut page, &["Enter"], &mut pressed).await;
    assert_eq!(page.told().await, "1 job was sent back.");
    press(&mut page, &["g", "f"], &mut pressed).await;
    press(&mut page, &["a"], &mut pressed).await;
    press(&mut page, &["Enter"], &mut pressed).await;
    let last = db.admin().operations(None).await.expect("operations")[0].id;
    let done = eventually("all of them sent back", async || {
        let operation = db.admin().operation(last).await.expect("there");
        (operation.progress == Progress::Done).then_some(operation)
    })
    .await;
    assert_eq!((done.changed, done.refused.jobs, &*done.actor), (JOBS - 1, 0, "ada"));
    assert_eq!(db.counts().await, (i64::try_from(JOBS).expect("small"), 0, 0));
    let page = db.admin().jobs(&Filter::new().state(queue::JobState::Scheduled)).await.expect("jobs");
    assert!(!page.items.is_empty(), "they are spread");
    assert!(pressed <= MOST, "{pressed} keys");
}
