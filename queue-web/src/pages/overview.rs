//! The overview: is anything wrong, what first, and did it begin with a step or slowly?

use std::time::Duration;

use askama::Template;
use queue::admin::FailureGroup;

use crate::chart::Charts;
use crate::findings::{self, Finding};
use crate::pages::failures;
use crate::pages::minutes;
use crate::pages::queues::{self, Line};
use crate::site::{Answer, Ctx, Frame, Screen};
use crate::text::{Html, Sign, count, cut, duration, of, rate, thousands};
use crate::world::{LATE, World};

/// The most findings that have a place of their own.
const TOLD: usize = 4;
/// The most queues and groups that are shown.
const LISTED: usize = 6;

/// A figure that can be wrong.
#[derive(Debug, PartialEq, Eq)]
struct Figure {
    name: &'static str,
    value: String,
    unit: &'static str,
    is_bad: bool,
    beside: String,
}

/// A group of failures in one line.
struct Group {
    id: String,
    sign: Sign,
    kind: String,
    title: String,
    day: String,
    dead: String,
}

#[derive(Template)]
#[template(path = "overview.html")]
struct Overview {
    frame: Frame,
    is_empty: bool,
    is_well: bool,
    heading: String,
    oldest: String,
    found: Vec<Finding>,
    more: Vec<Finding>,
    figures: Vec<Figure>,
    ranges: [(&'static str, &'static str, bool); 3],
    charts: Charts,
    queues: Vec<Line>,
    groups: Vec<Group>,
    all_queues: usize,
    all_groups: usize,
    complete: bool,
    at: Html,
}

/// The ranges of the charts: in the address, in words, how long, and in how many minutes or hours.
const RANGES: [(&str, &str, u64, usize); 3] =
    [("1h", "1 h", 3600, 60), ("24h", "24 h", 86_400, 24), ("7d", "7 d", 604_800, 168)];

pub(crate) async fn show(ctx: Ctx) -> Answer {
    let asked = ctx.asked("range").unwrap_or_default();
    let chosen = RANGES.into_iter().find(|it| it.0 == asked).unwrap_or(RANGES[0]);
    let world = ctx.world(true).await?;
    let throughput = ctx.admin().throughput(Duration::from_secs(chosen.2)).await?;
    let mut found = findings::all(&world, ctx.now());
    let wrong: Vec<&Finding> = found.iter().filter(|it| it.is_wrong()).collect();
    let heading = match &wrong[..] {
        [] => "All well".to_owned(),
        [one] => one.head.clone(),
        [one, ..] => format!("{} wrong: {}", wrong.len(), one.head),
    };
    let (is_well, is_empty) = (wrong.is_empty(), world.is_empty());
    let more = found.split_off(found.len().min(TOLD));
    let mut queues = queues::lines(&world, &ctx);
    let (all_queues, all_groups) = (queues.len(), world.failures.groups.len());
    queues.truncate(LISTED);
    let page = Overview {
        frame: ctx.frame(Some(&world), Screen::Overview, if is_empty { "Nothing here yet" } else { &heading }),
        is_empty,
        is_well,
        heading,
        oldest: oldest(&world).map_or_else(
            || "Nothing waits.".to_owned(),
            |(age, _)| format!("The oldest of the due jobs has waited {}.", duration(age)),
        ),
        found,
        more,
        figures: figures(&world),
        ranges: RANGES.map(|it| (it.0, it.1, it.0 == chosen.0)),
        charts: Charts::of(&throughput, chosen.3),
        queues,
        groups: world.failures.groups.iter().take(LISTED).map(group).collect(),
        all_queues,
        all_groups,
        complete: throughput.complete,
        at: ctx.ago(world.at),
    };
    ctx.page(&page)
}

/// The job that has been due for longest, and its queue. Nobody waits for a paused one.
fn oldest(world: &World) -> Option<(Duration, &str)> {
    let due = world.gauges.depths.iter().filter(|it| !it.paused);
    due.filter_map(|it| Some((it.oldest_due?, it.queue.as_str()))).max()
}

fn figures(world: &World) -> Vec<Figure> {
    let figure = |name, value, unit, is_bad, beside| Figure { name, value, unit, is_bad, beside };
    let (ended, failed) =
        world.flows().values().fold((0, 0), |(ended, failed), it| (ended + it.ended, failed + it.failed));
    let (wait, queue, late) = match oldest(world) {
        Some((age, queue)) => (duration(age), cut(queue, 60), age >= LATE),
        None => ("–".to_owned(), "no job is due".to_owned(), false),
    };
    let (seconds, window) = (world.window().as_secs_f64(), duration(minutes(world.window())));
    let (speed, unit) = match ended as f64 / seconds {
        fast if fast >= 1.0 => (rate(ended, seconds), "a second"),
        _ => (rate(ended, seconds / 60.0), "a minute"),
    };
    let share = match (ended, failed) {
        (0, _) => "–".to_owned(),
        (_, 0) => "0 %".to_owned(),
        _ => format!("{} %", rate(100 * failed, ended as f64)),
    };
    let attempts = format!("{} of {}, last {window}", thousands(failed), of(ended, "attempt", "attempts"));
    let new = world.news().count() as u64;
    let (alive, lost) = (world.live().count() as u64, world.lost().count() as u64);
    let [held, slots] = world.slots();
    let busy = format!("{} of {} slots busy", thousands(held), thousands(slots));
    let groups = world.failures.groups.iter().filter(|it| it.dead.jobs > 0).count() as u64;
    let groups =
        if groups == 0 { "none to look at".to_owned() } else { format!("in {}", of(groups, "group", "groups")) };
    vec![
        figure("Oldest wait", wait, "", late, queue),
        figure("Jobs ended", speed, unit, false, format!("over the last {window}")),
        figure("Failed", share, "", failed > 0 && new > 0, attempts),
        figure("Dead letters", count(world.dead()), "", false, groups),
        figure(
            "Workers",
            thousands(alive),
            "alive",
            lost > 0 || alive == 0,
            if lost > 0 { format!("{} lost", thousands(lost)) } else { busy },
        ),
    ]
}

fn group(it: &FailureGroup) -> Group {
    Group {
        id: it.group.clone(),
        sign: failures::sign(it),
        kind: cut(&it.kind, 60),
        title: findings::title(it, 160),
        day: thousands(it.by_hour.iter().sum()),
        dead: crate::text::counted(it.dead),
    }
}
