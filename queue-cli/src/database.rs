//! The database of a command: its address, its pool, and what its errors mean.

use std::time::Duration;

use queue::admin::Admin;
use queue::migration::Engine;
use queue::{Error, JobState, WorkerBuilder};
use sqlx::Connection;

use crate::failure::Failure;
use crate::text::clean;

/// How long a command waits for a connection.
const PATIENCE: Duration = Duration::from_secs(10);

/// Enough for a command that only asks.
pub(crate) const CONNECTIONS: u32 = 4;

const EXAMPLE: &str = "queue --database postgres://me@host/shop status";
/// A command does not wait longer for connections to close.
const GOODBYE: Duration = Duration::from_secs(1);

/// An open database.
pub(crate) struct Database {
    pub(crate) admin: Admin,
    pool: Pool,
}

enum Pool {
    #[cfg(feature = "sqlite")]
    Sqlite(sqlx::SqlitePool),
    #[cfg(feature = "postgres")]
    Postgres(sqlx::PgPool),
    #[cfg(feature = "mysql")]
    MySql(sqlx::MySqlPool),
}

/// The expression with the driver's own pool.
macro_rules! with {
    ($pool:expr, $name:ident => $body:expr) => {
        match $pool {
            #[cfg(feature = "sqlite")]
            Pool::Sqlite($name) => $body,
            #[cfg(feature = "postgres")]
            Pool::Postgres($name) => $body,
            #[cfg(feature = "mysql")]
            Pool::MySql($name) => $body,
        }
    };
}

/// Where the URL of the database comes from: the option, the environment, or the file `.env`.
pub(crate) fn url(option: Option<&str>) -> Result<String, Failure> {
    const NAME: &str = "DATABASE_URL";
    let given = option.map(str::to_owned).or_else(|| std::env::var(NAME).ok()).filter(|url| !url.is_empty());
    let from_file = || dotenvy::dotenv_iter().ok()?.filter_map(Result::ok).find(|(name, _)| name == NAME);
    given.or_else(|| from_file().map(|(_, url)| url)).ok_or_else(|| {
        let message = "no database is named: set DATABASE_URL, there or in a file `.env`, or give --database";
        Failure::new(2, message).fix(EXAMPLE)
    })
}

/// The engine that a URL names.
pub(crate) fn engine(url: &str) -> Result<Engine, Failure> {
    match url.split(':').next().unwrap_or_default() {
        "sqlite" => Ok(Engine::Sqlite),
        "postgres" | "postgresql" => Ok(Engine::Postgres),
        "mysql" | "mariadb" => Ok(Engine::MySql),
        _ => {
            let message = format!("{} names no engine: URLs begin with postgres:, mysql: or sqlite:", shown(url));
            Err(Failure::new(2, message).fix(EXAMPLE))
        }
    }
}

/// A pool, once a first connection works. A pool alone keeps trying for a while, and then does not say why.
async fn connect<DB: sqlx::Database>(url: &str, most: u32) -> Result<sqlx::Pool<DB>, Failure> {
    type Options<DB> = <<DB as sqlx::Database>::Connection as Connection>::Options;
    // the error of the driver may repeat what it cannot read
    let to: Options<DB> = url.parse().map_err(|_| format!("{} is not a URL of a database", shown(url)))?;
    let first = tokio::time::timeout(PATIENCE, DB::Connection::connect_with(&to));
    let error = match first.await {
        Ok(Ok(_)) => {
            let options = sqlx::pool::PoolOptions::new().max_connections(most).acquire_timeout(PATIENCE);
            return Ok(options.connect_lazy_with(to));
        }
        Ok(Err(error)) => error,
        Err(_) => sqlx::Error::PoolTimedOut,
    };
    let message = format!("cannot connect to {}: {}", shown(url), clean(&error.to_string()));
    let no_file = error.as_database_error().is_some_and(|error| error.code().as_deref() == Some("14"));
    Err(match (is_away(&error), no_file) {
        (true, _) => Failure::new(3, message),
        (_, true) => Failure::new(1, message).fix(format!("queue --database '{}?mode=rwc' migrate", shown(url))),
        _ => Failure::new(1, message),
    })
}

impl Database {
    /// With a pool of at most so many connections.
    pub(crate) async fn open(url: &str, most: u32) -> Result<Self, Failure> {
        let pool = match engine(url)? {
            #[cfg(feature = "sqlite")]
            Engine::Sqlite => Pool::Sqlite(connect(url, most).await?),
            #[cfg(feature = "postgres")]
            Engine::Postgres => Pool::Postgres(connect(url, most).await?),
            #[cfg(feature = "mysql")]
            Engine::MySql => Pool::MySql(connect(url, most).await?),
            #[allow(unreachable_patterns, reason = "only without some feature")]
            _ => return Err(Failure::new(2, "this program was built without the driver of that engine")),
        };
        Ok(Self { admin: with!(&pool, pool => Admin::new(pool)), pool })
    }

    /// Says goodbye to the server.
    pub(crate) async fn close(&self) {
        let close = async { with!(&self.pool, pool => pool.close().await) };
        let _ = tokio::time::timeout(GOODBYE, close).await;
    }

