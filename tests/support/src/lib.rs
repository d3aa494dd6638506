//! What the tests of `queue` need around them: databases, a network that fails, and helper processes.
//!
//! ```no_run
//! # async fn test() {
//! use queue_test_support::{Engine, database};
//!
//! let Some(db) = database(Engine::Postgres).await else { return };
//! let pool = db.pg_pool(5).await;
//! # }
//! ```
//!
//! `cargo test` alone has only SQLite. `cargo xtask test` starts the servers and sets the variables:
//!
//! | variable | meaning |
//! |---|---|
//! | `QUEUE_TEST_POSTGRES_URL` | A server, and an account that may create databases. Unset: its tests are skipped. |
//! | `QUEUE_TEST_MARIADB_URL` | The same for MariaDB. |
//! | `QUEUE_TEST_MYSQL_URL` | The same for MySQL. |
//! | `QUEUE_TEST_PGBOUNCER_URL` | PgBouncer in transaction mode, through which tests reach that PostgreSQL. |
//! | `QUEUE_TEST_POSTGRES_VERSION` | The major version of PostgreSQL to start. Default: the newest installed. |
//! | `QUEUE_TEST_ENGINES` | Test only these, such as `sqlite,mysql`. All by default. |
//! | `QUEUE_TEST_REQUIRE_ALL` | `1`: a missing server is a failure, so that nothing is skipped by mistake. |

pub mod bad_rows;
mod database;
mod db;
mod helper;
mod meter;
mod proxy;

pub use database::{TestDb, database};
pub use db::{Attempt, Db, Row, Tables};
pub use helper::Helper;
pub use proxy::Proxy;
pub use queue_test_servers::{Engine, pgbouncer};
