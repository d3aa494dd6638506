//! Schedules: which does not fire, and why? What is next?

use askama::Template;
use axum::body::Bytes;
use queue::schedule::ScheduleInfo;

use crate::access::Rights;
use crate::site::{Answer, Ctx, Fields, Frame, Problem, Screen};
use crate::text::{Html, Sign, cut, first_line};
use crate::world::is_stuck;

/// The most schedules that are shown.
const LISTED: usize = 200;

struct Line {
    name: String,
    shown: String,
    kind: String,
    queue: String,
    sign: Sign,
    expression: String,
    zone: String,
    next: Option<Html>,
    last: Option<Html>,
    job: Option<i64>,
    is_paused: bool,
    is_retired: bool,
    is_bad: bool,
    note: String,
}

#[derive(Template)]
#[template(path = "schedules.html")]
struct Page {
    frame: Frame,
    schedules: Vec<Line>,
    all: usize,
}

impl Line {
    fn of(it: &ScheduleInfo, ctx: &Ctx) -> Self {
        let sign = match (it.retired_at, it.paused_at) {
            (Some(_), _) => Sign::new("cancelled", "removed"),
            (_, Some(_)) => Sign::new("paused", "paused"),
            _ if is_stuck(it) => Sign::new("lost", "does not fire"),
            _ => Sign::new("alive", "on"),
        };
        let note = match &it.error {
            Some(error) => cut(first_line(error), 300),
            None if is_stuck(it) => "no live worker knows the kind".to_owned(),
            None => String::new(),
        };
        Self {
            name: it.name.clone(),
            shown: cut(&it.name, 80),
            kind: cut(&it.kind, 60),
            queue: cut(&it.queue, 60),
            sign,
            expression: it.expression.clone(),
            zone: it.zone.clone(),
            // a paused one has no next tick until it is resumed
            next: it.next_at.filter(|_| it.paused_at.is_none() && it.retired_at.is_none()).map(|at| ctx.ago(at)),
            last: it.last_at.map(|at| ctx.ago(at)),
            job: it.last_job.map(|job| job.get()),
            is_paused: it.paused_at.is_some(),
            is_retired: it.retired_at.is_some(),
            is_bad: is_stuck(it),
            note,
        }
    }
}

pub(crate) async fn show(ctx: Ctx) -> Answer {
    let world = ctx.world(true).await?;
    let title = match world.stuck().count() {
        0 => "Schedules".to_owned(),
        1 => "Schedules: 1 does not fire".to_owned(),
        stuck => format!("Schedules: {stuck} do not fire"),
    };
    let page = Page {
        frame: ctx.frame(Some(&world), Screen::Schedules, title),
        schedules: world.schedules.iter().take(LISTED).map(|it| Line::of(it, &ctx)).collect(),
        all: world.schedules.len(),
    };
    ctx.page(&page)
}

pub(crate) async fn change(ctx: Ctx, body: Bytes) -> Answer {
    let form = Fields::read(&body);
    let admin = ctx.acting(Rights::ACT, form.text("reason")).await?;
    let (done, number) = match ["pause", "resume", "fire"].map(|name| form.get(name)) {
        [Some(name), None, None] => {
            admin.pause_schedule(name).await?;
            ("schedule_pause", 1)
        }
        [None, Some(name), None] => {
            admin.resume_schedule(name).await?;
            ("schedule_resume", 1)
        }
        [None, None, Some(name)] => ("schedule_fire", admin.fire_schedule(name).await?.get().unsigned_abs()),
        _ => return Err(Problem::unclear("Say which schedule to pause, to resume or to fire.")),
    };
    Ok(ctx.done("schedules", done, number))
}
