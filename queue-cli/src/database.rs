//! The database of a command: its address, its pool, and what its errors mean.

use std::time::Duration;

use queue::Error;
use queue::admin::Admin;
use queue::migration::Engine;

use crate::failure::Failure;
use crate::text::clean;

/// How long a command waits for a connection.
const PATIENCE: Duration = Duration::from_secs(10);

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
    let from_file = || {
        let found = dotenvy::dotenv_iter().ok()?.filter_map(Result::ok).find(|(name, _)| name == NAME);
        found.map(|(_, url)| url)
    };
    given.or_else(from_file).ok_or_else(|| {
        let message = "no database is named: set DATABASE_URL, there or in a file `.env`, or give --database";
        Failure::usage(message, Some("queue --database postgres://me@host/shop status".into()))
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
            Err(Failure::usage(message, Some("queue --database postgres://me@host/shop status".into())))
        }
    }
}

impl Database {
    pub(crate) async fn open(url: &str) -> Result<Self, Failure> {
        macro_rules! open {
            ($driver:ty, $variant:ident) => {{
                let options = sqlx::pool::PoolOptions::<$driver>::new().max_connections(4).acquire_timeout(PATIENCE);
                let to: <<$driver as sqlx::Database>::Connection as sqlx::Connection>::Options = url.parse().map_err(
                    // the error of the driver may repeat what it cannot read
                    |_| Failure::usage(format!("{} is not a URL of a database", shown(url)), None),
                )?;
                // A pool keeps trying for a while, and then does not say why. The first connection does.
                let first = <<$driver as sqlx::Database>::Connection as sqlx::Connection>::connect_with(&to);
                match tokio::time::timeout(PATIENCE, first).await {
                    Err(_) => return Err(away(url, "it does not answer")),
                    Ok(Err(error)) if is_away(&error) => return Err(away(url, &error.to_string())),
                    Ok(Err(error)) => return Err(refused(url, &error)),
                    Ok(Ok(connection)) => drop(connection),
                }
                let pool = options.connect_lazy_with(to);
                Ok(Self { admin: Admin::new(&pool), pool: Pool::$variant(pool) })
            }};
        }
        match engine(url)? {
            #[cfg(feature = "sqlite")]
            Engine::Sqlite => open!(sqlx::Sqlite, Sqlite),
            #[cfg(feature = "postgres")]
            Engine::Postgres => open!(sqlx::Postgres, Postgres),
            #[cfg(feature = "mysql")]
            Engine::MySql => open!(sqlx::MySql, MySql),
            #[allow(unreachable_patterns, reason = "only without some feature")]
            _ => Err(Failure::usage("this program was built without the driver of that engine", None)),
        }
    }

    /// Says goodbye to the server.
    pub(crate) async fn close(&self) {
        let close = async { with!(&self.pool, pool => pool.close().await) };
        let _ = tokio::time::timeout(GOODBYE, close).await;
    }

    pub(crate) async fn migrate(&self) -> Result<(), Error> {
        with!(&self.pool, pool => queue::migrate(pool).await)
    }

    pub(crate) async fn check(&self) -> Result<(), Error> {
        with!(&self.pool, pool => queue::migration::check(pool).await)
    }
}

fn away(url: &str, why: &str) -> Failure {
    Failure::away(format!("{} cannot be reached: {}", shown(url), clean(why)), None)
}

fn refused(url: &str, error: &sqlx::Error) -> Failure {
    let missing = matches!(error, sqlx::Error::Database(error) if error.code().as_deref() == Some("14"));
    match missing && url.starts_with("sqlite") {
        true => {
            let message = format!("{} does not exist, or this account may not open it", shown(url));
            let base = url.split('?').next().unwrap_or_default();
            Failure::new(message, Some(format!("queue --database '{}?mode=rwc' migrate", clean(base))))
        }
        false => Failure::new(format!("{} refuses: {}", shown(url), clean(&error.to_string())), None),
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
        match error {
            Error::Database { source, .. } if is_away(&source) => Self::away(message, Some("queue doctor".into())),
            Error::Database { .. } if message.contains("the queue tables are missing") => Self::new(
                "the queue tables are missing: is this the database of your workers?",
                Some("queue migrate".into()),
            ),
            Error::Database { .. } => Self::new(message, Some("queue doctor".into())),
            Error::Schema(_) => Self::new(message, Some("queue migrate".into())),
            Error::Config(_) => Self::usage(message, None),
            Error::NotFound(_) => Self::new(message, Some("queue list".into())),
            Error::KeyTaken { holder, .. } => Self::new(message, Some(format!("queue show {holder}"))),
            Error::Locked { ref jobs, .. } => {
                let fix = jobs.first().map(|id| format!("queue show {id}"));
                Self::away(message, fix)
            }
            Error::Conflict { id, operation, state, .. } => {
                let verb = match (operation, state) {
                    ("delete", queue::JobState::Running) => "cancel",
                    ("cancel", _) => "delete",
                    ("reschedule", queue::JobState::Dead) => "send-back",
                    ("send back", queue::JobState::Scheduled) => "retry",
                    _ => "show",
                };
                Self::new(message, Some(format!("queue {verb} {id}")))
            }
            _ => Self::new(message, None),
        }
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
