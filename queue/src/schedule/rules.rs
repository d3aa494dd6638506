//! The rules for clock changes, missed ticks and overlapping jobs.

use std::time::Duration;

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

/// What happens with ticks that were missed: no worker could fire them for more than a minute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Missed {
    /// They are passed over.
    None,
    /// The last of them is fired, unless a later tick is due as well. The default.
    #[default]
    Last,
    /// Those of the last `within` are fired, the oldest first. Whole seconds.
    All {
        /// Older ones are passed over.
        within: Duration,
    },
}

/// What happens at a tick when a job of the schedule still waits or runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Overlap {
    /// It is fired all the same. The default.
    #[default]
    Allow,
    /// It is passed over. If several ticks are due at once, only the last is fired.
    Skip,
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
