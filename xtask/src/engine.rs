//! The databases that the framework serves.

use std::fmt;

use clap::ValueEnum;

/// A database engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Engine {
    Sqlite,
    Postgres,
    Mariadb,
    Mysql,
}

impl Engine {
    /// The name used on the command line and in the names of tests.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Engine::Sqlite => "sqlite",
            Engine::Postgres => "postgres",
            Engine::Mariadb => "mariadb",
            Engine::Mysql => "mysql",
        }
    }

    /// The cargo feature that brings the engine in.
    pub(crate) fn feature(self) -> &'static str {
        match self {
            Engine::Sqlite => "sqlite",
            Engine::Postgres => "postgres",
            Engine::Mariadb | Engine::Mysql => "mysql",
        }
    }

    /// The variable that tells the tests where the server is. SQLite has none: it needs no server.
    pub(crate) fn variable(self) -> Option<&'static str> {
        match self {
            Engine::Sqlite => None,
            Engine::Postgres => Some("QUEUE_TEST_POSTGRES_URL"),
            Engine::Mariadb => Some("QUEUE_TEST_MARIADB_URL"),
            Engine::Mysql => Some("QUEUE_TEST_MYSQL_URL"),
        }
    }

    /// All engines, or those asked for on the command line.
    pub(crate) fn selection(asked: &[Engine]) -> Vec<Engine> {
        Engine::value_variants().iter().copied().filter(|engine| asked.is_empty() || asked.contains(engine)).collect()
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Engine::Sqlite => "SQLite",
            Engine::Postgres => "PostgreSQL",
            Engine::Mariadb => "MariaDB",
            Engine::Mysql => "MySQL",
        })
    }
}
