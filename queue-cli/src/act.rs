//! The commands that change jobs and queues.

use std::io::{self, IsTerminal as _, Read as _};

use chrono::{DateTime, Utc};
use queue::admin::{Admin, Filter, JobRow};
use queue::{Error, JobId, JobState};
use serde_json::{Map, Value, json};

use crate::args::Which;
use crate::failure::Failure;
use crate::look::{slip, slips, table, world};
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
    /// What was done to the jobs.
    fn past(self) -> &'static str {
        match self {
            Self::Retry => "retried",
            Self::SendBack => "sent back",
            Self::Cancel => "cancelled or told to stop",
            Self::Delete => "deleted",
            Self::Reschedule(_) => "rescheduled",
        }
    }

    /// "This cancels 3 jobs".
    fn plan(self, jobs: &str) -> String {
        match self {
            Self::Retry => format!("This runs {jobs} now"),
            Self::SendBack => format!("This sends {jobs} back"),
            Self::Cancel => format!("This cancels {jobs} for good"),
            Self::Delete => format!("This deletes {jobs} for good"),
            Self::Reschedule(time) => format!("This makes {jobs} due at {}", exact(time)),
        }
    }

    /// The states of the jobs that it changes.
    fn states(self) -> &'static [JobState] {
        use JobState::{Cancelled, Completed, Dead, Ready, Running, Scheduled};
        match self {
            Self::Retry => &[Scheduled, Dead],
            Self::SendBack => &[Dead],
            Self::Cancel => &[Scheduled, Ready, Running],
            Self::Delete => &[Scheduled, Ready, Dead, Completed, Cancelled],
            Self::Reschedule(_) => &[Scheduled, Ready],
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

/// What `--match` selects.
#[derive(Debug)]
pub(crate) struct Matching {
    query: Query,
    first: Option<u32>,
    yes: bool,
}

/// The jobs of a command.
#[derive(Debug)]
pub(crate) enum Chosen {
    Ids(Vec<JobId>),
    Matching(Matching),
}

/// Reads the words, without the database. Refuses what would have to ask and cannot.
pub(crate) fn choose(which: &Which, screen: &Screen) -> Result<Chosen, Failure> {
    let Some(text) = &which.matching else { return Ok(Chosen::Ids(ids(&which.ids)?)) };
    let query =
        Query::parse(std::slice::from_ref(text), screen.look.now).map_err(|error| Failure::usage(error, None))?;
    if query == Query::default() {
        return Err(Failure::usage("--match needs at least one word, such as kind:send_email", None));
    }
    if !which.yes && (screen.json || !io::stdin().is_terminal()) {
        let words: Vec<String> = std::env::args().skip(1).map(|word| quoted(&word) + " ").collect();
        let why = "nothing was done: add --yes, or run it in a terminal, where it asks";
        return Err(Failure::usage(why, Some(format!("queue {}--yes", words.concat()))));
    }
    Ok(Chosen::Matching(Matching { query, first: which.first, yes: which.yes }))
}

/// The ids, those from standard input too: numbers, or the lines of `queue list --json`.
fn ids(words: &[String]) -> Result<Vec<JobId>, Failure> {
    let mut ids = Vec::new();
    for word in words {
        if word != "-" {
            ids.push(id(word)?);
            continue;
        }
        let mut text = String::new();
        let read = io::stdin().read_to_string(&mut text);
        read.map_err(|error| Failure::new(format!("cannot read standard input: {error}"), None))?;
        for line in text.lines() {
            match serde_json::from_str::<Value>(line).ok().and_then(|job| job.get("id")?.as_i64()) {
                Some(id) => ids.push(id.into()),
                None => line.split_whitespace().try_for_each(|word| id(word).map(|id| ids.push(id)))?,
            }
        }
    }
    Ok(ids)
}

fn id(word: &str) -> Result<JobId, Failure> {
    crate::args::id(word).map_err(|why| Failure::usage(why, Some("queue list".into())))
}

pub(crate) async fn act(admin: &Admin, screen: &Screen, verb: Verb, chosen: Chosen) -> Result<(), Failure> {
    if !screen.json {
        screen.say(&screen.header());
    }
    match chosen {
        Chosen::Ids(ids) => each(admin, screen, verb, &ids).await,
        Chosen::Matching(matching) => all(admin, screen, verb, &matching).await,
    }
}

async fn each(admin: &Admin, screen: &Screen, verb: Verb, ids: &[JobId]) -> Result<(), Failure> {
    let (mut done, mut refused) = (Vec::new(), Vec::new());
    for &id in ids {
        match verb.one(admin, id).await.map_err(Failure::from) {
            Ok(()) => done.push(id),
            Err(failure) => refused.push(failure),
        }
    }
    if screen.json {
        screen.object(&json!({"changed": done.len(), "jobs": done, "refused": refused.len()}))?;
    } else {
        match (&done[..], ids.len()) {
            ([], 1) => {}
            ([id], 1) => screen.out(&format!("job {id} {}. Watch it: queue show {id}\n", verb.past()))?,
            (done, all) => {
                let done = thousands(done.len() as u64);
                screen.out(&format!("{done} of {} {}.\n", jobs(all as u64), verb.past()))?;
            }
        }
    }
    for failure in refused.iter().take(TOLD) {
        screen.say(&failure.text(screen.json));
    }
    if refused.len() > TOLD && !screen.json {
        screen.say(&format!("error: {} more were refused\n", thousands((refused.len() - TOLD) as u64)));
    }
    let code = refused.iter().map(|failure| failure.code).max();
    code.map_or(Ok(()), |code| Err(Failure::told(code)))
}

/// How many jobs the verb would change, up to a limit, and the first of them.
async fn count(admin: &Admin, verb: Verb, matching: &Matching) -> Result<(usize, Vec<JobRow>), Failure> {
    let most = matching.first.map_or(COUNTED, |first| COUNTED.min(first as usize));
    let (mut number, mut samples) = (0, Vec::new());
    for &state in verb.states().iter().filter(|state| matching.query.state.is_none_or(|only| only == **state)) {
        let mut filter = matching.query.filter().state(state);
        while number < most {
            let size = u32::try_from(most - number).unwrap_or(PAGE).min(PAGE);
            let page = admin.jobs(&filter.clone().limit(size)).await?;
            number += page.items.len();
            samples.extend(page.items.into_iter().take(SAMPLES));
            let Some(next) = page.next else { break };
            filter = filter.after(next);
        }
    }
    samples.sort_by_key(|job| job.id);
    samples.truncate(SAMPLES);
    Ok((number, samples))
}

async fn all(admin: &Admin, screen: &Screen, verb: Verb, matching: &Matching) -> Result<(), Failure> {
    if !matching.yes {
        let (number, samples) = count(admin, verb, matching).await?;
        if number == 0 {
            screen.say(&format!("Nothing to do: no such job matches.\n{}", slips(admin, &matching.query).await?));
            return Ok(());
        }
        let counted = match number >= COUNTED && matching.first.is_none_or(|first| first as usize > COUNTED) {
            true => format!("{} or more jobs", thousands(number as u64)),
            false => jobs(number as u64),
        };
        screen.say(&table(&samples, &matching.query, screen));
        if !screen.agrees(&format!("{}, on {}. Go on?", verb.plan(&counted), screen.database)) {
            return Err(Failure::new("nothing was done", None));
        }
    }
    let filter = matching.query.filter();
    let filter = matching.first.map_or_else(|| filter.clone(), |first| filter.clone().limit(first));
    let changed = verb.all(admin, &filter).await?;
    if screen.json {
        return screen.object(&json!({"changed": changed}));
    }
    if changed == 0 {
        screen.say(&slips(admin, &matching.query).await?);
    }
    screen.out(&format!("{} {}.\n", jobs(changed), verb.past()))
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
    let wrong = |message: String| Failure::usage(message, Some(format!("queue show {id}")));
    let given = given.map(|text| {
        let example = "write '{\"to\": \"ada@example.org\"}'";
        serde_json::from_str::<Value>(text).map_err(|error| wrong(format!("this is not JSON ({error}): {example}")))
    });
    let given = given.transpose()?;
    let detail = admin.job(id).await?.ok_or(Error::NotFound(id))?;
    let new = match given {
        Some(given) => given,
        None => {
            let present: Value = serde_json::from_str(&detail.args).unwrap_or(Value::Null);
            let fields = set.iter().map(|text| assignment(text, &present)).collect::<Result<Map<_, _>, _>>();
            Value::Object(fields.map_err(wrong)?)
        }
    };
    if !screen.json {
        screen.say(&screen.header());
    }
    let Some((args, diff)) = merged(&detail.args, new).map_err(wrong)? else {
        screen.say("Nothing to change: the job has these arguments.\n");
        return Ok(());
    };
    admin.edit_args(id, &args).await?;
    if screen.json {
        return screen.object(&json!({"id": id, "args": args}));
    }
    for line in diff.lines() {
        let tone = if line.starts_with('-') { Tone::Bad } else { Tone::Good };
        screen.out(&format!("  {}\n", screen.look.paint(tone, line)))?;
    }
    let next = match detail.job.state {
        JobState::Dead => format!(" It stays a dead letter: queue send-back {id}"),
        _ => format!(" Watch it: queue show {id}"),
    };
    screen.out(&format!("job {id} edited.{next}\n"))
}

/// Pauses or resumes a queue.
pub(crate) async fn pause(admin: &Admin, screen: &Screen, queue: &str, paused: bool) -> Result<(), Failure> {
    if !screen.json {
        screen.say(&screen.header());
    }
    if paused {
        admin.pause(queue).await?;
    } else {
        admin.resume(queue).await?;
    }
    if screen.json {
        return screen.object(&json!({"queue": queue, "paused": paused}));
    }
    // most pauses of an unknown queue are slips
    screen.say(&slip("queue", queue, &world(admin).await?.names(false)).unwrap_or_default());
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
