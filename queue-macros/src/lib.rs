//! The `#[job]` attribute of `queue`. Use it as `queue::job`.

mod attr;
mod check;
mod duration;
mod errors;
mod expand;
mod fallback;
mod generate;
mod model;
mod names;
mod types;

use proc_macro::TokenStream;

/// Makes a background job of a function.
///
/// The function stays as it is and can be called as before. Beside it stands a struct with the name in `UpperCamelCase`,
/// which holds the arguments, is enqueued, and is turned back into a call by a worker:
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
/// * `struct SendEmail` with one field per argument. Struct, fields and `new` have the visibility of the function;
///   documentation, `#[cfg]`, `#[deprecated]` and `#[allow]` are carried over. A function without arguments gives a unit
///   struct: `Cleanup.enqueue(&pool)`.
/// * `Debug`, `Clone`, serde's `Serialize` and `Deserialize`, and `queue::Job`.
/// * `SendEmail::new`, which takes `impl Into<T>` for each argument of type `T` (numbers, `bool` and `char` as they are).
/// * Its registration: every worker in a binary that links the function runs the job. For targets where collecting at link
///   time fails there is `WorkerBuilder::register`.
///
/// # Options
/// What is left out is left to the constants of `queue::Job`.
///
/// | Option | Default | Meaning |
/// |---|---|---|
/// | `name = "send_email"` | the function's name | The kind in the database, by which a worker finds the job. 1 to 128 bytes. |
/// | `aliases = ["old_name"]` | none | Former names, so that rows enqueued before a renaming still run. |
/// | `queue = "mail"` | `"default"` | The queue. 1 to 128 bytes. |
/// | `priority = -10` | `0` | Smaller runs first; from -32768 to 32767. |
/// | `max_retries = 3` | `20` | How often a failed job is tried again: 3 retries are 4 attempts. |
/// | `timeout = "30s"` | none | How long one attempt may take before it is cancelled and counts as failed. |
/// | `backoff = …` | `exponential("2s", max = "1h")` | How long to wait after a failure, see below. |
/// | `blocking` | | For a plain `fn`: it runs on one of tokio's threads for blocking work. Nothing stops it there: let it look at `ctx.cancelled()`. |
/// | `struct_name = "SendEmailJob"` | the function's name in `UpperCamelCase` | The struct's name, where the usual one is taken. |
/// | `crate = my_crate::queue` | `::queue` | The path of this crate, for those who reach it through a re-export. |
///
/// Durations are strings of whole numbers with the units `ms`, `s`, `m`, `h` and `d`, from long to short: `"500ms"`, `"30s"`,
/// `"1h30m"`. They are longer than zero and at most `"365d"`.
///
/// The backoffs, where `max` is the longest delay and `"1h"` unless written:
/// * `exponential("2s", max = "10m")`: a random time up to 2 s, 4 s, 8 s, …
/// * `linear("10s", max = "5m")`: 10 s, 20 s, 30 s, …
/// * `fixed("30s")`: always the same.
/// * `custom(path::to::function)`: what a `fn(u32) -> Duration` says for the number of the attempt that failed.
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
/// # Parameters
/// In any order and number:
/// * `ctx: JobContext` or `&JobContext`: id, attempt, cancellation.
/// * `State(x): State<T>` or `s: State<T>`: what the worker was given with `.state(…)`. `T` is `Clone + Send + Sync`.
/// * Everything else is an argument, stored as a field in JSON under its name. Its type has `Debug`, `Clone`,
///   `serde::Serialize` and `serde::Deserialize`.
///
/// An argument may be borrowed; then what is stored is the owned type: `&str` as `String`, `&[T]` as `Vec<T>`, `&Path` as
/// `PathBuf`, `&T` as `T`, `Option<&str>` as `Option<String>`, `Cow<'_, str>` as `String`. Attributes for serde move to the
/// field, those on the function to the struct. Unknown fields in the JSON are ignored, a missing `Option` is `None`.
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
/// Nothing, or a `Result<T, E>`. `T: serde::Serialize` is kept as the job's result. `E` is `queue::JobError`, any
/// [`std::error::Error`], or whatever converts into `Box<dyn Error + Send + Sync>`: `String`, `&str`, `anyhow::Error`.
///
/// # When it does not compile
/// Every mistake is reported at its place with what to write instead. If the struct's name is taken, the compiler says that
/// it "is defined multiple times" (E0428): give another one.
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
