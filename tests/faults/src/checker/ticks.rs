//! Finds broken promises of schedules, from the tables alone.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;

use queue::schedule::Missed;

/// A tick that is younger than this is late, not missed, and is fired under every policy.
const LATE: i64 = 60 * SECOND;
/// A statement that notes ticks may run so much later than the one that decided about them.
const SLOW: i64 = 5 * SECOND;
const SECOND: i64 = 1_000_000;

/// A row of `queue_schedules`. Times are microseconds since 1970, by the database's clock.
#[derive(Clone, Debug, PartialEq)]
pub struct Scheduled {
    /// Its number.
    pub id: i64,
    /// Its name, which is also in the arguments of its jobs.
    pub name: String,
    /// Between two ticks.
    pub interval: i64,
    /// What happens with missed ticks.
    pub missed: Missed,
    /// No tick at or before this time.
    pub changed_at: i64,
    /// The last tick.
    pub last_at: Option<i64>,
    /// Its job.
    pub last_job: Option<i64>,
    /// Why it does not fire.
    pub error: Option<String>,
}

/// A row of `queue_ticks`.
#[derive(Clone, Debug, PartialEq)]
pub struct Decided {
    /// The schedule's number.
    pub schedule: i64,
    /// The tick.
    pub tick: i64,
    /// The job.
    pub job: Option<i64>,
    /// Whether it was fired, or why not.
    pub outcome: String,
    /// So many ticks before this one were passed over with it.
    pub skipped: i64,
    /// When this was decided.
    pub at: i64,
}

impl Decided {
    fn is_fired(&self) -> bool {
        self.outcome == "fired"
    }

    /// The tick was so long ago that its policy applied.
    fn is_missed(&self) -> bool {
        self.at - self.tick > LATE + SLOW
    }
}

/// A row of `queue_jobs`, `queue_history` or `queue_dead`, of the kind that only schedules enqueue.
#[derive(Clone, Debug, PartialEq)]
pub struct Made {
    /// Its number.
    pub id: i64,
    /// The schedule's name, from its arguments.
    pub of: String,
    /// `completed`, `dead`, `waiting` and so on.
    pub state: String,
    /// When its first attempt began.
    pub began: Option<i64>,
}

/// All tables that concern schedules, when no job waits or runs.
#[derive(Clone, Debug, Default)]
pub struct TickHistory {
    /// The schedules.
    pub schedules: Vec<Scheduled>,
    /// Their ticks.
    pub ticks: Vec<Decided>,
    /// Their jobs. A job in two tables is there twice.
    pub jobs: Vec<Made>,
    /// Each schedule has reached this moment.
    pub until: i64,
}

/// A promise about schedules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TickRule {
    /// A tick was neither fired nor passed over.
    TickLost,
    /// A tick was decided about twice, or has two jobs, or shares its job.
    TickTwice,
    /// A fired tick has no job.
    NoJob,
    /// A job has no tick.
    NoTick,
    /// A tick was decided about before its time.
    TickEarly,
    /// Missed ticks were not treated as the schedule says.
    Policy,
    /// The schedule's own row does not agree with its last tick.
    LastTick,
    /// The job of a tick did not complete.
    Unfinished,
    /// The schedule has an error.
    Refused,
}

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TickViolation {
    /// Which promise.
    pub rule: TickRule,
    /// The schedule's name, or what the job says.
    pub schedule: String,
    /// What happened.
    pub what: String,
}

impl fmt::Display for TickViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: schedule {}: {}", self.rule, self.schedule, self.what)
    }
}

/// Seconds since 1970.
fn clock(micros: i64) -> String {
    format!("{:.3}", micros as f64 / 1e6)
}

impl TickHistory {
    /// Every broken promise.
    pub fn violations(&self) -> Vec<TickViolation> {
        let mut found = Vec::new();
        let mut ticks: HashMap<i64, Vec<&Decided>> = HashMap::new();
        for tick in &self.ticks {
            ticks.entry(tick.schedule).or_default().push(tick);
        }
        for schedule in &self.schedules {
            let mut own = ticks.remove(&schedule.id).unwrap_or_default();
            own.sort_by_key(|tick| (tick.tick, tick.at));
            let mut broken = |rule, what| found.push(TickViolation { rule, schedule: schedule.name.clone(), what });
            if let Some(error) = &schedule.error {
                broken(TickRule::Refused, error.clone());
            }
            self.accounts(schedule, &own, &mut broken);
            last(schedule, &own, &mut broken);
            policy(schedule, &own, &mut broken);
        }
        self.jobs(&mut found);
        found
    }

    /// Each tick until the end was decided about, once, and not before its time.
    fn accounts(&self, schedule: &Scheduled, own: &[&Decided], broken: &mut impl FnMut(TickRule, String)) {
        let step = schedule.interval;
        let mut next = (schedule.changed_at.div_euclid(step) + 1) * step;
        for decided in own {
            let (first, tick) = (decided.tick - decided.skipped * step, decided.tick);
            if tick.rem_euclid(step) != 0 {
                broken(TickRule::NoTick, format!("{} is no tick of it", clock(tick)));
            }
            if first > next {
                let last = clock(first - step);
                broken(TickRule::TickLost, format!("nothing is known of {} to {last}", clock(next)));
            }
            if first < next {
                broken(TickRule::TickTwice, format!("{} again, after {}", clock(first), clock(next - step)));
            }
            if decided.at < tick {
                broken(TickRule::TickEarly, format!("{} was decided about at {}", clock(tick), clock(decided.at)));
            }
            next = next.max(tick + step);
        }
        if next <= self.until {
            broken(TickRule::TickLost, format!("nothing is known of {} to {}", clock(next), clock(self.until)));
        }
    }

