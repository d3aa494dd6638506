//! What the claim loop knows of lanes: which have due rows, and where the next claim starts. No I/O.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::limits::YEAR_1;
use crate::store::values::{Ask, Claimed, Lane, LaneHead, Place, Rank, Share};
use crate::worker::claim::discovery::{Cost, LONGEST_SCAN, RESCAN};

/// A scan starts this far before the cursor, in microseconds. A job that is enqueued in a transaction carries the time
/// at which the transaction began. So it may be committed behind the cursor.
const NEAR: i64 = 2_000_000;
/// A lane that is due further ahead than this is checked again after this time.
const FAR: Duration = Duration::from_secs(60 * 60);
/// While discovery is expensive, a lane that gave a job within this time is kept, even if discovery finds it empty. Its
/// next jobs are claimed by its cursor.
const REMEMBERED: Duration = Duration::from_secs(10 * 60);
/// The most lanes kept in this way: the ones that gave a job last. Each takes another lane's place in a comparison.
const MOST_REMEMBERED: usize = 32;
/// The head of a lane that was found empty and is kept.
const EMPTY: Place = (i64::MAX, i64::MAX);
/// Before every place.
const BEGINNING: Place = (i64::MIN, i64::MIN);

struct Known {
    lane: Lane,
    newest_first: bool,
    /// When its rows become due.
    due: Instant,
    /// Its next row is not before this place, as far as is known.
    head: Place,
    /// No due row is left before this place, as far as is known. Not used where the newest come first.
    cursor: Place,
    /// The cursor when the last discovery began.
    then: Place,
    /// When discovery last found it, unless that was expensive.
    looked: Option<Instant>,
    /// When it was last scanned from before its cursor, or discovery made that unnecessary. None: scan it next.
    scanned: Option<Instant>,
    cost: Cost,
    /// When it last gave a job.
    gave: Option<Instant>,
}

/// The place before all jobs that are due at this time or later.
fn before(run_at: i64) -> Place {
    (run_at, i64::MIN)
}

impl Known {
    fn may_scan(&self, now: Instant) -> bool {
        self.scanned.is_none_or(|at| now - at >= self.cost.pause(LONGEST_SCAN))
    }

    /// A row in it is due, as far as is known.
    fn has_due(&self, now: Instant) -> bool {
        self.due <= now && self.head != EMPTY
    }

    /// Its next row does not come before this rank.
    fn next(&self) -> Rank {
        let place = if self.newest_first { BEGINNING } else { self.cursor.max(self.head) };
        (self.lane.priority, place)
    }

    fn gave_lately(&self, now: Instant) -> bool {
        self.gave.is_some_and(|at| now - at < REMEMBERED)
    }

    /// The place behind which the next claim starts. None: the beginning of the lane.
    fn start(&self, now: Instant) -> Option<Place> {
        let near = || before(self.cursor.0.saturating_sub(NEAR));
        let start = if self.may_scan(now) { near() } else { self.cursor };
        // earlier times may differ in the database: not each that it can store fits in 64 bits of microseconds
        Some(start).filter(|start| !self.newest_first && start.0 >= YEAR_1)
    }

    fn ask(&self, take: u32, now: Instant, max_retries: u32) -> Ask {
        let (lane, behind, newest_first) = (self.lane.clone(), self.start(now), self.newest_first);
        Ask { lane, take, behind, first: None, newest_first, max_retries }
    }

    /// The lane gave less than was asked. It is scanned from before its cursor when the cost allows that. Otherwise it
    /// waits for the next discovery. If discovery has just run, no scan is needed.
    ///
    /// If discovery does not see all lanes (`partial`), many lanes have nothing left, and they would come before all
    /// others. They come last until they are forgotten.
    fn exhausted(&mut self, ask: &Ask, now: Instant, partial: bool) {
        if partial {
            (self.head, self.due) = (EMPTY, now + self.cost.pause(LONGEST_SCAN));
            return;
        }
        let looked_at = self.looked.is_some_and(|at| now - at < RESCAN);
        if ask.behind == Some(self.cursor) && (self.may_scan(now) || self.cost.is_cheap()) && !looked_at {
            self.scanned = None;
        } else {
            let soon = now + self.cost.pause(LONGEST_SCAN);
            // it may have been asked before anything was known to be due
            self.due = if self.due > now { self.due.min(soon) } else { soon };
        }
    }
}

/// The lanes that had rows at the last discovery.
#[derive(Default)]
pub(super) struct Lanes {
    known: HashMap<Lane, Known>,
    /// The last discovery did not see all lanes.
    partial: bool,
}

