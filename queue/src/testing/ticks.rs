//! Schedules in a test: time passes by numbers, and many ticks in a row are fired at once.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use crate::error::Error;
use crate::schedule::definition::Definition;
use crate::schedule::plan::{KnownKind, MOST, ScheduleRow};
use crate::schedule::spec::Overlap;
use crate::schedule::spec::Schedule;
use crate::store::ScheduleStore;
use crate::store::schedules::{Kinds, Scheduler};
use crate::store::values::{Ask, Destination, End, Lane, Scope, WorkerId};
use crate::testing::outcome::Drained;
use crate::testing::runner::{FEW, Runner, Ticking};

/// A schedule with its next ticks.
struct Upcoming {
    row: ScheduleRow,
    schedule: Schedule,
    next: i64,
}

impl Runner {
    /// Lets the test's time pass for schedules.
    pub(super) fn passes(&mut self, time: Duration) {
        if let Some(Ticking { ahead, start, .. }) = &mut self.ticking {
            *start.as_mut().unwrap_or(ahead) += micros(time);
        }
    }

    /// Lets the test's time begin, as soon as a schedule is there with the database's clock.
    async fn begin(&mut self, store: &dyn ScheduleStore) -> Result<(), Error> {
        let Some(Ticking { ahead, start, .. }) = &mut self.ticking else { return Ok(()) };
        let Some(begin) = *start else { return Ok(()) };
        if let Some((row, _)) = store.list("", 1).await?.first() {
            (*ahead, *start) = (begin - row.now, None);
        }
        Ok(())
    }

    fn kinds(&self) -> Kinds {
        let known = |(kind, job): (&&str, &Arc<crate::registry::JobDefinition>)| {
            ((*kind).to_owned(), KnownKind { secrets: job.secrets, max_retries: job.max_retries, decodes: job.decodes })
        };
        Arc::new(self.definitions().iter().map(known).collect())
    }

    /// Enqueues the jobs of all ticks up to now.
    pub(super) async fn fire(&mut self) -> Result<(), Error> {
        let Some(Ticking { declared, .. }) = self.ticking else { return Ok(()) };
        // no worker: a test decides for itself
        let by = Scheduler { worker: 0, app: "test".into() };
        let (store, kinds) = (self.store.schedules(), self.kinds());
        if !declared {
            self.declare(&*store, &by).await?;
        }
        self.begin(&*store).await?;
        let ahead = self.ticking.as_ref().map_or(0, |ticking| ticking.ahead);
        if ahead != 0 {
            store.adopt(ahead).await?;
        }
        let mut names: Vec<String> = kinds.keys().cloned().collect();
        names.sort_unstable();
        loop {
            let due = store.look(&by, &names, ahead).await?.due;
            let fired = store.fire(&due, &kinds, ahead).await?;
            if let Some((name, error)) = fired.failed.into_iter().next() {
                return Err(Error::config(format!("the schedule `{name}` does not fire: {error}")));
            }
            if fired.locked == 0 {
                return Ok(());
            }
        }
    }

    async fn declare(&mut self, store: &dyn ScheduleStore, by: &Scheduler) -> Result<(), Error> {
        let mut all: Vec<Definition> = Vec::new();
        for job in self.distinct_definitions() {
            all.extend((job.schedules)()?);
        }
        store.register(by, None).await?;
        store.converge(by, &all.into(), "test").await?;
        self.ticking = self.ticking.take().map(|ticking| Ticking { declared: true, ..ticking });
        Ok(())
    }

    /// The schedules with a next tick, the earliest first, and the time in the test.
    async fn upcoming(&self) -> Result<(Vec<Upcoming>, i64), Error> {
        let Some(Ticking { ahead, .. }) = self.ticking else { return Ok((Vec::new(), 0)) };
        let (definitions, mut found, mut now) = (self.definitions(), Vec::new(), 0);
        let mut after = String::new();
        loop {
            let rows = self.store.schedules().list(&after, 1_000).await?;
            let Some((last, _)) = rows.last() else { break };
            after.clone_from(&last.definition.name);
            for (row, _) in rows {
                now = row.now + ahead;
                let next = row.next_at.filter(|next| *next > 0 && definitions.contains_key(&*row.definition.kind));
                if let (Some(next), Ok(schedule)) = (next, row.definition.schedule()) {
                    found.push(Upcoming { row, schedule, next });
                }
            }
        }
        found.sort_by_key(|it| it.next);
        Ok((found, now))
    }

    /// When the next tick is.
    pub(super) async fn next_tick(&self) -> Result<Option<Duration>, Error> {
        let (upcoming, now) = self.upcoming().await?;
        Ok(upcoming.first().map(|first| duration(first.next - now)))
    }

