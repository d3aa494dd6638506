//! Each violation, planted in a record that is sound without it.

use queue_test_support::{Attempt, Row};

use super::{Checker, History, Rule};
use crate::record::{Event, How, Options, What};

const SECOND: i64 = 1_000_000;
/// Processes: a producer, and two workers, which have the numbers 1 and 2.
const PRODUCER: i64 = 100;
const ONE: i64 = 101;
const TWO: i64 = 102;
const TAG: i64 = 7;

/// A record under construction. Times are in seconds.
struct Plot(History);

impl Plot {
    /// A job with tag 7 and number 70 is asked for at 1 s and committed at 2 s.
    fn committed(options: Options) -> Plot {
        Plot::asked(options).event(2, PRODUCER, What::Committed { tags: vec![TAG] })
    }

    fn asked(options: Options) -> Plot {
        let mut history = History::default();
        history.tables.processes.extend([(1, ONE), (2, TWO)]);
        Plot(history).event(1, PRODUCER, What::Asked { tags: vec![TAG], options })
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

    fn row(self, state: &str, attempt: i64, lease: i64, worker: i64) -> Plot {
        self.row_of(70, TAG, state, attempt, lease, worker)
    }

    fn row_of(mut self, id: i64, tag: i64, state: &str, attempt: i64, lease: i64, worker: i64) -> Plot {
        let args = format!("{{\"tag\":{tag}}}");
        let row = Row { state: state.into(), attempt, lease, worker, error: String::new(), args };
        self.0.tables.jobs.entry(id).or_default().push(row);
        self
    }

    fn attempt(mut self, lease: i64, attempt: i64, worker: i64, outcome: &str) -> Plot {
        let outcome = outcome.into();
        self.0.tables.attempts.entry(70).or_default().push(Attempt { lease, attempt, worker, outcome });
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

/// The first worker stands still from 4 to 14 s; meanwhile the second completes the job.
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
    rolled_back().row("dead", 4, 4, 1).breaks(&[Rule::RolledBack, Rule::GivenUp]);
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

#[test]
fn too_many_attempts() {
    let plot = Plot::committed(retries(0)).start(3, ONE, 1).event(4, ONE, What::Killed);
    let plot = plot.start(12, TWO, 2).end(13, TWO, 2, How::Ok);
    plot.attempt(1, 1, 1, "lost").row("completed", 2, 2, 2).breaks(&[Rule::TooMany]);
    let dead = Plot::committed(retries(0)).attempt(1, 1, 1, "lost").attempt(2, 2, 2, "lost");
    dead.row("dead", 2, 2, 2).breaks(&[Rule::TooMany]);
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
    // it came only just before
    second(first(20), 18, 19, 22, -1).breaks(&[]);
}

#[test]
fn a_job_before_its_time() {
    let delayed = Options { delay_ms: 5000, ..retries(0) };
    let plot = Plot::committed(delayed).start(3, ONE, 1).end(4, ONE, 1, How::Ok);
    plot.row("completed", 1, 1, 1).breaks(&[Rule::Early]);
    let retried = |pause| {
        let plot = Plot::committed(retries(3)).start(3, ONE, 1).end(4, ONE, 1, How::Failed { retry_ms: pause });
        let plot = plot.start(6, ONE, 2).end(7, ONE, 2, How::Ok);
        plot.attempt(1, 1, 1, "failed").row("completed", 2, 2, 1)
    };
    retried(1500).breaks(&[]);
    retried(2500).breaks(&[Rule::Early]);
    // by the database's clock it is due, when that is put forward in between; not when that was before
    retried(2500).event(5, ONE, What::ClockForward).breaks(&[]);
    retried(2500).event(3, ONE, What::ClockForward).breaks(&[Rule::Early]);
}
