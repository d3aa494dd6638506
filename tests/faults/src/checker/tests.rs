//! Plants each violation in an otherwise correct record.

use queue_test_support::{Attempt, Row};

use super::{Checker, History, Rule};
use crate::record::{Event, How, Options, What};

const SECOND: i64 = 1_000_000;
/// Processes: a producer, and two workers with the ids 1 and 2.
const PRODUCER: i64 = 100;
const ONE: i64 = 101;
const TWO: i64 = 102;
const TAG: i64 = 7;

/// A record under construction. Times are in seconds.
struct Plot(History);

impl Plot {
    /// A job with tag 7 and id 70 is enqueued at 1 s and committed at 2 s.
    fn committed(options: Options) -> Plot {
        Plot::asked(options).event(2, PRODUCER, What::Committed { tags: vec![TAG] })
    }

    fn asked(options: Options) -> Plot {
        Plot(History::default()).workers().event(1, PRODUCER, What::Asked { tags: vec![TAG], options })
    }

    fn workers(mut self) -> Plot {
        self.0.tables.processes.extend([(1, ONE), (2, TWO)]);
        self
    }

    fn event(mut self, at: i64, process: i64, what: What) -> Plot {
        self.0.events.push(Event { at: at * SECOND, process, what });
        self.0.events.sort_by_key(|event| event.at);
        self
    }

    fn start(self, at: i64, process: i64, attempt: i64) -> Plot {
        self.event(at, process, What::Started { job: 70, tag: TAG, attempt })
    }

    fn end(self, at: i64, process: i64, attempt: i64, how: How) -> Plot {
        self.event(at, process, What::Ended { job: 70, tag: TAG, attempt, how })
    }

    fn row(self, state: &str, attempt: i64, fence: i64, worker: i64) -> Plot {
        self.row_of(70, TAG, state, attempt, fence, worker)
    }

    fn row_of(mut self, id: i64, tag: i64, state: &str, attempt: i64, fence: i64, worker: i64) -> Plot {
        let args = format!("{{\"tag\":{tag}}}");
        let row = Row { state: state.into(), attempt, fence, worker, error: String::new(), args };
        self.0.tables.jobs.entry(id).or_default().push(row);
        self
    }

    fn attempt(mut self, fence: i64, attempt: i64, worker: i64, outcome: &str) -> Plot {
        let outcome = outcome.into();
        self.0.tables.attempts.entry(70).or_default().push(Attempt { fence, attempt, worker, outcome });
        self
    }

    fn ledger(mut self) -> Plot {
        self.0.ledger.insert(TAG);
        self
    }

    #[track_caller]
    fn breaks(self, expected: &[Rule]) {
        let checker = Checker::new(&self.0);
        let violations = checker.violations();
        let mut rules: Vec<Rule> = violations.iter().map(|it| it.rule).collect();
        rules.sort_unstable();
        rules.dedup();
        assert_eq!(rules, expected, "{}", checker.tell(&violations));
    }
}

fn retries(max_retries: i64) -> Options {
    Options { max_retries, ..Options::default() }
}

/// One attempt that completes.
fn completed() -> Plot {
    Plot::committed(retries(3)).start(3, ONE, 1).end(4, ONE, 1, How::Ok).row("completed", 1, 1, 1)
}

/// The first worker is killed at 4 s, and the second completes the job.
fn rescued() -> Plot {
    let plot = Plot::committed(retries(3)).start(3, ONE, 1).event(4, ONE, What::Killed);
    plot.start(12, TWO, 2).end(13, TWO, 2, How::Ok).attempt(1, 1, 1, "lost").row("completed", 2, 2, 2)
}

/// The first worker is suspended from 4 to 14 s. Meanwhile the second completes the job.
fn stopped() -> Plot {
    let plot = Plot::committed(retries(3)).start(3, ONE, 1).event(4, ONE, What::Stopped);
    let plot = plot.start(12, TWO, 2).end(13, TWO, 2, How::Ok).event(14, ONE, What::Continued);
    plot.end(15, ONE, 1, How::Ok).attempt(1, 1, 1, "lost").row("completed", 2, 2, 2)
}

