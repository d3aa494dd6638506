//! The tables, as scripts.

use crate::store::engine::statement::script::sql;
use crate::store::schema::Schema;

pub(crate) const SCHEMA: Schema = Schema {
    settings: "",
    table: sql!("postgres", "schema", "migrations"),
    migrations: &[
        include_str!("../../../migrations/postgres/0001_jobs.sql"),
        include_str!("../../../migrations/postgres/0002_schedules.sql"),
        include_str!("../../../migrations/postgres/0003_unique.sql"),
        include_str!("../../../migrations/postgres/0004_views.sql"),
        include_str!("../../../migrations/postgres/0005_gauges.sql"),
    ],
};
