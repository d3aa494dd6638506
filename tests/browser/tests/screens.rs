//! Every screen, on a phone and on a desk, in light and in dark colours.

use queue_browser_tests::{Browser, Look, Page, Screen, Site, check, screens, world};
use queue_tests::Db;

browser!(
    a_phone_in_light_colours_shows_every_screen,
    a_phone_in_dark_colours_shows_every_screen,
    a_desk_in_light_colours_shows_every_screen,
    a_desk_in_dark_colours_shows_every_screen,
    an_empty_database_is_shown_as_well,
    a_page_takes_three_requests_and_then_one,
);

async fn a_phone_in_light_colours_shows_every_screen(browser: &Browser, db: &Db) {
    shows_all(browser, db, Look::ALL[0]).await;
}

async fn a_phone_in_dark_colours_shows_every_screen(browser: &Browser, db: &Db) {
    shows_all(browser, db, Look::ALL[1]).await;
}

async fn a_desk_in_light_colours_shows_every_screen(browser: &Browser, db: &Db) {
    shows_all(browser, db, Look::ALL[2]).await;
}

async fn a_desk_in_dark_colours_shows_every_screen(browser: &Browser, db: &Db) {
    shows_all(browser, db, Look::ALL[3]).await;
}

/// The screens of a filled world, with hostile texts in it.
async fn all_screens(db: &Db) -> Vec<Screen> {
    let world = world::fill(db).await;
    let hostile = world::hostile(db).await;
    screens(&world).into_iter().chain(queue_browser_tests::hostile_screens(hostile)).collect()
}

async fn shows_all(browser: &Browser, db: &Db, look: Look) {
    let screens = all_screens(db).await;
    shows(browser, &Site::of(db).await, look, &screens).await;
}

/// A tab whose pages do not refresh: a request that they made of their own accord would be counted.
async fn still(browser: &Browser, look: Look) -> Page {
    let page = browser.page(look).await;
    page.before_scripts("window.setTimeout = () => 0").await;
    page
}

async fn shows(browser: &Browser, site: &Site, look: Look, screens: &[Screen]) {
    let (mut page, mut found) = (still(browser, look).await, Vec::new());
    for Screen { name, path, status } in screens {
        let before = site.log().len();
        page.go(&site.url(path)).await;
        let answer = site.log()[before].clone();
        assert_eq!((&*answer.path, answer.status), (&*format!("/{path}"), *status), "{name}");
        // the console says so of its own accord if the page itself is an error
        let of_itself = format!("the server responded with a status of {status} ");
        let against = check::all(&mut page, &site.origin).await;
        found.extend(against.into_iter().filter(|it| !it.contains(&of_itself)).map(|it| format!("{name}: {it}")));
    }
    assert!(found.is_empty(), "{look:?}:\n{}", found.join("\n"));
}

async fn an_empty_database_is_shown_as_well(browser: &Browser, db: &Db) {
    let paths = ["", "failures", "jobs", "queues", "workers", "schedules", "operations"];
    let screens = paths.map(|path| Screen { name: path, path: path.to_owned(), status: 200 });
    let site = Site::of(db).await;
    for look in [Look::ALL[1], Look::DESK] {
        shows(browser, &site, look, &screens).await;
    }
}

async fn a_page_takes_three_requests_and_then_one(browser: &Browser, db: &Db) {
    let screens = all_screens(db).await;
    let site = Site::of(db).await;
    let mut page = still(browser, Look::DESK).await;
    for Screen { name, path, .. } in screens {
        page.empty_cache().await;
        for most in [3, 1] {
            let before = site.log().len();
            page.go(&site.url(&path)).await;
            let asked = &site.log()[before..];
            assert_eq!(check::too_many(asked.len(), most), [""; 0], "{name}: {asked:?}");
            assert_eq!(asked.len(), most, "{name}: the page, and at first the style and the script: {asked:?}");
        }
    }
}