#[test]
fn a_rescue_counts_from_the_last_kill() {
    let delays = |plot: &Plot| Checker::new(&plot.0).rescues();
    assert_eq!(delays(&rescued()), [8 * SECOND]);
    assert!(delays(&stopped()).is_empty(), "nobody was killed");
    let mut behind = rescued();
    let Some(What::Asked { options, .. }) = behind.0.events.first_mut().map(|it| &mut it.what) else { unreachable!() };
    options.priority = 1;
    assert!(delays(&behind).is_empty(), "it had to stand in line");
    // held it in between, and was killed before the handler began
    let mut third =
        Plot::committed(retries(3)).start(3, ONE, 1).event(4, ONE, What::Killed).event(9, 103, What::Killed);
    third.0.tables.processes.insert(3, 103);
    let third = third.start(12, TWO, 3).end(13, TWO, 3, How::Ok).attempt(1, 1, 1, "lost").attempt(2, 2, 3, "lost");
    let third = third.row("completed", 3, 3, 2);
    assert_eq!(delays(&third), [3 * SECOND]);
}

#[test]
fn a_lease_lost_while_the_database_hung_is_told_from_others() {
    let deaths = |plot: &Plot| Checker::new(&plot.0).deaths_while_answered();
    let lost = || completed().event(20, ONE, What::LeaseLost);
    assert_eq!(deaths(&lost()), 1);
    assert_eq!(deaths(&lost().event(19, TWO, What::Unanswered)), 0);
    assert_eq!(deaths(&lost().event(21, TWO, What::Unanswered)), 1, "that was later");
    assert_eq!(deaths(&lost().event(4, ONE, What::Unanswered)), 1, "that was long before");
    assert_eq!(deaths(&lost().event(19, ONE, What::Stopped)), 0, "it was suspended");
}

#[test]
fn sound_records_break_nothing() {
    completed().breaks(&[]);
    rescued().breaks(&[]);
    stopped().breaks(&[]);
    Plot::asked(retries(0)).event(2, PRODUCER, What::RolledBack { tags: vec![TAG] }).breaks(&[]);
    Plot::asked(retries(0)).event(2, PRODUCER, What::Unknown { tags: vec![TAG] }).breaks(&[]);
    let cut_off = Plot::committed(retries(3)).start(3, ONE, 1).event(13, ONE, What::LeaseLost);
    let cut_off = cut_off.start(12, TWO, 2).end(14, TWO, 2, How::Ok).end(13, ONE, 1, How::Dropped);
    cut_off.attempt(1, 1, 1, "lost").row("completed", 2, 2, 2).breaks(&[]);
    // a process that starved begins with what it had claimed before it learns that its lease is lost
    let late = Plot::committed(retries(3)).start(3, TWO, 2).end(9, TWO, 2, How::Ok);
    let late = late.start(4, ONE, 1).event(5, ONE, What::LeaseLost).end(5, ONE, 1, How::Dropped);
    late.attempt(1, 1, 1, "lost").row("completed", 2, 2, 2).breaks(&[]);
    // the same before its beginning was known: the other one has its number
    let late = Plot::committed(retries(3)).start(3, TWO, 1).end(9, TWO, 1, How::Ok);
    let late = late.start(4, ONE, 1).event(5, ONE, What::LeaseLost).end(5, ONE, 1, How::Dropped);
    late.attempt(1, 1, 1, "unstarted").row("completed", 1, 2, 2).breaks(&[]);
    let snoozed = Plot::committed(retries(0)).start(3, ONE, 1).end(4, ONE, 1, How::Snoozed { retry_ms: 500 });
    let snoozed = snoozed.start(5, TWO, 1).end(6, TWO, 1, How::Ok);
    snoozed.attempt(1, 1, 1, "snoozed").row("completed", 1, 2, 2).breaks(&[]);
}

