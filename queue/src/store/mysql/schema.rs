//! The tables, as scripts.

use crate::store::engine::statement::script::sql;
use crate::store::schema::Schema;

pub(crate) const SCHEMA: Schema = Schema {
    settings: "",
    table: sql!("mysql", "schema", "migrations"),
    migrations: &[
        include_str!("../../../migrations/mysql/0001_jobs.sql"),
        include_str!("../../../migrations/mysql/0002_schedules.sql"),
        include_str!("../../../migrations/mysql/0003_unique.sql"),
        include_str!("../../../migrations/mysql/0004_views.sql"),
        include_str!("../../../migrations/mysql/0005_gauges.sql"),
    ],
};
