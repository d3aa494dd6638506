//! The engines: the one file that names them all.

use crate::engine::Engine;
use crate::store::schema::Schema;
use crate::store::{mysql, postgres, sqlite};

/// The schema of an engine, whether or not its driver is compiled in.
pub(crate) const fn schema(engine: Engine) -> &'static Schema {
    match engine {
        Engine::Postgres => &postgres::schema::SCHEMA,
        Engine::MySql => &mysql::schema::SCHEMA,
        Engine::Sqlite => &sqlite::schema::SCHEMA,
    }
}

/// What to do about an error caused by a setting or option. It is appended to the driver's message.
pub(crate) fn cure(error: &sqlx::Error) -> &'static str {
    type Cure = fn(&dyn sqlx::error::DatabaseError) -> Option<&'static str>;
    const CURES: &[Cure] = &[
        #[cfg(feature = "postgres")]
        postgres::settings::cure,
        #[cfg(feature = "mysql")]
        mysql::settings::cure,
        #[cfg(feature = "sqlite")]
        sqlite::settings::cure,
    ];
    let sqlx::Error::Database(error) = error else { return "" };
    CURES.iter().find_map(|cure| cure(&**error)).unwrap_or("")
}
