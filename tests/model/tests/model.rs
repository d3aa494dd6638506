//! The whole protocol, searched: every promise holds in every state that can be reached.

use std::time::Instant;

use queue_model::keys::{Keys, Until};
use queue_model::search::{Found, Model, search};
use queue_model::world::Bounds;

fn holds(bounds: Bounds, at_least: usize) {
    let Bounds { processes, jobs, faults, troubles, .. } = bounds;
    holds_in(bounds, &format!("{processes} workers, {jobs} jobs, {faults} faults, {troubles} troubles"), at_least);
}

/// At least so many states: a search of fewer would mean that the model lost some of what it can do.
fn holds_in<M: Model>(model: M, name: &str, at_least: usize) {
    let begin = Instant::now();
    match search(&model) {
        Found::Broken(story) => panic!("\n{story}"),
        Found::Sound { states, transitions } => {
            println!("{name}: {states} states, {transitions} transitions, {:.1?}", begin.elapsed());
            assert!(states >= at_least, "only {states} states, not {at_least}");
        }
    }
}

/// P1, P4, P5, P6, P8, P9, P31.
#[test]
fn three_workers_three_jobs_two_faults_and_one_trouble() {
    holds(Bounds::full(2, 1), 500_000);
}

/// P1, P4, P5, P6, P8, P9, P31.
#[test]
fn three_workers_three_jobs_one_fault_and_two_troubles() {
    holds(Bounds::full(1, 2), 50_000);
}

/// P1, P4, P5, P6, P8, P9, P31.
#[test]
fn a_longer_lease_in_which_answers_grow_old() {
    holds(Bounds { lease: 3, ..Bounds::full(2, 0) }, 40_000);
}

/// P1, P4, P5, P6, P8, P9, P31.
#[test]
fn without_retries_what_has_one_attempt_gets_one() {
    holds(Bounds { retries: 0, ..Bounds::full(2, 0) }, 15_000);
}

/// P1, P4, P5, P6, P8, P9, P31.
#[test]
fn two_workers_one_job_and_three_faults() {
    holds(Bounds { retries: 2, ..Bounds::small(3, 1) }, 100_000);
}

/// P1, P4, P5, P6, P8, P9, P18, P31.
#[test]
fn two_workers_whose_handlers_complete_their_job_in_transactions() {
    holds(Bounds { effects: true, ..Bounds::small(3, 1) }, 300_000);
}

/// P1, P4, P5, P6, P8, P9, P18, P31.
#[test]
fn three_workers_whose_handlers_complete_their_jobs_in_transactions() {
    holds(Bounds { effects: true, ..Bounds::full(1, 1) }, 300_000);
}

/// Unique jobs, where keys are taken in one statement (PostgreSQL) and in several.
fn keys_hold(keys: Keys, at_least: usize) {
    for in_steps in [false, true] {
        let Keys { callers, keys: count, requests, troubles, retries, .. } = keys;
        let how = if in_steps { "several statements" } else { "one statement" };
        let name = format!(
            "{callers} callers, {count} keys, {requests} requests, {retries} retries, {troubles} troubles, {how}"
        );
        holds_in(Keys { in_steps, ..keys }, &name, at_least);
    }
}

/// P15, P16, P17, P32.
#[test]
fn a_key_that_two_callers_want() {
    keys_hold(Keys::small(false, 4, 3), 100_000);
}

/// P15, P16, P17, P32.
#[test]
fn a_key_that_three_callers_want() {
    keys_hold(Keys { callers: 3, ..Keys::small(false, 3, 3) }, 20_000);
}

/// P15, P16, P17, P32.
#[test]
fn a_key_of_jobs_that_are_tried_again() {
    keys_hold(Keys { retries: 1, ..Keys::small(false, 3, 4) }, 30_000);
}

/// P15, P16, P17, P32, P34.
#[test]
fn a_key_whose_waiting_holder_is_replaced() {
    keys_hold(Keys { until: &[Until::Start], replaces: true, retries: 1, ..Keys::small(false, 4, 3) }, 5_000);
}

/// P15, P16, P17, P32.
#[test]
fn two_keys_that_all_want_at_once() {
    keys_hold(Keys { until: &[Until::Start, Until::End], ..Keys::batches(false, 3, 1) }, 20_000);
}

/// P1, P4, P5, P6, P8, P9, P31: `cargo test -p queue-model --test model -- --ignored --nocapture`.
#[test]
#[ignore = "takes half a minute of a processor, and a gigabyte"]
fn three_workers_three_jobs_three_faults() {
    holds(Bounds::full(3, 0), 900_000);
}