    /// Each fired tick has one job, which completed, and each job has one tick.
    fn jobs(&self, found: &mut Vec<TickViolation>) {
        let names: HashMap<i64, &str> = self.schedules.iter().map(|it| (it.id, &*it.name)).collect();
        let name = |id: i64| names.get(&id).map_or_else(|| format!("{id} (gone)"), |name| (*name).to_owned());
        let mut jobs: HashMap<i64, Vec<&Made>> = HashMap::new();
        for job in &self.jobs {
            jobs.entry(job.id).or_default().push(job);
        }
        let mut taken = HashSet::new();
        for tick in &self.ticks {
            let mut broken = |rule, what: &str| {
                let what = format!("{} ({}): {what}", clock(tick.tick), tick.outcome);
                found.push(TickViolation { rule, schedule: name(tick.schedule), what });
            };
            match (tick.is_fired(), tick.job) {
                (false, Some(job)) => broken(TickRule::TickTwice, &format!("not fired, and it has job {job}")),
                (false, None) => {}
                (true, None) => broken(TickRule::NoJob, "it has none"),
                (true, Some(job)) if !taken.insert(job) => {
                    broken(TickRule::TickTwice, &format!("job {job} is that of another tick"));
                }
                (true, Some(id)) => match jobs.get(&id).map_or(&[][..], |them| them.as_slice()) {
                    [] => broken(TickRule::NoJob, &format!("job {id} is in no table")),
                    [job] if job.of != name(tick.schedule) => {
                        broken(TickRule::NoJob, &format!("job {id} is that of schedule {}", job.of));
                    }
                    [job] if job.state != "completed" => {
                        broken(TickRule::Unfinished, &format!("job {id} is {}", job.state));
                    }
                    [_] => {}
                    _ => broken(TickRule::TickTwice, &format!("job {id} is in more than one place")),
                },
            }
        }
        for job in self.jobs.iter().filter(|job| !taken.contains(&job.id)) {
            let what = format!("job {} ({})", job.id, job.state);
            found.push(TickViolation { rule: TickRule::NoTick, schedule: job.of.clone(), what });
        }
    }

    /// For each fired tick: how long after it the firing was decided, and how long after it its job was certainly
    /// ready, in microseconds.
    ///
    /// No table knows when a transaction was committed. `queue_ticks.at`, like a job's `enqueued_at`, is earlier: the
    /// start of the transaction (PostgreSQL) or of one of its statements. But all jobs of a transaction become visible
    /// at once, and the rows that it wrote have the same `at`. So they were ready no later than the first of them
    /// began.
    pub fn delays(&self) -> (Vec<i64>, Vec<i64>) {
        let began: HashMap<i64, i64> = self.jobs.iter().filter_map(|job| Some((job.id, job.began?))).collect();
        let mut ready: HashMap<i64, i64> = HashMap::new();
        let fired = || self.ticks.iter().filter(|tick| tick.is_fired());
        for tick in fired() {
            if let Some(began) = tick.job.and_then(|job| began.get(&job)) {
                ready.entry(tick.at).and_modify(|first| *first = (*first).min(*began)).or_insert(*began);
            }
        }
        let delay = |tick: &Decided| Some(ready.get(&tick.at)?.max(&tick.at) - tick.tick);
        (fired().map(|tick| tick.at - tick.tick).collect(), fired().filter_map(delay).collect())
    }
}

/// The schedule's row agrees with its last tick.
fn last(schedule: &Scheduled, own: &[&Decided], broken: &mut impl FnMut(TickRule, String)) {
    let tick = own.last().map(|tick| tick.tick);
    if schedule.last_at != tick {
        let clock = |at: Option<i64>| at.map_or("never".into(), clock);
        broken(TickRule::LastTick, format!("last at {}, by its ticks {}", clock(schedule.last_at), clock(tick)));
    }
    let job = own.iter().rev().find_map(|tick| tick.job);
    if schedule.last_job != job {
        broken(TickRule::LastTick, format!("its last job is {:?}, by its ticks {job:?}", schedule.last_job));
    }
}

/// Missed ticks were treated as the schedule says: at each moment at which something was decided.
fn policy(schedule: &Scheduled, own: &[&Decided], broken: &mut impl FnMut(TickRule, String)) {
    let mut moments: BTreeMap<i64, Vec<&Decided>> = BTreeMap::new();
    for tick in own {
        moments.entry(tick.at).or_default().push(tick);
    }
    for (at, ticks) in moments {
        let mut broken = |what: &str| broken(TickRule::Policy, format!("at {}: {what}", clock(at)));
        let fired = ticks.iter().filter(|tick| tick.is_fired()).count();
        let old = ticks.iter().filter(|tick| tick.is_fired() && tick.is_missed()).count();
        let passed = ticks.iter().filter(|tick| !tick.is_fired());
        if passed.clone().any(|tick| at - tick.tick < LATE) {
            broken("a tick was passed over that was less than a minute late");
        }
        let passed = passed.count();
        match schedule.missed {
            Missed::None if old > 0 => broken(&format!("{old} missed ticks were fired, and none should be")),
            Missed::Last if old > 0 && fired > 1 => {
                broken(&format!("{old} missed ticks were fired, of {fired}: one only may be, if nothing else is"));
            }
            Missed::Last if passed > 0 && fired == 0 => broken("no tick was fired in place of the missed ones"),
            Missed::All { within } => {
                let within = i64::try_from(within.as_micros()).unwrap_or(i64::MAX);
                if ticks.iter().any(|tick| !tick.is_fired() && at - tick.tick < within) {
                    broken("ticks were passed over, and all should be fired");
                }
            }
            Missed::None | Missed::Last => {}
        }
    }
}

#[cfg(test)]
#[path = "ticks_tests.rs"]
mod tests;
