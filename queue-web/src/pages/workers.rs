//! Workers: who is lost, who is full, who serves what?

use askama::Template;
use queue::admin::WorkerInfo;

use crate::chart::meter;
use crate::site::{Answer, Ctx, Frame, Screen};
use crate::text::{Html, Sign, cut, of, thousands};

/// The most workers that are shown.
const LISTED: usize = 200;

struct Line {
    id: i64,
    name: String,
    sign: Sign,
    heartbeat: Html,
    started: Html,
    meter: Html,
    slots: String,
    is_full: bool,
    is_alive: bool,
    queues: String,
    kinds: String,
}

#[derive(Template)]
#[template(path = "workers.html")]
struct Page {
    frame: Frame,
    summary: String,
    workers: Vec<Line>,
    more: usize,
    ended: u64,
    shows_ended: bool,
    host: String,
    is_empty: bool,
}

/// The queues that a worker serves, each with what it holds and may hold if it has a limit: "mail 8/8, reports".
fn served(it: &WorkerInfo) -> String {
    let one = |queue: &String| match it.limits.get(queue) {
        Some(most) => format!("{queue} {}/{most}", it.held.get(queue).unwrap_or(&0)),
        None => queue.clone(),
    };
    let named = if it.queues.is_empty() { it.limits.keys().collect::<Vec<_>>() } else { it.queues.iter().collect() };
    let all = it.queues.is_empty().then(|| "all".to_owned());
    all.into_iter().chain(named.into_iter().map(one)).collect::<Vec<_>>().join(", ")
}

impl Line {
    fn of(it: &WorkerInfo, ctx: &Ctx) -> Self {
        let sign = match (it.stopped_at, it.alive) {
            (Some(_), _) => Sign::new("cancelled", "ended"),
            (None, true) => Sign::new("alive", "alive"),
            (None, false) => Sign::new("lost", "lost"),
        };
        let slots = u64::from(it.concurrency);
        Self {
            id: it.id,
            name: cut(&format!("{}:{}", it.host, it.pid), 80),
            sign,
            heartbeat: ctx.ago(it.stopped_at.unwrap_or(it.heartbeat_at)),
            started: ctx.ago(it.started_at),
            meter: meter(it.running, slots),
            slots: format!("{} of {}", thousands(it.running), thousands(slots)),
            is_full: it.running >= slots,
            is_alive: it.alive && it.stopped_at.is_none(),
            queues: cut(&served(it), 120),
            kinds: cut(&it.kinds.join(", "), 200),
        }
    }
}

pub(crate) async fn show(ctx: Ctx) -> Answer {
    let world = ctx.world(true).await?;
    let (host, shows_ended) = (ctx.asked("host").unwrap_or_default(), ctx.asked("ended").is_some());
    let ended = world.workers.iter().filter(|it| it.stopped_at.is_some()).count() as u64;
    let shown = world.workers.iter().filter(|it| shows_ended || it.stopped_at.is_none());
    let mut workers: Vec<_> = shown.filter(|it| it.host.contains(&host)).map(|it| Line::of(it, &ctx)).collect();
    let more = workers.len().saturating_sub(LISTED);
    workers.truncate(LISTED);
    let (alive, lost) = (world.live().count() as u64, world.lost().count() as u64);
    let [held, slots] = world.slots();
    let title = if lost == 0 { "Workers".to_owned() } else { format!("Workers: {} lost", thousands(lost)) };
    let busy = format!("{} of {} busy", thousands(held), of(slots, "slot", "slots"));
    let page = Page {
        frame: ctx.frame(Some(&world), Screen::Workers, title),
        summary: format!("{} alive, {} lost; {busy}", thousands(alive), thousands(lost)),
        workers,
        more,
        ended,
        shows_ended,
        host,
        is_empty: world.workers.is_empty(),
    };
    ctx.page(&page)
}
