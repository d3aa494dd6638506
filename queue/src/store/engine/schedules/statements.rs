//! The statements of each engine for schedules.

use crate::store::engine::script::Script;

/// The statements of one engine for schedules. Each file explains its values.
pub(crate) struct ScheduleStatements {
    pub(crate) look: &'static str,
    pub(crate) lock: &'static str,
    pub(crate) rows: &'static str,
    #[cfg(feature = "testing")]
    pub(crate) adopt: &'static str,
    pub(crate) taken: &'static str,
    pub(crate) ticks: &'static str,
    pub(crate) moved: &'static str,
    pub(crate) silent: &'static str,
    pub(crate) register: Script,
    pub(crate) app: &'static str,
    pub(crate) of_app: &'static str,
    pub(crate) named: &'static str,
    pub(crate) define: &'static str,
    pub(crate) retire: &'static str,
    pub(crate) decided: Script,
    pub(crate) list: &'static str,
    pub(crate) pause: &'static str,
    pub(crate) resume: &'static str,
    pub(crate) history: &'static str,
    pub(crate) tick_of: &'static str,
    pub(crate) purge: Script,
}

/// The files in an engine's folder `sql/schedules`.
macro_rules! schedule_statements {
    ($engine:literal) => {{
        use $crate::store::engine::script::{script, sql};
        &$crate::store::engine::schedules::statements::ScheduleStatements {
            look: sql!($engine, "schedules/look"),
            lock: sql!($engine, "schedules/lock"),
            rows: sql!($engine, "schedules/rows"),
            #[cfg(feature = "testing")]
            adopt: sql!($engine, "schedules/adopt"),
            taken: sql!($engine, "schedules/taken"),
            ticks: sql!($engine, "schedules/ticks"),
            moved: sql!($engine, "schedules/moved"),
            silent: sql!($engine, "schedules/silent"),
            register: script!($engine, "schedules/register"),
            app: sql!($engine, "schedules/app"),
            of_app: sql!($engine, "schedules/of_app"),
            named: sql!($engine, "schedules/named"),
            define: sql!($engine, "schedules/define"),
            retire: sql!($engine, "schedules/retire"),
            decided: script!($engine, "schedules/decided"),
            list: sql!("engine", "schedules/list"),
            pause: sql!($engine, "schedules/pause"),
            resume: sql!($engine, "schedules/resume"),
            history: sql!($engine, "schedules/history"),
            tick_of: sql!($engine, "schedules/tick_of"),
            purge: script!($engine, "schedules/purge"),
        }
    }};
}
pub(crate) use schedule_statements;
