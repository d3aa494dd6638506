//! A database whose schedules are not due.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use crate::schedule::definition::Definition;
use crate::schedule::plan::ScheduleRow;
use crate::store::schedules::{Change, Converged, Fired, Kinds, Named, Noted, Scheduler, Seen};
use crate::store::{Reply, ScheduleStore};

/// Counts what it is asked.
#[derive(Default)]
pub(in crate::worker) struct NoSchedules {
    pub(in crate::worker) looks: AtomicU32,
    pub(in crate::worker) purges: AtomicU32,
    /// Old ones, which may be removed.
    pub(in crate::worker) ticks: AtomicU64,
    /// Schedules that were fired while the clock was ahead.
    pub(in crate::worker) silent: Vec<String>,
    /// When the next tick is, at every look.
    pub(in crate::worker) next: Option<Duration>,
}

macro_rules! unused {
    ($(fn $name:ident($($value:ident: $type:ty),*) -> $answer:ty;)*) => {$(
        fn $name<'a>(&'a self, $(_: $type),*) -> Reply<'a, $answer> {
            unimplemented!("there are no schedules")
        }
    )*};
}

impl ScheduleStore for NoSchedules {
    fn look<'a>(&'a self, _: &'a Scheduler, _: &'a [String], _: i64) -> Reply<'a, Seen> {
        self.looks.fetch_add(1, Ordering::Relaxed);
        Box::pin(async { Ok(Seen { since: Some(0), next: self.next, ..Seen::default() }) })
    }

    fn silent(&self) -> Reply<'_, Vec<String>> {
        Box::pin(async move { Ok(self.silent.clone()) })
    }

    fn purge_ticks(&self, _: Duration, limit: u32) -> Reply<'_, u64> {
        self.purges.fetch_add(1, Ordering::Relaxed);
        let removed = self.ticks.load(Ordering::Relaxed).min(u64::from(limit));
        self.ticks.fetch_sub(removed, Ordering::Relaxed);
        Box::pin(async move { Ok(removed) })
    }

    #[cfg(feature = "testing")]
    fn adopt(&self, _: i64) -> Reply<'_, ()> {
        unimplemented!("there are no schedules")
    }

    #[cfg(feature = "testing")]
    fn fire_on_time<'a>(&'a self, _: i64, _: &'a Kinds, _: i64) -> Reply<'a, usize> {
        unimplemented!("there are no schedules")
    }

    unused! {
        fn register(by: &'a Scheduler, since: Option<i64>) -> ();
        fn fire(ids: &'a [i64], kinds: &'a Kinds, ahead: i64) -> Fired;
        fn mark_orphans(ids: &'a [i64], ahead: i64) -> Vec<(String, String)>;
        fn converge(by: &'a Scheduler, declared: &'a Arc<[Definition]>, digest: &'a str) -> Converged;
        fn define(definition: &'a Definition) -> Named<()>;
        fn change(name: &'a str, change: Change) -> Named<()>;
        fn fire_by_hand(name: &'a str, max_retries: fn(&str) -> u32) -> Named<i64>;
        fn list(after: &'a str, limit: u32) -> Vec<(ScheduleRow, bool)>;
        fn history(name: &'a str, before: i64, limit: u32) -> Named<Vec<Noted>>;
        fn tick_of(job: i64) -> Option<(String, i64, String)>;
    }
}
