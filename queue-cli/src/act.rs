//! The commands that change jobs and queues.

use std::io::{self, IsTerminal as _, Read as _};

use chrono::{DateTime, Utc};
use queue::admin::{Admin, Filter, JobRow};
use queue::{Error, JobId, JobState};
use serde_json::{Value, json};

use crate::args::Which;
use crate::failure::Failure;
use crate::findings::World;
use crate::look::{slip, slips, table};
use crate::query::Query;
use crate::screen::Screen;
use crate::text::{clean, exact, jobs, quoted, thousands};

/// Jobs are counted up to here before a question.
const COUNTED: usize = 10_000;
/// So many of them are shown.
const SAMPLES: usize = 3;
/// So many refusals are told.
const TOLD: usize = 5;
/// The size of the pages that are counted.
const PAGE: u32 = 1_000;

/// What is done to jobs.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Verb {
    Retry,
    SendBack,
    Cancel,
    Delete,
    Reschedule(DateTime<Utc>),
}

impl Verb {
    /// Its name, what was done to the jobs, and the states of those that it changes.
    fn words(self) -> (&'static str, &'static str, &'static [JobState]) {
        use JobState::{Cancelled, Completed, Dead, Ready, Running, Scheduled};
        match self {
            Self::Retry => ("retry", "retried", &[Scheduled, Dead]),
            Self::SendBack => ("send back", "sent back", &[Dead]),
            Self::Cancel => ("cancel", "cancelled or told to stop", &[Scheduled, Ready, Running]),
            Self::Delete => ("delete", "deleted", &[Scheduled, Ready, Dead, Completed, Cancelled]),
            Self::Reschedule(_) => ("reschedule", "rescheduled", &[Scheduled, Ready]),
        }
    }

    async fn one(self, admin: &Admin, id: JobId) -> Result<(), Error> {
        match self {
            Self::Retry => admin.retry(id).await,
            Self::SendBack => admin.send_back(id).await,
            Self::Cancel => admin.cancel(id).await,
            Self::Delete => admin.delete(id).await,
            Self::Reschedule(time) => admin.reschedule(id, time).await,
        }
    }

    async fn all(self, admin: &Admin, filter: &Filter) -> Result<u64, Error> {
        match self {
            Self::Retry => admin.retry_all(filter).await,
            Self::SendBack => admin.send_back_all(filter).await,
            Self::Cancel => admin.cancel_all(filter).await,
            Self::Delete => admin.delete_all(filter).await,
            Self::Reschedule(time) => admin.reschedule_all(filter, time).await,
        }
    }
}

/// The jobs of a command.
#[derive(Debug)]
pub(crate) enum Chosen {
    Ids(Vec<JobId>),
    /// Whether to ask, too.
    Matching(Box<Query>, bool),
}

/// Reads the words, without the database. Refuses what would have to ask and cannot.
pub(crate) fn choose(which: &Which, screen: &Screen) -> Result<Chosen, Failure> {
    let Some(text) = &which.matching else { return Ok(Chosen::Ids(ids(&which.ids)?)) };
    let mut query = Query::parse(std::slice::from_ref(text), screen.look.now)?;
    if query.words == 0 {
        return Err(Failure::new(2, "--match needs at least one word, such as kind:send_email"));
    }
    if !which.yes && (screen.json || !io::stdin().is_terminal()) {
        let why = "nothing was done: add --yes, or run it in a terminal, where it asks";
        return Err(Failure::new(2, why).fix(format!("queue {}--yes", given(str::to_owned))));
    }
    query.first = which.first;
    Ok(Chosen::Matching(Box::new(query), !which.yes))
}

/// The words of this command as a shell takes them, each changed, and each followed by a space.
pub(crate) fn given(change: impl Fn(&str) -> String) -> String {
    let mut words = String::new();
    let mut given = std::env::args().skip(1);
    while let Some(word) = given.next() {
        match word.split('=').next() {
            // it may hold a password
            Some("--database") if word.contains('=') => {}
            Some("--database") => drop(given.next()),
            _ => words += &(quoted(&change(&word)) + " "),
        }
    }
    words
}

/// The ids, those from standard input too: numbers, or the lines of `queue list --json`.
fn ids(words: &[String]) -> Result<Vec<JobId>, Failure> {
    let mut text = String::new();
    if words.iter().any(|word| word == "-") {
        let read = io::stdin().read_to_string(&mut text);
        read.map_err(|error| Failure::new(1, format!("cannot read standard input: {error}")))?;
    }
    let id_of = |line: &str| serde_json::from_str::<Value>(line).ok()?.get("id").map(Value::to_string);
    let read = text.lines().map(|line| id_of(line).unwrap_or_else(|| line.to_owned()));
    let all: Vec<String> = words.iter().filter(|word| *word != "-").cloned().chain(read).collect();
    let wrong = |word| Failure::new(2, format!("`{}` is not the id of a job", clean(word))).fix("queue list");
    all.iter().flat_map(|text| text.split_whitespace()).map(|word| word.parse().map_err(|_| wrong(word))).collect()
}

