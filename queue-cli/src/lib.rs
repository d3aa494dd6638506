//! The command line of [`queue`]: what is wrong, why, and how to act on it.
//!
//! `cargo install queue-cli` gives a program `queue` for any database. [`Cli`] is the same inside your own program.
#![doc = include_str!("../README.md")]

mod act;
mod args;
mod audit;
mod database;
mod edit;
mod enqueue;
mod failure;
mod findings;
mod flow;
mod look;
mod run;
mod screen;
mod tail;
mod text;
#[cfg(feature = "top")]
mod top;
#[cfg(feature = "web")]
mod web;

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use queue::WorkerBuilder;
use queue::admin::Action;

use crate::args::{Args, Command, Own};
use crate::database::Database;
use crate::failure::Failure;
use crate::screen::Screen;
use crate::text::clean;

/// The command line. In your own program it knows the types of your jobs: `edit` and `enqueue` refuse arguments that do
/// not fit.
///
/// ```no_run
/// fn main() -> std::process::ExitCode {
///     queue_cli::Cli::new().main()
/// }
/// ```
#[derive(Default)]
pub struct Cli {
    worker: Option<Configure>,
}

/// What a program makes of a worker.
type Configure = Box<dyn FnOnce(WorkerBuilder) -> WorkerBuilder + Send>;

impl std::fmt::Debug for Cli {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cli").field("works", &self.worker.is_some()).finish()
    }
}

impl Cli {
    /// The commands for any database.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the command `work`. It runs a worker on the database of the command line, on a runtime of its own, until
    /// SIGINT or SIGTERM. Its jobs share the pool, whose size is the option `--connections`. It logs to standard error,
    /// as `RUST_LOG` says, unless the program has a subscriber of its own.
    ///
    /// ```no_run
    /// # #[derive(Clone)] struct Mailer;
    /// fn main() -> std::process::ExitCode {
    ///     let mailer = Mailer;
    ///     queue_cli::Cli::new().worker(|builder| builder.concurrency(32).state(mailer)).main()
    /// }
    /// ```
    #[must_use]
    pub fn worker(self, configure: impl FnOnce(WorkerBuilder) -> WorkerBuilder + Send + 'static) -> Self {
        Self { worker: Some(Box::new(configure)) }
    }

    /// Does what the arguments of this process say. Returns the code with which to exit: 0 done, 1 failed or something
    /// was found, 2 not understood, 3 try again later. It may be called on a thread of a runtime.
    pub fn main(self) -> ExitCode {
        let words: Vec<OsString> = std::env::args_os().collect();
        let json = words.iter().any(|word| word == "--json");
        // a thread of a runtime may not wait for another one
        let done = std::thread::spawn(move || start(std::env::args_os().collect(), self.worker)).join();
        let Err(failure) = done.unwrap_or_else(|panic| std::panic::resume_unwind(panic)) else {
            return ExitCode::SUCCESS;
        };
        // an address in the wrong place may hold a password; arguments of a job are no address
        let words = words.iter().filter_map(|word| word.to_str()).filter(|word| !word.starts_with('{'));
        let addresses = words.filter(|word| word.contains("://"));
        let text = addresses.fold(failure.text(json), |text, word| text.replace(word, &database::shown(word)));
        Screen::new(json, false).say(&text);
        failure.code.into()
    }
}

fn start(words: Vec<OsString>, worker: Option<Configure>) -> Result<(), Failure> {
    let works = worker.is_some();
    let args = match Args::read(&words, works) {
        Ok(args) => args,
        Err(error) => return misunderstood(&error, &words, works),
    };
    let mut screen = Screen::new(args.json, args.utc);
    match args.command {
        None => screen.out(&args::incident()),
        Some(Own::Any(Command::Completions { shell })) => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut args::words(works), "queue", &mut script);
            screen.out(&String::from_utf8_lossy(&script))
        }
        Some(command) => {
            let url = database::url(args.database.as_deref())?;
            screen.database = database::shown(&url);
            let mut runtime = match command {
                Own::Any(_) => tokio::runtime::Builder::new_current_thread(),
                Own::Work { .. } => tokio::runtime::Builder::new_multi_thread(),
            };
            let runtime = runtime.enable_all().build().map_err(|error| Failure::new(1, error.to_string()))?;
            let done = match command {
                Own::Any(command) => runtime.block_on(run(&screen, &url, command)),
                Own::Work { connections } => runtime.block_on(run::work(&screen, &url, connections, worker)),
            };
            runtime.shutdown_timeout(Duration::from_secs(1));
            done
        }
    }
}

