//! A form that enqueues a job of a known kind.

use std::collections::BTreeSet;

use askama::Template;
use axum::body::Bytes;
use axum::http::StatusCode;
use queue::admin::{RawJob, Search, known_kinds};
use queue::unique::Enqueued;
use queue::{Error, JobId};

use crate::access::Rights;
use crate::site::{Answer, Ctx, Fields, Frame, Screen};
use crate::text::plain_json;
use crate::world::World;

/// What is longer is enqueued by a program.
const LONGEST: usize = 256 * 1024;

#[derive(Template)]
#[template(path = "enqueue.html")]
struct Page {
    frame: Frame,
    kinds: Vec<(String, bool)>,
    args: String,
    queue: String,
    after: String,
    priority: String,
    reason: String,
    problem: String,
    copy: Option<JobId>,
}

/// The kinds of this program, and those that live workers know.
fn kinds(world: &World) -> BTreeSet<String> {
    let own = known_kinds().into_iter().map(str::to_owned);
    own.chain(world.live().flat_map(|worker| worker.kinds.iter().cloned())).collect()
}

async fn form(ctx: &Ctx, sent: &Fields, copy: Option<JobId>, problem: String) -> Answer {
    let world = ctx.world(false).await?;
    let chosen = sent.text("kind");
    let failed = !problem.is_empty();
    let page = Page {
        frame: ctx.frame(Some(&world), Screen::None, "Enqueue a job"),
        kinds: kinds(&world).into_iter().map(|kind| (kind.clone(), kind == chosen)).collect(),
        args: sent.get("args").unwrap_or("{}").to_owned(),
        queue: sent.text("queue").to_owned(),
        after: sent.text("after").to_owned(),
        priority: sent.text("priority").to_owned(),
        reason: sent.text("reason").to_owned(),
        problem,
        copy,
    };
    let mut answer = ctx.page(&page)?;
    if failed {
        *answer.status_mut() = StatusCode::UNPROCESSABLE_ENTITY;
    }
    Ok(answer)
}

pub(crate) async fn show(ctx: Ctx) -> Answer {
    ctx.must(Rights::EDIT)?;
    let Some(id) = ctx.asked("copy").and_then(|it| it.parse::<i64>().ok()).map(JobId::from) else {
        return form(&ctx, &ctx.query(), None, String::new()).await;
    };
    let detail = ctx.admin().job(id).await?.ok_or(Error::NotFound(id))?;
    let problem = if detail.args.len() > LONGEST { "Its arguments are too long for a form." } else { "" };
    let args = if problem.is_empty() { plain_json(&detail.args) } else { "{}".to_owned() };
    let priority = if detail.job.priority == 0 { String::new() } else { detail.job.priority.to_string() };
    let sent =
        Fields::of([("kind", detail.job.kind), ("queue", detail.job.queue), ("args", args), ("priority", priority)]);
    form(&ctx, &sent, Some(id), problem.to_owned()).await
}

/// The job that a form describes.
fn job(sent: &Fields, known: &BTreeSet<String>) -> Result<RawJob, String> {
    let kind = sent.text("kind");
    if !known.contains(kind) {
        return Err("Choose a kind. Neither this program nor a live worker knows any other.".to_owned());
    }
    let mut job = RawJob::new(kind, sent.get("args").unwrap_or("{}"));
    if let Some(queue) = sent.get("queue") {
        job = job.queue(queue);
    }
    if let Some(text) = sent.get("after") {
        let after = Search::span(text.trim()).and_then(|span| span.to_std().ok());
        job = job.after(after.ok_or_else(|| format!("`{text}` is not a span: write 30s, 20m or 2h."))?);
    }
    if let Some(text) = sent.get("priority") {
        let wrong = || format!("`{text}` is not a priority: write a whole number. Smaller runs first.");
        job = job.priority(text.trim().parse().map_err(|_| wrong())?);
    }
    Ok(job)
}

pub(crate) async fn enqueue(ctx: Ctx, body: Bytes) -> Answer {
    ctx.must(Rights::EDIT)?;
    let sent = Fields::read(&body);
    let known = kinds(&*ctx.world(false).await?);
    let job = match job(&sent, &known) {
        Ok(job) => job,
        Err(why) => return form(&ctx, &sent, None, why).await,
    };
    match ctx.acting(Rights::EDIT, sent.text("reason")).await?.enqueue(job).await {
        Ok(enqueued) => {
            let id = enqueued.id();
            let word = if matches!(enqueued, Enqueued::Kept(_)) { "kept" } else { "enqueued" };
            Ok(ctx.done(&format!("jobs/{id}"), word, id.get().unsigned_abs()))
        }
        Err(error @ (Error::Config(_) | Error::TooLarge { .. } | Error::TooDeep { .. } | Error::Duplicate { .. })) => {
            form(&ctx, &sent, None, error.to_string()).await
        }
        Err(error) => Err(error.into()),
    }
}
