//! What the library says.

use anyhow::{Context as _, Result, ensure};
use chrono::DateTime;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use queue::schedule::{Fold, Gap, Schedule, TickKind, Upcoming};
use serde::Deserialize;

/// An instant in seconds, and a kind: 0 is normal, 1 shifted, 2 the second of two.
pub(crate) type Tick = (i64, u8);

/// The policies, by the words that the oracle uses. Its numbers for all pairs come in this order.
pub(crate) const GAPS: [(&str, Gap); 2] = [("shift", Gap::Shift), ("skip", Gap::Skip)];
/// See [`GAPS`].
pub(crate) const FOLDS: [(&str, Fold); 3] = [("first", Fold::First), ("last", Fold::Last), ("both", Fold::Both)];

/// How often clocks were changed in a time zone, as the oracle found it by trying.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct Changes {
    /// Where the search began.
    first: i64,
    /// Where it ended.
    last: i64,
    /// At `first`.
    offset: i64,
    /// Instants, and by how many seconds the offset changed.
    pub(crate) transitions: Vec<(i64, i64)>,
    /// The times around transitions in which ticks are compared: start and end.
    pub(crate) windows: Vec<(i64, i64)>,
}

impl Changes {
    /// Whether the library's time zone has the same changes. Else there is no point in comparing ticks.
    pub(crate) fn check(&self, name: &str) -> Result<()> {
        let zone = TimeZone::get(name)?;
        let offset = |instant| -> Result<i64> { Ok(zone.to_offset(Timestamp::from_second(instant)?).seconds().into()) };
        let mut found = Vec::new();
        for transition in zone.following(Timestamp::from_second(self.first)?) {
            let at = transition.timestamp().as_second();
            if at > self.last {
                break;
            }
            found.push((at, offset(at)? - offset(at - 1)?));
        }
        found.retain(|(_, by)| *by != 0);
        let other = found.iter().zip(&self.transitions).find(|(one, other)| one != other);
        ensure!(
            found == self.transitions && offset(self.first)? == self.offset,
            "the library and Python have different data for {name}: {} and {} transitions, the first that differ are \
             {other:?}",
            found.len(),
            self.transitions.len(),
        );
        Ok(())
    }
}

/// For each window the library's ticks.
pub(crate) fn ticks(schedule: &Schedule, windows: &[(i64, i64)]) -> Result<Vec<Vec<Tick>>> {
    let mut ahead = None;
    let mut all = Vec::with_capacity(windows.len());
    for &(start, end) in windows {
        // a tick known from the window before, if it is not too early, is the first from here on, too
        let (mut preview, mut next) = match ahead.take() {
            Some((preview, Some(tick))) if instant(&tick) >= start => (preview, Some(tick)),
            _ => {
                let mut preview = schedule.preview(DateTime::from_timestamp(start - 1, 0).context("no date")?);
                let next = preview.next();
                (preview, next)
            }
        };
        let mut found = Vec::new();
        while let Some(tick) = next.filter(|tick| instant(tick) < end) {
            found.push((instant(&tick), kind(&tick)));
            next = preview.next();
        }
        all.push(found);
        ahead = Some((preview, next));
    }
    Ok(all)
}

fn instant(tick: &Upcoming) -> i64 {
    tick.at.timestamp()
}

fn kind(tick: &Upcoming) -> u8 {
    match tick.kind {
        TickKind::Normal => 0,
        TickKind::Shifted => 1,
        TickKind::SecondOfTwo => 2,
    }
}

/// How many ticks there are, and a number for them, as the oracle makes it.
pub(crate) fn digest(windows: &[Vec<Tick>]) -> (u64, u64) {
    let (mut count, mut number) = (0, 0_u64);
    for ticks in windows.iter().filter(|ticks| !ticks.is_empty()) {
        let mut inner = 0_u64;
        for (instant, kind) in ticks {
            let value = instant.wrapping_mul(4).wrapping_add((*kind).into());
            inner = inner.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(value.cast_unsigned());
            count += 1;
        }
        number = number.wrapping_mul(3_935_559_000_370_003_845).wrapping_add(inner);
    }
    (count, number)
}
