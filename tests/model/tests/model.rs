//! The whole protocol, searched: every promise holds in every state that can be reached.

use std::time::Instant;

use queue_model::search::{Found, search};
use queue_model::world::Bounds;

/// At least so many states: a search of fewer would mean that the model lost some of what it can do.
fn holds(bounds: Bounds, at_least: usize) {
    let begin = Instant::now();
    match search(&bounds) {
        Found::Broken(story) => panic!("\n{story}"),
        Found::Sound { states, transitions } => {
            let Bounds { processes, jobs, faults, troubles, .. } = bounds;
            println!(
                "{processes} workers, {jobs} jobs, {faults} faults, {troubles} troubles: {states} states, \
                 {transitions} transitions, {:.1?}",
                begin.elapsed()
            );
            assert!(states >= at_least, "only {states} states, not {at_least}");
        }
    }
}

#[test]
fn three_workers_three_jobs_two_faults_and_one_trouble() {
    holds(Bounds::full(2, 1), 500_000);
}

#[test]
fn three_workers_three_jobs_one_fault_and_two_troubles() {
    holds(Bounds::full(1, 2), 50_000);
}

#[test]
fn a_longer_lease_in_which_answers_grow_old() {
    holds(Bounds { lease: 3, ..Bounds::full(2, 0) }, 40_000);
}

#[test]
fn without_retries_what_has_one_attempt_gets_one() {
    holds(Bounds { retries: 0, ..Bounds::full(2, 0) }, 15_000);
}

#[test]
fn two_workers_one_job_and_three_faults() {
    holds(Bounds { retries: 2, ..Bounds::small(3, 1) }, 100_000);
}

#[test]
fn two_workers_whose_handlers_complete_their_job_in_transactions() {
    holds(Bounds { effects: true, ..Bounds::small(3, 1) }, 300_000);
}

#[test]
fn three_workers_whose_handlers_complete_their_jobs_in_transactions() {
    holds(Bounds { effects: true, ..Bounds::full(1, 1) }, 300_000);
}

/// `cargo test -p queue-model --test model -- --ignored --nocapture`.
#[test]
#[ignore = "takes half a minute of a processor, and a gigabyte"]
fn three_workers_three_jobs_three_faults() {
    holds(Bounds::full(3, 0), 900_000);
}
