//! Every guard of the protocol taken away, one by one: each time the search must find how a promise is broken. The
//! stories are printed: `cargo test -p queue-model --test guards -- --nocapture`.

use queue_model::keys::{Keys, Until};
use queue_model::rules::{Guard, Promise, Rules};
use queue_model::search::{Found, Model, Story, search};
use queue_model::world::Bounds;

/// Without these guards, but with all others, the promise is broken; with all of them, none is.
fn breaks(guards: &[Guard], promise: Promise, faults: u8, troubles: u8) -> Story {
    breaks_in(Bounds::small(faults, troubles), guards, promise)
}

fn breaks_in<M: Model>(model: M, guards: &[Guard], promise: Promise) -> Story {
    if let Found::Broken(story) = search(&model) {
        panic!("broken with all guards:\n{story}");
    }
    match search(&model.with(Rules::without(guards), promise)) {
        Found::Sound { states, .. } => panic!("without {guards:?} {promise:?} still holds, in {states} states"),
        Found::Broken(story) => {
            println!("without {guards:?}:\n{story}\n");
            assert_eq!(story.violation.promise, promise);
            story
        }
    }
}

/// The story has a line with each text, in that order.
fn tells(story: &Story, texts: &[&str]) {
    let mut lines = story.lines.iter();
    for text in texts {
        assert!(lines.any(|line| line.contains(text)), "no {text:?} at its place in\n{story}");
    }
}

/// P6.
#[test]
fn without_the_fence_a_stale_worker_ends_a_newer_attempt() {
    let story = breaks(&[Guard::FenceWorker, Guard::FenceLease], Promise::CurrentAttemptKept, 1, 0);
    tells(&story, &["session", "takes back", "(number 2) claims job 1", "(number 1): job 1 completed"]);
}

/// P6.
#[test]
fn without_the_fences_worker_a_requeue_that_is_sent_again_counts_twice() {
    breaks(&[Guard::FenceWorker], Promise::NoStaleWrite, 1, 1);
}

/// P6.
#[test]
fn without_the_fences_lease_a_late_requeue_ends_the_same_workers_next_attempt() {
    let story = breaks(&[Guard::FenceLease], Promise::CurrentAttemptKept, 1, 1);
    tells(&story, &["may still arrive", "sends again", "claims job 1", "arrives after all: job 1 under fence 1"]);
}

/// P6.
#[test]
fn without_a_rising_lease_two_attempts_of_one_worker_cannot_be_told_apart() {
    breaks(&[Guard::LeaseRises], Promise::CurrentAttemptKept, 1, 1);
}

/// P4.
#[test]
fn without_the_lease_check_a_worker_that_is_gone_is_given_jobs() {
    let story = breaks(&[Guard::LeaseAtClaim], Promise::NoClaimWithoutLease, 1, 0);
    tells(&story, &["declares gone", "(number 1) claims job 1"]);
}

/// P4.
#[test]
fn without_the_check_for_waiting_rows_a_running_job_is_claimed() {
    breaks(&[Guard::ClaimWaiting], Promise::OneAttemptRuns, 0, 0);
}

/// P9.
#[test]
fn without_counting_at_the_claim_a_job_has_more_attempts_than_allowed() {
    breaks(&[Guard::CountAttempt], Promise::AttemptsAllowed, 0, 2);
}

/// P31.
#[test]
fn without_counting_at_the_claim_the_history_disagrees() {
    breaks(&[Guard::CountAttempt], Promise::HistoryAgrees, 0, 0);
}

/// P9.
#[test]
fn without_burying_after_the_last_failure_a_job_has_more_attempts_than_allowed() {
    breaks(&[Guard::BuryAfterLast], Promise::AttemptsAllowed, 0, 2);
}

/// P9.
#[test]
fn without_burying_in_the_rescue_a_job_that_kills_its_workers_goes_round() {
    breaks(&[Guard::RescueBuries], Promise::AttemptsAllowed, 2, 0);
}

/// P9.
#[test]
fn without_counting_lost_attempts_a_job_that_kills_its_workers_goes_round() {
    breaks(&[Guard::RescueCounts], Promise::AttemptsAllowed, 2, 0);
}

/// P4, P22.
#[test]
fn without_the_expiry_a_living_worker_is_declared_gone() {
    breaks(&[Guard::ExpireOnlyExpired], Promise::OneAttemptRuns, 0, 0);
}

/// P4, P22.
#[test]
fn without_the_session_a_living_worker_is_declared_gone() {
    let story = breaks(&[Guard::DeclareOnlyMissed], Promise::OneAttemptRuns, 0, 0);
    tells(&story, &["declares gone whose session has ended", "takes back"]);
}

