//! A database for each test.

use std::env;
use std::path::Path;
use std::thread;
use std::time::Duration;

use sqlx::mysql::{MySqlConnectOptions, MySqlPool, MySqlPoolOptions};
use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _};
use tempfile::TempDir;

use queue_test_servers::pgbouncer::VARIABLE;

use crate::Engine;

/// How long a test waits for a connection or a lock: far longer than a busy machine needs.
const PATIENCE: Duration = Duration::from_secs(30);

/// A database of the test's own. Dropped, even with connections open, at the end of the value's life.
#[derive(Debug)]
pub struct TestDb {
    engine: Engine,
    url: String,
    place: Place,
}

#[derive(Debug)]
enum Place {
    /// Removed when dropped.
    Folder(#[expect(dead_code, reason = "held for its Drop")] TempDir),
    Server {
        admin: String,
        name: String,
    },
}

/// A fresh, empty database, or `None` when the test is to be skipped: the engine is not selected, or its server's
/// variable is not set.
///
/// # Panics
/// When the database cannot be created, and when the variable is not set although `QUEUE_TEST_REQUIRE_ALL` is `1`.
pub async fn database(engine: Engine) -> Option<TestDb> {
    if !engine.is_selected() {
        println!("skipped: QUEUE_TEST_ENGINES leaves {engine} out");
        return None;
    }
    let Some(variable) = engine.variable() else {
        return Some(TestDb::sqlite_in(&env::temp_dir()));
    };
    let Some(admin) = engine.url() else {
        let cure = format!("set {variable} to the URL of a {engine} server, or run `cargo xtask test`");
        assert!(env::var("QUEUE_TEST_REQUIRE_ALL").as_deref() != Ok("1"), "{cure}");
        println!("skipped: {cure}");
        return None;
    };
    Some(TestDb::on(engine, admin).await)
}

/// The address of a pooler in transaction mode through which the tests reach the databases of this engine, if they do.
fn pooler(engine: Engine) -> Option<String> {
    env::var(VARIABLE).ok().filter(|url| engine == Engine::Postgres && !url.is_empty())
}

impl TestDb {
    /// A fresh, empty database on a server whose address, with an account that may create databases, is given.
    ///
    /// # Panics
    /// When it cannot be created.
    pub async fn on(engine: Engine, admin: String) -> TestDb {
        Self::made_with(engine, admin, "").await
    }

    /// The same with an encoding: what stands behind the name in `CREATE DATABASE`.
    ///
    /// # Panics
    /// When it cannot be created.
    pub async fn made_with(engine: Engine, admin: String, encoding: &str) -> TestDb {
        let name = format!("queue_test_{:016x}", fastrand::u64(..));
        // Without a template that others may be connected to; and with the server's own character set, since the schema
        // must not depend on it.
        let create = match engine {
            Engine::Postgres => format!("CREATE DATABASE {name} TEMPLATE template0 {encoding}"),
            _ => format!("CREATE DATABASE {name} {encoding}"),
        };
        execute(engine, &admin, vec![create])
            .await
            .unwrap_or_else(|error| panic!("{engine}: creating a database: {error}"));
        let url = with_database(pooler(engine).as_ref().unwrap_or(&admin), &name);
        TestDb { engine, url, place: Place::Server { admin, name } }
    }

    /// A fresh SQLite database, in a folder that is made in another one.
    ///
    /// # Panics
    /// When the folder cannot be made.
    pub fn sqlite_in(place: &Path) -> TestDb {
        let folder = TempDir::with_prefix_in("queue-test-", place).expect("a temporary folder");
        let url = format!("sqlite://{}?mode=rwc", folder.path().join("queue.sqlite").display());
        TestDb { engine: Engine::Sqlite, url, place: Place::Folder(folder) }
    }

    /// The engine.
    pub fn engine(&self) -> Engine {
        self.engine
    }

    /// Whether a pooler in transaction mode is in between.
    pub fn is_pooled(&self) -> bool {
        pooler(self.engine).is_some()
    }

    /// The address of the database, for this or another process.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// A pool of up to `max` connections to a PostgreSQL database.
    ///
    /// # Panics
    /// When the database is another engine's, or cannot be reached.
    pub async fn pg_pool(&self, max: u32) -> PgPool {
        self.expect("pg_pool", &[Engine::Postgres]);
        let options: PgConnectOptions = self.url.parse().expect("the URL of a PostgreSQL database");
        PgPoolOptions::new()
            .max_connections(max)
            .acquire_timeout(PATIENCE)
            .connect_with(options)
            .await
            .unwrap_or_else(|error| panic!("{}: {error}", self.engine))
    }

    /// A pool of up to `max` connections to a MySQL or MariaDB database.
    ///
    /// # Panics
    /// When the database is another engine's, or cannot be reached.
    pub async fn mysql_pool(&self, max: u32) -> MySqlPool {
        self.expect("mysql_pool", &[Engine::MariaDb, Engine::MySql]);
        let options: MySqlConnectOptions = self.url.parse().expect("the URL of a MySQL database");
        MySqlPoolOptions::new()
            .max_connections(max)
            .acquire_timeout(PATIENCE)
            .connect_with(options)
            .await
            .unwrap_or_else(|error| panic!("{}: {error}", self.engine))
    }

