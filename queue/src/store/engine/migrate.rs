//! Migrations, and the check that the schema fits this binary.
//!
//! Migrations have the same numbers on every engine. Each row of `queue_migrations` names the oldest version that a
//! binary may know to work with it (`compatible_since`). So workers of the previous release keep running during a
//! deploy. A binary that is too old for the tables says so instead of writing nonsense.

use std::time::{Duration, Instant};

use futures_util::FutureExt;
use sqlx::{Connection, Pool};

use crate::error::{Doing, Error};
use crate::store::engine::connection::{Mode, SqlStore, Via, end_of};
use crate::store::engine::dialect::Dialect;
use crate::store::engine::driver::{Cells, execute, read, rows};
use crate::store::engines::schema;
use crate::store::schema::{LATEST, Migration};

/// How long one process waits for another that migrates.
const PATIENCE: Duration = Duration::from_secs(60);

/// [`migrate`](crate::migrate()), in a task that survives its caller.
pub(crate) async fn run<DB: Dialect>(pool: Pool<DB>) -> Result<(), Error> {
    end_of(tokio::spawn(migrate_pool(pool))).await.doing(DOING)?
}

const DOING: &str = "cannot migrate the schema";

async fn migrate_pool<DB: Dialect>(pool: Pool<DB>) -> Result<(), Error> {
    DB::warn_of_options(&pool);
    let mut conn = pool.acquire().await.doing(DOING)?;
    usable(&pool, &mut conn).await?;
    // After a manual migration, this program may have no right to create anything.
    if let Ok(Some(found)) = versions::<DB>(&mut conn).await
        && found.version >= LATEST
    {
        return fits(Some(found));
    }
    if !DB::ONE_WRITER {
        conn.close_on_drop(); // this releases the lock and the settings, whatever happens
    }
    let begin = Instant::now();
    loop {
        match attempt::<DB>(&mut conn).await {
            // other processes are migrating
            Err(Error::Database { source, .. }) if DB::is_transient(&source) && begin.elapsed() < PATIENCE => {
                tokio::time::sleep(Duration::from_millis(fastrand::u64(5..50))).await;
            }
            Ok(()) => break,
            result => return result,
        }
    }
    // again, because the migration may have changed settings of the file
    usable(&pool, &mut conn).await
}

async fn usable<DB: Dialect>(pool: &Pool<DB>, conn: &mut DB::Connection) -> Result<(), Error> {
    match DB::unusable(pool, conn).await.doing(DOING)? {
        Some(why) => Err(Error::config(format!("{DOING}: {why}"))),
        None => Ok(()),
    }
}

async fn attempt<DB: Dialect>(conn: &mut DB::Connection) -> Result<(), Error> {
    for sql in DB::BEFORE_MIGRATION {
        DB::raw(conn, sql).await.doing(DOING)?;
    }
    if !DB::DDL_IN_TRANSACTION {
        return apply::<DB>(conn).await;
    }
    let mut transaction = conn.begin_with(DB::BEGIN).await.doing(DOING)?;
    match apply::<DB>(&mut transaction).await {
        Ok(()) => transaction.commit().await.doing(DOING),
        Err(error) => {
            transaction.rollback().await.doing(DOING)?;
            Err(error)
        }
    }
}