/// P4, P22.
#[test]
fn without_the_look_for_the_gone_the_rescue_takes_a_living_workers_jobs() {
    breaks(&[Guard::LostOnlyGone], Promise::OneAttemptRuns, 0, 0);
}

/// P6.
#[test]
fn without_the_rescues_condition_it_takes_a_job_from_its_next_worker() {
    let story = breaks(&[Guard::RescueStillHeld], Promise::CurrentAttemptKept, 1, 1);
    tells(
        &story,
        &[
            "looks for the jobs",
            "(number 1): job 1",
            "(number 2) claims job 1",
            "takes back what it saw: job 1 of number 1",
        ],
    );
}

/// P4.
#[test]
fn without_the_heartbeats_condition_a_worker_that_is_gone_believes_itself_alive() {
    breaks(&[Guard::BeatNotStopped], Promise::OneAttemptRuns, 1, 0);
}

/// P4.
#[test]
fn without_stopping_itself_a_worker_runs_what_another_has() {
    let story = breaks(&[Guard::SelfStop], Promise::OneAttemptRuns, 1, 0);
    assert!(!story.to_string().contains("SIGSTOP"), "nobody needs to be paused for it:\n{story}");
}

/// P4.
#[test]
fn with_a_lease_counted_from_the_answer_a_worker_runs_what_another_has() {
    breaks_in(Bounds { lease: 3, ..Bounds::small(2, 0) }, &[Guard::CountFromSent], Promise::OneAttemptRuns);
}

/// P1.
#[test]
fn without_giving_back_strays_a_job_whose_claim_had_no_answer_never_ends() {
    breaks(&[Guard::GiveBackStrays], Promise::EveryJobEnds, 1, 0);
}

/// P4.
#[test]
fn without_waiting_for_answers_a_job_is_given_back_that_its_worker_then_starts() {
    breaks(&[Guard::StraysWait], Promise::OneAttemptRuns, 1, 0);
}

/// P8.
#[test]
fn without_its_check_a_request_to_cancel_is_forgotten() {
    breaks(&[Guard::CancelHolds], Promise::CancelKept, 0, 2);
}

/// P5.
#[test]
fn without_one_transaction_a_completed_job_runs_again() {
    breaks(&[Guard::OneTransaction], Promise::NothingTwice, 1, 0);
}

/// P1, P21.
#[test]
fn without_its_condition_the_heartbeat_forgets_whose_jobs_are_to_be_rescued() {
    breaks(&[Guard::NotesKept], Promise::EveryJobEnds, 1, 0);
}

/// Handlers that complete their jobs in transactions of their own.
fn with_effects(faults: u8, troubles: u8) -> Bounds {
    Bounds { effects: true, ..Bounds::small(faults, troubles) }
}

/// P18.
#[test]
fn without_its_fence_a_completion_commits_the_effect_of_a_stale_attempt() {
    let story = breaks_in(with_effects(1, 0), &[Guard::CompleteFence], Promise::NoStaleEffect);
    tells(&story, &["takes back what it saw", "begins a transaction", "completes its job in its", "commits"]);
}

/// P18.
#[test]
fn without_its_lock_a_completion_commits_after_another_end_of_its_attempt() {
    let story = breaks_in(with_effects(1, 0), &[Guard::CompleteLocks], Promise::NoStaleEffect);
    tells(&story, &["completes its job in its", "commits and gets no answer", "ended as failed", "arrives after all"]);
}

/// P18.
#[test]
fn without_the_same_transaction_an_effect_stays_without_its_completion() {
    breaks_in(with_effects(0, 0), &[Guard::EffectInside], Promise::EffectOnce);
}

/// P18.
#[test]
fn without_a_look_a_transaction_that_was_rolled_back_counts_as_a_completion() {
    let story = breaks_in(with_effects(0, 1), &[Guard::AskCommitted], Promise::EffectOnce);
    tells(&story, &["completes its job in its", "rolls back, and returns all the same", "completed"]);
}

/// PostgreSQL takes keys in one statement, the others in several.
const BOTH: [bool; 2] = [false, true];

/// P15.
#[test]
fn without_the_keys_lock_two_callers_take_it() {
    for in_steps in BOTH {
        let story = breaks_in(Keys::small(in_steps, 2, 0), &[Guard::KeyLocked], Promise::OneHolder);
        tells(&story, &["caller A begins", "caller B begins", "commits: a new job", "commits: a new job"]);
    }
}

/// P32.
#[test]
fn without_the_order_of_keys_two_callers_wait_for_each_other() {
    for in_steps in BOTH {
        let story = breaks_in(Keys::batches(in_steps, 2, 0), &[Guard::KeyOrder], Promise::NoDeadlock);
        tells(&story, &["for key 1 and key 2", "for key 2 and key 1"]);
    }
}

