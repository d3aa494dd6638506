//! The command line of [`queue`]: what is wrong, why, and how to act on it.
//!
//! `cargo install queue-cli` gives a program `queue` for any database. [`Cli`] is the same inside your own program.
#![doc = include_str!("../README.md")]

mod act;
mod args;
mod database;
mod failure;
mod findings;
mod flow;
mod look;
mod query;
mod run;
mod screen;
mod text;

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory as _, Parser as _};

use crate::act::Verb;
use crate::args::{Args, Command};
use crate::database::Database;
use crate::failure::Failure;
use crate::screen::Screen;
use crate::text::clean;

/// The command line.
///
/// ```no_run
/// fn main() -> std::process::ExitCode {
///     queue_cli::Cli::new().main()
/// }
/// ```
#[derive(Debug, Default)]
pub struct Cli {}

impl Cli {
    /// The commands for any database.
    pub fn new() -> Self {
        Self::default()
    }

    /// Does what the arguments of this process say. Returns the code with which to exit: 0 done, 1 failed or something
    /// was found, 2 not understood, 3 try again later. It may be called on a thread of a runtime.
    pub fn main(self) -> ExitCode {
        let words: Vec<OsString> = std::env::args_os().collect();
        let json = words.iter().any(|word| word == "--json");
        // a thread of a runtime may not wait for another one
        let done = std::thread::spawn(move || start(std::env::args_os().collect())).join();
        let Err(failure) = done.unwrap_or_else(|panic| std::panic::resume_unwind(panic)) else {
            return ExitCode::SUCCESS;
        };
        // an address in the wrong place may hold a password
        let addresses = words.iter().filter_map(|word| word.to_str()).filter(|word| word.contains("://"));
        let text = addresses.fold(failure.text(json), |text, word| text.replace(word, &database::shown(word)));
        Screen::new(json, false).say(&text);
        failure.code.into()
    }
}

fn start(words: Vec<OsString>) -> Result<(), Failure> {
    let args = match Args::try_parse_from(&words) {
        Ok(args) => args,
        Err(error) => return misunderstood(&error, &words),
    };
    let mut screen = Screen::new(args.json, args.utc);
    match args.command {
        None => screen.out(args::INCIDENT),
        Some(Command::Completions { shell }) => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Args::command(), "queue", &mut script);
            screen.out(&String::from_utf8_lossy(&script))
        }
        Some(command) => {
            let url = database::url(args.database.as_deref())?;
            screen.database = database::shown(&url);
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = runtime.map_err(|error| Failure::new(1, error.to_string()))?;
            let done = runtime.block_on(run(&screen, &url, command));
            runtime.shutdown_timeout(Duration::from_secs(1));
            done
        }
    }
}

/// Help, or an error with the nearest word.
fn misunderstood(error: &clap::Error, words: &[OsString]) -> Result<(), Failure> {
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
    let known = |word: &&OsString| Args::command().find_subcommand(word).is_some();
    let help = words.get(1).filter(known).map_or_else(String::new, |word| format!(" {}", word.to_string_lossy()));
    let fix = command.map_or_else(|| format!("queue help{help}"), |near| format!("queue {near}"));
    Err(Failure::new(2, clean(message.trim_start_matches("error: ")) + &mean).fix(fix))
}

async fn run(screen: &Screen, url: &str, command: Command) -> Result<(), Failure> {
    // what can be refused without the database
    let (verb, chosen) = match &command {
        Command::Migrate { sql: true, from } => return run::script(screen, url, *from),
        Command::Retry(which) => (Verb::Retry, Some(act::choose(which, screen)?)),
        Command::SendBack(which) => (Verb::SendBack, Some(act::choose(which, screen)?)),
        Command::Cancel(which) => (Verb::Cancel, Some(act::choose(which, screen)?)),
        Command::Delete(which) => (Verb::Delete, Some(act::choose(which, screen)?)),
        Command::Reschedule { which, when } => {
            (Verb::Reschedule(when.time(screen.look.now)?), Some(act::choose(which, screen)?))
        }
        _ => (Verb::Retry, None),
    };
    let db = Database::open(url).await?;
    let admin = &db.admin;
    let done = match (command, chosen) {
        (_, Some(chosen)) => act::act(admin, screen, verb, chosen).await,
        (Command::Status, _) => look::status(admin, screen).await,
        (Command::List { query, limit, after }, _) => look::list(admin, screen, &query, limit, after).await,
        (Command::Show { id }, _) => look::show(admin, screen, id).await,
        (Command::Errors { group }, _) => look::errors(admin, screen, group.as_deref()).await,
        (Command::Why { id: Some(id) }, _) => look::why(admin, screen, id).await,
        (Command::Why { id: None }, _) => look::why_all(admin, screen).await,
        (Command::Workers, _) => look::workers(admin, screen).await,
        (Command::Queues, _) => look::queues(admin, screen).await,
        (Command::Schedules, _) => look::schedules(admin, screen).await,
        (Command::Edit { id, fields, set }, _) => act::edit(admin, screen, id, fields.as_deref(), &set).await,
        (Command::Pause { queue }, _) => act::pause(admin, screen, &queue, true).await,
        (Command::Resume { queue }, _) => act::pause(admin, screen, &queue, false).await,
        (Command::Migrate { .. }, _) => run::migrate(&db, screen).await,
        (Command::Check, _) => run::check(admin, screen).await,
        (Command::Doctor, _) => run::doctor(&db, screen).await,
        _ => Ok(()),
    };
    db.close().await;
    done
}
