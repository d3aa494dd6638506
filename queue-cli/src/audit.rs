//! The record of all changes, and what still runs.

use queue::JobId;
use queue::admin::{Admin, Operation, Progress};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::screen::Screen;
use crate::text::{Table, Tone, clean, count, first_line, thousands};

/// The most refused jobs that are shown.
const REFUSED: usize = 20;
/// The most operations of one page, as the library has it.
const PAGE: usize = 100;

/// What it changed, in a few words.
fn target(operation: &Operation) -> String {
    let details = &operation.details;
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    if let Some(job) = operation.job {
        return format!("job {job}");
    }
    for name in ["queue", "schedule", "operation", "kind"] {
        if let Some(value) = details.get(name) {
            return format!("{name} {}", text(value));
        }
    }
    let words = details["filter"].as_object().into_iter().flatten();
    let words = words.filter(|(name, _)| *name != "among" && *name != "failed_before");
    let words: Vec<_> = words.map(|(name, value)| format!("{name}:{}", text(value))).collect();
    if words.is_empty() { "all jobs".to_owned() } else { words.join(" ") }
}

fn tone(operation: &Operation) -> Tone {
    match operation.progress {
        Progress::Running => Tone::Good,
        Progress::Stopped => Tone::Warn,
        _ if operation.refused.jobs > 0 => Tone::Warn,
        _ => Tone::Plain,
    }
}

pub(crate) fn table(operations: &[Operation], screen: &Screen) -> String {
    let mut table = Table::new(&[">ID", "WHEN", "WHO", "WHAT", "OF", ">CHANGED", ">REFUSED", "STATE", "WHY"]);
    for it in operations {
        let (id, time, what) = (it.id.to_string(), screen.look.time(it.at), it.action.replace('_', "-"));
        let (changed, refused) = (thousands(it.changed), count(it.refused));
        let why = first_line(it.reason.as_deref().unwrap_or_default());
        let cells = [&*id, &time, &it.actor, &what, &target(it), &changed, &refused, it.progress.as_str(), why];
        table.row(tone(it), &cells);
    }
    if operations.iter().all(|it| it.refused.jobs == 0) {
        table.without(">REFUSED");
    }
    if operations.iter().all(|it| it.reason.is_none()) {
        table.without("WHY");
    }
    table.lines(&screen.look, 0)
}

pub(crate) async fn list(admin: &Admin, screen: &Screen, before: Option<i64>) -> Result<(), Failure> {
    let operations = admin.operations(before).await?;
    if screen.json {
        return operations.iter().try_for_each(|operation| screen.object(operation));
    }
    if operations.is_empty() {
        screen.say("Nobody has changed anything yet.\n");
        return Ok(());
    }
    screen.out(&table(&operations, screen))?;
    if let Some(last) = operations.last()
        && operations.len() == PAGE
    {
        screen.say(&format!("Go on: queue audit --before {}\n", last.id));
    }
    Ok(())
}

pub(crate) async fn one(admin: &Admin, screen: &Screen, id: i64) -> Result<(), Failure> {
    let operation = admin.operation(id).await.map_err(unknown)?;
    if screen.json {
        return screen.object(&operation);
    }
    let refused = admin.refusals(id, None).await?;
    let head = format!("{} {} · {}\n", operation.action.replace('_', " "), id, operation.progress.as_str());
    let pretty = serde_json::to_string_pretty(&operation.details).unwrap_or_default();
    let ended = operation.ended_at.map(|time| screen.look.time(time));
    let next = match operation.progress {
        Progress::Running => format!("queue stop {id}"),
        _ => String::new(),
    };
    let fields = [
        ("who", Some(operation.actor.clone())),
        ("why", operation.reason.clone()),
        ("began", Some(screen.look.time(operation.at))),
        ("ended", ended),
        ("of", Some(target(&operation))),
        ("changed", Some(thousands(operation.changed))),
        ("refused", Some(count(operation.refused)).filter(|_| operation.refused.jobs > 0)),
        ("details", Some(pretty).filter(|it| it != "{}")),
    ];
    let mut out = head;
    for (name, text) in fields {
        out += &text.map_or_else(String::new, |text| screen.field(name, &text, true));
    }
    let mut table = Table::new(&[">JOB", "REASON"]);
    for it in refused.iter().take(REFUSED) {
        table.row(Tone::Plain, &[&it.job.to_string(), &it.reason]);
    }
    if !refused.is_empty() {
        out += &format!("\n{}", table.lines(&screen.look, 2));
    }
    if refused.len() > REFUSED {
        out += &format!("  and {} more\n", thousands(operation.refused.jobs.saturating_sub(REFUSED as u64)));
    }
    screen.out(&(out + &screen.field("next", &next, false)))
}

/// What was done to one job by itself, below its story.
pub(crate) async fn of_job(admin: &Admin, screen: &Screen, job: JobId) -> String {
    match admin.operations_on(job).await {
        Ok(found) if !found.is_empty() => {
            let mut table = Table::new(&["WHEN", "WHO", "WHAT", "WHY"]);
            for it in found.iter().rev() {
                let (time, why) = (screen.look.time(it.at), first_line(it.reason.as_deref().unwrap_or_default()));
                table.row(Tone::Plain, &[&time, &it.actor, &it.action.replace('_', "-"), why]);
            }
            format!("\n{}", table.lines(&screen.look, 2))
        }
        // an account from before there were records
        _ => String::new(),
    }
}

pub(crate) async fn stop(admin: &Admin, screen: &Screen, id: i64) -> Result<(), Failure> {
    screen.begin();
    let stopped = admin.stop(id).await.map_err(unknown)?;
    let operation = admin.operation(id).await?;
    if screen.json {
        return screen.object(&json!({"operation": id, "stopped": stopped, "changed": operation.changed}));
    }
    let changed = thousands(operation.changed);
    screen.out(&match stopped {
        true => format!("Stopped. What it has changed stays: {changed}.\n"),
        false => format!("It is over already. It has changed {changed}.\n"),
    })
}

fn unknown(error: queue::Error) -> Failure {
    match error {
        queue::Error::Config(message) => {
            Failure::new(1, clean(message.split(';').next().unwrap_or_default())).fix("queue audit")
        }
        error => error.into(),
    }
}
