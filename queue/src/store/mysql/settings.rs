//! The session settings that our statements depend on, and what to do about errors that settings cause.
//!
//! Left as they are, because no statement depends on them: `time_zone` (times are `UTC_TIMESTAMP`, columns `datetime`),
//! `foreign_key_checks`, `unique_checks` (we have neither), `auto_increment_increment` (a batch reads it),
//! `collation_connection` (columns bring their own), `sql_require_primary_key` (every table has one),
//! `max_statement_time`, `max_execution_time` and `lock_wait_timeout` (an interrupted statement is repeated, in
//! smaller parts). `transaction_read_only` forbids writes. With `sql_mode = ORACLE` sqlx itself cannot begin a
//! transaction.

use sqlx::error::DatabaseError;

pub(crate) const LINE: &[&str] = &[
    // without autocommit, or with a completion_type, a connection comes out of the pool inside a transaction
    ROLLBACK,
    // it never takes gap locks
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
    "SET NAMES utf8mb4",
    // MariaDB cuts a JSON_ARRAYAGG at group_concat_max_len. The limit for locks is below our own time limits: an
    // abandoned statement must not keep waiting in the server. On MariaDB, a producer may write rows with check
    // constraints off. They must not fail the claim of other rows, so constraints are off here, too (MariaDB runs
    // that comment).
    "SET SESSION autocommit = 1, completion_type = 0, sql_safe_updates = 0, \
     sql_mode = 'STRICT_TRANS_TABLES,PIPES_AS_CONCAT,NO_ENGINE_SUBSTITUTION', \
     sql_select_limit = 18446744073709551615, max_join_size = 18446744073709551615, sql_big_selects = 1, \
     sql_auto_is_null = 0, group_concat_max_len = 67108864, div_precision_increment = 4, timestamp = DEFAULT, \
     innodb_lock_wait_timeout = 2 /*M! , check_constraint_checks = OFF */",
];
/// Before a migration. A change of a table waits for open transactions, and all others wait for it: heartbeats too.
pub(crate) const MIGRATION: &[&str] = &[LINE[0], LINE[1], LINE[2], LINE[3], "SET SESSION lock_wait_timeout = 1"];
pub(crate) const PLAIN: &str = "SELECT 1 FROM DUAL WHERE @@autocommit AND @@completion_type = 'NO_CHAIN' \
     AND NOT @@sql_safe_updates AND @@sql_select_limit = 18446744073709551615 AND @@sql_big_selects \
     AND NOT @@sql_auto_is_null AND @@character_set_client = 'utf8mb4' AND @@group_concat_max_len >= 1024 \
     AND @@sql_mode LIKE '%STRICT_TRANS_TABLES%' \
     AND @@sql_mode NOT REGEXP 'ORACLE|EMPTY_STRING|HIGH_NOT|SIMULTANEOUS|NO_UNSIGNED|PAD_CHAR|IGNORE_SPACE|REAL_AS' \
     AND UNIX_TIMESTAMP(SYSDATE()) - UNIX_TIMESTAMP() < 60";
/// Begins and ends our own transaction on a connection of the pool whose statements do not commit by themselves.
pub(crate) const BEGIN: &str = "START TRANSACTION";
pub(crate) const COMMIT: &str = "COMMIT AND NO CHAIN NO RELEASE";
pub(crate) const ROLLBACK: &str = "ROLLBACK AND NO CHAIN NO RELEASE";
/// Sets the savepoint of [`savepoint`](crate::store::engine::connection::savepoint), if that would stay.
pub(crate) const SAVEPOINT: &str = "SAVEPOINT queue_enqueue; RELEASE SAVEPOINT queue_enqueue; SAVEPOINT queue_enqueue";
/// The step between ids, whether text arrives unchanged, and whether each statement commits by itself.
pub(crate) const SESSION: &str = "SELECT CAST(@@auto_increment_increment AS SIGNED), \
     @@character_set_client = 'utf8mb4', @@autocommit AND @@completion_type = 'NO_CHAIN'";
pub(crate) const NOT_TO_WRITE: &str = "character_set_client must be utf8mb4, which sqlx sets: any other one \
     would change a job's text; remove `SET NAMES` from `after_connect`, or set utf8mb4";
pub(crate) const NOT_TO_READ: &str = "sql_select_limit must not be 0: remove it from `after_connect`";
/// Returns a row if the binary log refuses writes at READ COMMITTED (error 1665).
pub(crate) const REFUSED_BY_LOG: &str = "SELECT 1 FROM DUAL WHERE @@log_bin AND @@binlog_format = 'STATEMENT'";
pub(crate) const LOG_CURE: &str = "the server has binlog_format = STATEMENT, which refuses the writes of workers: \
     set binlog_format = ROW or MIXED";

/// What to do about an error caused by a setting or option.
pub(crate) fn cure(error: &dyn DatabaseError) -> Option<&'static str> {
    match error.code()?.as_ref() {
        "25006" => Some(
            " (the session is read-only: default_transaction_read_only or transaction_read_only is on, or the server \
             is a standby; connect the pool to the primary server, with sessions that may write)",
        ),
        "42S02" if error.message().contains("queue_") => Some(crate::store::schema::NO_TABLES),
        _ => None,
    }
}