#[test]
fn a_lost_job() {
    Plot::committed(retries(0)).breaks(&[Rule::Lost]);
    Plot::committed(retries(0)).start(3, ONE, 1).end(4, ONE, 1, How::Ok).breaks(&[Rule::Lost]);
}

#[test]
fn an_unfinished_job() {
    Plot::committed(retries(0)).row("waiting", 0, 0, 0).breaks(&[Rule::Unfinished]);
    Plot::committed(retries(0)).start(3, ONE, 1).row("running", 1, 1, 1).breaks(&[Rule::Unfinished]);
}

#[test]
fn a_job_that_was_rolled_back() {
    let rolled_back = || Plot::asked(retries(3)).event(2, PRODUCER, What::RolledBack { tags: vec![TAG] });
    rolled_back().start(3, ONE, 1).breaks(&[Rule::RolledBack]);
    rolled_back().row("dead", 4, 4, 1).breaks(&[Rule::RolledBack, Rule::StaleWrite, Rule::GivenUp]);
}

#[test]
fn a_job_in_two_places() {
    completed().row("waiting", 1, 1, 0).breaks(&[Rule::Twice]);
    completed().row_of(71, TAG, "completed", 1, 1, 1).breaks(&[Rule::Twice]);
}

#[test]
fn a_job_that_nobody_asked_for() {
    completed().row_of(71, 8, "completed", 1, 1, 1).breaks(&[Rule::Unasked, Rule::StaleWrite]);
}

#[test]
fn two_attempts_at_once() {
    // the first worker is well, and still runs it
    let plot = || Plot::committed(retries(3)).start(3, ONE, 1).start(5, TWO, 2).end(6, TWO, 2, How::Ok);
    let plot = || plot().end(9, ONE, 1, How::Ok).row("completed", 2, 2, 2);
    plot().breaks(&[Rule::Overlap]);
    plot().attempt(1, 1, 1, "lost").breaks(&[Rule::Overlap]);
    // it stood still, but at another time
    let still = plot().event(6, ONE, What::Stopped).event(7, ONE, What::Continued);
    still.attempt(1, 1, 1, "lost").breaks(&[Rule::Overlap]);
    // the later one is stale, in a process that is well
    let stale = Plot::committed(retries(3)).start(3, TWO, 2).end(9, TWO, 2, How::Ok).start(4, ONE, 1);
    let stale = stale.end(5, ONE, 1, How::Dropped).attempt(1, 1, 1, "lost");
    stale.row("completed", 2, 2, 2).breaks(&[Rule::Overlap]);
    // of two with one number, the one that was not begun is in a process that is well
    let same = Plot::committed(retries(3)).start(3, TWO, 1).end(9, TWO, 1, How::Ok).start(4, ONE, 1);
    let same = same.end(5, ONE, 1, How::Dropped).attempt(1, 1, 1, "unstarted");
    same.row("completed", 1, 2, 2).breaks(&[Rule::Overlap]);
    // the other one was in trouble, and has no part in this
    let other = Plot::committed(retries(3)).start(3, TWO, 1).end(9, TWO, 1, How::Ok).start(4, ONE, 1);
    let other = other.event(5, TWO, What::LeaseLost).end(5, ONE, 1, How::Dropped).attempt(1, 1, 1, "unstarted");
    other.row("completed", 1, 2, 2).breaks(&[Rule::Overlap]);
    // it stood still, but nobody had declared its attempt lost
    plot().event(4, ONE, What::Stopped).event(7, ONE, What::Continued).breaks(&[Rule::Overlap]);
    // the same attempt, handed out twice
    completed().start(9, TWO, 1).end(10, TWO, 1, How::Ok).breaks(&[Rule::Overlap]);
}

