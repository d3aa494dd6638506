//! Schedules in the administration.

use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::json;

use crate::admin::{Admin, Within};
use crate::enqueue::InTransaction;
use crate::error::{Doing as _, Error};
use crate::job::Periodic;
use crate::job::{Enqueue, Job};
use crate::limits::{MAX_ARGS_BYTES, MAX_ARGS_DEPTH, START_OF_9999, check_name, depth};
use crate::registry::known;
use crate::schedule::definition::Definition;
use crate::schedule::plan::ScheduleRow;
use crate::schedule::spec::Schedule;
use crate::state::JobId;
use crate::store::engine::schedules;
use crate::store::schedules::{Change, NotThere, Noted};
use crate::store::values::NewJob;

/// How many schedules or ticks one call lists.
const PAGE: u32 = 1_000;

/// A schedule, as the database has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ScheduleInfo {
    /// Its name.
    pub name: String,
    /// The application whose code declares it. `None`: it was made at run time.
    pub app: Option<String>,
    /// The kind of its jobs.
    pub kind: String,
    /// Their queue.
    pub queue: String,
    /// Their arguments, as JSON.
    pub args: String,
    /// Five fields of cron, or an interval such as `every 15m`.
    pub expression: String,
    /// Its time zone.
    pub zone: String,
    /// Since when it is paused.
    pub paused_at: Option<DateTime<Utc>>,
    /// Since when no code declares it any more, or since somebody removed it.
    pub retired_at: Option<DateTime<Utc>>,
    /// Its next tick. `None`: there is none, or no worker has computed it yet.
    pub next_at: Option<DateTime<Utc>>,
    /// Its last tick, fired or not.
    pub last_at: Option<DateTime<Utc>>,
    /// The last job. With [`Overlap::Skip`](crate::schedule::Overlap::Skip), the oldest one that has not ended.
    pub last_job: Option<JobId>,
    /// Why it does not fire.
    pub error: Option<String>,
    /// A live worker knows the kind.
    pub watched: bool,
}

/// A tick in the history of a schedule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct TickInfo {
    /// The tick.
    pub at: DateTime<Utc>,
    /// Its job.
    pub job: Option<JobId>,
    /// `fired`, `hand` (somebody fired it), or why it was passed over: `missed`, `overlap`, `failed`.
    pub outcome: String,
    /// How many ticks before this one were passed over for the same reason, at least.
    pub skipped: u32,
    /// More about the reason.
    pub note: Option<String>,
    /// When this was decided.
    pub decided_at: DateTime<Utc>,
}

impl Admin {
    /// Creates a schedule, or changes it. Ticks count from then on. A pause stays. Workers see it within 30 seconds.
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let pool = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/doctest.rs")).await;
    /// use queue::admin::Admin;
    /// use queue::job;
    /// use queue::schedule::Schedule;
    ///
    /// #[job]
    /// async fn sync_shop(shop: u32) {
    ///     println!("{shop}");
    /// }
    ///
    /// let admin = Admin::new(&pool);
    /// admin.schedule("shop-7", Schedule::cron("0 4 * * * Asia/Tokyo")?, SyncShop { shop: 7 }).await?;
    /// assert_eq!(admin.schedules(None).await?[0].expression, "0 4 * * *");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::Config`] if code declares a schedule of this name, or for a job that is not usable.
    pub async fn schedule<J: Job>(
        &self,
        name: &str,
        schedule: Schedule,
        job: impl Into<Enqueue<J>> + Send,
    ) -> Result<(), Error> {
        let definition = Periodic::new(name, schedule, job).definition()?;
        let note = self.note("schedule", &json!({"schedule": name}), None);
        named(name, self.store.schedules().define(&definition, note).await?)
    }

