//! The administration's statements on MySQL and MariaDB.

use crate::store::engine::inspect::{AdminDialect, Change, Step};

macro_rules! sql {
    ($file:literal) => {
        include_str!(concat!("sql/admin/", $file, ".sql"))
    };
}

impl AdminDialect for sqlx::MySql {
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

    const RUN_NOW: Change = &[Step { find: sql!("lock_scheduled"), then: &[sql!("run_now")] }];
    const RESCHEDULE: Change = &[Step { find: sql!("lock_waiting"), then: &[sql!("reschedule")] }];
    const CANCEL: Change = &[Step {
        find: sql!("lock_hot"),
        then: &[sql!("cancel_waiting"), sql!("remove_waiting"), sql!("cancel_running")],
    }];
    const SEND_BACK: Change = &[Step { find: sql!("lock_dead"), then: &[sql!("send_back"), sql!("remove_dead")] }];
    const DELETE: Change = &[
        Step { find: sql!("lock_dead"), then: &[sql!("remove_dead"), sql!("remove_attempts")] },
        Step { find: sql!("lock_over"), then: &[sql!("remove_over"), sql!("remove_attempts")] },
        Step { find: sql!("lock_waiting"), then: &[sql!("remove_waiting"), sql!("remove_attempts")] },
    ];
    const EDIT: Change = &[
        Step { find: sql!("lock_dead"), then: &[sql!("edit_dead")] },
        Step { find: sql!("lock_waiting"), then: &[sql!("edit_waiting")] },
    ];
}