pub(crate) async fn act(admin: &Admin, screen: &Screen, verb: Verb, chosen: Chosen) -> Result<(), Failure> {
    screen.begin();
    match chosen {
        Chosen::Ids(ids) => each(admin, screen, verb, &ids).await,
        Chosen::Matching(query, ask) => all(admin, screen, verb, &query, ask).await,
    }
}

async fn each(admin: &Admin, screen: &Screen, verb: Verb, ids: &[JobId]) -> Result<(), Failure> {
    let (mut done, mut refused, (_, past, _)) = (Vec::new(), Vec::new(), verb.words());
    for &id in ids {
        match verb.one(admin, id).await {
            Ok(()) => done.push(id),
            Err(error) => refused.push(Failure::from(error)),
        }
    }
    match (&done[..], ids.len()) {
        _ if screen.json => screen.object(&json!({"changed": done.len(), "jobs": done, "refused": refused.len()}))?,
        ([], 1) => {}
        ([id], 1) => screen.out(&format!("job {id} {past}. Watch it: queue show {id}\n"))?,
        (done, all) => screen.out(&format!("{} of {} {past}.\n", thousands(done.len() as u64), jobs(all as u64)))?,
    }
    refused.iter().take(TOLD).for_each(|failure| screen.say(&failure.text(screen.json)));
    if refused.len() > TOLD && !screen.json {
        screen.say(&format!("error: {} more were refused\n", thousands((refused.len() - TOLD) as u64)));
    }
    let code = refused.iter().map(|failure| failure.code).max();
    code.map_or(Ok(()), |code| Err(Failure::new(code, "")))
}

/// How many jobs the verb would change, up to a limit, and the first of them. None of these if they are not known.
async fn count(admin: &Admin, verb: Verb, query: &Query) -> Result<(usize, Vec<JobRow>), Failure> {
    let first = query.first.map_or(usize::MAX, |first| first as usize);
    let (mut number, mut samples, (_, _, states)) = (0, Vec::new(), verb.words());
    for &state in states.iter().filter(|state| query.state.is_none_or(|only| only == **state)) {
        let mut filter = query.filter.clone().state(state).limit(PAGE);
        while number < COUNTED {
            let page = admin.jobs(&filter).await?;
            number += page.items.len();
            samples.extend(page.items);
            samples.sort_by_key(|job| job.id);
            samples.truncate(SAMPLES.min(first));
            let Some(next) = page.next else { break };
            filter = filter.before(next);
        }
    }
    if number >= COUNTED && first < COUNTED {
        samples.clear();
    }
    Ok((number.min(COUNTED).min(first), samples))
}

async fn all(admin: &Admin, screen: &Screen, verb: Verb, query: &Query, ask: bool) -> Result<(), Failure> {
    let (name, past, _) = verb.words();
    if ask {
        let (number, samples) = count(admin, verb, query).await?;
        if number == 0 {
            screen.say(&format!("Nothing to do: no such job matches.\n{}", slips(admin, query).await?));
            return Ok(());
        }
        let more = number == COUNTED && query.first.is_none_or(|first| first as usize > COUNTED);
        let counted = if more { format!("{} or more jobs", thousands(number as u64)) } else { jobs(number as u64) };
        let until = if let Verb::Reschedule(time) = verb { format!(" to {}", exact(time)) } else { String::new() };
        let question = format!("This will {name} {counted}{until}, on {}. Go on?", screen.database);
        if !samples.is_empty() {
            screen.say(&table(&samples, query, screen));
        }
        if !screen.agrees(&question) {
            return Err(Failure::new(1, "nothing was done"));
        }
    }
    let filter = query.filter.clone();
    let changed =
        verb.all(admin, &query.first.map_or_else(|| filter.clone(), |first| filter.clone().limit(first))).await?;
    if screen.json {
        return screen.object(&json!({"changed": changed}));
    }
    if changed == 0 {
        screen.say(&slips(admin, query).await?);
    }
    screen.out(&format!("{} {past}.\n", jobs(changed)))
}

/// Pauses or resumes a queue.
pub(crate) async fn pause(admin: &Admin, screen: &Screen, queue: &str, paused: bool) -> Result<(), Failure> {
    screen.begin();
    if paused {
        admin.pause(queue).await?
    } else {
        admin.resume(queue).await?
    }
    if screen.json {
        return screen.object(&json!({"queue": queue, "paused": paused}));
    }
    // most pauses of an unknown queue are slips
    let world = World::read(admin).await?;
    let [_, queues] = world.names();
    screen.say(&slip("queue", Some(queue), &queues));
    let name = clean(queue);
    screen.out(&match paused {
        true => format!("queue `{name}` is paused. Its running jobs continue. Go on: queue resume {}\n", quoted(queue)),
        false => format!("queue `{name}` is not paused. Watch it: queue status\n"),
    })
}