    /// Like [`schedule`](Self::schedule), for a job that this program does not know. `args` is the JSON that the job
    /// decodes. Its retries are the default of the worker.
    ///
    /// # Errors
    /// As for [`schedule`](Self::schedule).
    pub async fn schedule_raw(
        &self,
        name: &str,
        schedule: Schedule,
        kind: &str,
        args: &serde_json::Value,
        queue: &str,
    ) -> Result<(), Error> {
        let refused = |why| Error::config(format!("cannot schedule `{}`: {why}", kind.escape_debug()));
        check_name("kind", kind).map_err(refused)?;
        check_name("queue", queue).map_err(refused)?;
        let args = args.to_string();
        if args.len() > MAX_ARGS_BYTES || depth(&args) > MAX_ARGS_DEPTH {
            return Err(refused(format!(
                "its arguments exceed {MAX_ARGS_BYTES} bytes or nest deeper than {MAX_ARGS_DEPTH} levels"
            )));
        }
        let (kind, queue) = (kind.to_owned().into(), queue.to_owned().into());
        let (priority, max_retries, delay_us, run_at_us) = (0, None, None, None);
        let job = NewJob { kind, queue, priority, max_retries, delay_us, run_at_us, args, meta: None, unique: None };
        let definition = Definition::new(name.into(), &schedule, job)?;
        let note = self.note("schedule", &json!({"schedule": name}), None);
        named(name, self.store.schedules().define(&definition, note).await?)
    }

    /// Stops the ticks of a schedule until [`resume_schedule`](Self::resume_schedule). A deploy does not resume it.
    ///
    /// # Errors
    /// [`Error::NoSchedule`].
    pub async fn pause_schedule(&self, name: &str) -> Result<(), Error> {
        self.change_schedule(name, Change::Pause, "pause_schedule").await
    }

    /// Lets a paused schedule go on with its next tick. Ticks in the pause do not count as missed.
    ///
    /// A schedule that fired while the database's clock was ahead is silent. Pause and resume it to let it go on.
    ///
    /// # Errors
    /// [`Error::NoSchedule`].
    pub async fn resume_schedule(&self, name: &str) -> Result<(), Error> {
        self.change_schedule(name, Change::Resume, "resume_schedule").await
    }

    /// Removes a schedule that was made at run time. Its history stays for the retention of the workers.
    ///
    /// # Errors
    /// [`Error::NoSchedule`]. [`Error::Config`] if code declares it: remove it there, or pause it.
    pub async fn remove_schedule(&self, name: &str) -> Result<(), Error> {
        self.change_schedule(name, Change::Remove, "remove_schedule").await
    }

    /// Enqueues the job of a schedule now, even beside one that runs. Its ticks stay as they are. With
    /// [`Overlap::Skip`](crate::schedule::Overlap::Skip), they pass over while any job of the schedule waits or runs,
    /// also this one.
    ///
    /// # Errors
    /// [`Error::NoSchedule`].
    pub async fn fire_schedule(&self, name: &str) -> Result<JobId, Error> {
        let retries = |kind: &str| known(kind).map_or(DEFAULT_RETRIES, |job| job.max_retries);
        let note = self.note("fire_schedule", &json!({"schedule": name}), None);
        named(name, self.store.schedules().fire_by_hand(name, retries, note).await?).map(JobId::from)
    }

    async fn change_schedule(&self, name: &str, change: Change, action: &'static str) -> Result<(), Error> {
        let note = self.note(action, &json!({"schedule": name}), None);
        named(name, self.store.schedules().change(name, change, note).await?)
    }

    /// Lists up to 1,000 schedules by name, those after `after`. Retired ones are among them until retention deletes
    /// them.
    pub async fn schedules(&self, after: Option<&str>) -> Result<Vec<ScheduleInfo>, Error> {
        let found = self.store.schedules().list(after.unwrap_or_default(), PAGE).await?;
        let mut shown = Vec::new();
        for (row, watched) in found {
            let info = info(row, watched);
            let args = self.shown_args(&info.kind, info.args).await?;
            shown.push(ScheduleInfo { args, ..info });
        }
        Ok(shown)
    }

    /// Lists up to 1,000 ticks of a schedule, the latest first, those before `before`.
    ///
    /// # Errors
    /// [`Error::NoSchedule`].
    pub async fn ticks(&self, name: &str, before: Option<DateTime<Utc>>) -> Result<Vec<TickInfo>, Error> {
        let before = before.map_or(START_OF_9999, |before| before.timestamp_micros().clamp(0, START_OF_9999));
        let found = named(name, self.store.schedules().history(name, before, PAGE).await?)?;
        Ok(found.into_iter().map(tick).collect())
    }
}