    /// If the next ticks are all of one schedule, and no job waits: fires many of them at once, and runs their jobs in
    /// order. Returns how far the time has gone. None: there are no such ticks within `most`.
    pub(super) async fn many_ticks(
        &mut self,
        most: Duration,
        drained: &mut Drained,
    ) -> Result<Option<Duration>, Error> {
        let Some(Ticking { ahead, at_once, .. }) = self.ticking else { return Ok(None) };
        if self.mishap.is_some() {
            return Ok(None);
        }
        let (upcoming, now) = self.upcoming().await?;
        let Some((first, others)) = upcoming.split_first() else { return Ok(None) };
        let simple = first.schedule.overlap == Overlap::Allow && first.schedule.jitter.is_zero();
        let until = others.first().map_or(i64::MAX, |other| other.next).min(now.saturating_add(micros(most)));
        let ticks: Vec<i64> = std::iter::once(first.next)
            .chain(first.schedule.calendar().after(first.next.div_euclid(1_000_000)).map(|(at, _)| at * 1_000_000))
            .take_while(|tick| *tick < until)
            .take(at_once)
            .collect();
        let scope = self.scope();
        if !simple || ticks.len() < 2 || self.has_waiting(&scope).await? {
            return Ok(None);
        }
        let ahead = ahead + ticks[ticks.len() - 1] - now;
        if self.store.schedules().fire_on_time(first.row.id, &self.kinds(), ahead).await? != ticks.len() {
            return Err(Error::config("the schedules changed while the test let time pass"));
        }
        let worker = self.join(&scope).await?;
        let ran = self.run_ticks(worker, &scope, &first.row, &ticks, drained).await;
        self.store.leave(worker, Duration::ZERO).await?;
        let ran = ran?;
        // somebody else has locked the jobs: they run as soon as they can be claimed
        let Some(last) = ran.checked_sub(1) else { return Ok(None) };
        let gone = duration(ticks[last] - now);
        self.passes(gone);
        if let Some(ticking) = &mut self.ticking {
            ticking.at_once = if ran < ticks.len() { FEW } else { (at_once * 2).min(MOST) };
        }
        Ok(Some(gone))
    }

    async fn has_waiting(&self, scope: &Scope) -> Result<bool, Error> {
        Ok(!self.store.discover(scope, &[], 1, false).await?.heads.is_empty())
    }

    /// Runs the jobs of these ticks until one of them leaves something to do before the next tick. The others wait
    /// then, until their ticks. Returns how many ran.
    async fn run_ticks(
        &mut self,
        worker: WorkerId,
        scope: &Scope,
        row: &ScheduleRow,
        ticks: &[i64],
        drained: &mut Drained,
    ) -> Result<usize, Error> {
        let enqueued = Arc::new(Notify::new());
        let _subscription = self.store.subscribe(enqueued.clone());
        let definition = &row.definition;
        let lane = Lane {
            kind: definition.kind.as_str().into(),
            queue: definition.queue.as_str().into(),
            priority: definition.priority,
        };
        let take = u32::try_from(ticks.len()).unwrap_or(u32::MAX);
        let ask = Ask { lane, take, behind: None, first: None, newest_first: false, max_retries: 0 };
        let mut jobs = self.store.claim(worker, &[ask], None).await?;
        jobs.sort_by_key(|job| (job.run_at, job.id));
        let definitions = self.definitions();
        let job_definition = definitions[&*definition.kind].clone();
        self.check_states(&job_definition)?;
        let (mut finished, mut ran) = (Vec::new(), 0);
        let mut rest = jobs.into_iter();
        for job in rest.by_ref() {
            let (outcome, ended) = self.run(worker, job, job_definition.clone()).await?;
            drained.add(outcome);
            ran += 1;
            let is_over = match ended {
                None => true,
                Some(end) if matches!(end.to, Destination::Finish { .. }) => {
                    finished.push(end);
                    true
                }
                Some(end) => {
                    self.store.end(worker, &[end]).await?;
                    false
                }
            };
            // a signal may come without a job, from another test or of a transaction that was rolled back
            if !is_over || (is_notified(&enqueued) && self.has_waiting(scope).await?) {
                break;
            }
        }
        self.store.end(worker, &finished).await?;
        let left: Vec<End> =
            rest.zip(&ticks[ran..]).map(|(job, tick)| End::put_off(job.hold(), Some(tick - ticks[ran - 1]))).collect();
        self.store.end(worker, &left).await?;
        Ok(ran)
    }
}

fn is_notified(notify: &Notify) -> bool {
    use futures_util::FutureExt as _;
    notify.notified().now_or_never().is_some()
}

fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX / 4)
}

fn duration(micros: i64) -> Duration {
    Duration::from_micros(micros.max(0).unsigned_abs())
}
