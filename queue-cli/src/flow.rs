//! How much of each queue ended in the last minutes, and how long it waited.

use std::collections::BTreeMap;
use std::time::Duration;

use queue::Error;
use queue::admin::{Admin, Throughput};
use serde_json::{Value, json};

use crate::text::{duration, thousands};

/// The number of whole minutes that are looked at.
const MINUTES: u32 = 5;

/// What happened in a queue in these minutes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Flow {
    ended: u64,
    failed: u64,
    started: u64,
    waited: Duration,
    longest: Duration,
}

/// By queue.
pub(crate) async fn read(admin: &Admin) -> Result<BTreeMap<String, Flow>, Error> {
    Ok(by_queue(&admin.throughput(Duration::from_secs(60) * MINUTES).await?))
}

pub(crate) fn by_queue(throughput: &Throughput) -> BTreeMap<String, Flow> {
    let mut flows: BTreeMap<String, Flow> = BTreeMap::new();
    for tally in throughput.over() {
        let flow = flows.entry(tally.queue.clone()).or_default();
        if tally.outcome.is_end() {
            flow.ended += tally.attempts;
            flow.failed += if tally.outcome.is_failure() { tally.attempts } else { 0 };
        } else {
            flow.started += tally.attempts;
            flow.waited += tally.total;
            flow.longest = flow.longest.max(tally.longest);
        }
    }
    flows
}

impl Flow {
    /// Columns of a table, as their titles name them.
    pub(crate) const TITLES: [&str; 4] = [">PER MIN", ">FAILED/MIN", ">WAIT", ">MAX WAIT"];

    pub(crate) fn cells(&self) -> [String; 4] {
        let waits = [self.mean(), self.mean().map(|_| self.longest)];
        let [mean, longest] = waits.map(|wait| wait.map_or_else(|| "-".to_owned(), duration));
        [rate(self.ended), rate(self.failed), mean, longest]
    }

    /// Adds the same to an object.
    pub(crate) fn add_to(&self, object: &mut Value) {
        let per_minute = |attempts: u64| attempts as f64 / f64::from(MINUTES);
        object["per_minute"] = json!(per_minute(self.ended));
        object["failed_per_minute"] = json!(per_minute(self.failed));
        object["wait_mean_s"] = json!(self.mean().map(|wait| wait.as_secs_f64()));
        object["wait_longest_s"] = json!(self.mean().map(|_| self.longest.as_secs_f64()));
    }

    /// How long those that started waited. None: none started.
    fn mean(&self) -> Option<Duration> {
        (self.started > 0).then(|| self.waited.div_f64(self.started as f64))
    }
}

/// "0.4", "12", "1,200".
fn rate(attempts: u64) -> String {
    match (attempts / u64::from(MINUTES), attempts % u64::from(MINUTES)) {
        (whole @ 0..10, rest @ 1..) => format!("{whole}.{}", rest * 10 / u64::from(MINUTES)),
        _ => thousands((attempts + u64::from(MINUTES) / 2) / u64::from(MINUTES)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_minutes_are_summed_up_by_queue() {
        let tally = |minute: u32, queue: &str, outcome: &str, [attempts, total, longest]: [u64; 3]| {
            let began_at = chrono::DateTime::from_timestamp(i64::from(60 * minute), 0);
            let [total, longest] = [total, longest].map(Duration::from_secs);
            json!({"began_at": began_at, "queue": queue, "kind": "k", "outcome": outcome, "attempts": attempts,
                   "total": total, "longest": longest})
        };
        let throughput = json!({
            "span": Duration::from_secs(60), "open_since": chrono::DateTime::from_timestamp(120, 0), "complete": true,
            "tallies": [
                tally(0, "a", "started", [4, 8, 5]), tally(1, "a", "started", [4, 16, 3]),
                tally(0, "a", "completed", [6, 1, 1]), tally(1, "a", "dead", [1, 1, 1]),
                tally(1, "b", "failed", [7000, 1, 1]), tally(2, "a", "completed", [900, 1, 1]),
            ],
        });
        let flows = by_queue(&serde_json::from_value(throughput).expect("a throughput"));
        let cells = flows.iter().map(|(queue, flow)| (queue.as_str(), flow.cells().join(" | "))).collect::<Vec<_>>();
        assert_eq!(cells, [("a", "1.4 | 0.2 | 3 s | 5 s".into()), ("b", "1,400 | 1,400 | - | -".into())]);
    }
}
