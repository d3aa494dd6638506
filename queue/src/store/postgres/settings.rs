//! The session settings that our statements depend on, and what to do about errors that settings cause.
//!
//! Left as they are, because no statement depends on them: `DateStyle`, `IntervalStyle`, `TimeZone`, `bytea_output` and
//! `extra_float_digits` (values travel in binary form, literals are ISO), `standard_conforming_strings` (no literal has
//! a backslash), `array_nulls`, `xmloption`, `transform_null_equals` (nothing is compared with a literal NULL),
//! `session_replication_role` (we have no triggers or keys), `row_security` (a worker that does not see all rows says
//! so at its start), `search_path` (it says where the tables are, and system functions come first),
//! `synchronous_commit` (durability is the user's choice), `statement_timeout`, `lock_timeout` and
//! `transaction_timeout` (an interrupted statement is repeated, in smaller parts).
//! `default_transaction_read_only` forbids writes.

use sqlx::error::DatabaseError;

// A plan is kept until the next vacuum or analyze. Meanwhile a table may grow from nothing to millions of rows. So
// each statement has only one path to each job, by an index in its order. Otherwise a table that was empty, or a
// lane without statistics, would be scanned as a whole. All other planner settings have their defaults.
macro_rules! settings {
    ($set:literal) => {
        settings!(
            $set:
            "plan_cache_mode = force_generic_plan",
            "jit = off",
            "enable_seqscan = off",
            "enable_bitmapscan = off",
            "enable_indexscan = on",
            "enable_indexonlyscan = on",
            "enable_nestloop = on",
            "enable_sort = on",
            "from_collapse_limit = 8",
            "join_collapse_limit = 8",
            "client_encoding = 'UTF8'",
            "idle_in_transaction_session_timeout = '8s'",
        )
    };
    ($set:literal: $($setting:literal,)*) => {
        concat!($($set, " ", $setting, "; "),*)
    };
}
pub(crate) const LINE: &[&str] = &[
    concat!(
        settings!("SET"),
        "SET tcp_user_timeout = '8s'; SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED"
    ),
    NO_END_OF_IDLE,
];
/// The same for one transaction, in a session that a pooler lends.
pub(crate) const BEGIN_LENT: &str = concat!("BEGIN ISOLATION LEVEL READ COMMITTED; ", settings!("SET LOCAL"));
/// The worker's own connection may be idle for hours. Servers before 14 have no such limit.
pub(crate) const NO_END_OF_IDLE: &str =
    "SELECT set_config(name, '0', false) FROM pg_settings WHERE name = 'idle_session_timeout'";
/// Our tables of which this account does not see every row. A policy that shows all rows hides none.
pub(crate) const HIDDEN: &str = "SELECT c.relname::text FROM pg_class AS c \
     WHERE c.relname LIKE 'queue|_%' ESCAPE '|' AND c.relkind = 'r' AND pg_table_is_visible(c.oid) \
       AND row_security_active(c.oid) \
       AND NOT EXISTS (SELECT FROM pg_policy AS p \
           WHERE p.polrelid = c.oid AND p.polpermissive AND p.polcmd IN ('*', 'r') \
             AND pg_get_expr(p.polqual, p.polrelid) = 'true' \
             AND EXISTS (SELECT FROM unnest(p.polroles) AS role \
                         WHERE CASE role WHEN 0 THEN true ELSE pg_has_role(role, 'USAGE') END)) \
     ORDER BY c.relname LIMIT 1";
pub(crate) const PLAIN: &str = "SELECT 1 WHERE current_setting('client_encoding') IN ('UTF8', 'SQL_ASCII')";

/// What to do about an error caused by a setting or option.
pub(crate) fn cure(error: &dyn DatabaseError) -> Option<&'static str> {
    match error.code()?.as_ref() {
        "25006" => Some(
            " (the session is read-only: default_transaction_read_only or transaction_read_only is on, or the server \
             is a standby; connect the pool to the primary server, with sessions that may write)",
        ),
        // our own statement raises this in a session that would change the text
        "23502" if error.message().contains("\"kind\"") => {
            Some(" (client_encoding must be UTF8, which sqlx sets: remove it from `after_connect`)")
        }
        "42P01" if error.message().contains("queue_") => Some(crate::store::schema::NO_TABLES),
        "3F000" => Some(" (no schema in search_path exists: name the schema of the queue's tables)"),
        _ => None,
    }
}