#[test]
fn a_completed_job_that_runs_again() {
    completed().start(9, TWO, 2).end(10, TWO, 2, How::Ok).breaks(&[Rule::RanAgain]);
}

#[test]
fn a_stale_write() {
    // the stopped worker's end counts, although another attempt had begun
    let plot = Plot::committed(retries(3)).start(3, ONE, 1).event(4, ONE, What::Stopped);
    let plot = plot.start(12, TWO, 2).event(14, ONE, What::Continued).end(15, ONE, 1, How::Ok).end(16, TWO, 2, How::Ok);
    plot.attempt(1, 1, 1, "lost").row("completed", 1, 1, 1).breaks(&[Rule::StaleWrite]);
    // in the name of a worker that did not run it
    let other = Plot::committed(retries(3)).start(3, ONE, 1).end(4, ONE, 1, How::Ok);
    other.row("completed", 1, 1, 2).breaks(&[Rule::StaleWrite]);
    // its handler never ended, or failed
    let unended = Plot::committed(retries(3)).start(3, ONE, 1);
    unended.row("completed", 1, 1, 1).breaks(&[Rule::StaleWrite]);
    let failed = Plot::committed(retries(3)).start(3, ONE, 1).end(4, ONE, 1, How::Failed { retry_ms: 1 });
    failed.row("completed", 1, 1, 1).breaks(&[Rule::StaleWrite]);
    // a later lease had been given
    completed().attempt(2, 2, 2, "lost").breaks(&[Rule::StaleWrite]);
}

/// An attempt that ends like this, and its successor (with this number), which completes the job.
fn ended(outcome: &str, how: How, next: i64) -> Plot {
    let plot = Plot::committed(retries(3)).start(3, ONE, 1).end(4, ONE, 1, how);
    let plot = plot.start(12, TWO, next).end(13, TWO, next, How::Ok);
    plot.attempt(1, 1, 1, outcome).row("completed", next, 2, 2)
}

const FAILED: How = How::Failed { retry_ms: 500 };
const SNOOZED: How = How::Snoozed { retry_ms: 500 };

#[test]
fn a_stale_write_of_an_attempt_that_did_not_complete() {
    let sound =
        [("failed", FAILED, 2), ("snoozed", SNOOZED, 1), ("panicked", How::Dropped, 2), ("timed_out", How::Ok, 2)];
    for (outcome, how, next) in sound {
        ended(outcome, how, next).breaks(&[]);
        // it ended in another way, or not at all
        let other = if how == How::Ok { "failed" } else { outcome };
        let wrong = if outcome == "panicked" { FAILED } else { How::Ok };
        ended(other, wrong, next).breaks(&[Rule::StaleWrite]);
        // in the name of a worker that did not run it, or that never was
        for worker in [2, 9] {
            let mut theirs = ended(outcome, how, next);
            theirs.0.tables.attempts.get_mut(&70).expect("one")[0].worker = worker;
            theirs.breaks(&[Rule::StaleWrite]);
        }
    }
    // twice, and it happened once
    ended("snoozed", SNOOZED, 1).attempt(0, 1, 1, "snoozed").breaks(&[Rule::StaleWrite]);
    // the stopped worker's end counts, although another attempt had begun
    let stopped = Plot::committed(retries(3)).start(3, ONE, 1).event(4, ONE, What::Stopped);
    let stopped = stopped.start(12, TWO, 2).event(14, ONE, What::Continued).end(15, ONE, 1, FAILED);
    let stopped = |outcome| {
        let plot = Plot(History { events: stopped.0.events.clone(), ..History::default() }).workers();
        plot.end(16, TWO, 2, How::Ok).attempt(1, 1, 1, outcome).row("completed", 2, 2, 2)
    };
    stopped("lost").breaks(&[]);
    stopped("failed").breaks(&[Rule::Overlap, Rule::StaleWrite]);
    // lost or given back before it began: nothing is known of it
    for outcome in ["lost", "released"] {
        let plot = Plot::committed(retries(3)).start(12, TWO, 2).end(13, TWO, 2, How::Ok);
        plot.attempt(1, 1, 1, outcome).row("completed", 2, 2, 2).breaks(&[]);
    }
}