    pub(crate) fn worker(&self) -> WorkerBuilder {
        with!(&self.pool, pool => queue::Worker::builder(pool))
    }

    pub(crate) async fn migrate(&self) -> Result<(), Error> {
        with!(&self.pool, pool => queue::migrate(pool).await)
    }

    pub(crate) async fn check(&self) -> Result<(), Error> {
        with!(&self.pool, pool => queue::migration::check(pool).await)
    }
}

/// Whether the same may succeed later.
fn is_away(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Io(_) | sqlx::Error::PoolTimedOut | sqlx::Error::PoolClosed | sqlx::Error::WorkerCrashed => true,
        sqlx::Error::Database(error) => {
            let code = error.code().unwrap_or_default();
            // starting, stopping or out of connections; an SQLite file that is locked
            code.starts_with("08") || matches!(code.as_ref(), "57P01" | "57P02" | "57P03" | "53300" | "5" | "6")
        }
        _ => false,
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let message = clean(&error.to_string());
        let (code, fix) = match &error {
            Error::Database { .. } if message.contains("the queue tables are missing") => {
                let message = "the queue tables are missing: is this the database of your workers?";
                return Self::new(1, message).fix("queue migrate");
            }
            Error::Database { source, .. } => (if is_away(source) { 3 } else { 1 }, "queue doctor".to_owned()),
            Error::Duplicate { existing: Some(id), .. } => (1, format!("queue show {id}")),
            Error::Schema(_) => (1, "queue migrate".to_owned()),
            Error::NotFound(_) => (1, "queue list".to_owned()),
            Error::KeyTaken { holder, .. } => (1, format!("queue show {holder}")),
            Error::Locked { jobs, .. } => (3, jobs.first().map_or_else(String::new, |id| format!("queue show {id}"))),
            Error::Conflict { id, operation, state, .. } => {
                let verb = match (*operation, state) {
                    ("delete", JobState::Running) => "cancel",
                    ("cancel", _) => "delete",
                    ("reschedule", JobState::Dead) => "send-back",
                    ("send back", JobState::Scheduled) => "retry",
                    _ => "show",
                };
                (1, format!("queue {verb} {id}"))
            }
            Error::Config(_) => return Self::new(2, message),
            _ => return Self::new(1, message),
        };
        Self::new(code, message).fix(fix)
    }
}

/// A URL without its password and its options. In doubt it shows less.
pub(crate) fn shown(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once(':') else { return "what was given".to_owned() };
    if !scheme.chars().all(|char| char.is_ascii_alphanumeric() || "+-.".contains(char)) {
        return "what was given".to_owned();
    }
    let (place, options) = rest.split_once('?').unwrap_or((rest, ""));
    if scheme == "sqlite" {
        return clean(&format!("{scheme}:{place}"));
    }
    let Some(place) = place.strip_prefix("//") else { return format!("{scheme}:…") };
    // A password may contain what separates the parts, if somebody forgot to encode it.
    let shown = match place.rsplit_once('@') {
        _ if options.contains('@') => "…".to_owned(),
        None => place.to_owned(),
        Some((account, host)) => match account.split([':', '/', '@', '#']).next() {
            Some(user) if !user.is_empty() => format!("{user}@{host}"),
            _ => host.to_owned(),
        },
    };
    clean(&format!("{scheme}://{}", shown.split('#').next().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::shown;

    #[test]
    fn a_password_is_never_shown() {
        for (url, expected) in [
            ("postgres://ada:secret@db1/shop", "postgres://ada@db1/shop"),
            ("postgres://ada@db1:5432/shop?sslmode=require", "postgres://ada@db1:5432/shop"),
            ("postgres://db1/shop?user=ada&password=secret", "postgres://db1/shop"),
            ("mysql://ada:se/cr@et@db1/shop", "mysql://ada@db1/shop"),
            ("mysql://ada:secret?x@db1/shop", "mysql://…"),
            ("mysql://ada:sec@ret?x@db1/shop", "mysql://…"),
            ("postgres://db1/shop?user=a@b&password=secret", "postgres://…"),
            ("postgres://ada:sec#ret@db1/shop#secret", "postgres://ada@db1/shop"),
            ("postgres://:secret@db1/shop", "postgres://db1/shop"),
            ("postgres://ada:%73ecret@[::1]:5432/shop", "postgres://ada@[::1]:5432/shop"),
            ("postgres:///shop?host=/run/postgresql&password=secret", "postgres:///shop"),
            ("postgres:ada:secret@db1/shop", "postgres:…"),
            ("ada:secret@db1", "ada:…"),
            ("host=db1 password=secret", "what was given"),
            ("host=db1 password=se:cret", "what was given"),
            ("sqlite://jobs.sqlite?mode=rwc", "sqlite://jobs.sqlite"),
            ("sqlite::memory:", "sqlite::memory:"),
            ("", "what was given"),
            ("postgres://a\u{1b}[31m:secret@db1", r"postgres://a\u{1b}[31m@db1"),
        ] {
            let told = shown(url);
            assert_eq!(told, expected, "{url}");
            assert!(!told.contains("secret") && !told.contains("cr@et"), "{told}");
        }
    }
}
