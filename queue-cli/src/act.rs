//! The commands that change jobs and queues.

use std::io::{self, IsTerminal as _, Read as _};

use chrono::{DateTime, Utc};
use queue::admin::{Admin, Filter, JobRow};
use queue::{Error, JobId, JobState};
use serde_json::{Map, Value, json};

use crate::args::Which;
use crate::failure::Failure;
use crate::findings::World;
use crate::look::{slip, slips, table};
use crate::query::Query;
use crate::screen::Screen;
use crate::text::{Tone, clean, exact, jobs, nearest, quoted, thousands};

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
        let mut words = String::new();
        let mut given = std::env::args().skip(1);
        while let Some(word) = given.next() {
            match word.split('=').next() {
                // it may hold a password
                Some("--database") if word.contains('=') => {}
                Some("--database") => drop(given.next()),
                _ => words += &(quoted(&word) + " "),
            }
        }
        let why = "nothing was done: add --yes, or run it in a terminal, where it asks";
        return Err(Failure::new(2, why).fix(format!("queue {words}--yes")));
    }
    query.first = which.first;
    Ok(Chosen::Matching(Box::new(query), !which.yes))
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

/// The arguments after an edit, and what differs. `None`: nothing does.
fn merged(args: &str, new: Value) -> Result<Option<(Value, String)>, String> {
    let old: Value = serde_json::from_str(args).unwrap_or(Value::Null);
    let (Value::Object(old), Value::Object(new)) = (&old, &new) else {
        if old == new {
            return Ok(None);
        }
        return match old {
            Value::Object(_) => Err("the new arguments are not a JSON object: write {\"name\": \"value\"}".to_owned()),
            _ => Ok(Some((new.clone(), format!("- {}\n+ {}\n", clean(args), clean(&new.to_string()))))),
        };
    };
    let (mut all, mut diff) = (old.clone(), String::new());
    for (name, value) in new {
        let line =
            |sign, value: &Value| format!("{sign} {}: {}\n", Value::from(name.as_str()), clean(&value.to_string()));
        match old.get(name) {
            Some(before) if before == value => continue,
            Some(before) => diff += &line('-', before),
            None => {
                if let Some(near) = nearest(name, old.keys().map(String::as_str)) {
                    return Err(format!("the job has no argument `{}`; did you mean `{}`?", clean(name), clean(near)));
                }
            }
        }
        diff += &line('+', value);
        all.insert(name.clone(), value.clone());
    }
    Ok((!diff.is_empty()).then_some((Value::Object(all), diff)))
}

/// `name=value`: the value is JSON if it can be, unless a text stands there now.
fn assignment(text: &str, args: &Value) -> Result<(String, Value), String> {
    let (name, value) = text.split_once('=').ok_or_else(|| format!("`{text}` is not NAME=VALUE"))?;
    let json = serde_json::from_str(value).ok();
    let json = json.filter(|json: &Value| json.is_string() || json.is_null() || !args[name].is_string());
    Ok((name.to_owned(), json.unwrap_or_else(|| Value::from(value))))
}

pub(crate) async fn edit(
    admin: &Admin,
    screen: &Screen,
    id: JobId,
    given: Option<&str>,
    set: &[String],
) -> Result<(), Failure> {
    let wrong = |message: String| Failure::from(message).fix(format!("queue show {id}"));
    let given: Option<Value> = given
        .map(serde_json::from_str)
        .transpose()
        .map_err(|error| wrong(format!("this is not JSON ({error}): write '{{\"to\": \"ada@example.org\"}}'")))?;
    let detail = admin.job(id).await?.ok_or(Error::NotFound(id))?;
    let present: Value = serde_json::from_str(&detail.args).unwrap_or_default();
    let fields = set.iter().map(|text| assignment(text, &present)).collect::<Result<Map<_, _>, _>>();
    let new = given.map_or_else(|| fields.map(Value::Object), Ok).map_err(wrong)?;
    screen.begin();
    let Some((args, diff)) = merged(&detail.args, new).map_err(wrong)? else {
        screen.say("Nothing to change: the job has these arguments.\n");
        return Ok(());
    };
    admin.edit_args(id, &args).await?;
    if screen.json {
        return screen.object(&json!({"id": id, "args": args}));
    }
    let tone = |line: &str| if line.starts_with('-') { Tone::Bad } else { Tone::Good };
    let diff: String = diff.lines().map(|line| format!("  {}\n", screen.look.paint(tone(line), line))).collect();
    let next = match detail.job.state {
        JobState::Dead => format!("It stays a dead letter: queue send-back {id}"),
        _ => format!("Watch it: queue show {id}"),
    };
    screen.out(&format!("{diff}job {id} edited. {next}\n"))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edit_changes_the_fields_that_it_names() {
        let args = r#"{"to":"ada","n":1}"#;
        let (all, diff) = merged(args, json!({"to": "grace"})).expect("fits").expect("differs");
        assert_eq!((all, diff.as_str()), (json!({"to": "grace", "n": 1}), "- \"to\": \"ada\"\n+ \"to\": \"grace\"\n"));
        assert_eq!(merged(args, json!({"n": 1})), Ok(None));
        let (_, diff) = merged(args, json!({"subject": null})).expect("fits").expect("differs");
        assert_eq!(diff, "+ \"subject\": null\n");
        assert!(merged(args, json!([1])).is_err_and(|why| why.contains("not a JSON object")));
        assert!(
            merged(r#"{"subject":1}"#, json!({"subjct": 2})).is_err_and(|why| why.contains("did you mean `subject`?"))
        );
        let (all, _) = merged("not json", json!({"a": 1})).expect("fits").expect("differs");
        assert_eq!(all, json!({"a": 1}));
    }

    #[test]
    fn a_text_stays_a_text() {
        let args = json!({"zip": "01234", "n": 1});
        let value = |text| assignment(text, &args).map(|(_, value)| value);
        assert_eq!(value("zip=01239"), Ok(json!("01239")));
        assert_eq!(value("zip=null"), Ok(json!(null)));
        assert_eq!(value("n=2"), Ok(json!(2)));
        assert_eq!(value("n=two=2"), Ok(json!("two=2")));
        assert!(value("n").is_err());
    }
}
