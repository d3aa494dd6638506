//! The commands that change jobs and queues.

use std::io::{self, IsTerminal as _, Read as _};
use std::pin::pin;
use std::time::Duration;

use queue::admin::{Action, Admin, Count, JobRow, Operation, Plan, Progress, Search};
use queue::{Error, JobId};
use serde_json::{Value, json};

use crate::args::{All, Over, Which};
use crate::failure::Failure;
use crate::findings::World;
use crate::look::{slip, slips, table};
use crate::screen::Screen;
use crate::text::{clean, count, duration, exact, jobs, quoted, thousands};

/// The most of them that are shown.
const SAMPLES: usize = 3;
/// The most refusals that are told.
const TOLD: usize = 5;

/// The name of an action, and what was done to the jobs.
fn words(action: &Action) -> (&'static str, &'static str) {
    match action {
        Action::Retry => ("retry", "retried"),
        Action::SendBack => ("send back", "sent back"),
        Action::Cancel => ("cancel", "cancelled or told to stop"),
        Action::Delete => ("delete", "deleted"),
        Action::Reschedule(_) => ("reschedule", "rescheduled"),
        _ => ("change", "changed"),
    }
}

async fn one(action: &Action, admin: &Admin, id: JobId) -> Result<(), Error> {
    match action {
        Action::Retry => admin.retry(id).await,
        Action::SendBack => admin.send_back(id).await,
        Action::Cancel => admin.cancel(id).await,
        Action::Delete => admin.delete(id).await,
        Action::Reschedule(time) => admin.reschedule(id, *time).await,
        _ => Ok(()),
    }
}

/// The jobs of a command.
#[derive(Debug)]
pub(crate) enum Chosen {
    Ids(Vec<JobId>),
    Matching(Box<Search>, How),
}

/// How all jobs of a search are changed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct How {
    pub(crate) ask: bool,
    over: Option<Duration>,
}

/// Reads the words, without the database. Refuses what would have to ask and cannot.
pub(crate) fn choose(which: &Which, over: Option<&Over>, screen: &Screen) -> Result<Chosen, Failure> {
    let over = over.and_then(|over| over.span.as_deref()).map(|text| {
        let span = Search::span(text).and_then(|span| span.to_std().ok());
        span.ok_or_else(|| Failure::new(2, format!("`{}` is not a span: write 30s, 10m or 2h", clean(text))))
    });
    let over = over.transpose()?;
    match chosen(&which.all, over, screen)? {
        Some((search, how)) => Ok(Chosen::Matching(Box::new(search), how)),
        None => Ok(Chosen::Ids(ids(&which.ids)?)),
    }
}

