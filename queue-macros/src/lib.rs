//! The `#[job]` attribute of `queue`. Use it as `queue::job`.

mod attr;
mod backoff;
mod check;
mod duration;
mod entry;
mod errors;
mod expand;
#[cfg(feature = "schedules")]
mod expression;
mod fallback;
mod generate;
mod known;
mod model;
mod names;
#[cfg(feature = "schedules")]
mod periodic;
mod renames;
#[cfg(feature = "schedules")]
mod schedule;
mod stored;
mod tokens;
mod types;
mod unique;
mod unique_check;

use proc_macro::TokenStream;

/// Turns a function into a background job.
///
/// The function is unchanged and can still be called. The macro adds a struct with its name in `UpperCamelCase`, which
/// holds the arguments. Enqueue the struct, and a worker calls the function with them. A job runs at least once, so the
/// function must be idempotent, or commit its effects with a `Tx`.
///
/// ```
/// use queue::{Job, job};
///
/// /// Sends one mail.
/// #[job(queue = "mail", max_retries = 3, timeout = "30s", backoff = exponential("2s", max = "10m"))]
/// pub async fn send_email(to: String, subject: &str) -> Result<(), std::io::Error> {
///     println!("to {to}: {subject}");
///     Ok(())
/// }
///
/// # async fn example(pool: sqlx::SqlitePool) -> Result<(), queue::Error> {
/// SendEmail { to: "a@example.org".to_owned(), subject: "hi".to_owned() }.enqueue(&pool).await?;
/// SendEmail::new("a@example.org", "hi").enqueue(&pool).await?; // the same
/// # Ok(()) }
/// ```
///
/// # What is generated
/// * `struct SendEmail` with one field per argument. Struct, fields and `new` have the visibility of the function.
///   Documentation, `#[cfg]`, `#[deprecated]` and `#[allow]` are copied. A function without arguments gives a unit
///   struct: `Cleanup.enqueue(&pool)`.
/// * `Debug`, `Clone`, serde's `Serialize` and `Deserialize`, and `queue::Job`.
/// * `SendEmail::new`, which takes `impl Into<T>` for each argument of type `T` (numbers, `bool` and `char` directly).
///   So `"x"` will do for a `String`. An `Option<String>` takes `Some("x".to_owned())`, a `Vec<String>` takes
///   `vec!["x".to_owned()]`.
/// * Its registration: every worker in a binary that links the function runs the job. On targets without collection at
///   link time, use `WorkerBuilder::register`.
///
/// # Options
/// Options that are left out have the defaults of the constants in `queue::Job`.
///
/// | Option | Default | Meaning |
/// |---|---|---|
/// | `name = "send_email"` | the function's name | The kind: it identifies the job in the database. 1 to 128 bytes. |
/// | `aliases = ["old_name"]` | none | Former names, so that jobs enqueued before a rename still run. |
/// | `queue = "mail"` | `"default"` | The queue. 1 to 128 bytes. |
/// | `priority = -10` | `0` | Smaller runs first; from -32768 to 32767. |
/// | `max_retries = 3` | `20` | How often a failed job is retried: 3 retries are 4 attempts. |
/// | `timeout = "30s"` | none | How long one attempt may take. Then its token fires. It fails unless it completes within the worker's `cancel_grace`. |
/// | `start_within = "10s"` | none | The promise to start within this time after it is due. Metrics count how often it was kept. |
/// | `backoff = …` | `exponential("2s", max = "1h")` | The delay before a retry, see below. |
/// | `schedule = "…"` | none | Enqueues the job at certain times, see below. It may be repeated. |
/// | `unique`, `unique(…)` | | At most one job with the same arguments waits or runs, see below. |
/// | `blocking` | | For a plain `fn`: runs on a blocking thread. Nothing stops it there: check `ctx.cancelled()`. |
/// | `derive(PartialEq, Eq)` | none | Further traits that the struct derives. |
/// | `struct_name = "SendEmailJob"` | the name in `UpperCamelCase` | The struct's name, if the default is taken. |
/// | `crate = my_crate::queue` | `::queue` | The path of this crate, if you use it through a re-export. |
///
/// A duration is a string of whole numbers with the units `d`, `h`, `m`, `s` and `ms`, longest first: `"500ms"`,
/// `"30s"`, `"1h30m"`. It must be longer than zero and at most `"365d"`.
///
/// The backoffs. `max` is the longest delay, by default `"1h"`:
/// * `exponential("2s", max = "10m")`: a random delay up to 2 s, 4 s, 8 s, …
/// * `linear("10s", max = "5m")`: 10 s, 20 s, 30 s, …
/// * `fixed("30s")`: always the same.
/// * `custom(path::to::function)`: the result of a `fn(u32) -> Duration`, called with the number of the failed attempt.
///
/// ```
/// # use queue::Job;
/// # use std::time::Duration;
/// fn two_minutes_more_each_time(attempt: u32) -> Duration {
///     Duration::from_secs(120) * attempt
/// }
///
/// #[queue::job(name = "report", aliases = ["statistics"], backoff = custom(two_minutes_more_each_time))]
/// async fn monthly_report(year: u16, month: u8) {
///     println!("{year}-{month}");
/// }
/// # assert_eq!(MonthlyReport::BACKOFF.delay(2), Duration::from_secs(240));
/// ```
///
/// # Schedules
/// With the feature `schedules`, a job can be enqueued at certain times: `schedule = "0 9 * * MON-FRI Europe/Berlin"`
/// or `schedule = "every 15m"`. `queue::schedule::Schedule` describes the expressions and the rules. Mistakes in an
/// expression are reported by the compiler, an unknown time zone when the worker starts. A unique job cannot have a
/// schedule. The long form has these options, of which `cron` or `every` is required:
///
/// | Option | Default | Meaning |
/// |---|---|---|
/// | `cron = "30 2 * * *"`, `every = "15m"` | | When: five fields or a shorthand, or an interval of whole seconds. |
/// | `zone = "Europe/Berlin"` | UTC | The time zone of `cron`. Its text may end with one instead. |
/// | `gap = shift` or `skip` | depends on the hour | For a time that the clock leaves out, see `queue::schedule::Gap`. |
/// | `fold = first`, `last` or `both` | depends on the hour | For a time that comes twice, see `queue::schedule::Fold`. |
/// | `missed = none`, `last` or `all("6h")` | `last` | For times at which no worker ran, see `queue::schedule::Missed`. |
/// | `overlap = allow` or `skip` | `allow` | If the job of the time before has not ended, see `queue::schedule::Overlap`. |
/// | `jitter = "5m"` | none | Spreads the jobs: each is due up to this much later. At most `"30d"`. |
/// | `args = SyncShop { shop: 7 }` | | The job. Required if the function has arguments. |
/// | `name = "sync-7"` | the job's name | The schedule's name, unique in the database. Required for several schedules. |
/// | `queue = "bulk"`, `priority = -1` | those of the job | Options of the job that is enqueued. |
///
/// ```
/// # use queue::Job;
/// #[queue::job(schedule = "@daily Europe/Berlin")]
/// async fn clean_up() {}
///
/// #[queue::job(
///     schedule(every = "15m", args = SyncShop { shop: 7 }, name = "sync-7", overlap = skip),
///     schedule(cron = "30 2 * * *", missed = all("6h"), args = SyncShop { shop: 8 }, name = "sync-8"),
/// )]
/// async fn sync_shop(shop: u32) {
///     println!("{shop}");
/// }
/// # assert_eq!((CleanUp::schedules().unwrap().len(), SyncShop::schedules().unwrap().len()), (1, 2));
/// ```
///
/// # Unique jobs
/// With `unique`, at most one job with the same arguments waits or runs. It holds its key: another enqueue with these
/// arguments writes nothing, and returns the id of the holder. `queue::unique::Unique` describes the rules, and an
/// enqueue may choose others. The long form has these options:
///
/// | Option | Default | Meaning |
/// |---|---|---|
/// | `by = user` or `(user, day)` | all arguments | Jobs with the same values of these arguments are the same. |
/// | `until = "end"` or `"start"` | `"end"` | Until when a job is the only one, see `queue::unique::UniqueUntil`. |
/// | `for = "1h"` | none | For at least this long after its enqueue, a job is the only one, even if it is over. |
/// | `on_conflict = "keep"`, `"replace"` or `"reject"` | `"keep"` | What an enqueue does if another job holds the key, see `queue::unique::OnConflict`. `"replace"` needs `until = "start"`. |
///
/// Jobs are compared by their JSON. So every job must have the arguments in `by`, and a job from before a rename of an
/// argument counts as another one.
///
/// ```
/// # use queue::unique::{OnConflict, Unique, UniqueUntil};
/// # use queue::Job;
/// #[queue::job(unique)]
/// async fn sync_shop(shop: u32) {
///     println!("{shop}");
/// }
///
/// #[queue::job(unique(by = page, until = "start", on_conflict = "replace"))]
/// async fn reindex(page: i64, reason: &str) {
///     println!("{page}: {reason}");
/// }
///
/// #[queue::job(unique(by = (user, day), for = "7d"))]
/// async fn send_digest(user: i64, day: String, subject: String) {
///     println!("{user}, {day}: {subject}");
/// }
/// # assert_eq!(SyncShop::UNIQUE, Some(Unique::ALL_ARGS));
/// # let reindex = Unique::by(&["page"]).until(UniqueUntil::Start).on_conflict(OnConflict::Replace);
/// # assert_eq!(Reindex::UNIQUE, Some(reindex));
/// # let week = std::time::Duration::from_secs(7 * 86_400);
/// # assert_eq!(SendDigest::UNIQUE, Some(Unique::by(&["user", "day"]).at_least(week)));
/// ```
///
/// # Parameters
/// Any number of these, in any order:
/// * `ctx: JobContext` or `&JobContext`: the job's id, attempt and cancellation.
/// * `State(x): State<T>` or `s: State<T>`: a value given to the worker with `.state(…)`. `T` is `Clone + Send + Sync`.
/// * `tx: &mut Tx<Postgres>`, `Tx<MySql>` or `Tx<Sqlite>`: a transaction on the worker's database. The worker completes
///   the job in it and commits, if the function returns `Ok`. At most one.
/// * Everything else is an argument, stored as a JSON field under its name. Its type needs `Debug`, `Clone`,
///   `serde::Serialize` and `serde::Deserialize`.
///
/// An argument may be borrowed. Then the owned type is stored: `&str` as `String`, `&[T]` as `Vec<T>`, `&Path` as
/// `PathBuf`, `&T` as `T`, `Option<&str>` as `Option<String>`, `Cow<'_, str>` as `String`. Serde attributes move to the
/// field, those of the function to the struct. Unknown JSON fields are ignored, and a missing `Option` is `None`.
///
/// `#[secret]` before an argument hides its value in `Debug`, errors, logs, results, and wherever jobs are shown. The
/// row still has it as plain text.
///
/// ```
/// #[queue::job]
/// async fn charge(#[secret] card: String, order: i64) {
///     println!("{order}, with a card of {} digits", card.len());
/// }
/// # assert_eq!(format!("{:?}", Charge::new("4111", 7)), "Charge { card: ••••, order: 7 }");
/// ```
///
/// ```
/// use std::path::Path;
/// use queue::{JobContext, State, job};
///
/// #[derive(Clone)]
/// struct Thumbnails {
///     width: u32,
/// }
///
/// #[job(blocking)]
/// fn thumbnail(
///     file: &Path,
///     State(thumbnails): State<Thumbnails>,
///     ctx: &JobContext,
///     #[serde(default)] crop: bool,
/// ) -> Result<u32, String> {
///     println!("job {}: {} at {}, cropped: {crop}", ctx.id(), file.display(), thumbnails.width);
///     Ok(thumbnails.width)
/// }
///
/// let job = Thumbnail::new("/tmp/cat.png", true);
/// # assert_eq!(job.file, Path::new("/tmp/cat.png"));
/// ```
///
/// # Result
/// Nothing, or a `Result<T, E>`. `T: serde::Serialize` is stored as the job's result. `E` is `queue::JobError`, any
/// [`std::error::Error`], or a type that converts into `Box<dyn Error + Send + Sync>`: `String`, `&str`,
/// `anyhow::Error`. After an error the job is retried with its backoff, unless a `JobError` says otherwise.
///
/// # When it does not compile
/// Every mistake is reported at its place, with what to write instead. If the compiler says that the struct "is defined
/// multiple times" (E0428), its name is taken: set `struct_name`.
///
/// ```
/// struct SendEmail;
///
/// #[queue::job(struct_name = "SendEmailJob")]
/// async fn send_email(to: String) {
///     println!("{to}");
/// }
/// # let _ = (SendEmail, SendEmailJob::new("a"));
/// ```
#[proc_macro_attribute]
pub fn job(args: TokenStream, item: TokenStream) -> TokenStream {
    generate::generate(args.into(), item.into()).into()
}
