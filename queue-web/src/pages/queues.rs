//! Queues: which is late, how fast does it go, who paused it and why?

use std::collections::BTreeMap;

use askama::Template;
use axum::body::Bytes;
use queue::admin::{Depth, Operation, QueueInfo, Word};

use crate::access::Rights;
use crate::pages::minutes;
use crate::site::{Answer, Ctx, Fields, Frame, Problem, Screen};
use crate::text::{Html, Sign, count, cut, duration, encoded, rate};
use crate::world::{Flow, LATE, World, serves};

/// The most queues that are shown.
const LISTED: usize = 200;

/// A queue in a table.
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) shown: String,
    pub(crate) search: String,
    pub(crate) sign: Sign,
    pub(crate) is_late: bool,
    pub(crate) is_paused: bool,
    pub(crate) oldest: String,
    pub(crate) ready: String,
    pub(crate) scheduled: String,
    pub(crate) running: String,
    pub(crate) dead: String,
    pub(crate) slots: String,
    pub(crate) ended: String,
    pub(crate) failed: String,
    pub(crate) wait: String,
    /// Who paused it, when, and why.
    pub(crate) pause: Option<(String, Html, String)>,
}

#[derive(Template)]
#[template(path = "queues.html")]
struct Page {
    frame: Frame,
    queues: Vec<Line>,
    all: usize,
    window: String,
    complete: bool,
}

pub(crate) fn lines(world: &World, ctx: &Ctx) -> Vec<Line> {
    let flows = world.flows();
    world.queues().iter().map(|it| line(it, world, &flows, ctx)).collect()
}

fn line(it: &QueueInfo, world: &World, flows: &BTreeMap<&str, Flow>, ctx: &Ctx) -> Line {
    let none = Flow::default();
    let flow = flows.get(it.queue.as_str()).unwrap_or(&none);
    let is_late = it.paused_at.is_none() && it.oldest_due.is_some_and(|age| age >= LATE);
    let depths = || world.gauges.depths.iter().filter(|depth| depth.queue == it.queue);
    let waits = |depth: &Depth| depth.ready.jobs + depth.scheduled.jobs > 0;
    let is_served = depths().filter(|depth| waits(depth)).all(|depth| world.serves(depth));
    let sign = match it.paused_at {
        Some(_) => Sign::new("paused", "paused"),
        None if !is_served => Sign::new("lost", "no worker"),
        None if is_late => Sign::new("late", "late"),
        None => Sign::new("alive", "well"),
    };
    let last = world.paused_by(&it.queue);
    let by = |it: &Operation| (cut(&it.actor, 80), cut(it.reason.as_deref().unwrap_or_default(), 300));
    let pause = it.paused_at.map(|since| {
        let (who, why) = last.map(by).unwrap_or_default();
        (who, ctx.ago(since), why)
    });
    let slots: u64 = world
        .live()
        .filter(|worker| serves(worker, &it.queue))
        .map(|worker| worker.limits.get(&it.queue).map_or(u64::from(worker.concurrency), |most| u64::from(*most)))
        .sum();
    let minutes = world.window().as_secs_f64() / 60.0;
    Line {
        name: it.queue.clone(),
        shown: cut(&it.queue, 60),
        search: encoded(&Word::new("queue", &it.queue).to_string()),
        sign,
        is_late,
        is_paused: it.paused_at.is_some(),
        oldest: it.oldest_due.map_or_else(|| "–".to_owned(), duration),
        ready: count(it.ready),
        scheduled: count(it.scheduled),
        running: count(it.running),
        dead: count(it.dead),
        slots: count_slots(slots),
        ended: rate(flow.ended, minutes),
        failed: rate(flow.failed, minutes),
        wait: flow.mean_wait().map_or_else(|| "–".to_owned(), duration),
        pause,
    }
}

fn count_slots(slots: u64) -> String {
    if slots == 0 { "–".to_owned() } else { crate::text::thousands(slots) }
}

pub(crate) async fn show(ctx: Ctx) -> Answer {
    let world = ctx.world(true).await?;
    let mut queues = lines(&world, &ctx);
    let all = queues.len();
    queues.truncate(LISTED);
    let title = match world.late().len() {
        0 => "Queues".to_owned(),
        late => format!("Queues: {late} late"),
    };
    let frame = ctx.frame(Some(&world), Screen::Queues, title);
    ctx.page(&Page { frame, queues, all, window: duration(minutes(world.window())), complete: world.gauges.complete })
}

pub(crate) async fn change(ctx: Ctx, body: Bytes) -> Answer {
    let form = Fields::read(&body);
    let admin = ctx.acting(Rights::ACT, form.text("reason")).await?;
    match (form.get("pause"), form.get("resume")) {
        (Some(queue), None) => admin.pause(queue).await?,
        (None, Some(queue)) => admin.resume(queue).await?,
        _ => return Err(Problem::unclear("Say which queue to pause or to resume.")),
    }
    Ok(ctx.done("queues", if form.get("pause").is_some() { "pause" } else { "resume" }, 1))
}
