//! The schema of an engine, as scripts.

use std::fmt::Write;

/// What to do about an error because a table of ours is missing.
pub(crate) const NO_TABLES: &str = " (the queue tables are missing: is this the database of your workers? Then run \
     `queue::migrate(&pool)`, or the script that `queue::migration::sql` prints)";

/// One version of the schema. It has the same number on every engine.
pub(crate) struct Migration {
    pub(crate) version: i64,
    pub(crate) name: &'static str,
    /// The oldest schema version that a binary may know and still work with this one.
    pub(crate) compatible_since: i64,
}

/// All versions.
pub(crate) const MIGRATIONS: &[Migration] = &[
    Migration { version: 1, name: "jobs", compatible_since: 1 },
    // new tables alone
    Migration { version: 2, name: "schedules", compatible_since: 1 },
    // new tables alone
    Migration { version: 3, name: "unique", compatible_since: 1 },
    // the same views, with other rights on MySQL and MariaDB
    Migration { version: 4, name: "views", compatible_since: 1 },
    // an index alone
    Migration { version: 5, name: "gauges", compatible_since: 1 },
    // a nullable column
    Migration { version: 6, name: "meta", compatible_since: 1 },
    // new tables alone
    Migration { version: 7, name: "operations", compatible_since: 1 },
    // a new table, an index and a nullable column
    Migration { version: 8, name: "failures", compatible_since: 1 },
];

/// The schema version that this binary was written for.
pub(crate) const LATEST: i64 = MIGRATIONS[MIGRATIONS.len() - 1].version;

/// The schema of an engine.
pub(crate) struct Schema {
    /// What a script of the whole schema begins with.
    pub(crate) settings: &'static str,
    /// The table of migrations.
    pub(crate) table: &'static str,
    /// The script of each version, in order.
    pub(crate) migrations: &'static [&'static str],
}

impl Schema {
    /// The versions, and the script of each.
    pub(crate) fn steps(&self) -> impl Iterator<Item = (&'static Migration, &'static str)> {
        MIGRATIONS.iter().zip(self.migrations.iter().copied())
    }

    /// What follows version `have`, as one script. 0: the whole schema.
    pub(crate) fn script_from(&self, have: i64) -> String {
        let mut script = match have {
            0 => format!("{}{}\n", self.settings, self.table.trim_end()),
            _ => String::new(),
        };
        for (Migration { version, name, compatible_since }, sql) in
            self.steps().skip_while(|(it, _)| it.version <= have)
        {
            let _ = write!(
                script,
                "\n{}\n\nINSERT INTO queue_migrations (version, name, compatible_since)\n\
                 VALUES ({version}, '{name}', {compatible_since});\n",
                sql.trim_end()
            );
        }
        script
    }
}
