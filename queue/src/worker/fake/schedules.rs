//! A database whose schedules are not due.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use crate::error::Error;
use crate::operations::Note;
use crate::schedule::definition::Definition;
use crate::schedule::plan::ScheduleRow;
use crate::store::ScheduleStore;
use crate::store::schedules::{Change, Converged, Fired, Kinds, Named, Noted, Scheduler, Seen};
use async_trait::async_trait;

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

#[async_trait]
impl ScheduleStore for NoSchedules {
    async fn look(&self, _: &Scheduler, _: &[String], _: i64) -> Result<Seen, Error> {
        self.looks.fetch_add(1, Ordering::Relaxed);
        Ok(Seen { since: Some(0), next: self.next, ..Seen::default() })
    }

    async fn silent(&self) -> Result<Vec<String>, Error> {
        Ok(self.silent.clone())
    }

    async fn purge_ticks(&self, _: Duration, limit: u32) -> Result<u64, Error> {
        self.purges.fetch_add(1, Ordering::Relaxed);
        let removed = self.ticks.load(Ordering::Relaxed).min(u64::from(limit));
        self.ticks.fetch_sub(removed, Ordering::Relaxed);
        Ok(removed)
    }

    #[cfg(feature = "testing")]
    async fn adopt(&self, _: i64) -> Result<(), Error> {
        unimplemented!("there are no schedules")
    }

    #[cfg(feature = "testing")]
    async fn fire_on_time(&self, _: i64, _: &Kinds, _: i64) -> Result<usize, Error> {
        unimplemented!("there are no schedules")
    }

    async fn register(&self, _: &Scheduler, _: Option<i64>) -> Result<(), Error> {
        unimplemented!("there are no schedules")
    }

    async fn fire(&self, _: &[i64], _: &Kinds, _: i64) -> Result<Fired, Error> {
        unimplemented!("there are no schedules")
    }

    async fn mark_orphans(&self, _: &[i64], _: i64) -> Result<Vec<(String, String)>, Error> {
        unimplemented!("there are no schedules")
    }

    async fn converge(&self, _: &Scheduler, _: &Arc<[Definition]>, _: &str) -> Result<Converged, Error> {
        unimplemented!("there are no schedules")
    }

    async fn define(&self, _: &Definition, _: Note) -> Result<Named<()>, Error> {
        unimplemented!("there are no schedules")
    }

    async fn change(&self, _: &str, _: Change, _: Note) -> Result<Named<()>, Error> {
        unimplemented!("there are no schedules")
    }

    async fn fire_by_hand(&self, _: &str, _: for<'k> fn(&'k str) -> u32, _: Note) -> Result<Named<i64>, Error> {
        unimplemented!("there are no schedules")
    }

    async fn list(&self, _: &str, _: u32) -> Result<Vec<(ScheduleRow, bool)>, Error> {
        unimplemented!("there are no schedules")
    }

    async fn history(&self, _: &str, _: i64, _: u32) -> Result<Named<Vec<Noted>>, Error> {
        unimplemented!("there are no schedules")
    }

    async fn tick_of(&self, _: i64) -> Result<Option<(String, i64, String)>, Error> {
        unimplemented!("there are no schedules")
    }
}