#[test]
fn a_stale_dead_letter() {
    let dead = |how| Plot::committed(retries(0)).start(3, ONE, 1).end(4, ONE, 1, how);
    dead(FAILED).attempt(1, 1, 1, "failed").row("dead", 1, 1, 1).breaks(&[]);
    // under a lease that is not the last one, of another worker, in an attempt that is not on record
    dead(FAILED)
        .attempt(1, 1, 1, "failed")
        .attempt(2, 1, 1, "released")
        .row("dead", 1, 1, 1)
        .breaks(&[Rule::StaleWrite]);
    dead(FAILED).attempt(1, 1, 1, "failed").row("dead", 1, 1, 2).breaks(&[Rule::StaleWrite]);
    dead(FAILED).row("dead", 1, 1, 1).breaks(&[Rule::StaleWrite, Rule::GivenUp]);
    // a handler may give up early; that of a stale attempt may not
    let given_up = || Plot::committed(retries(3)).start(3, ONE, 1).end(15, ONE, 1, How::Dead);
    given_up().attempt(1, 1, 1, "failed").row("dead", 1, 1, 1).breaks(&[]);
    let stale = given_up().event(4, ONE, What::Stopped).event(14, ONE, What::Continued).start(12, TWO, 2);
    stale.attempt(1, 1, 1, "failed").row("dead", 1, 1, 1).breaks(&[Rule::Overlap, Rule::StaleWrite, Rule::GivenUp]);
}

#[test]
fn a_cancellation_that_nobody_asked_for() {
    let cancelled = |how| {
        let plot = Plot::committed(retries(3)).start(3, ONE, 1).end(4, ONE, 1, how);
        plot.attempt(1, 1, 1, "cancelled").row("cancelled", 1, 1, 1)
    };
    cancelled(How::Cancelled).breaks(&[]);
    cancelled(How::Dropped).breaks(&[Rule::StaleWrite, Rule::Cancelled]);
    Plot::committed(retries(3)).row("cancelled", 0, 0, 0).breaks(&[Rule::StaleWrite, Rule::Cancelled]);
    // it did ask, and was not current any more
    cancelled(How::Cancelled).start(9, TWO, 2).breaks(&[Rule::StaleWrite]);
}

#[test]
fn a_cancellation_that_somebody_asked_for() {
    let asked = |plot: Plot, at| {
        let plot = plot.event(at, PRODUCER, What::CancelAsked { job: 70 });
        plot.event(at, PRODUCER, What::CancelAccepted { job: 70 })
    };
    let waiting = || asked(Plot::committed(retries(3)), 3);
    waiting().row("cancelled", 0, 0, 0).breaks(&[]);
    // it was claimed by then, and its handler begins, and is told to stop
    let told = || waiting().start(4, ONE, 1).end(5, ONE, 1, How::Dropped);
    told().attempt(1, 1, 1, "cancelled").row("cancelled", 1, 1, 1).breaks(&[]);
    told()
        .start(6, ONE, 2)
        .end(7, ONE, 2, How::Ok)
        .attempt(1, 1, 1, "lost")
        .row("completed", 2, 2, 1)
        .breaks(&[Rule::Uncancelled]);
    // an attempt that ended well is none that was stopped
    let well = waiting().start(4, ONE, 1).end(5, ONE, 1, How::Ok);
    well.attempt(1, 1, 1, "cancelled").row("cancelled", 1, 1, 1).breaks(&[Rule::StaleWrite]);
    // of another job
    let other = Plot::committed(retries(3)).event(3, PRODUCER, What::CancelAccepted { job: 71 });
    other.row("cancelled", 0, 0, 0).breaks(&[Rule::StaleWrite, Rule::Cancelled]);
    // asked for, and not known whether it was accepted: it may run as often as it wants
    let unknown = completed().event(2, PRODUCER, What::CancelAsked { job: 70 });
    unknown.breaks(&[]);
}

