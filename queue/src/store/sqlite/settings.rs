//! Options that may lose a database, and what to do about errors that settings cause.
//!
//! SQLite databases that end with their connection: in memory, or in an unnamed temporary file.
//!
//! By default, sqlx closes a connection that is 30 minutes old or was idle for 10 minutes. Such a database would vanish
//! with all its jobs. So the pool must have one connection and keep it.

use sqlx::error::DatabaseError;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Pool, Sqlite};

use crate::telemetry::Event;

/// What to do about an error caused by a setting or option.
pub(crate) fn cure(error: &dyn DatabaseError) -> Option<&'static str> {
    match error.code()?.as_ref() {
        "8" => {
            Some(" (query_only is on, or the file cannot be written: open it for writing, without `PRAGMA query_only`)")
        }
        "14" => Some(
            " (does the file exist, and may this account open it? A relative path leads elsewhere after a change of the \
             working directory)",
        ),
        "1" if error.message().contains("no such table: queue_") => Some(crate::store::schema::NO_TABLES),
        _ => None,
    }
}

/// Warns of a pool that may lose such a database, or open several. It is not an error: short tests work with it.
pub(crate) fn warn(pool: &Pool<Sqlite>) {
    if let Err(text) = check(pool) {
        Event::DatabaseFleeting { text: &text }.emit();
    }
}

fn check(pool: &Pool<Sqlite>) -> Result<(), String> {
    let options = pool.options();
    let mut faults = Vec::new();
    if options.get_max_connections() > 1 {
        faults.push("open a second connection");
    }
    if options.get_idle_timeout().is_some() {
        faults.push("close a connection that was not used for a while (`idle_timeout`)");
    }
    if options.get_max_lifetime().is_some() {
        faults.push("close a connection that is old (`max_lifetime`)");
    }
    if faults.is_empty() || !ends_with_its_connection(&pool.connect_options()) {
        return Ok(());
    }
    Err(format!(
        "this SQLite database is in memory and lives as long as its only connection, but the pool may {}: write \
         `SqlitePoolOptions::new().max_connections(1).idle_timeout(None).max_lifetime(None)`, or use a file",
        faults.join(", and ")
    ))
}

/// Whether the options name a database without a file of its own.
fn ends_with_its_connection(options: &SqliteConnectOptions) -> bool {
    // sqlx reveals the flags only in a URL, and panics if the file name does not fit into one
    let url = options.clone().filename("any").to_url_lossy();
    let given = |name: &str, value: &str| url.query_pairs().any(|pair| pair == (name.into(), value.into()));
    let name = options.get_filename().to_string_lossy();
    // SQLite reads such a name as a URI with parameters
    let (path, parameters) = match name.strip_prefix("file:") {
        Some(rest) => rest.split_once('?').unwrap_or((rest, "")),
        None => (&*name, ""),
    };
    let within = |parameter: &str| parameters.split('&').any(|it| it == parameter);
    let in_memory = given("mode", "memory") || within("mode=memory");
    let in_memory_by_vfs = given("vfs", "memdb") || within("vfs=memdb");
    in_memory || in_memory_by_vfs || path.is_empty() || path == ":memory:"
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sqlx::sqlite::SqlitePoolOptions;

    use super::*;

    fn stays() -> SqlitePoolOptions {
        SqlitePoolOptions::new().max_connections(1).idle_timeout(None).max_lifetime(None)
    }

    #[tokio::test]
    async fn a_database_in_memory_needs_a_connection_that_stays() {
        let names = [
            "sqlite::memory:",
            "sqlite://:memory:",
            "sqlite::memory:?cache=private",
            "sqlite:file:shared?mode=memory&cache=shared",
            "sqlite:any?mode=memory",
            "sqlite:",
            "sqlite://",
        ];
        let by_name = names.map(|name| (name, name.parse::<SqliteConnectOptions>().expect("options")));
        let new = SqliteConnectOptions::new;
        let by_hand = [
            ("new()", new()),
            ("a flag", new().filename("x").in_memory(true)),
            ("an address", new().filename("file:x?mode=memory&cache=shared")),
            ("an address without a file", new().filename("file:")),
            ("an address of memory", new().filename("file::memory:?cache=shared")),
            ("memdb", new().filename("file:/x?vfs=memdb")),
            ("memdb as an option", new().filename("/x").vfs("memdb")),
        ];
        let minute = Duration::from_secs(60);
        for (name, options) in by_name.into_iter().chain(by_hand) {
            let pools = [
                (SqlitePoolOptions::new(), "`idle_timeout`"),
                (SqlitePoolOptions::new().max_connections(1), "`max_lifetime`"),
                (stays().idle_timeout(minute), "`idle_timeout`"),
                (stays().max_lifetime(minute), "`max_lifetime`"),
                (stays().max_connections(2), "a second connection"),
                // a closed connection is replaced by one with another database
                (SqlitePoolOptions::new().max_connections(1).min_connections(1), "`idle_timeout`"),
            ];
            for (pool, fault) in pools {
                let why = check(&pool.connect_lazy_with(options.clone())).expect_err(name);
                for part in [fault, ".max_connections(1).idle_timeout(None).max_lifetime(None)"] {
                    assert!(why.contains(part), "{name}: {part} is not in: {why}");
                }
            }
            let pool = stays().connect_lazy_with(options);
            assert_eq!(check(&pool), Ok(()), "{name}");
        }
    }

    #[tokio::test]
    async fn a_file_may_have_any_pool() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("memory").display().to_string();
        for name in [format!("sqlite:{path}?mode=rwc"), format!("sqlite:file:{path}?mode=rwc")] {
            let pool = SqlitePoolOptions::new().connect(&name).await.expect("a pool");
            assert_eq!(check(&pool), Ok(()), "{name}");
        }
    }
}
