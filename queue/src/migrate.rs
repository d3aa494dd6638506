//! Bringing the schema up to date.

use crate::enqueue::target::Pool;
use crate::error::Error;

/// Creates the tables, or upgrades them from any older version. Does nothing if they are up to date. Several processes
/// may call it at once: one of them migrates, and the others wait for it.
///
/// On SQLite it also enables the write-ahead log (`PRAGMA journal_mode = WAL`), so that readers and the writer do not
/// block each other.
///
/// # Errors
/// [`Error::Schema`] if a newer release migrated the database and this one cannot work with it. [`Error::Database`]
/// for all other failures.
///
/// # Cancellation
/// Safe to drop. The migration continues in the background, and the pool stays healthy.
///
/// ```no_run
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let pool = sqlx::SqlitePool::connect("sqlite://jobs.sqlite?mode=rwc").await?;
/// queue::migrate(&pool).await?;
/// # Ok(()) }
/// ```
pub async fn migrate<P: Pool>(pool: &P) -> Result<(), Error> {
    pool.admin_store().migrate().await
}
