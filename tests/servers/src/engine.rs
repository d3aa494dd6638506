//! The databases that the framework serves, and that the tests run on.

use std::env;
use std::fmt;

use clap::ValueEnum;

/// A database engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum)]
pub enum Engine {
    /// SQLite, which needs no server.
    Sqlite,
    /// PostgreSQL.
    Postgres,
    /// MariaDB, an engine of its own beside MySQL.
    #[value(name = "mariadb")]
    MariaDb,
    /// MySQL proper.
    #[value(name = "mysql")]
    MySql,
}

impl Engine {
    /// Every engine.
    pub fn all() -> [Engine; 4] {
        [Engine::Sqlite, Engine::Postgres, Engine::MariaDb, Engine::MySql]
    }

    /// All engines, or those asked for on the command line.
    pub fn selection(asked: &[Engine]) -> Vec<Engine> {
        Engine::all().into_iter().filter(|engine| asked.is_empty() || asked.contains(engine)).collect()
    }

    /// The name used on the command line, in the names of tests and in `QUEUE_TEST_ENGINES`.
    pub fn name(self) -> &'static str {
        match self {
            Engine::Sqlite => "sqlite",
            Engine::Postgres => "postgres",
            Engine::MariaDb => "mariadb",
            Engine::MySql => "mysql",
        }
    }

    /// The cargo feature that brings the engine in.
    pub fn feature(self) -> &'static str {
        match self {
            Engine::Sqlite => "sqlite",
            Engine::Postgres => "postgres",
            Engine::MariaDb | Engine::MySql => "mysql",
        }
    }

    /// The variable that tells the tests where the server is; `None` for SQLite, which needs none.
    pub fn variable(self) -> Option<&'static str> {
        match self {
            Engine::Sqlite => None,
            Engine::Postgres => Some("QUEUE_TEST_POSTGRES_URL"),
            Engine::MariaDb => Some("QUEUE_TEST_MARIADB_URL"),
            Engine::MySql => Some("QUEUE_TEST_MYSQL_URL"),
        }
    }

    /// The address of the server; `None` for SQLite, and when the variable is not set.
    pub fn url(self) -> Option<String> {
        env::var(self.variable()?).ok().filter(|url| !url.is_empty())
    }

    /// Whether `QUEUE_TEST_ENGINES` leaves the engine in.
    pub fn is_selected(self) -> bool {
        match env::var("QUEUE_TEST_ENGINES") {
            Ok(names) if !names.is_empty() => names.split(',').any(|name| name.trim() == self.name()),
            _ => true,
        }
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Engine::Sqlite => "SQLite",
            Engine::Postgres => "PostgreSQL",
            Engine::MariaDb => "MariaDB",
            Engine::MySql => "MySQL",
        })
    }
}