async fn apply<DB: Dialect>(conn: &mut DB::Connection) -> Result<(), Error> {
    if let Some(sql) = DB::LOCK_MIGRATION {
        let locked = rows::<DB>(conn, sql, &[]).await.doing(DOING)?;
        if locked.first().map(|row| row.maybe_int(0)).transpose().doing(DOING)?.flatten() != Some(1) {
            return Err(Error::Schema(
                "another process has been migrating this database for a minute: try again when it is done".into(),
            ));
        }
    }
    if !DB::DDL_IN_TRANSACTION && !matches!(versions::<DB>(conn).await, Ok(Some(found)) if found.version >= LATEST) {
        let there = |row: &DB::Row| Ok((row.text(0)?, row.text(1)?, row.text(2)?));
        let there = read::<DB, _>(conn, DB::SCHEMA.there, &[], there).await.doing(DOING)?;
        let script = schema(DB::KIND).script_from(0);
        let names = foreign(&there, &script);
        if !names.is_empty() {
            return Err(in_the_way(&format!("`{}`", names.join("`, `"))));
        }
    }
    DB::raw(conn, schema(DB::KIND).table).await.doing(DOING)?;
    let found = match versions::<DB>(conn).await {
        Err(error @ sqlx::Error::Database(_)) if !DB::is_transient(&error) => {
            return Err(in_the_way(&format!("`queue_migrations` ({error})")));
        }
        found => found.doing(DOING)?,
    };
    let version = found.as_ref().map_or(0, |found| found.version);
    for (migration, sql) in schema(DB::KIND).steps().filter(|(migration, _)| migration.version > version) {
        let doing = || format!("cannot migrate the schema to version {} ({})", migration.version, migration.name);
        if !DB::DDL_IN_TRANSACTION || !is_there::<DB>(conn, migration, sql).await? {
            DB::raw(conn, sql).await.doing(doing())?;
        }
        let binds = [migration.version.into(), migration.name.into(), migration.compatible_since.into()];
        execute::<DB>(conn, DB::SCHEMA.migrated, &binds).await.doing(doing())?;
        tracing::info!(version = migration.version, name = migration.name, "migrated the queue's schema");
    }
    let found = versions::<DB>(conn).await.doing(DOING)?;
    if let Some(sql) = DB::UNLOCK_MIGRATION {
        rows::<DB>(conn, sql, &[]).await.doing(DOING)?;
    }
    fits(found)
}

/// Whether everything that a migration creates exists, although its row is missing, as in a dump without rows.
async fn is_there<DB: Dialect>(conn: &mut DB::Connection, migration: &Migration, script: &str) -> Result<bool, Error> {
    let there = read::<DB, _>(conn, DB::SCHEMA.there, &[], |row| row.text(0)).await.doing(DOING)?;
    let (there, missing): (Vec<_>, Vec<_>) = created(script).partition(|name| there.contains(name));
    if there.is_empty() || missing.is_empty() {
        return Ok(!there.is_empty());
    }
    Err(Error::Schema(format!(
        "{DOING} to version {} ({}): `{}` exist, but `{}` do not. If another program made them, rename them, or give \
         the queue a database or schema of its own. If they are part of a restored dump, drop them, or restore the \
         others as well",
        migration.version,
        migration.name,
        there.join("`, `"),
        missing.join("`, `")
    )))
}

/// The names of what a script creates. A column of a table that exists: `table.column`.
fn created(script: &str) -> impl Iterator<Item = String> {
    let lines = script.lines().filter(|line| line.starts_with("CREATE ") || line.starts_with("ALTER TABLE "));
    lines.filter_map(|line| {
        let mut names = line.split_whitespace().filter(|word| word.starts_with(|first: char| first.is_lowercase()));
        let name = names.next()?;
        Some(if line.starts_with("ALTER ") { format!("{name}.{}", names.next()?) } else { name.to_owned() })
    })
}

/// The names in `there` (name, type, columns) that the script needs for something else. An interrupted migration
/// continues with the tables that it made; its views come last.
fn foreign<'a>(there: &'a [(String, String, String)], script: &str) -> Vec<&'a str> {
    let mut foreign = Vec::new();
    for (name, of_type, columns) in there {
        let ours = match columns_of(script, name) {
            Some(ours) => of_type == "BASE TABLE" && is_of(columns, &ours, script, name),
            None if script.contains(&format!("VIEW {name} AS")) => {
                of_type == "VIEW" && there.iter().any(|(name, ..)| name == "queue_jobs")
            }
            None => true,
        };
        if !ours {
            foreign.push(name.as_str());
        }
    }
    foreign
}

/// Whether a table has its columns, and behind them none but those that the script adds later.
fn is_of(columns: &str, ours: &str, script: &str, table: &str) -> bool {
    let added = |column: &str| script.contains(&format!("'ALTER TABLE {table} ADD COLUMN {column} "));
    let more = columns.strip_prefix(ours);
    more.is_some_and(|more| more.is_empty() || more.strip_prefix(',').is_some_and(|more| more.split(',').all(added)))
}