impl Lanes {
    /// Discovery begins: its result describes the lanes as they are now.
    pub(super) fn look_begins(&mut self) {
        self.known.values_mut().for_each(|known| known.then = known.cursor);
    }

    /// Takes over the result of the discovery that began last. A known lane keeps its cursor, unless a row was found
    /// before it. A lane that was not found is forgotten, with two exceptions. If discovery was expensive (`dear`: how
    /// long it took) or partial, its result is outdated and the next one is far off. A lane that gave a job lately is
    /// then kept for a while and asked soon. If discovery began or stopped midway, it did not see all lanes. Then the
    /// first `most_kept` of the lanes that it left out are kept.
    pub(super) fn found(
        &mut self,
        heads: Vec<LaneHead>,
        now: Instant,
        dear: Option<Duration>,
        most_kept: usize,
        newest_first: impl Fn(&Lane) -> bool,
    ) {
        self.partial = most_kept > 0;
        let soon = |known: &Known| (dear.is_some() || most_kept > 0) && !known.newest_first && known.gave_lately(now);
        let mut remembered = std::mem::take(&mut self.known);
        for LaneHead { lane, first: head, due_in } in heads {
            let due = now + due_in.saturating_sub(dear.unwrap_or_default()).min(FAR);
            let run_at = head.0;
            // a fresh result replaces a scan: no row was before the one found
            let looked = dear.is_none().then_some(now);
            let known = match remembered.remove(&lane) {
                Some(known) if run_at < known.then.0 => {
                    Known { due, head, cursor: before(run_at), looked, scanned: looked.or(known.scanned), ..known }
                }
                Some(known) if soon(&known) => Known { due: due.min(now + RESCAN), head, ..known },
                Some(known) if head > known.then => {
                    Known { due, head, looked, scanned: looked.or(known.scanned), ..known }
                }
                // rows due at the time of the cursor may be left before it: the next scan finds them
                Some(known) => Known { due, head, looked: None, ..known },
                None => Known {
                    newest_first: newest_first(&lane),
                    lane: lane.clone(),
                    due,
                    head,
                    cursor: before(run_at),
                    then: before(run_at),
                    looked,
                    scanned: Some(now),
                    cost: Cost::default(),
                    gave: None,
                },
            };
            self.known.insert(lane, known);
        }
        let keep = |known: &Known| most_kept > 0 && known.has_due(now);
        let (mut kept, empty): (Vec<_>, Vec<_>) = remembered.into_values().partition(keep);
        if kept.len() > most_kept {
            kept.select_nth_unstable_by_key(most_kept, Known::next);
            kept.truncate(most_kept);
        }
        self.known.extend(kept.into_iter().map(|known| (known.lane.clone(), known)));
        let mut empty: Vec<_> = empty.into_iter().filter(|known| soon(known)).collect();
        empty.sort_unstable_by_key(|known| Reverse(known.gave));
        for known in empty.into_iter().take(MOST_REMEMBERED) {
            // its next row is newer than the result of discovery
            let known = Known { head: EMPTY, due: known.due.min(now + RESCAN), ..known };
            self.known.insert(known.lane.clone(), known);
        }
    }

    /// Something was enqueued: lanes that had nothing left are asked at once.
    pub(super) fn woken(&mut self, now: Instant) {
        let soon = |known: &&mut Known| known.due <= now + LONGEST_SCAN;
        self.known.values_mut().filter(soon).for_each(|known| known.due = now);
    }

    /// The asks for the first `most` lanes that are due and served, in the order of their possible next rows. Also the
    /// rank from which on the next such lane may have rows, if there are more. `retries`: the retry limit of a lane, if
    /// it is served.
    pub(super) fn asks(
        &self,
        take: u32,
        most: usize,
        now: Instant,
        retries: impl Fn(&Lane) -> Option<u32>,
    ) -> (Vec<Ask>, Option<Rank>) {
        let due = self.known.values().filter(|known| known.due <= now);
        let mut served: Vec<_> = due.filter_map(|known| Some((known, retries(&known.lane)?))).collect();
        let mut next = None;
        if served.len() > most {
            let (_, (first, _), _) = served.select_nth_unstable_by_key(most, |(known, _)| known.next());
            next = Some(first.next());
            served.truncate(most);
        }
        served.sort_unstable_by_key(|(known, _)| known.next());
        (served.into_iter().map(|(known, max_retries)| known.ask(take, now, max_retries)).collect(), next)
    }

    pub(super) fn have_due(&self, now: Instant) -> bool {
        self.known.values().any(|known| known.has_due(now))
    }

