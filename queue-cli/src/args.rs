//! The words of the command line.

use std::ffi::OsString;

use chrono::{DateTime, Utc};
use clap::{Args as ClapArgs, CommandFactory as _, Parser, Subcommand};
use queue::JobId;
use queue::admin::{Actor, Search};

/// What is wrong with background jobs, why, and how to act on it.
///
/// The database is that of --database, of DATABASE_URL, or of DATABASE_URL in a file `.env`. Exit codes: 0 done, 1
/// failed or something was found, 2 not understood, 3 try again later.
#[derive(Debug, Parser)]
#[command(name = "queue", bin_name = "queue", version, max_term_width = 100)]
pub(crate) struct Args<C: Subcommand> {
    /// Such as postgres://me@host/shop, mysql://me@host/shop or sqlite://jobs.sqlite
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) database: Option<String>,
    /// Answers for programs: one object, or one line for each item of a list. Never asks
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Exact times instead of "3 min ago"
    #[arg(long, global = true)]
    pub(crate) utc: bool,
    #[command(subcommand)]
    pub(crate) command: Option<C>,
}

/// The commands of a program that can work.
#[derive(Debug, Subcommand)]
pub(crate) enum Own {
    #[command(flatten)]
    Any(Command),
    /// Run a worker until Ctrl-C or SIGTERM, which let its jobs finish. RUST_LOG says what is logged: `info,sqlx=warn`
    Work {
        /// The most connections of the pool, which its jobs share
        #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..))]
        connections: u32,
    },
}

impl Args<Own> {
    pub(crate) fn read(words: &[OsString], works: bool) -> Result<Self, clap::Error> {
        if works {
            return Self::try_parse_from(words);
        }
        let Args { database, json, utc, command } = Args::<Command>::try_parse_from(words)?;
        Ok(Self { database, json, utc, command: command.map(Own::Any) })
    }
}