#[test]
fn an_attempt_that_nobody_saw_begin_counts_for_nothing() {
    let plot = Plot::committed(retries(0)).start(3, ONE, 1).event(4, ONE, What::Killed);
    let plot = plot.start(12, TWO, 1).end(13, TWO, 1, How::Ok);
    plot.attempt(1, 1, 1, "unstarted").row("completed", 1, 2, 2).breaks(&[]);
    let twice = Plot::committed(retries(0)).start(3, ONE, 1).event(4, ONE, What::Killed);
    let twice = twice.start(12, TWO, 1).end(13, TWO, 1, How::Ok);
    twice.row("completed", 1, 2, 2).breaks(&[Rule::Overlap]);
    // lost alone, it answers for the one before
    let alone = || {
        let plot = Plot::committed(retries(1)).start(3, ONE, 1).event(4, ONE, What::Killed);
        plot.start(12, TWO, 1).event(13, TWO, What::Killed).attempt(1, 1, 1, "lost")
    };
    alone().attempt(2, 2, 2, "lost").row("dead", 2, 2, 2).breaks(&[]);
    alone().attempt(2, 1, 2, "lost").row("dead", 1, 2, 2).breaks(&[Rule::Overlap]);
    // also if the next one of its number ended by itself
    let failed = || {
        let plot = Plot::committed(retries(2)).start(3, ONE, 1).event(4, ONE, What::Killed).start(12, TWO, 1);
        let plot = plot.end(13, TWO, 1, How::Failed { retry_ms: 0 }).start(14, TWO, 2).event(15, TWO, What::Killed);
        plot.attempt(1, 1, 1, "lost").attempt(2, 1, 2, "failed")
    };
    failed().attempt(3, 3, 2, "lost").row("dead", 3, 3, 2).breaks(&[]);
    failed().attempt(3, 2, 2, "lost").row("dead", 2, 3, 2).breaks(&[Rule::Overlap]);
}

#[test]
fn a_lost_attempt_that_never_began() {
    let charged = |plot: &Plot| Checker::new(&plot.0).charged_unstarted();
    assert!(charged(&rescued()).is_empty());
    let never = Plot::committed(retries(3)).event(4, ONE, What::Killed).attempt(1, 1, 1, "lost");
    assert_eq!(charged(&never.start(12, TWO, 2).end(13, TWO, 2, How::Ok).row("completed", 2, 2, 2)), [TAG]);
}

#[test]
fn too_many_attempts() {
    let plot = Plot::committed(retries(0)).start(3, ONE, 1).event(4, ONE, What::Killed);
    let plot = plot.start(12, TWO, 2).end(13, TWO, 2, How::Ok);
    plot.attempt(1, 1, 1, "lost").row("completed", 2, 2, 2).breaks(&[Rule::TooMany]);
    let dead = Plot::committed(retries(0)).attempt(1, 1, 1, "lost").attempt(2, 2, 2, "lost");
    dead.row("dead", 2, 2, 2).breaks(&[Rule::TooMany]);
}

#[test]
fn the_first_claim_says_how_often_a_job_is_retried() {
    let plot = |default: i64, attempts: i64| {
        let options = Options { by_claimer: true, ..Options::default() };
        let mut plot = Plot::committed(options).event(1, ONE, What::Retries { by_default: default });
        plot = plot.event(1, TWO, What::Retries { by_default: 9 });
        for attempt in 1..=attempts {
            let (process, worker) = if attempt == 1 { (ONE, 1) } else { (TWO, 2) };
            plot = plot.start(attempt * 10, process, attempt).end(attempt * 10 + 1, process, attempt, FAILED);
            plot = plot.attempt(attempt, attempt, worker, "failed");
        }
        plot.row("dead", attempts, attempts, if attempts == 1 { 1 } else { 2 })
    };
    plot(2, 3).breaks(&[]);
    plot(2, 2).breaks(&[Rule::GivenUp]);
    plot(2, 4).breaks(&[Rule::TooMany]);
    plot(0, 1).breaks(&[]);
}

