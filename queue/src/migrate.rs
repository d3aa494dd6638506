//! Bringing the schema up to date.

use crate::engine::Engine;
use crate::enqueue::target::Pool;
use crate::error::Error;
use crate::store::engine::migrate;

/// Brings the schema up to date, from any older version. Does nothing when it is, and may be called by many processes at
/// the same time: one does the work, the others wait for it.
///
/// On SQLite this also turns the write-ahead log on (`PRAGMA journal_mode = WAL`), which readers and writers need to get
/// along.
///
/// # Errors
/// [`Error::Schema`] when the database was migrated by a newer release with which this one cannot work;
/// [`Error::Database`] otherwise.
///
/// # Cancellation
/// Safe to drop: the migration goes on by itself, and the pool stays healthy.
///
/// ```no_run
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let pool = sqlx::SqlitePool::connect("sqlite://jobs.sqlite?mode=rwc").await?;
/// queue::migrate(&pool).await?;
/// # Ok(()) }
/// ```
pub async fn migrate<P: Pool>(pool: &P) -> Result<(), Error> {
    pool.store().migrate().await
}

/// What [`migrate`] runs, as one SQL script for those who migrate by hand.
///
/// ```
/// let script = queue::migration_sql(queue::Engine::Postgres);
/// assert!(script.contains("CREATE TABLE queue_jobs"));
/// ```
pub fn migration_sql(engine: Engine) -> String {
    migrate::script(engine)
}
