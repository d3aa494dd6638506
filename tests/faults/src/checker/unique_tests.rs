//! Plants each violation in an otherwise correct history.

use queue::unique::UniqueUntil;
use queue_test_support::Row;

use super::{History, Keyed, Sighting, UniqueHistory, UniqueRule};
use crate::record::{Event, How, Request, What};

const SECOND: i64 = 1_000_000;
/// Processes: a producer, and the worker with the id 1.
const PRODUCER: i64 = 100;
const ONE: i64 = 101;

/// A history under construction. Times are in seconds.
#[derive(Default)]
struct Plot {
    history: History,
    keyed: Vec<Keyed>,
    sightings: Vec<Sighting>,
}

/// Key `e` is unique until the end: job 1 stands for two requests, then job 2 for one. Key `s` is unique until the
/// start: job 3 runs, and job 4 waits meanwhile.
fn good() -> Plot {
    let mut plot = Plot::default();
    plot.history.tables.processes.insert(1, ONE);
    let plot = plot.completed("e", UniqueUntil::End, 1, 3, 5).completed("e", UniqueUntil::End, 2, 7, 8);
    let plot = plot.completed("s", UniqueUntil::Start, 3, 3, 9).completed("s", UniqueUntil::Start, 4, 6, 8);
    let plot = plot.stands("e", 1, true, 2).stands("e", 1, false, 4).stands("e", 2, true, 6);
    plot.stands("s", 3, true, 1).stands("s", 3, false, 2).stands("s", 4, true, 5).stands("s", 4, false, 5)
}

impl Plot {
    /// A job that runs from this second to that.
    fn completed(mut self, key: &str, until: UniqueUntil, job: i64, began: i64, ended: i64) -> Plot {
        self.keyed.push(Keyed { job, key: key.into(), until, ended: Some(ended * SECOND + 1) });
        self.row(job, "completed", 1);
        self.event(began, ONE, What::Started { job, tag: job, attempt: 1 });
        self.event(ended, ONE, What::Ended { job, tag: job, attempt: 1, how: How::Ok });
        self
    }

    /// A request that this job has stood for since then.
    fn stands(mut self, key: &str, job: i64, new: bool, since: i64) -> Plot {
        let requests = vec![Request { key: key.into(), job, new }];
        self.event(since, PRODUCER, What::Stands { since: since * SECOND, requests });
        self
    }

    fn event(&mut self, at: i64, process: i64, what: What) {
        self.history.events.push(Event { at: at * SECOND, process, what });
        self.history.events.sort_by_key(|event| event.at);
    }

    fn row(&mut self, job: i64, state: &str, fence: i64) {
        let (error, args) = (String::new(), format!("{{\"tag\":{job}}}"));
        let row = Row { state: state.into(), attempt: 1, fence, worker: 1, error, args };
        self.history.tables.jobs.insert(job, vec![row]);
    }

    /// A job that is there at the end.
    fn left(mut self, key: &str, until: UniqueUntil, job: i64, fence: i64) -> Plot {
        self.keyed.push(Keyed { job, key: key.into(), until, ended: None });
        self.row(job, "waiting", fence);
        self
    }

    #[track_caller]
    fn breaks(self, expected: &[UniqueRule]) {
        let Plot { history, keyed, sightings } = self;
        let found = UniqueHistory { history: &history, keyed, sightings }.violations();
        let rules: Vec<UniqueRule> = found.iter().map(|violation| violation.rule).collect();
        let told: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(rules, expected, "{told:#?}");
    }
}

#[test]
fn a_good_history_passes() {
    good().breaks(&[]);
    good().left("e", UniqueUntil::End, 5, 0).left("s", UniqueUntil::Start, 6, 0).breaks(&[]);
    // its retry waits beside the next one
    good().left("s", UniqueUntil::Start, 5, 1).left("s", UniqueUntil::Start, 6, 0).breaks(&[]);
}

#[test]
fn two_live_jobs_were_seen() {
    let mut plot = good();
    plot.sightings.push(Sighting { key: "e".into(), count: 2, jobs: [1, 2] });
    plot.breaks(&[UniqueRule::TwoHolders]);
}

#[test]
fn two_live_jobs_are_left() {
    good().left("e", UniqueUntil::End, 5, 1).left("e", UniqueUntil::End, 6, 0).breaks(&[UniqueRule::TwoHolders]);
    good().left("s", UniqueUntil::Start, 5, 0).left("s", UniqueUntil::Start, 6, 0).breaks(&[UniqueRule::TwoHolders]);
}

#[test]
fn a_job_was_over_before_the_one_that_came_earlier() {
    let mut plot = good();
    plot.keyed[0].ended = Some(8 * SECOND + 2);
    plot.breaks(&[UniqueRule::TwoHolders]);
    let mut plot = good();
    plot.keyed[0].ended = None;
    plot.row(1, "waiting", 1);
    plot.breaks(&[UniqueRule::TwoHolders]);
}

#[test]
fn a_job_began_while_the_one_before_ran() {
    let mut plot = good();
    plot.event(4, ONE, What::Started { job: 2, tag: 2, attempt: 1 });
    // and before the request that made it
    plot.breaks(&[UniqueRule::TwoHolders, UniqueRule::TooSoon]);
    // a process that was suspended still runs what is over elsewhere
    let mut plot = good();
    plot.event(9, 102, What::Ended { job: 1, tag: 1, attempt: 1, how: How::Ok });
    plot.breaks(&[]);
}

#[test]
fn a_request_has_no_job() {
    for new in [true, false] {
        good().stands("e", 77, new, 4).breaks(&[UniqueRule::NoHolder]);
    }
    let mut plot = good();
    plot.history.tables.jobs.remove(&4);
    plot.breaks(&[UniqueRule::NoHolder; 2]);
    // the job of another key
    good().stands("e", 3, false, 2).breaks(&[UniqueRule::NoHolder]);
}

#[test]
fn a_kept_job_started_before() {
    good().stands("s", 3, false, 4).breaks(&[UniqueRule::TooSoon]);
    // until its end it may run by then
    good().stands("e", 1, false, 4).breaks(&[]);
    good().stands("e", 1, true, 4).breaks(&[UniqueRule::TooSoon]);
}
