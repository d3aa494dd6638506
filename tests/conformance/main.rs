//! One suite over a list of databases: what the contract promises holds on each of them.
//!
//! `cargo test -p queue-tests --test conformance` runs it on SQLite; `cargo xtask test` on every engine. A test is a
//! function of a [`Db`](queue_tests::Db). `conformance!` lists the functions of a file and turns each into one test per
//! engine, such as `claim::postgres::is_exclusive`. Tests for some engines only are listed under them.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

/// `conformance! { a, b }` makes tests for every engine. In `conformance! { a; servers: b }`, `b` is for servers only.
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
mod cancel;
mod claim;
mod complete_in;
mod dead;
mod edit;
mod encodings;
mod enqueue;
mod failures;
mod fencing;
mod grants;
mod handlers;
mod hostile;
mod liveness;
mod logs;
mod metadata;
mod migrate;
mod mistakes;
mod operations;
mod outcomes;
mod pools;
mod producers;
mod promises;
mod property;
mod raw;
mod retention;
mod schedules;
mod secret_arguments;
mod secrets;
mod settings;
mod shutdown;
mod sources;
mod start;
mod tallies;
mod testing;
mod unique;
mod unrecordable;
mod watch;
mod why;
mod within;
