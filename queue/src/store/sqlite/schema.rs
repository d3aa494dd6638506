//! The tables, as scripts.

use crate::store::engine::statement::script::sql;
use crate::store::schema::Schema;

pub(crate) const SCHEMA: Schema = Schema {
    settings: "PRAGMA journal_mode = WAL;\n\n",
    table: sql!("sqlite", "schema", "migrations"),
    migrations: &[
        include_str!("../../../migrations/sqlite/0001_jobs.sql"),
        include_str!("../../../migrations/sqlite/0002_schedules.sql"),
        include_str!("../../../migrations/sqlite/0003_unique.sql"),
        include_str!("../../../migrations/sqlite/0004_views.sql"),
        include_str!("../../../migrations/sqlite/0005_gauges.sql"),
    ],
};