    /// A pool of up to `max` connections to an SQLite database, in WAL mode and patient when the file is locked.
    ///
    /// # Panics
    /// When the database is another engine's, or cannot be opened.
    pub async fn sqlite_pool(&self, max: u32) -> SqlitePool {
        self.expect("sqlite_pool", &[Engine::Sqlite]);
        let options: SqliteConnectOptions = self.url.parse().expect("the URL of an SQLite database");
        let options = options
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Normal)
            .busy_timeout(PATIENCE);
        SqlitePoolOptions::new()
            .max_connections(max)
            .acquire_timeout(PATIENCE)
            .connect_with(options)
            .await
            .unwrap_or_else(|error| panic!("{}: {error}", self.engine))
    }

    fn expect(&self, pool: &str, engines: &[Engine]) {
        assert!(engines.contains(&self.engine), "{pool} on a database of {}", self.engine);
    }
}

impl Drop for TestDb {
    fn drop(&mut self) {
        let Place::Server { admin, name } = &self.place else {
            return;
        };
        let (engine, admin) = (self.engine, admin.clone());
        let statements = match engine {
            Engine::Postgres => vec![format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")],
            // What a test left open may hold a lock on a table; the end of the test must not wait for it.
            _ => vec!["SET SESSION lock_wait_timeout = 2".into(), format!("DROP DATABASE IF EXISTS {name}")],
        };
        // On a thread of its own: here is no `await`, and the test's runtime may be the one that drops this.
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let limit = Duration::from_secs(10);
            let work = async { tokio::time::timeout(limit, execute(engine, &admin, statements)).await };
            runtime.block_on(work).unwrap_or_else(|_| Err(sqlx::Error::PoolTimedOut))
        });
        if let Ok(Err(error)) = thread.join() {
            eprintln!("{engine}: the test's database was not dropped: {error}");
        }
    }
}

async fn execute(engine: Engine, url: &str, statements: Vec<String>) -> Result<(), sqlx::Error> {
    // Written twice, since the two connections have no common type.
    if engine == Engine::Postgres {
        let mut connection = url.parse::<PgConnectOptions>()?.connect().await?;
        for statement in statements {
            sqlx::raw_sql(AssertSqlSafe(statement)).execute(&mut connection).await?;
        }
        connection.close().await
    } else {
        let mut connection = url.parse::<MySqlConnectOptions>()?.connect().await?;
        for statement in statements {
            sqlx::raw_sql(AssertSqlSafe(statement)).execute(&mut connection).await?;
        }
        connection.close().await
    }
}

/// The address with another database in it.
fn with_database(url: &str, name: &str) -> String {
    let (address, options) = url.split_once('?').map_or((url, None), |(address, options)| (address, Some(options)));
    let start = address.find("://").map_or(0, |at| at + 3);
    let host = match address[start..].find('/') {
        Some(slash) => &address[..start + slash],
        None => address,
    };
    options.map_or_else(|| format!("{host}/{name}"), |options| format!("{host}/{name}?{options}"))
}

#[cfg(test)]
mod tests {
    use super::{database, with_database};
    use crate::Engine;

    #[test]
    fn the_database_in_an_address_is_replaced() {
        assert_eq!(with_database("mysql://root@127.0.0.1:3306/mysql", "x"), "mysql://root@127.0.0.1:3306/x");
        assert_eq!(with_database("postgres://a:b@h?sslmode=disable", "x"), "postgres://a:b@h/x?sslmode=disable");
        assert_eq!(with_database("postgres://h/?a=b", "x"), "postgres://h/x?a=b");
    }

    #[tokio::test]
    async fn a_database_is_empty_and_the_tests_own() {
        for engine in Engine::all() {
            let (Some(one), Some(other)) = (database(engine).await, database(engine).await) else {
                continue;
            };
            assert_ne!(one.url(), other.url());
            let (create, count) = ("CREATE TABLE t (a INTEGER)", "SELECT COUNT(*) FROM t");
            match engine {
                Engine::Sqlite => {
                    sqlx::query(create).execute(&one.sqlite_pool(1).await).await.expect("created");
                    sqlx::query(count).execute(&other.sqlite_pool(1).await).await.expect_err("not in the other");
                }
                Engine::Postgres => {
                    sqlx::query(create).execute(&one.pg_pool(1).await).await.expect("created");
                    sqlx::query(count).execute(&other.pg_pool(1).await).await.expect_err("not in the other");
                }
                Engine::MariaDb | Engine::MySql => {
                    sqlx::query(create).execute(&one.mysql_pool(1).await).await.expect("created");
                    sqlx::query(count).execute(&other.mysql_pool(1).await).await.expect_err("not in the other");
                }
            }
        }
    }

    #[tokio::test]
    async fn a_database_goes_with_its_value_even_while_it_is_used() {
        for engine in [Engine::Postgres, Engine::MariaDb, Engine::MySql] {
            let (Some(it), Some(witness)) = (database(engine).await, database(engine).await) else {
                continue;
            };
            let name = it.url().rsplit('/').next().expect("a name").to_owned();
            let left: i64 = if engine == Engine::Postgres {
                let _open = it.pg_pool(2).await.acquire().await.expect("a connection");
                drop(it);
                let sql = "SELECT COUNT(*) FROM pg_database WHERE datname = $1";
                sqlx::query_scalar(sql).bind(name).fetch_one(&witness.pg_pool(1).await).await.expect("a count")
            } else {
                let _open = it.mysql_pool(2).await.acquire().await.expect("a connection");
                drop(it);
                let sql = "SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name = ?";
                sqlx::query_scalar(sql).bind(name).fetch_one(&witness.mysql_pool(1).await).await.expect("a count")
            };
            assert_eq!(left, 0, "{engine}");
        }
    }
}
