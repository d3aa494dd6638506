//! Operations: who changed what, when and why? What runs, and what was refused?

use askama::Template;
use queue::admin::{Operation, Progress, RefusedJob};
use serde_json::Value;

use crate::access::Rights;
use crate::site::{Answer, Ctx, Frame, Id, Screen};
use crate::text::{Html, Sign, count, cut, thousands};

/// The most operations that are shown.
const LISTED: usize = 50;
/// The most refused jobs that are shown.
const REFUSED: usize = 100;

/// An operation in a table.
pub(crate) struct Line {
    pub(crate) id: i64,
    pub(crate) at: Html,
    pub(crate) ended: Option<Html>,
    pub(crate) who: String,
    pub(crate) what: String,
    pub(crate) of: String,
    pub(crate) job: Option<i64>,
    pub(crate) sign: Sign,
    pub(crate) is_running: bool,
    pub(crate) changed: String,
    pub(crate) refused: String,
    pub(crate) why: String,
}

/// What it changed, in a few words.
pub(crate) fn target(operation: &Operation) -> String {
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

impl Line {
    fn of(it: &Operation, ctx: &Ctx) -> Self {
        let sign = match it.progress {
            Progress::Running => Sign::new("running", "runs"),
            Progress::Stopped => Sign::new("cancelled", "stopped"),
            _ => Sign::new("completed", "done"),
        };
        Self {
            id: it.id,
            at: ctx.ago(it.at),
            ended: it.ended_at.map(|at| ctx.ago(at)),
            who: cut(&it.actor, 80),
            what: it.action.replace('_', " "),
            of: cut(&target(it), 300),
            job: it.job.map(|job| job.get()),
            sign,
            is_running: it.progress == Progress::Running,
            changed: thousands(it.changed),
            refused: if it.refused.jobs == 0 { String::new() } else { count(it.refused) },
            why: cut(it.reason.as_deref().unwrap_or_default(), 300),
        }
    }
}

pub(crate) fn lines(operations: &[Operation], ctx: &Ctx) -> Vec<Line> {
    operations.iter().take(LISTED).map(|it| Line::of(it, ctx)).collect()
}

#[derive(Template)]
#[template(path = "operations.html")]
struct Page {
    frame: Frame,
    operations: Vec<Line>,
    next: Option<i64>,
    is_later: bool,
}

pub(crate) async fn show(ctx: Ctx) -> Answer {
    let world = ctx.world(false).await?;
    let before = ctx.asked("before").and_then(|it| it.parse().ok());
    let found = ctx.admin().operations(before).await?;
    let operations = lines(&found, &ctx);
    let page = Page {
        frame: ctx.frame(Some(&world), Screen::Operations, "Operations"),
        next: operations.last().map(|last| last.id).filter(|_| found.len() > LISTED),
        operations,
        is_later: before.is_some(),
    };
    ctx.page(&page)
}

#[derive(Template)]
#[template(path = "operation.html")]
struct One {
    frame: Frame,
    it: Line,
    reason: String,
    details: String,
    refused: Vec<RefusedJob>,
}

pub(crate) async fn one(ctx: Ctx, Id(id): Id) -> Answer {
    let world = ctx.world(false).await?;
    let operation = ctx.admin().operation(id).await?;
    let mut refused = match operation.refused.jobs {
        0 => Vec::new(),
        _ => ctx.admin().refusals(id, None).await?,
    };
    refused.truncate(REFUSED);
    let it = Line::of(&operation, &ctx);
    let page = One {
        frame: ctx.frame(Some(&world), Screen::Operations, format!("{} {id}, {}", it.what, it.sign.word)),
        reason: cut(operation.reason.as_deref().unwrap_or_default(), 4_000),
        details: cut(&serde_json::to_string_pretty(&operation.details).unwrap_or_default(), 4_000),
        it,
        refused,
    };
    ctx.page(&page)
}

pub(crate) async fn stop(ctx: Ctx, Id(id): Id) -> Answer {
    let stopped = ctx.acting(Rights::ACT, "").await?.stop(id).await?;
    Ok(ctx.done(&format!("operations/{id}"), if stopped { "stop" } else { "over" }, 1))
}
