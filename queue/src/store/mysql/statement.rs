//! Code that several statements of MySQL and MariaDB share.

use sqlx::mysql::MySqlRow;
use sqlx::{Error, MySql, MySqlConnection};

use crate::limits::YEAR_1;
use crate::store::engine::driver::Driver;
use crate::store::engine::driver::{Bind, add_binds, assembled, json};
use crate::store::values::{Ask, Place};

/// Around each part of a union, which has an order, a limit and locks of its own.
pub(super) const PARTS: [&str; 2] = ["(", ")"];

/// Before every time that can be stored.
pub(super) const FIRST: Place = (YEAR_1, -1);

pub(super) fn lane_binds(ask: &Ask) -> [Bind<'_>; 3] {
    [(&*ask.lane.kind).into(), (&*ask.lane.queue).into(), i64::from(ask.lane.priority).into()]
}

pub(super) async fn fetch(conn: &mut MySqlConnection, sql: String, binds: &[Bind<'_>]) -> Result<Vec<MySqlRow>, Error> {
    MySql::fetch(conn, assembled(sql), add_binds!(MySql, binds, json)).await
}

/// A statement with `?, ?, ?` for this many values.
pub(super) fn with_places(sql: &str, count: usize) -> String {
    sql.replace("/* places */", &vec!["?"; count].join(", "))
}
