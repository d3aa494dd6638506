//! Which failures occurred since the last write, by group.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::store::values::FailureRow;

/// The most groups of one hour that are counted. Errors whose texts never repeat would fill the table.
const MOST: usize = 200;
/// As long as a row of the table covers.
const HOUR: Duration = Duration::from_secs(3600);

/// The groups of the last hour, each with what is still to be written.
pub(crate) struct Failing {
    since: Instant,
    groups: HashMap<String, i64>,
}

impl Default for Failing {
    fn default() -> Self {
        Self { since: Instant::now(), groups: HashMap::new() }
    }
}

impl Failing {
    pub(crate) fn add(&mut self, failure: String, attempts: i64) {
        if self.groups.len() < MOST || self.groups.contains_key(&failure) {
            *self.groups.entry(failure).or_default() += attempts;
        }
    }

    /// What is to be written.
    pub(crate) fn take(&mut self) -> Vec<FailureRow> {
        let new = self.groups.iter_mut().filter(|(_, attempts)| **attempts > 0);
        let rows =
            new.map(|(failure, attempts)| FailureRow { failure: failure.clone(), attempts: std::mem::take(attempts) });
        let rows = rows.collect();
        if self.since.elapsed() >= HOUR {
            *self = Self::default();
        }
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_hour_has_so_many_groups() {
        let mut failing = Failing::default();
        for n in 0..MOST + 50 {
            failing.add(format!("{n:016x}"), 1);
        }
        failing.add(format!("{:016x}", 0), 4);
        let taken = failing.take();
        assert_eq!((taken.len(), taken.iter().map(|row| row.attempts).sum()), (MOST, MOST as i64 + 4));
        assert_eq!(failing.take(), []);
        failing.add("new".into(), 1);
        assert_eq!(failing.take(), [], "no room in this hour");
        tokio::time::advance(HOUR).await;
        assert_eq!(failing.take(), []);
        failing.add("new".into(), 1);
        assert_eq!(failing.take(), [FailureRow { failure: "new".into(), attempts: 1 }]);
    }
}
