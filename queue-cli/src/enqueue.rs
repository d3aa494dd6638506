//! The command that enqueues.

use queue::Error;
use queue::admin::{Admin, RawJob, Search, known_kinds};
use queue::unique::Enqueued;
use serde_json::json;

use crate::act::given;
use crate::args::New;
use crate::failure::Failure;
use crate::findings::World;
use crate::screen::Screen;
use crate::text::clean;

/// The job, as far as that can be told without the database.
pub(crate) fn job(new: &New) -> Result<RawJob, Failure> {
    let mut job = RawJob::new(&new.kind, &new.args);
    if let Some(queue) = &new.queue {
        job = job.queue(queue);
    }
    if let Some(text) = &new.after {
        let span = Search::span(text).and_then(|span| span.to_std().ok());
        job = job.after(span.ok_or_else(|| format!("`{text}` is not a span: write --after 20m"))?);
    }
    if let Some(text) = &new.at {
        let time = Search::time(text);
        job = job.at(time.ok_or_else(|| format!("`{text}` is not a time: write --at '2026-11-28 09:12' in UTC"))?);
    }
    if let Some(priority) = new.priority {
        job = job.priority(priority);
    }
    if let Some(retries) = new.max_retries {
        job = job.max_retries(retries);
    }
    for text in &new.meta {
        let (name, value) = text.split_once('=').ok_or_else(|| format!("`{text}` is not NAME=VALUE"))?;
        job = job.meta(name, value);
    }
    Ok(job)
}

/// Refuses a kind and a queue that are probably slips.
async fn look_twice(admin: &Admin, new: &New) -> Result<(), Failure> {
    let world = World::read(admin).await?;
    let ([mut kinds, queues], own) = (world.names(), known_kinds());
    kinds.extend(&own);
    let slip = |what: &str, word: &str, known: &[&str]| {
        let near = Search::nearest(word, known.iter().copied());
        let mean = near.map_or_else(
            || "; --force enqueues it all the same".to_owned(),
            |near| format!("; did you mean `{}`? Otherwise add --force", clean(near)),
        );
        let message = format!("no worker and no unfinished job has the {what} `{}`{mean}", clean(word));
        let fix = match near {
            Some(near) => given(|it| if it == word { near.to_owned() } else { it.to_owned() }),
            None => given(str::to_owned) + "--force",
        };
        Failure::new(1, message).fix(format!("queue {}", fix.trim_end()))
    };
    if !kinds.contains(&&*new.kind) {
        return Err(slip("kind", &new.kind, &kinds));
    }
    // the type of a known kind says where it goes
    let queue = new.queue.as_deref().or((!own.contains(&&*new.kind)).then_some("default"));
    match queue {
        Some(queue) if !queues.contains(&queue) && !world.serves_all() => Err(slip("queue", queue, &queues)),
        _ => Ok(()),
    }
}

pub(crate) async fn enqueue(admin: &Admin, screen: &Screen, new: &New, job: Option<RawJob>) -> Result<(), Failure> {
    let Some(job) = job else { return Ok(()) };
    screen.begin();
    if !new.force {
        look_twice(admin, new).await?;
    }
    let enqueued = admin.enqueue(job).await.map_err(|error| match error {
        Error::Config(message) => Failure::from(clean(&message)).fix("queue help enqueue"),
        error => error.into(),
    })?;
    let id = enqueued.id();
    if screen.json {
        return screen.object(&json!({"id": id, "new": enqueued.is_new()}));
    }
    screen.out(&format!("{id}\n"))?;
    screen.say(&match enqueued {
        Enqueued::New(_) => format!("job {id} enqueued. Watch it: queue show {id}\n"),
        Enqueued::Kept(_) => format!("job {id} has its key already, and stands for it: queue show {id}\n"),
        Enqueued::Replaced(_) => {
            format!("job {id} had its key already, and has these arguments now: queue show {id}\n")
        }
    });
    Ok(())
}