#[test]
fn a_job_given_up_too_early() {
    let plot = Plot::committed(retries(2)).start(3, ONE, 1).event(4, ONE, What::Killed);
    plot.attempt(1, 1, 1, "lost").row("dead", 1, 1, 1).breaks(&[Rule::GivenUp]);
}

#[test]
fn a_job_without_its_ledger_row_or_the_reverse() {
    let options = || Options { ledger: true, ..retries(0) };
    let run = |plot: Plot| plot.start(3, ONE, 1).end(4, ONE, 1, How::Ok).row("completed", 1, 1, 1);
    run(Plot::committed(options())).breaks(&[Rule::Ledger]);
    run(Plot::committed(options()).ledger()).breaks(&[]);
    let unknown = || Plot::asked(options()).event(2, PRODUCER, What::Unknown { tags: vec![TAG] });
    unknown().ledger().breaks(&[Rule::Ledger]);
    run(unknown()).breaks(&[Rule::Ledger]);
    unknown().breaks(&[]);
}

#[test]
fn a_broken_order() {
    let ordered = |priority| Options { ordered: true, priority, ..retries(0) };
    let second = |plot: Plot, at: i64, committed: i64, start: i64, priority: i16| {
        let plot = plot.event(at, PRODUCER, What::Asked { tags: vec![8], options: ordered(priority) });
        let plot = plot.event(committed, PRODUCER, What::Committed { tags: vec![8] });
        let plot = plot.event(start, ONE, What::Started { job: 80, tag: 8, attempt: 1 });
        let plot = plot.event(start + 1, ONE, What::Ended { job: 80, tag: 8, attempt: 1, how: How::Ok });
        plot.row_of(80, 8, "completed", 1, 1, 1)
    };
    let first = |start| {
        let plot = Plot::committed(ordered(0)).start(start, ONE, 1).end(start + 1, ONE, 1, How::Ok);
        plot.row("completed", 1, 1, 1)
    };
    second(first(20), 1, 2, 22, 0).breaks(&[]);
    second(first(22), 1, 2, 20, 0).breaks(&[Rule::Order]);
    second(first(20), 1, 2, 22, -1).breaks(&[Rule::Order]);
    second(first(22), 1, 2, 20, -1).breaks(&[]);
    // both were on their way at the same time, and then one after the other
    second(first(22), 2, 4, 20, 0).breaks(&[]);
    second(first(22), 3, 4, 20, 0).breaks(&[Rule::Order]);
    // it came only just before
    let late = |start| second(first(20), 17, 18, start, -1);
    late(22).breaks(&[]);
    // and yet before the one who took the other was started, in the place of one who had served the queue
    let next = |at| {
        let plot = late(22).event(1, PRODUCER, What::Asked { tags: vec![9], options: ordered(0) });
        let plot = plot.event(2, PRODUCER, What::Committed { tags: vec![9] });
        let plot = plot.event(3, TWO, What::Started { job: 90, tag: 9, attempt: 1 });
        let plot = plot.event(4, TWO, What::Ended { job: 90, tag: 9, attempt: 1, how: How::Ok });
        plot.row_of(90, 9, "completed", 1, 1, 2).event(at, TWO, What::Exited)
    };
    next(17).breaks(&[]);
    next(19).breaks(&[Rule::Order]);
    let compared = |plot: Plot| Checker::new(&plot.0).compared();
    assert_eq!((compared(late(22)), compared(next(17)), compared(next(19))), (0, 0, 1));
    assert_eq!(compared(second(first(20), 1, 2, 22, 0)), 1, "what is in order was compared as well");
}

