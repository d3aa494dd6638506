//! One suite over a list of databases: what the contract promises holds on each of them.
//!
//! `cargo test -p queue-tests --test conformance` runs it on SQLite; `cargo xtask test` on every engine. A test is a
//! function of a [`Db`](queue_tests::Db); `conformance!` lists those of a file and makes one test of each for every engine:
//! `claim::postgres::is_exclusive`. What concerns some engines only is listed under them.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

/// `conformance! { a, b }`: tests for every engine. `conformance! { a; servers: b }`: the latter where there is a server.
macro_rules! conformance {
    ($($name:ident),+ $(,)? $(; servers: $($on_servers:ident),+ $(,)?)?) => {
        conformance!(@engine sqlite Sqlite $($name)+);
        conformance!(@engine postgres Postgres $($name)+ $($($on_servers)+)?);
        conformance!(@engine mariadb MariaDb $($name)+ $($($on_servers)+)?);
        conformance!(@engine mysql MySql $($name)+ $($($on_servers)+)?);
    };
    (@engine $module:ident $engine:ident $($name:ident)+) => {
        mod $module {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $name() {
                    queue_tests::on(queue_test_support::Engine::$engine, super::$name).await;
                }
            )+
        }
    };
}

mod admin;
mod bad_input;
mod cancel;
mod claim;
mod dead;
mod encodings;
mod enqueue;
mod fencing;
mod grants;
mod handlers;
mod hostile;
mod liveness;
mod logs;
mod migrate;
mod outcomes;
mod pools;
mod producers;
mod property;
mod retention;
mod secrets;
mod settings;
mod shutdown;
mod sources;
mod start;
mod unrecordable;
