//! SQLite's statements for `Admin`.

use crate::store::engine::inspect::{AdminDialect, Change, Step};

macro_rules! sql {
    ($file:literal) => {
        include_str!(concat!("sql/admin/", $file, ".sql"))
    };
}

impl AdminDialect for sqlx::Sqlite {
    const STATS: &'static str = sql!("stats");
    const JOBS_HOT: &'static str = sql!("jobs_hot");
    const JOBS_RUNNING: &'static str = sql!("jobs_running");
    const JOBS_OVER: &'static str = sql!("jobs_over");
    const JOBS_DEAD: &'static str = sql!("jobs_dead");
    const JOB: &'static str = sql!("job");
    const ATTEMPTS: &'static str = sql!("attempts");
    const QUEUES: &'static str = sql!("queues");
    const WORKERS: &'static str = sql!("workers");
    const PAUSE: &'static str = sql!("pause");
    const RESUME: &'static str = include_str!("../engine/sql/admin/resume.sql");

    const RUN_NOW: Change = &[Step { find: sql!("run_now"), then: &[] }];
    const RESCHEDULE: Change = &[Step { find: sql!("reschedule"), then: &[] }];
    const CANCEL: Change = &[Step { find: sql!("lock_hot"), then: &[sql!("cancel_waiting"), sql!("cancel_running")] }];
    const SEND_BACK: Change = &[Step { find: sql!("lock_dead"), then: &[sql!("send_back"), sql!("remove_dead")] }];
    const DELETE: Change = &[
        Step { find: sql!("remove_dead"), then: &[sql!("remove_attempts")] },
        Step { find: sql!("remove_over"), then: &[sql!("remove_attempts")] },
        Step { find: sql!("remove_waiting"), then: &[sql!("remove_attempts")] },
    ];
    const EDIT: Change = &[Step { find: sql!("edit_dead"), then: &[] }, Step { find: sql!("edit_waiting"), then: &[] }];
}
