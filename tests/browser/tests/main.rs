//! The dashboard in Chromium, on every database. Without Chromium these tests are skipped, unless
//! `QUEUE_TEST_REQUIRE_ALL` is `1`. `cargo xtask test --suite browser` installs it and runs them on all engines.

/// Makes a test of each of these functions for every engine: `NAME(browser, db)`.
macro_rules! browser {
    ($($name:ident),+ $(,)?) => {
        browser!(@engine sqlite Sqlite $($name)+);
        browser!(@engine postgres Postgres $($name)+);
        browser!(@engine mariadb MariaDb $($name)+);
        browser!(@engine mysql MySql $($name)+);
    };
    (@engine $module:ident $engine:ident $($name:ident)+) => {
        mod $module {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $name() {
                    queue_tests::on(queue_test_support::Engine::$engine, async |db| {
                        let Some(browser) = queue_browser_tests::Browser::start().await else { return };
                        super::$name(&browser, &db).await;
                        browser.close().await;
                    })
                    .await;
                }
            )+
        }
    };
}

mod actions;
mod checkers;
mod incident;
mod refresh;
mod screens;