#[test]
fn a_job_before_its_time() {
    let delayed = Options { delay_ms: 5000, ..retries(0) };
    let plot = Plot::committed(delayed).start(3, ONE, 1).end(4, ONE, 1, How::Ok);
    plot.row("completed", 1, 1, 1).breaks(&[Rule::Early]);
    // put forward, the database's clock ends a pause, and brings no time of day nearer
    let forward = |absolute| {
        let delayed = Options { delay_ms: 5000, absolute, ..retries(0) };
        let plot = Plot::committed(delayed).event(2, PRODUCER, What::ClockForward).start(3, ONE, 1);
        plot.end(4, ONE, 1, How::Ok).row("completed", 1, 1, 1)
    };
    forward(false).breaks(&[]);
    forward(true).breaks(&[Rule::Early]);
    let retried = |pause| {
        let plot = Plot::committed(retries(3)).start(3, ONE, 1).end(4, ONE, 1, How::Failed { retry_ms: pause });
        let plot = plot.start(6, ONE, 2).end(7, ONE, 2, How::Ok);
        plot.attempt(1, 1, 1, "failed").row("completed", 2, 2, 1)
    };
    retried(1500).breaks(&[]);
    retried(2500).breaks(&[Rule::Early]);
    // snoozed twice under one number: when it was refused the second time, that pause is not kept
    let again = |second: &str, next| {
        let pause = How::Snoozed { retry_ms: 1500 };
        let plot = Plot::committed(retries(3)).start(3, ONE, 1).end(4, ONE, 1, pause).start(6, ONE, 1);
        let plot = plot.end(9, ONE, 1, pause).start(10, TWO, next).end(11, TWO, next, How::Ok);
        plot.attempt(1, 1, 1, "snoozed").attempt(2, 1, 1, second).row("completed", next, 3, 2)
    };
    again("lost", 2).breaks(&[]);
    again("snoozed", 1).breaks(&[Rule::Early]);
    // the attempt did not count, so that another one has its number: its pause is kept
    let uncounted = |first: &str, learned: Option<(i64, What)>| {
        let pause = How::Snoozed { retry_ms: 2500 };
        let mut plot = Plot::committed(retries(3)).start(3, ONE, 1);
        if let Some((at, what)) = learned {
            plot = plot.event(at, ONE, what);
        }
        let plot = plot.end(5, ONE, 1, pause).start(7, ONE, 1).end(8, ONE, 1, pause);
        let plot = plot.start(11, ONE, 1).end(12, ONE, 1, How::Ok);
        plot.attempt(1, 1, 1, first).attempt(2, 1, 1, "snoozed").row("completed", 1, 3, 1)
    };
    uncounted("unstarted", None).breaks(&[Rule::Early]);
    uncounted("unstarted", Some((5, What::Refused { job: 70 }))).breaks(&[]);
    // dropped with the lease, it was not even sent; the process may write that down a moment later
    uncounted("unstarted", Some((4, What::LeaseLost))).breaks(&[]);
    uncounted("unstarted", Some((6, What::LeaseLost))).breaks(&[]);
    // a lease that was lost before or after these two excuses nothing
    uncounted("unstarted", Some((2, What::LeaseLost))).breaks(&[Rule::Early]);
    uncounted("unstarted", Some((9, What::LeaseLost))).breaks(&[Rule::Early]);
    // an accepted end is kept, although the lease was lost after it
    uncounted("snoozed", Some((6, What::LeaseLost))).breaks(&[Rule::Early]);
    // by the database's clock it is due, when that is put forward in between; not when that was before
    retried(2500).event(5, ONE, What::ClockForward).breaks(&[]);
    retried(2500).event(3, ONE, What::ClockForward).breaks(&[Rule::Early]);
}