/// All words.
pub(crate) fn words(works: bool) -> clap::Command {
    if works { Args::<Own>::command() } else { Args::<Command>::command() }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// What is wrong, worst first, and how deep the queues are
    Status,
    /// All of an incident on one screen, read every two seconds: findings, queues, errors, workers
    #[cfg(feature = "top")]
    Top {
        /// Let capital letters act: P pauses or resumes a queue, S and A send dead letters back
        #[arg(long)]
        operate: bool,
        #[command(flatten)]
        by: By,
    },
    /// The dashboard in a browser, until Ctrl-C. Without --tokens, on this machine alone
    #[cfg(feature = "web")]
    Web {
        /// Where it listens. Port 0: any that is free
        #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7878")]
        listen: std::net::SocketAddr,
        /// Let it change things
        #[arg(long)]
        operate: bool,
        /// Who changes things: it stays on record, in place of the name of this account
        #[arg(long = "as", value_name = "NAME")]
        name: Option<String>,
        /// A file with the people who may use it from other machines. In each line: a name, rights (look, act,
        /// act-on-many, edit, delete, all, separated by commas), and the SHA-256 of a token, which is the password
        #[arg(long, value_name = "FILE", conflicts_with_all = ["operate", "name"])]
        tokens: Option<std::path::PathBuf>,
    },
    /// Jobs, newest first: `queue list state:dead kind:send_email since:2h`
    List {
        /// Words that must all match: state:dead kind:send_email queue:mail attempt:>3 error:"timed out" since:2h
        /// before:2026-11-28 failed-since:20m failed-before:1h retrying worker:7 args.order.id:42 group:3f9a1b2c
        query: Vec<String>,
        /// How many jobs, at most 1,000
        #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1000))]
        limit: u32,
        /// Only ids below this one
        #[arg(long, value_name = "ID")]
        before: Option<JobId>,
    },
    /// One job: its attempts, arguments and result
    Show { id: JobId },
    /// What fails now: the same error of many jobs is one line
    Errors {
        /// One group, with a whole error and what to do
        group: Option<String>,
    },
    /// Why a job does not run, and what would cure it. Without an id: what all waiting jobs wait for
    Why { id: Option<JobId> },
    /// What ends, as it ends, until Ctrl-C: `queue tail kind:send_email --failed`
    Tail {
        /// Words that must all match: kind:send_email queue:mail state:dead
        query: Vec<String>,
        /// Only attempts that failed
        #[arg(long)]
        failed: bool,
        /// How many that have ended already are shown first
        #[arg(long, value_name = "N", default_value_t = 10)]
        lines: usize,
    },
    /// Worker processes: what they serve, and what they hold
    Workers,
    /// Queues: how deep they are, and which are paused
    Queues,
    /// Schedules: their next and last ticks, pauses and errors
    Schedules,
    /// Enqueue a job, and print its id: `queue enqueue send_email '{"to": "ada@example.org"}' --after 5m`
    Enqueue(Box<New>),
    /// Run scheduled jobs and dead letters now
    Retry {
        #[command(flatten)]
        which: Which,
        #[command(flatten)]
        over: Over,
    },
    /// Make dead letters ready, with all their retries
    SendBack {
        #[command(flatten)]
        which: Which,
        #[command(flatten)]
        over: Over,
    },
    /// Cancel jobs for good: waiting ones at once, running ones through their token
    Cancel(Which),
    /// Delete jobs that no worker holds, with their attempts
    Delete(Which),
    /// Change the due time of waiting jobs
    Reschedule {
        #[command(flatten)]
        which: Which,
        #[command(flatten)]
        when: When,
    },
    /// Change arguments of a waiting job or a dead letter: `queue edit 7 --set to=ada@example.org`
    Edit {
        #[arg(required_unless_present = "matching", conflicts_with = "matching")]
        id: Option<JobId>,
        /// An object whose fields replace those of the job: '{"to": "ada@example.org"}'
        #[arg(value_name = "JSON", required_unless_present = "set", conflicts_with_all = ["set", "matching"])]
        fields: Option<String>,
        /// One field. Its value is JSON, or else a text
        #[arg(long, value_name = "NAME=VALUE")]
        set: Vec<String>,
        #[command(flatten)]
        all: All,
        #[command(flatten)]
        by: By,
    },
    /// Let no worker claim from a queue. Running jobs continue
    Pause {
        queue: String,
        #[command(flatten)]
        by: By,
    },
    /// End the pause of a queue
    Resume {
        queue: String,
        #[command(flatten)]
        by: By,
    },
    /// Who changed what, and how far it is. With an id: all of it, and the jobs that it could not change
    Audit {
        id: Option<i64>,
        /// Only those below this one
        #[arg(long, value_name = "ID")]
        before: Option<i64>,
    },
    /// End something that still runs: `queue audit` lists it
    Stop {
        id: i64,
        #[command(flatten)]
        by: By,
    },
    /// Create the tables, or upgrade them
    Migrate {
        /// Print the statements instead
        #[arg(long)]
        sql: bool,
        /// Only what follows this version of the schema
        #[arg(long, value_name = "VERSION", requires = "sql", default_value_t = 0)]
        from: i64,
    },
    /// Find kinds and queues with waiting jobs that no live worker serves
    Check,
    /// Find what is wrong with the database, the clock and the workers
    Doctor,
    /// Print a script that lets a shell complete these commands
    Completions { shell: clap_complete::Shell },
}

impl Command {
    /// Who changes something, if it does.
    pub(crate) fn by(&self) -> Option<&By> {
        match self {
            Self::Retry { which, .. } | Self::SendBack { which, .. } | Self::Reschedule { which, .. } => {
                Some(&which.by)
            }
            Self::Cancel(which) | Self::Delete(which) => Some(&which.by),
            Self::Edit { by, .. } | Self::Pause { by, .. } | Self::Resume { by, .. } | Self::Stop { by, .. } => {
                Some(by)
            }
            Self::Enqueue(new) => Some(&new.by),
            #[cfg(feature = "top")]
            Self::Top { by, .. } => Some(by),
            _ => None,
        }
    }
}

/// A job to enqueue.
#[derive(Debug, ClapArgs)]
pub(crate) struct New {
    pub(crate) kind: String,
    /// Its arguments, as an object
    #[arg(value_name = "JSON")]
    pub(crate) args: String,
    /// Where it waits, if not in the queue of its type, or in `default`
    #[arg(long)]
    pub(crate) queue: Option<String>,
    /// When it is due: a span from now, such as 30s, 20m, 2h, 7d
    #[arg(long, value_name = "SPAN", conflicts_with = "at")]
    pub(crate) after: Option<String>,
    /// When it is due: a time in UTC, such as '2026-11-28 09:12'
    #[arg(long, value_name = "TIME")]
    pub(crate) at: Option<String>,
    /// Smaller runs first
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) priority: Option<i16>,
    /// How often it is tried again
    #[arg(long, value_name = "N")]
    pub(crate) max_retries: Option<u32>,
    /// What handlers, logs and the jobs of its handler see beside the arguments
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) meta: Vec<String>,
    /// Even if nobody has this kind or queue
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) by: By,
}