/// The columns of a table that a script creates: its lines that begin with a lower-case name.
fn columns_of(script: &str, table: &str) -> Option<String> {
    let (_, body) = script.split_once(&format!("CREATE TABLE IF NOT EXISTS {table} (\n"))?;
    let lines = body.lines().take_while(|line| !line.starts_with(')'));
    let names = lines.filter_map(|line| line.strip_prefix("    ")?.split_once(' ').map(|(name, _)| name));
    let columns: Vec<_> = names.filter(|name| name.starts_with(|first: char| first.is_ascii_lowercase())).collect();
    Some(columns.join(","))
}

fn in_the_way(what: &str) -> Error {
    Error::Schema(format!(
        "{DOING}: a table or view of another program has a name that the queue needs: {what}; rename it, or give the \
         queue a database or schema of its own"
    ))
}

struct Versions {
    version: i64,
    compatible_since: i64,
    /// A missing trigger.
    missing: Option<String>,
}

/// None: the table exists, but no migration has run.
async fn versions<DB: Dialect>(conn: &mut DB::Connection) -> Result<Option<Versions>, sqlx::Error> {
    let rows = rows::<DB>(conn, DB::SCHEMA.version, &[]).await?;
    let row = rows.first().ok_or(sqlx::Error::RowNotFound)?;
    Ok(match (row.maybe_int(0)?, row.maybe_int(1)?) {
        (Some(version), Some(compatible_since)) => {
            Some(Versions { version, compatible_since, missing: row.maybe_text(2)? })
        }
        _ => None,
    })
}

/// The statement names a table that does not exist.
fn names_no_table(error: &sqlx::Error) -> bool {
    let sqlx::Error::Database(error) = error else { return false };
    matches!(error.code().as_deref(), Some("42P01" | "42S02")) || error.message().starts_with("no such table")
}

fn fits(found: Option<Versions>) -> Result<(), Error> {
    const CURE: &str = "run `queue::migrate(&pool)`, or the script that `queue::migration::sql` prints";
    match found {
        None => Err(Error::Schema(format!("the queue tables are missing: {CURE}"))),
        Some(Versions { version, .. }) if version < LATEST => Err(Error::Schema(format!(
            "the queue tables are at version {version}, this program needs version {LATEST}: run \
             `queue::migrate(&pool)`, or the script that `queue::migration::sql_from` prints for version {version}"
        ))),
        Some(Versions { version, compatible_since, .. }) if compatible_since > LATEST => Err(Error::Schema(format!(
            "the queue tables are at version {version}, which works only with programs that know version \
             {compatible_since}; this program knows version {LATEST}: deploy a newer build of it"
        ))),
        Some(Versions { missing: Some(missing), .. }) => Err(Error::Schema(format!(
            "the queue tables lack the trigger `{missing}`, without which a finished job would stay and run again: \
             create it with the statement that `queue::migration::sql` prints (was the file copied table by table?)"
        ))),
        Some(_) => Ok(()),
    }
}