impl<T: InTransaction> Within<'_, T> {
    /// As [`Admin::schedule`].
    ///
    /// # Errors
    /// As for [`Admin::schedule`] and [`Within`].
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let pool = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/doctest.rs")).await;
    /// use queue::admin::Admin;
    /// use queue::job;
    /// use queue::schedule::Schedule;
    ///
    /// #[job]
    /// async fn sync_shop(shop: u32) {
    ///     println!("{shop}");
    /// }
    ///
    /// let admin = Admin::new(&pool);
    /// let mut tx = pool.begin().await?;
    /// // … your own INSERT …
    /// admin.within(&mut tx).schedule("shop-7", Schedule::cron("0 4 * * *")?, SyncShop { shop: 7 }).await?;
    /// tx.commit().await?;
    /// assert_eq!(admin.schedules(None).await?[0].name, "shop-7");
    /// # Ok(()) }
    /// ```
    pub async fn schedule<J: Job>(
        &mut self,
        name: &str,
        schedule: Schedule,
        job: impl Into<Enqueue<J>> + Send,
    ) -> Result<(), Error> {
        let definition = Periodic::new(name, schedule, job).definition()?;
        let note = self.admin.note("schedule", &json!({"schedule": name}), None);
        let done = schedules::define::<T::Database>(self.open().await?, &definition, &note).await;
        named(name, done.doing("cannot write a schedule")?)
    }

    /// As [`Admin::remove_schedule`].
    ///
    /// # Errors
    /// As for [`Admin::remove_schedule`] and [`Within`].
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let pool = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/doctest.rs")).await;
    /// use queue::Error;
    /// use queue::admin::Admin;
    ///
    /// let admin = Admin::new(&pool);
    /// let mut tx = pool.begin().await?;
    /// // … your own DELETE …
    /// match admin.within(&mut tx).remove_schedule("shop-8").await {
    ///     Err(Error::NoSchedule(_)) => println!("it was removed before"),
    ///     removed => removed?,
    /// }
    /// tx.commit().await?;
    /// # Ok(()) }
    /// ```
    pub async fn remove_schedule(&mut self, name: &str) -> Result<(), Error> {
        let note = self.admin.note("remove_schedule", &json!({"schedule": name}), None);
        let done = schedules::change::<T::Database>(self.open().await?, name, Change::Remove, &note).await;
        named(name, done.doing("cannot change a schedule")?)
    }
}

/// The retries of a job whose kind this program does not know, as of a job that says nothing.
const DEFAULT_RETRIES: u32 = 20;

fn time(micros: i64) -> DateTime<Utc> {
    DateTime::from_timestamp_micros(micros).unwrap_or(DateTime::UNIX_EPOCH)
}

fn named<T>(name: &str, found: Result<T, NotThere>) -> Result<T, Error> {
    found.map_err(|why| match why {
        NotThere::Unknown => Error::NoSchedule(name.to_owned()),
        NotThere::Declared(app) => Error::config(format!(
            "the schedule `{name}` is declared by the code of `{app}`: change it there, choose another name, or pause it"
        )),
    })
}

fn info(row: ScheduleRow, watched: bool) -> ScheduleInfo {
    let definition = row.definition;
    ScheduleInfo {
        name: definition.name,
        app: Some(row.app).filter(|app| !app.is_empty()),
        kind: definition.kind,
        queue: definition.queue,
        args: definition.args,
        expression: definition.expression,
        zone: definition.zone,
        paused_at: row.paused_at.map(time),
        retired_at: row.retired_at.map(time),
        next_at: row.next_at.filter(|next| *next > 0).map(time),
        last_at: row.last_at.map(time),
        last_job: row.last_job_id.map(JobId::from),
        error: row.error,
        watched,
    }
}

fn tick(noted: Noted) -> TickInfo {
    TickInfo {
        at: time(noted.tick),
        job: noted.job_id.map(JobId::from),
        outcome: noted.outcome,
        skipped: u32::try_from(noted.skipped).unwrap_or(0),
        note: noted.note,
        decided_at: time(noted.at),
    }
}
