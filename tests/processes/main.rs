//! Tests the promises for worker processes with real processes: killed, stopped, cut off from the network, or told to
//! end.
//!
//! The jobs record what they do in a file outside the database ([`records`]). At the end, [`checker`] compares it with
//! the tables, and prints the whole story of every job that breaks a promise. `-- --nocapture` shows each test's
//! figures.

#[path = "../bin/jobs.rs"]
#[expect(dead_code, reason = "only workers open the file")]
mod jobs;

mod checker;
mod records;
mod scene;

mod claimers;
mod deadlocks;
mod idle;
mod keys;
mod kill;
mod memory;
mod outage;
mod pause;
mod pick_up;
mod probes;
mod prometheus;
mod shutdown;

use std::time::Duration;

use queue_test_support::Engine;

/// Time limit of a test with default amounts of jobs: a guard against one that hangs.
const LONGEST: Duration = Duration::from_secs(600);

/// The tests of an engine, by name and file.
macro_rules! tests {
    ($($engine:ident as $module:ident: [$($file:ident::$test:ident),* $(,)?];)*) => {$(
        mod $module {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $test() {
                    let Some(scene) = crate::scene::Scene::new(queue_test_support::Engine::$engine).await else {
                        return;
                    };
                    tokio::time::timeout(crate::limit(), crate::$file::$test(&scene))
                        .await
                        .unwrap_or_else(|_| panic!("not done within {:?}\n{}", crate::limit(), scene.logs()));
                }
            )*
        }
    )*};
}

/// The time limit, in proportion to the number of jobs.
fn limit() -> Duration {
    let times = (claimers::jobs() / claimers::JOBS).max(memory::heavy_jobs() / memory::HEAVY);
    LONGEST * u32::try_from(times).unwrap_or(1).max(1) + keys::spell()
}

tests! {
    Sqlite as sqlite: [
        kill::kill_9_holding_100_running_jobs,
        memory::heavy_jobs_behind_light_ones,
        pause::sigstop_past_the_lease,
        pause::sigstop_around_the_lease,
        claimers::thirty_two_claimers,
        keys::thirty_two_workers_of_unique_jobs,
        shutdown::a_second_sigterm_ends_at_once,
        idle::idle_statements,
        probes::probes_tell_of_a_worker_that_stops,
        probes::probes_tell_of_a_runtime_that_stands_still,
        prometheus::every_metric_says_what_the_records_say,
    ];
    Postgres as postgres: [
        kill::kill_9_holding_100_running_jobs,
        memory::heavy_jobs_behind_light_ones,
        pause::sigstop_past_the_lease,
        pause::sigstop_around_the_lease,
        pause::what_was_claimed_is_not_begun_after_the_lease,
        claimers::thirty_two_claimers,
        shutdown::a_second_sigterm_ends_at_once,
        outage::the_database_goes_away_and_comes_back,
        outage::packets_vanish,
        outage::writes_arrive_late,
        probes::probes_tell_of_an_outage,
        probes::probes_tell_of_an_outage_of_a_minute,
        probes::probes_tell_of_a_worker_that_stops,
        idle::idle_statements,
        prometheus::every_metric_says_what_the_records_say,
        pick_up::a_producer_without_a_pool_is_heard,
    ];
    MariaDb as mariadb: [
        kill::kill_9_holding_100_running_jobs,
        memory::heavy_jobs_behind_light_ones,
        pause::sigstop_past_the_lease,
        pause::sigstop_around_the_lease,
        claimers::thirty_two_claimers,
        keys::thirty_two_workers_of_unique_jobs,
        shutdown::a_second_sigterm_ends_at_once,
        outage::the_database_goes_away_and_comes_back,
        outage::packets_vanish,
        outage::writes_arrive_late,
        probes::probes_tell_of_an_outage,
        probes::probes_tell_of_an_outage_of_a_minute,
        probes::probes_tell_of_a_worker_that_stops,
        idle::idle_statements,
        prometheus::every_metric_says_what_the_records_say,
    ];
    MySql as mysql: [
        kill::kill_9_holding_100_running_jobs,
        memory::heavy_jobs_behind_light_ones,
        pause::sigstop_past_the_lease,
        pause::sigstop_around_the_lease,
        claimers::thirty_two_claimers,
        keys::thirty_two_workers_of_unique_jobs,
        shutdown::a_second_sigterm_ends_at_once,
        outage::the_database_goes_away_and_comes_back,
        outage::packets_vanish,
        outage::writes_arrive_late,
        probes::probes_tell_of_an_outage,
        probes::probes_tell_of_an_outage_of_a_minute,
        probes::probes_tell_of_a_worker_that_stops,
        idle::idle_statements,
        prometheus::every_metric_says_what_the_records_say,
    ];
}

/// Prints figures in a form that is easy to collect.
fn figures(engine: Engine, what: &str, figures: &str) {
    println!("figures: {:<10} {what}: {figures}", engine.name());
}