/// Checks that the schema exists and fits this binary.
pub(crate) async fn check<DB: Dialect>(store: &SqlStore<DB>) -> Result<(), Error> {
    let found = store
        // the worker's own connection: in a cluster it waits for a migration that ran on another node
        .run(Via::Claims, Mode::Read, "cannot read the schema's version", (), |conn, ()| {
            async move {
                match versions::<DB>(conn).await {
                    Err(error) if names_no_table(&error) => Ok(None),
                    found => found,
                }
            }
            .boxed()
        })
        .await?;
    // first, because what it finds can hide the tables
    let pool = store.pool().clone();
    let unusable = store
        .run(Via::Pool, Mode::Read, "cannot inspect the pool", pool, |conn, pool| DB::unusable(pool, conn).boxed());
    if let Some(why) = unusable.await? {
        return Err(Error::config(format!("the worker cannot run: {why}")));
    }
    fits(found)?;
    let lag = store.read(Via::Claims, "cannot check the numbers of jobs", DB::SCHEMA.numbers, &[], |_| Ok(()));
    // an account may have no right to read the history
    if lag.await.is_ok_and(|lag| !lag.is_empty()) {
        tracing::error!(
            "job numbers were set back, by a TRUNCATE or a restored backup: they repeat, and a job that ends replaces \
             an older one with the same number; set the counter of queue_jobs above all numbers in queue_history and \
             queue_dead"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Engine;
    use crate::store::schema::MIGRATIONS;

    #[test]
    fn migrations_are_numbered_from_one_and_never_demand_the_future() {
        for (at, migration) in MIGRATIONS.iter().enumerate() {
            assert_eq!(migration.version, at as i64 + 1);
            assert!((1..=migration.version).contains(&migration.compatible_since));
        }
        for engine in [Engine::Postgres, Engine::MySql, Engine::Sqlite] {
            assert_eq!(schema(engine).migrations.len(), MIGRATIONS.len(), "{engine:?}");
        }
    }

    #[test]
    fn another_programs_tables_are_told_from_ours() {
        let script = schema(Engine::MySql).script_from(0);
        let paused = columns_of(&script, "queue_paused").expect("a table");
        assert_eq!(paused, "queue,paused_at");
        let it = |name: &str, of_type: &str, columns: &str| (name.to_owned(), of_type.to_owned(), columns.to_owned());
        let table = "BASE TABLE";
        let jobs = columns_of(&script, "queue_jobs").expect("a table");
        let ours = [
            it("queue_jobs", table, &jobs),
            it("queue_paused", table, &paused),
            it("queue_dead", table, &(columns_of(&script, "queue_dead").expect("a table") + ",meta")),
            it("queue_all", "VIEW", "id"),
            it("queue_of_mine", table, "a"),
        ];
        assert!(foreign(&ours, &script).is_empty());
        let others = [it("queue_paused", table, "id"), it("queue_dead", "VIEW", "id"), it("queue_all", "VIEW", "id")];
        assert_eq!(foreign(&others, &script), ["queue_paused", "queue_dead", "queue_all"]);
        assert_eq!(foreign(&[it("queue_jobs", table, "id,kind")], &script), ["queue_jobs"]);
        for more in [",other", "x", ",meta,other"] {
            assert_eq!(foreign(&[it("queue_jobs", table, &(jobs.clone() + more))], &script), ["queue_jobs"], "{more}");
        }
    }

    #[test]
    fn everything_is_prefixed() {
        for engine in [Engine::Postgres, Engine::MySql, Engine::Sqlite] {
            let script = schema(engine).script_from(0);
            for line in script.lines().filter(|line| line.starts_with("CREATE")) {
                let name = created(line).next();
                assert!(name.is_some_and(|name| name.starts_with("queue_")), "{line}");
            }
        }
    }

    #[test]
    fn messages_say_what_to_do() {
        let versions = |version, compatible_since| Some(Versions { version, compatible_since, missing: None });
        let message = |found| fits(found).expect_err("does not fit").to_string();
        assert!(message(None).contains("queue::migrate(&pool)"));
        let older = message(versions(1, 1));
        assert!(older.contains("needs version 8") && older.contains("for version 1"), "{older}");
        let newer = message(versions(9, 9));
        assert!(newer.contains("version 9") && newer.contains("knows version 8"), "{newer}");
        assert!(fits(versions(9, 1)).is_ok());
    }

    #[cfg(feature = "sqlite")]
    #[tokio::test]
    async fn a_copy_without_triggers_is_refused() {
        let pool = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/doctest.rs")).await;
        let store = SqlStore::new(pool.clone());
        check(&store).await.expect("all is there");
        sqlx::raw_sql("DROP TRIGGER queue_history_takes").execute(&pool).await.expect("dropped");
        for refused in [check(&store).await, crate::migrate(&pool).await] {
            let error = refused.expect_err("jobs would run again").to_string();
            assert!(error.contains("trigger `queue_history_takes`"), "{error}");
        }
    }
}
