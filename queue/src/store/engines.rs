//! The engines: the one file that names them all.

use crate::engine::Engine;
use crate::store::engine::statement::sql;
use crate::store::schema::Schema;

/// The scripts of all versions.
macro_rules! migrations {
    ($engine:literal) => {
        &[
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/migrations/", $engine, "/0001_jobs.sql")),
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/migrations/", $engine, "/0002_schedules.sql")),
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/migrations/", $engine, "/0003_unique.sql")),
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/migrations/", $engine, "/0004_views.sql")),
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/migrations/", $engine, "/0005_gauges.sql")),
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/migrations/", $engine, "/0006_meta.sql")),
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/migrations/", $engine, "/0007_operations.sql")),
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/migrations/", $engine, "/0008_failures.sql")),
        ]
    };
}

const POSTGRES: Schema =
    Schema { settings: "", table: sql!("postgres", "schema", "migrations"), migrations: migrations!("postgres") };
const MYSQL: Schema =
    Schema { settings: "", table: sql!("mysql", "schema", "migrations"), migrations: migrations!("mysql") };
const SQLITE: Schema = Schema {
    settings: "PRAGMA journal_mode = WAL;\n\n",
    table: sql!("sqlite", "schema", "migrations"),
    migrations: migrations!("sqlite"),
};

/// The schema of an engine, whether or not its driver is compiled in.
pub(crate) const fn schema(engine: Engine) -> &'static Schema {
    match engine {
        Engine::Postgres => &POSTGRES,
        Engine::MySql => &MYSQL,
        Engine::Sqlite => &SQLITE,
    }
}

/// What to do about an error caused by a setting or option. It is appended to the driver's message.
pub(crate) fn cure(error: &sqlx::Error) -> &'static str {
    type Cure = fn(&dyn sqlx::error::DatabaseError) -> Option<&'static str>;
    const CURES: &[Cure] = &[
        #[cfg(feature = "postgres")]
        crate::store::postgres::settings::cure,
        #[cfg(feature = "mysql")]
        crate::store::mysql::settings::cure,
        #[cfg(feature = "sqlite")]
        crate::store::sqlite::settings::cure,
    ];
    let sqlx::Error::Database(error) = error else { return "" };
    CURES.iter().find_map(|cure| cure(&**error)).unwrap_or("")
}
