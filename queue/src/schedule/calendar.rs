//! The ticks of a schedule in its time zone. Between two transitions of the zone its offset is constant, so there ticks
//! are the matching wall-clock times minus the offset. At a transition, [`Gap`] and [`Fold`] decide.
//!
//! All times are seconds: of instants since 1970, of wall clocks since 1970 on that clock.

use std::sync::Arc;

use chrono::{DateTime, NaiveDateTime};
use jiff::Timestamp;
use jiff::tz::{AmbiguousOffset, Offset, TimeZone};

use crate::schedule::expression::Expression;

/// jiff knows instants of these years; ticks outside are not of interest.
const YEAR_1: i64 = -62_135_596_800;
const YEAR_9998: i64 = 253_339_228_800;

/// What happens at a wall-clock time that does not exist, because clocks were set forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gap {
    /// One tick at the end of the gap. This is the default, unless the hour is `*` or `*/n`.
    Shift,
    /// No tick.
    Skip,
}

/// What happens at a wall-clock time that comes twice, because clocks were set back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fold {
    /// A tick the first time. This is the default, unless the hour is `*` or `*/n`.
    First,
    /// A tick the second time.
    Last,
    /// A tick each time.
    Both,
}

/// What kind of moment a tick is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TickKind {
    /// The clock shows a time that matches.
    Normal,
    /// The end of a gap, for times that the clock left out. See [`Gap::Shift`].
    Shifted,
    /// The clock shows this time again. See [`Fold::Both`].
    SecondOfTwo,
}

/// The ticks of a schedule, without end.
#[derive(Debug, Clone)]
pub(crate) struct Calendar {
    pub(crate) expression: Arc<Expression>,
    pub(crate) zone: TimeZone,
    pub(crate) gap: Gap,
    pub(crate) fold: Fold,
}

impl Calendar {
    /// The ticks later than `instant`, in order.
    pub(crate) fn after(&self, instant: i64) -> Ticks {
        let last = instant.clamp(YEAR_1, YEAR_9998);
        let segment = Segment::at(&self.zone, last + 1);
        Ticks { calendar: self.clone(), last, segment }
    }

    /// The offset of the zone, in seconds.
    pub(crate) fn offset(&self, instant: i64) -> i64 {
        offset(&self.zone, instant)
    }
}

/// A time with one offset.
#[derive(Debug, Clone, Copy)]
struct Segment {
    start: Option<i64>,
    /// None: it never ends.
    end: Option<i64>,
    /// The offset before it.
    before: i64,
    offset: i64,
}

impl Segment {
    fn at(zone: &TimeZone, instant: i64) -> Self {
        let current = offset(zone, instant);
        let changes = |at: &i64| offset(zone, *at - 1) != offset(zone, *at);
        let seconds = |transition: jiff::tz::TimeZoneTransition<'_>| transition.timestamp().as_second();
        let start = zone.preceding(timestamp(instant + 1)).map(seconds).find(changes);
        let end = zone.following(timestamp(instant)).map(seconds).take_while(|at| *at < YEAR_9998).find(changes);
        Self { start, end, before: start.map_or(current, |start| offset(zone, start - 1)), offset: current }
    }
}

fn timestamp(instant: i64) -> Timestamp {
    Timestamp::from_second(instant).unwrap_or(Timestamp::UNIX_EPOCH)
}

fn offset(zone: &TimeZone, instant: i64) -> i64 {
    zone.to_offset(timestamp(instant)).seconds().into()
}

fn naive(wall: i64) -> NaiveDateTime {
    DateTime::from_timestamp(wall, 0).unwrap_or_default().naive_utc()
}

/// The ticks of a [`Calendar`].
#[derive(Debug, Clone)]
pub(crate) struct Ticks {
    pub(crate) calendar: Calendar,
    /// All ticks up to here are told.
    last: i64,
    segment: Segment,
}

impl Ticks {
    /// The first matching wall-clock time from `wall` on.
    fn wall_clock(&self, wall: i64) -> Option<i64> {
        self.calendar.expression.wall_clock(naive(wall)).map(|found| found.and_utc().timestamp())
    }

    /// The beginning of this segment, if it stands for wall-clock times that the transition left out.
    fn shifted(&self) -> Option<i64> {
        let Segment { start, before, offset, .. } = self.segment;
        let start = start.filter(|start| *start > self.last && before < offset && self.calendar.gap == Gap::Shift)?;
        self.wall_clock(start + before).filter(|wall| *wall < start + offset).and(Some(start))
    }

    /// What a matching time of this segment is, if it is a tick.
    fn kind(&self, instant: i64) -> Option<TickKind> {
        let wall_clock = Offset::UTC.to_datetime(timestamp(instant + self.segment.offset));
        let AmbiguousOffset::Fold { before, .. } = self.calendar.zone.to_ambiguous_timestamp(wall_clock).offset()
        else {
            return Some(TickKind::Normal);
        };
        let is_first = i64::from(before.seconds()) == self.segment.offset;
        match self.calendar.fold {
            Fold::Both if !is_first => Some(TickKind::SecondOfTwo),
            Fold::Both => Some(TickKind::Normal),
            Fold::First => is_first.then_some(TickKind::Normal),
            Fold::Last => (!is_first).then_some(TickKind::Normal),
        }
    }
}

impl Iterator for Ticks {
    type Item = (i64, TickKind);

    fn next(&mut self) -> Option<Self::Item> {
        if let Expression::Every(seconds) = *self.calendar.expression {
            let seconds = i64::try_from(seconds).ok()?;
            self.last = (self.last.div_euclid(seconds) + 1).checked_mul(seconds)?;
            return (self.last < YEAR_9998).then_some((self.last, TickKind::Normal));
        }
        loop {
            let shifted = self.shifted();
            let Segment { start, end, offset, .. } = self.segment;
            let from = start.map_or(self.last + 1, |start| start.max(self.last + 1));
            let instant = self.wall_clock(from + offset).map(|wall| wall - offset);
            match (shifted, instant) {
                (Some(shifted), instant) if instant.is_none_or(|instant| instant > shifted) => {
                    self.last = shifted;
                    return Some((shifted, TickKind::Shifted));
                }
                (_, Some(instant)) if end.is_none_or(|end| instant < end) => {
                    self.last = instant;
                    if let Some(kind) = self.kind(instant) {
                        return Some((instant, kind));
                    }
                }
                _ => {
                    // a fold ahead may show earlier times again, but none that were not found
                    instant?;
                    let end = end.filter(|end| *end < YEAR_9998)?;
                    self.last = end - 1;
                    self.segment = Segment::at(&self.calendar.zone, end);
                }
            }
        }
    }
}