/// Help, or an error with the nearest word.
fn misunderstood(error: &clap::Error, words: &[OsString], works: bool) -> Result<(), Failure> {
    let text = error.render().to_string();
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        return Screen::new(false, false).out(&text);
    }
    let near = |kind| match error.get(kind) {
        Some(ContextValue::String(near)) => Some(near.clone()),
        Some(ContextValue::Strings(near)) => near.first().cloned(),
        _ => None,
    };
    let (command, option) = (near(ContextKind::SuggestedSubcommand), near(ContextKind::SuggestedArg));
    let mean =
        command.as_ref().or(option.as_ref()).map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
    let message = match error.get(ContextKind::InvalidSubcommand) {
        Some(word) => format!("there is no command `{word}`"),
        // its first paragraph; the others repeat the usage
        None => text.lines().take_while(|line| !line.is_empty()).map(str::trim).collect::<Vec<_>>().join(" "),
    };
    let known = |word: &&OsString| args::words(works).find_subcommand(word).is_some();
    let help = words.get(1).filter(known).map_or_else(String::new, |word| format!(" {}", word.to_string_lossy()));
    let fix = command.map_or_else(|| format!("queue help{help}"), |near| format!("queue {near}"));
    Err(Failure::new(2, clean(message.trim_start_matches("error: ")) + &mean).fix(fix))
}

async fn run(screen: &Screen, url: &str, command: Command) -> Result<(), Failure> {
    // what can be refused without the database
    let choose = |which, over| act::choose(which, over, screen);
    let acts = match &command {
        Command::Migrate { sql: true, from } => return run::script(screen, url, *from),
        #[cfg(feature = "top")]
        Command::Top { .. } => {
            top::refuse(screen)?;
            None
        }
        Command::Retry { which, over } => Some((Action::Retry, choose(which, Some(over))?)),
        Command::SendBack { which, over } => Some((Action::SendBack, choose(which, Some(over))?)),
        Command::Cancel(which) => Some((Action::Cancel, choose(which, None)?)),
        Command::Delete(which) => Some((Action::Delete, choose(which, None)?)),
        Command::Reschedule { which, when } => {
            Some((Action::Reschedule(when.time(screen.look.now)?), choose(which, None)?))
        }
        _ => None,
    };
    let tail = match &command {
        Command::Tail { query, failed, .. } => Some(tail::Shown::read(query, *failed, screen.look.now)?),
        _ => None,
    };
    #[cfg(feature = "web")]
    let door = match &command {
        Command::Web { listen, operate, name, tokens } => {
            Some(web::Door::new(*listen, *operate, name.clone(), tokens.as_deref())?)
        }
        _ => None,
    };
    let edits = if let Command::Edit { all, .. } = &command { act::chosen(all, None, screen)? } else { None };
    let new = if let Command::Enqueue(new) = &command { Some(enqueue::job(new)?) } else { None };
    let db = Database::open(url, database::CONNECTIONS).await?;
    let admin = &command.by().map_or_else(|| db.admin.clone(), |by| db.admin.acting(by.actor()));
    let done = match (command, acts) {
        (_, Some((action, chosen))) => act::act(admin, screen, action, chosen).await,
        (Command::Status, _) => look::status(admin, screen).await,
        #[cfg(feature = "top")]
        (Command::Top { operate, .. }, _) => top::top(admin, url, screen, operate).await,
        #[cfg(feature = "web")]
        (Command::Web { .. }, _) => match door {
            Some(door) => web::serve(admin, screen, door).await,
            None => Ok(()),
        },
        (Command::List { query, limit, before }, _) => look::list(admin, screen, &query, limit, before).await,
        (Command::Show { id }, _) => look::show(admin, screen, id).await,
        (Command::Errors { group }, _) => look::errors(admin, screen, group.as_deref()).await,
        (Command::Why { id: Some(id) }, _) => look::why(admin, screen, id).await,
        (Command::Why { id: None }, _) => look::why_all(admin, screen).await,
        (Command::Tail { lines, .. }, _) => match tail {
            Some(shown) => tail::tail(admin, screen, shown, lines).await,
            None => Ok(()),
        },
        (Command::Workers, _) => look::workers(admin, screen).await,
        (Command::Queues, _) => look::queues(admin, screen).await,
        (Command::Schedules, _) => look::schedules(admin, screen).await,
        (Command::Edit { id: Some(id), fields, set, .. }, _) => {
            edit::edit(admin, screen, id, fields.as_deref(), &set).await
        }
        (Command::Edit { id: None, set, .. }, _) => match edits {
            Some((query, how)) => edit::edit_all(admin, screen, &query, how, &set).await,
            None => Ok(()),
        },
        (Command::Enqueue(words), _) => enqueue::enqueue(admin, screen, &words, new).await,
        (Command::Pause { queue, .. }, _) => act::pause(admin, screen, &queue, true).await,
        (Command::Resume { queue, .. }, _) => act::pause(admin, screen, &queue, false).await,
        (Command::Audit { id: Some(id), .. }, _) => audit::one(admin, screen, id).await,
        (Command::Audit { id: None, before }, _) => audit::list(admin, screen, before).await,
        (Command::Stop { id, .. }, _) => audit::stop(admin, screen, id).await,
        (Command::Migrate { .. }, _) => run::migrate(&db, screen).await,
        (Command::Check, _) => run::check(admin, screen).await,
        (Command::Doctor, _) => run::doctor(&db, screen).await,
        _ => Ok(()),
    };
    db.close().await;
    done
}