/// P32.
#[test]
fn a_send_back_that_moves_its_job_before_it_has_the_key_waits_in_a_circle() {
    let story = breaks_in(Keys::small(true, 2, 2), &[Guard::SendBackLocksFirst], Promise::NoDeadlock);
    tells(&story, &["to send job 1 back"]);
}

/// P15.
#[test]
fn without_the_look_at_the_snapshot_a_holder_that_came_later_looks_as_if_it_were_over() {
    let story = breaks_in(Keys::small(false, 3, 0), &[Guard::SnapshotKnows], Promise::OneHolder);
    tells(&story, &["caller B begins", "caller A commits: a new job", "caller B commits: a new job"]);
}

/// P16.
#[test]
fn without_the_look_for_its_end_a_job_that_is_over_stands_for_requests() {
    for in_steps in BOTH {
        let story = breaks_in(Keys::small(in_steps, 2, 0), &[Guard::HolderOver], Promise::RequestStands);
        tells(&story, &["commits: a new job", "is completed", "reads who has its keys"]);
    }
}

/// P16.
#[test]
fn without_the_keys_fence_a_job_that_has_started_stands_for_requests() {
    for in_steps in BOTH {
        let story = breaks_in(Keys::small(in_steps, 2, 0), &[Guard::HolderFence], Promise::RequestStands);
        tells(&story, &["until the start", "commits: a new job", "is claimed", "reads who has its keys"]);
    }
}

/// P17.
#[test]
fn without_the_lock_of_a_kept_job_it_starts_before_the_callers_commit() {
    for in_steps in BOTH {
        let story = breaks_in(Keys::small(in_steps, 2, 0), &[Guard::KeptLocked], Promise::KeptStartsLater);
        tells(&story, &["looks again at the jobs that wait", "job 1 is claimed", "job 1 is kept"]);
    }
}

/// P17.
#[test]
fn without_another_look_whether_it_waits_a_kept_job_runs() {
    for in_steps in BOTH {
        let end = Keys { until: &[Until::End], ..Keys::small(in_steps, 2, 0) };
        let story = breaks_in(end, &[Guard::HoldWaits], Promise::KeptStartsLater);
        tells(&story, &["reads who has its keys", "job 1 is claimed", "looks again", "job 1 is kept"]);
    }
}

/// P16, P34.
#[test]
fn without_another_look_at_its_fence_a_job_that_waits_for_a_retry_is_kept_or_replaced() {
    for (in_steps, replaces) in [(false, false), (false, true), (true, false), (true, true)] {
        let start = Keys { until: &[Until::Start], replaces, retries: 1, ..Keys::small(in_steps, 2, 1) };
        let story = breaks_in(start, &[Guard::HoldFence], Promise::RequestStands);
        tells(&story, &["reads who has its keys", "job 1 is claimed", "looks again"]);
    }
}

/// P15.
#[test]
fn without_its_key_a_new_job_does_not_keep_out_the_next() {
    for in_steps in BOTH {
        breaks_in(Keys::small(in_steps, 2, 0), &[Guard::KeyWithJob], Promise::OneHolder);
    }
}

/// P15.
#[test]
fn without_a_look_at_its_key_a_dead_letter_goes_back_beside_another_job() {
    for in_steps in BOTH {
        let story = breaks_in(Keys::small(in_steps, 2, 2), &[Guard::SendBackLooks], Promise::OneHolder);
        tells(&story, &["commits: a new job", "commits: a new job", "to send job 1 back", "job 1 waits again"]);
    }
}

/// P15.
#[test]
fn without_its_key_a_dead_letter_that_was_sent_back_does_not_keep_out_the_next() {
    for in_steps in BOTH {
        breaks_in(Keys::small(in_steps, 2, 2), &[Guard::SendBackTakes], Promise::OneHolder);
    }
}

/// P15.
#[test]
fn without_its_own_fence_a_dead_letter_that_was_sent_back_does_not_keep_out_the_next() {
    for in_steps in BOTH {
        let story = breaks_in(Keys::small(in_steps, 2, 2), &[Guard::SendBackFence], Promise::OneHolder);
        tells(&story, &["until the start", "job 1 fails", "job 1 waits again", "commits: a new job"]);
    }
}

/// P15.
#[test]
fn without_its_condition_the_sweep_forgets_the_key_of_a_dead_letter() {
    for in_steps in BOTH {
        let story = breaks_in(Keys::small(in_steps, 2, 2), &[Guard::SweepNowhere], Promise::OneHolder);
        tells(&story, &["job 1 fails", "is swept", "job 1 waits again"]);
    }
}