/// How soon jobs run.
#[derive(Debug, ClapArgs)]
pub(crate) struct Over {
    /// With --match: spread them over a time, such as 10m
    #[arg(long = "over", value_name = "SPAN", requires = "matching")]
    pub(crate) span: Option<String>,
}

/// Which jobs to change.
#[derive(Debug, ClapArgs)]
pub(crate) struct Which {
    /// Ids of jobs, or - to read them from standard input
    #[arg(value_name = "ID", required_unless_present = "matching", conflicts_with = "matching")]
    pub(crate) ids: Vec<String>,
    #[command(flatten)]
    pub(crate) all: All,
    #[command(flatten)]
    pub(crate) by: By,
}

/// All jobs of a query.
#[derive(Debug, ClapArgs)]
pub(crate) struct All {
    /// All jobs that match a query of `queue list`
    #[arg(long = "match", value_name = "QUERY")]
    pub(crate) matching: Option<String>,
    /// With --match: only the N jobs with the lowest ids
    #[arg(long, value_name = "N", requires = "matching", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) first: Option<u32>,
    /// With --match: do not ask
    #[arg(long)]
    pub(crate) yes: bool,
}

/// Who changes something, and why. `queue audit` shows it.
#[derive(Debug, Default, ClapArgs)]
pub(crate) struct By {
    /// Why: it stays on record
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
    /// Who: it stays on record, in place of the name of this account
    #[arg(long = "as", value_name = "NAME")]
    pub(crate) name: Option<String>,
}

impl By {
    /// The name that was given, or that of this account.
    pub(crate) fn name_or_account(&self) -> String {
        let account =
            || ["USER", "LOGNAME"].iter().find_map(|name| std::env::var(name).ok().filter(|it| !it.is_empty()));
        self.name.clone().or_else(account).unwrap_or_else(|| "queue-cli".to_owned())
    }

    pub(crate) fn actor(&self) -> Actor {
        let actor = Actor::new(self.name_or_account());
        self.reason.iter().fold(actor, |actor, reason| actor.reason(reason))
    }
}

#[derive(Debug, ClapArgs)]
#[group(required = true, multiple = false)]
pub(crate) struct When {
    /// A time in UTC: '2026-11-28 09:12'
    #[arg(long, value_name = "TIME")]
    at: Option<String>,
    /// A span: 30s, 20m, 2h, 7d
    #[arg(long = "in", value_name = "SPAN")]
    later: Option<String>,
}

impl When {
    pub(crate) fn time(&self, now: DateTime<Utc>) -> Result<DateTime<Utc>, String> {
        let (at, later) = (self.at.as_deref(), self.later.as_deref());
        let time = at.and_then(Search::time);
        let time = time.or_else(|| now.checked_add_signed(Search::span(later?)?));
        let given = at.or(later).unwrap_or_default();
        time.ok_or_else(|| format!("`{given}` is not a time: write --in 20m, or --at '2026-11-28 09:12' in UTC"))
    }
}

/// If there is such a command.
const TOP: &str =
    if cfg!(feature = "top") { "\n  queue top                            the same on a screen that stays" } else { "" };

/// What `queue` alone says.
pub(crate) fn incident() -> String {
    format!(
        "\
In an incident, in this order:

  queue status                         what is wrong, worst first{TOP}
  queue errors                         what fails: one line for each error
  queue tail --failed                  each failure, as it happens
  queue why                            what all waiting jobs wait for
  queue workers                        who is alive, and how busy
  queue show 42                        its attempts and arguments
  queue why 42                         why it does not run
  queue pause mail                     stop claims from a queue
  queue edit 42 --set to=a@b.org       correct its arguments
  queue send-back 42                   one first; then those that
      --match group:3f9a1b2c           match, after a question
  queue resume mail                    go on
  queue audit                          who changed what, and what still runs

All commands: queue help
"
    )
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_words_fit_together() {
        [true, false].into_iter().for_each(|works| super::words(works).debug_assert());
    }
}
