//! The session settings that our statements depend on: one list for each engine, and how each setting is handled.
//!
//! * The worker's own connections get all of them ([`Dialect::OPEN_LINE`]).
//! * Before an operation of the administration, a query checks whether our statements can run on the pool's connection
//!   ([`Dialect::PLAIN_SESSION`]). If not, it gets the settings of the worker's own connections, and is closed
//!   afterwards.
//! * An enqueue is one round trip, so its statement carries the check. It writes nothing if a setting would lose or
//!   change the job. Only then is the cause determined ([`Dialect::insert`]).
//! * What somebody has forbidden stays forbidden. The error names the setting ([`cure`]).
//!
//! The test `settings` of the conformance suite tries the worst values for these lists.
//!
//! [`Dialect::OPEN_LINE`]: crate::store::engine::dialect::Dialect::OPEN_LINE
//! [`Dialect::PLAIN_SESSION`]: crate::store::engine::dialect::Dialect::PLAIN_SESSION
//! [`Dialect::insert`]: crate::store::engine::dialect::Dialect::insert

/// PostgreSQL.
///
/// Left as they are, because no statement depends on them: `DateStyle`, `IntervalStyle`, `TimeZone`, `bytea_output` and
/// `extra_float_digits` (values travel in binary form, literals are ISO), `standard_conforming_strings` (no literal has
/// a backslash), `array_nulls`, `xmloption`, `transform_null_equals` (nothing is compared with a literal NULL),
/// `session_replication_role` and `row_security` (we have no triggers, keys or policies), `search_path` (it says where
/// the tables are, and system functions come first), `synchronous_commit` (durability is the user's choice),
/// `statement_timeout`, `lock_timeout` and `transaction_timeout` (an interrupted statement is repeated, in smaller
/// parts).
/// `default_transaction_read_only` forbids writes.
#[cfg(feature = "postgres")]
pub(crate) mod postgres {
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
    pub(crate) const PLAIN: &str = "SELECT 1 WHERE current_setting('client_encoding') IN ('UTF8', 'SQL_ASCII')";
}

/// MySQL and MariaDB.
///
/// Left as they are, because no statement depends on them: `time_zone` (times are `UTC_TIMESTAMP`, columns `datetime`),
/// `foreign_key_checks`, `unique_checks` (we have neither), `auto_increment_increment` (a batch reads it),
/// `collation_connection` (columns bring their own), `sql_require_primary_key` (every table has one),
/// `max_statement_time`, `max_execution_time` and `lock_wait_timeout` (an interrupted statement is repeated, in
/// smaller parts). `transaction_read_only` forbids writes. With `sql_mode = ORACLE` sqlx itself cannot begin a
/// transaction.
#[cfg(feature = "mysql")]
pub(crate) mod mysql {
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
}

/// What to do about an error caused by a setting or option. It is appended to the driver's message.
pub(crate) fn cure(error: &sqlx::Error) -> &'static str {
    let sqlx::Error::Database(error) = error else { return "" };
    match error.code().as_deref() {
        Some("25006") => {
            " (the session is read-only: default_transaction_read_only or transaction_read_only is on, or the server \
             is a standby; connect the pool to the primary server, with sessions that may write)"
        }
        // our own statement raises this in a session that would change the text
        Some("23502") if error.message().contains("\"kind\"") => {
            " (client_encoding must be UTF8, which sqlx sets: remove it from `after_connect`)"
        }
        Some("3F000") => " (no schema in search_path exists: name the schema of the queue's tables)",
        Some("8") => {
            " (query_only is on, or the file cannot be written: open it for writing, without `PRAGMA query_only`)"
        }
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    /// A database without Unicode may refuse any other character, even in a comment.
    #[test]
    fn all_that_is_sent_is_ascii() {
        fn look(folder: &Path, seen: &mut usize) {
            for entry in fs::read_dir(folder).expect("a folder") {
                let path = entry.expect("an entry").path();
                if path.is_dir() {
                    look(&path, seen);
                } else if path.extension().is_some_and(|it| it == "sql") {
                    let text = fs::read_to_string(&path).expect("a file");
                    assert!(text.is_ascii(), "{}", path.display());
                    *seen += 1;
                }
            }
        }
        let mut seen = 0;
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        look(&root.join("src/store"), &mut seen);
        look(&root.join("migrations"), &mut seen);
        assert!(seen > 100, "{seen} files");
        #[cfg(feature = "postgres")]
        assert!(super::postgres::LINE.iter().all(|sql| sql.is_ascii()) && super::postgres::PLAIN.is_ascii());
        #[cfg(feature = "mysql")]
        assert!(super::mysql::LINE.iter().all(|sql| sql.is_ascii()) && super::mysql::PLAIN.is_ascii());
    }
}