/// The search of a command, if it has one.
pub(crate) fn chosen(which: &All, over: Option<Duration>, screen: &Screen) -> Result<Option<(Search, How)>, Failure> {
    let Some(text) = &which.matching else { return Ok(None) };
    let mut search = Search::parse(text, screen.look.now)?;
    if search.words.is_empty() {
        return Err(Failure::new(2, "--match needs at least one word, such as kind:send_email"));
    }
    if !which.yes && (screen.json || !io::stdin().is_terminal()) {
        let why = "nothing was done: add --yes, or run it in a terminal, where it asks";
        return Err(Failure::new(2, why).fix(format!("queue {}--yes", given(str::to_owned))));
    }
    if let Some(first) = which.first {
        search.filter = search.filter.limit(first);
    }
    Ok(Some((search, How { ask: !which.yes, over })))
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

pub(crate) async fn act(admin: &Admin, screen: &Screen, action: Action, chosen: Chosen) -> Result<(), Failure> {
    screen.begin();
    match chosen {
        Chosen::Ids(ids) => each(admin, screen, &action, &ids).await,
        Chosen::Matching(search, how) => all(admin, screen, action, &search, how).await,
    }
}

async fn each(admin: &Admin, screen: &Screen, action: &Action, ids: &[JobId]) -> Result<(), Failure> {
    let (mut done, mut refused, (_, past)) = (Vec::new(), Vec::new(), words(action));
    for &id in ids {
        match one(action, admin, id).await {
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

async fn all(admin: &Admin, screen: &Screen, action: Action, search: &Search, how: How) -> Result<(), Failure> {
    let until = if let Action::Reschedule(time) = action { format!(" to {}", exact(time)) } else { String::new() };
    let words = words(&action);
    let plan = admin.plan(action, &search.filter).await?;
    let samples = |jobs: &[JobRow]| table(&jobs[..jobs.len().min(SAMPLES)], search, screen);
    if how.ask {
        let shown = samples(plan.samples());
        if !agreed(admin, screen, &plan, search, how, [words.0, &until, &shown]).await? {
            return Ok(());
        }
    }
    carry_out(admin, screen, plan, search, how, words.1).await
}

/// Shows the plan and asks. False: there is nothing to do.
pub(crate) async fn agreed(
    admin: &Admin,
    screen: &Screen,
    plan: &Plan,
    search: &Search,
    how: How,
    [name, until, shown]: [&str; 3],
) -> Result<bool, Failure> {
    let number = plan.count();
    if number.jobs == 0 && !number.or_more {
        screen.say(&format!("Nothing to do: no such job matches.\n{}", slips(admin, search).await?));
        return Ok(false);
    }
    let over = how.over.map_or_else(String::new, |over| format!(" over {}", duration(over)));
    let counted = if number.or_more { count(number) + " jobs" } else { jobs(number.jobs) };
    screen.say(shown);
    match screen.agrees(&format!("This will {name} {counted}{until}{over}, on {}. Go on?", screen.database)) {
        true => Ok(true),
        false => Err(Failure::new(1, "nothing was done")),
    }
}

/// Carries the plan out, and says how it went.
pub(crate) async fn carry_out(
    admin: &Admin,
    screen: &Screen,
    mut plan: Plan,
    search: &Search,
    how: How,
    past: &str,
) -> Result<(), Failure> {
    if let Some(over) = how.over {
        plan = plan.over(over);
    }
    let all = plan.count();
    // of a single one
    let watch = plan.samples().first().filter(|_| all.jobs == 1 && !all.or_more).map(|job| job.id);
    let id = plan.begin().await?.id;
    let done = watched(admin, screen, id, all).await?;
    let (changed, refused, told) = (done.changed, done.refused.jobs, done.progress.as_str());
    if screen.json {
        screen.object(&json!({"operation": id, "changed": changed, "refused": refused, "progress": told}))?;
    } else {
        if changed == 0 && refused == 0 {
            screen.say(&slips(admin, search).await?);
        }
        screen.out(&(was_done(&done, past, watch) + "\n"))?;
    }
    was_not_done(&done, past)
}

/// What an operation did. `watch`: its only job.
pub(crate) fn was_done(done: &Operation, past: &str, watch: Option<JobId>) -> String {
    let watch =
        watch.filter(|_| done.changed == 1).map_or_else(String::new, |id| format!(" Watch it: queue show {id}"));
    format!("{} {past}.{watch}", jobs(done.changed))
}

/// What an operation did not do.
pub(crate) fn was_not_done(done: &Operation, past: &str) -> Result<(), Failure> {
    let (id, refused) = (done.id, done.refused.jobs);
    if done.progress == Progress::Running {
        let why = "another process goes on with it";
        return Err(Failure::new(3, why).fix(format!("queue audit {id}")));
    }
    if done.progress == Progress::Stopped {
        return Err(Failure::new(1, "it was stopped").fix(format!("queue audit {id}")));
    }
    if refused > 0 {
        let more = if done.refused.or_more { " or more" } else { "" };
        let why = format!("{}{more} could not be {past}", jobs(refused));
        return Err(Failure::new(1, why).fix(format!("queue audit {id}")));
    }
    Ok(())
}

/// Carries out an operation, and shows how far it is on a terminal.
async fn watched(admin: &Admin, screen: &Screen, id: i64, all: Count) -> Result<Operation, Error> {
    let mut run = pin!(admin.go_on(id));
    let shows = !screen.json && io::stderr().is_terminal();
    let mut shown = false;
    loop {
        let tick = tokio::time::sleep(Duration::from_millis(500));
        tokio::select! {
            done = &mut run => {
                if shown {
                    screen.say("\r\x1b[K");
                }
                return done;
            }
            () = tick => {}
        }
        if shows {
            let now = admin.operation(id).await?;
            let line = format!(
                "\r\x1b[K{} of {} · Ctrl-C leaves it to a worker: queue audit {id}",
                thousands(now.changed),
                count(all)
            );
            screen.say(&line);
            shown = true;
        }
    }
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
    screen.out(&(is_paused(queue, paused) + "\n"))
}

/// That a queue is paused, or is not, and the command that goes on.
pub(crate) fn is_paused(queue: &str, paused: bool) -> String {
    let name = clean(queue);
    match paused {
        true => format!("queue `{name}` is paused. Its running jobs continue. Go on: queue resume {}", quoted(queue)),
        false => format!("queue `{name}` is not paused. Watch it: queue status"),
    }
}