    /// The ask for the only known lane. `told`: something may be in it, so it is asked even if nothing is known to be
    /// due.
    pub(super) fn only(
        &self,
        take: u32,
        told: bool,
        now: Instant,
        retries: impl Fn(&Lane) -> Option<u32>,
    ) -> Option<Ask> {
        let mut all = self.known.values();
        let known = all.next().filter(|known| all.len() == 0 && !known.newest_first)?;
        let gave = known.gave.is_some_and(|at| now - at < RESCAN);
        if !told && !gave && known.due > now {
            return None;
        }
        Some(known.ask(take, now, retries(&known.lane)?))
    }

    /// The place right behind the cursor, for an ask that starts there.
    pub(super) fn next_place(&self, ask: &Ask) -> Option<Place> {
        let cursor = self.known.get(&ask.lane)?.cursor;
        Some((cursor.0, cursor.1.checked_add(1)?)).filter(|_| ask.behind == Some(cursor) && !ask.newest_first)
    }

    /// Moves the cursors after a claim that began at `started`, and notes which lanes gave less than was asked.
    pub(super) fn claimed(&mut self, asks: &[Ask], jobs: &[Claimed], started: Instant) {
        let now = Instant::now();
        for ask in asks {
            let mine = jobs.iter().filter(|job| job.lane == ask.lane);
            let (mut count, mut last) = (0, None);
            for job in mine {
                count += 1;
                last = last.max(Some((job.run_at, job.id.get())));
            }
            let Some(known) = self.known.get_mut(&ask.lane) else { continue };
            if count > 0 {
                known.gave = Some(now);
                // from now on the cursor limits where its next row may be
                known.head = BEGINNING;
            }
            let all = count < ask.take;
            if all {
                known.exhausted(ask, now, self.partial);
            } else {
                // it may have been asked although nothing seemed to be left
                known.due = now;
            }
            if ask.behind != Some(known.cursor) {
                known.scanned = Some(now);
                known.cost.add(now - started);
            }
            if let Some(last) = last.filter(|_| !ask.newest_first) {
                known.cursor = if all { last.max(known.cursor) } else { last };
            }
        }
    }

    /// Nothing was due behind the cursor of this ask.
    pub(super) fn empty(&mut self, ask: &Ask, now: Instant) {
        if let Some(known) = self.known.get_mut(&ask.lane) {
            known.exhausted(ask, now, self.partial);
            if ask.behind != Some(known.cursor) {
                known.scanned = Some(now);
            }
        }
    }

    /// Learns the heads of lanes from a comparison. The head of a lane that has some of the next jobs is the first of
    /// these. Other lanes of the same priority have no row before the last of all.
    pub(super) fn compared(&mut self, asks: &[Ask], shares: &[Share]) {
        let in_order = asks.iter().zip(shares).filter(|(ask, _)| !ask.newest_first);
        let last = in_order.clone().filter_map(|(ask, share)| Some((ask.lane.priority, share.ends?.1))).max();
        for (ask, share) in in_order {
            let Some(known) = self.known.get_mut(&ask.lane) else { continue };
            match (share.ends, last) {
                (Some((first, _)), _) => known.head = first,
                (None, Some((priority, last))) if priority == ask.lane.priority => known.head = known.head.max(last),
                _ => {}
            }
        }
    }

    /// The first lane left out starts at `before`, and these lanes had fewer jobs before it than were wanted. Returns
    /// whether some of them now make room for others, because their known heads were too early.
    pub(super) fn make_room(&mut self, asks: &[Ask], shares: &[Share], before: Rank, now: Instant) -> bool {
        let mut others = false;
        for (ask, share) in asks.iter().zip(shares) {
            let Some(known) = self.known.get_mut(&ask.lane) else { continue };
            if share.ends.is_none() && ask.lane.priority < before.0 {
                // nothing in it is due
                known.due = now + known.cost.pause(LONGEST_SCAN);
            }
            others |= known.next() > before || known.due > now;
        }
        others
    }

    /// The time until the next of the wanted lanes is due. An idle worker does not wake up for a lane that was found
    /// empty: whatever wakes it anyway covers that lane.
    pub(super) fn next_due(&self, idle: bool, wanted: impl Fn(&Lane) -> bool) -> Option<Duration> {
        let now = Instant::now();
        let wanted = self.known.values().filter(|known| wanted(&known.lane) && !(idle && known.head == EMPTY));
        // one millisecond more, because the database's clock is read a little later than ours
        wanted.map(|known| known.due.saturating_duration_since(now) + Duration::from_millis(1)).min()
    }
}

#[cfg(test)]
#[path = "lanes_tests.rs"]
mod tests;
