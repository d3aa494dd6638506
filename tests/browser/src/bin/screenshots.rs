//! Writes a picture of every screen, on a phone and on a desk, in light and in dark colours. The command line names the
//! folder; words behind it choose screens.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use queue_browser_tests::{Browser, Look, Screen, Site, hostile_screens, screens, world};
use queue_test_support::Engine;
use queue_tests::Db;

#[tokio::main]
async fn main() -> Result<()> {
    let mut words = std::env::args().skip(1);
    let folder = PathBuf::from(words.next().context("name the folder for the pictures")?);
    let chosen: Vec<String> = words.collect();
    std::fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    let browser = Browser::start().await.context("there is no browser")?;
    let db = Db::empty(Engine::Sqlite).await.context("QUEUE_TEST_ENGINES leaves SQLite out")?;
    db.migrate().await?;
    let take = async |all: &[Screen]| -> Result<usize> {
        let site = Site::of(&db).await;
        let all: Vec<_> =
            all.iter().filter(|it| chosen.is_empty() || chosen.iter().any(|name| name == it.name)).collect();
        for look in Look::ALL {
            let mut page = browser.page(look).await;
            let scheme = if look.dark { "dark" } else { "light" };
            for Screen { name, path, .. } in &all {
                page.go(&site.url(path)).await;
                let file = folder.join(format!("{name}-{}-{scheme}.png", look.width));
                std::fs::write(&file, page.picture().await).with_context(|| format!("writing {}", file.display()))?;
            }
        }
        Ok(all.len() * Look::ALL.len())
    };
    let empty = ["", "schedules"].map(|path| Screen {
        name: if path.is_empty() { "empty" } else { "empty-schedules" },
        path: path.to_owned(),
        status: 200,
    });
    let number = take(&empty).await?
        + take(&screens(&world::fill(&db).await)).await?
        + take(&hostile_screens(world::hostile(&db).await)).await?;
    browser.close().await;
    println!("{number} pictures in {}", folder.display());
    Ok(())
}
