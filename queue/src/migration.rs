//! The schema as SQL scripts, for those who do not let a program create tables. [`migrate`](crate::migrate) runs them.

pub use crate::engine::Engine;
use crate::enqueue::Pool;
use crate::error::Error;
use crate::store::engines::schema;

/// Returns the statements of [`migrate`](crate::migrate) as one SQL script, to run it with your own tools.
///
/// ```
/// use queue::migration::Engine;
///
/// let script = queue::migration::sql(Engine::Postgres);
/// assert!(script.contains("CREATE TABLE queue_jobs"));
/// ```
pub fn sql(engine: Engine) -> String {
    schema(engine).script_from(0)
}

/// Returns the statements of [`migrate`](crate::migrate) for a database whose tables are at `version`, as one SQL
/// script. The table `queue_migrations` tells the version. Empty if there is nothing to do.
///
/// ```
/// use queue::migration::Engine;
///
/// let script = queue::migration::sql_from(Engine::Postgres, 1);
/// assert!(script.contains("CREATE TABLE queue_schedules") && !script.contains("CREATE TABLE queue_jobs"));
/// ```
pub fn sql_from(engine: Engine, version: i64) -> String {
    schema(engine).script_from(version.max(0))
}

/// Checks that the tables exist, and that this build works with their version. A worker does so when it starts. Changes
/// nothing.
///
/// # Errors
/// [`Error::Schema`] says what is missing and what to do. [`Error::Config`]: the pool's settings hide the tables, or
/// keep a worker from running. [`Error::Database`].
///
/// ```
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let pool = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/doctest.rs")).await;
/// queue::migration::check(&pool).await?;
/// # Ok(()) }
/// ```
pub async fn check<P: Pool>(pool: &P) -> Result<(), Error> {
    pool.store().check_schema().await
}
