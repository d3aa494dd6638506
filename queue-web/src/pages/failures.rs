//! Failures by group: which error is new or back, and what becomes of its jobs?

use askama::Template;
use queue::JobState;
use queue::admin::{Count, FailureGroup};

use crate::chart::spark;
use crate::findings;
use crate::site::{Answer, Ctx, Frame, Screen};
use crate::text::{Html, Sign, counted, cut, of, thousands};

/// The most groups that are shown.
const LISTED: usize = 50;

struct Group {
    id: String,
    sign: Sign,
    title: String,
    kind: String,
    first: Html,
    last: Html,
    back: Option<Html>,
    spark: Html,
    label: String,
    day: String,
    dead: String,
    retrying: String,
    sample: i64,
    /// The search for its dead letters, or else for the jobs that wait for another attempt.
    search: String,
    /// The action that a group like this needs, and how many jobs it has.
    action: &'static str,
    jobs: Count,
    is_dead: bool,
}

#[derive(Template)]
#[template(path = "failures.html")]
struct Page {
    frame: Frame,
    summary: String,
    groups: Vec<Group>,
    more: usize,
    complete: bool,
}

pub(crate) fn sign(it: &FailureGroup) -> Sign {
    match it.back_since {
        _ if it.is_new => Sign::new("new", "New"),
        Some(_) => Sign::new("back", "Came back"),
        None => Sign::new("steady", "Steady"),
    }
}

impl Group {
    fn of(it: &FailureGroup, ctx: &Ctx) -> Self {
        let (sign, is_dead) = (sign(it), it.dead.jobs > 0);
        let state = if is_dead { format!("state:{}", JobState::Dead) } else { "retrying".to_owned() };
        let most = it.by_hour.iter().copied().max().unwrap_or(0);
        let class = if it.is_new {
            "f2"
        } else if it.back_since.is_some() {
            "f3"
        } else {
            "f1"
        };
        Self {
            id: it.group.clone(),
            sign,
            title: findings::title(it, 400),
            kind: cut(&it.kind, 80),
            first: ctx.ago(it.first),
            last: ctx.ago(it.last),
            back: it.back_since.map(|back| ctx.ago(back)),
            spark: spark(&it.by_hour, class),
            label: format!("Failed attempts an hour over 24 h, at most {}", thousands(most)),
            day: thousands(it.by_hour.iter().sum()),
            dead: counted(it.dead),
            retrying: counted(it.retrying),
            sample: it.sample.get(),
            search: format!("{state} group:{}", it.group),
            action: if is_dead { "send_back" } else { "retry" },
            jobs: if is_dead { it.dead } else { it.retrying },
            is_dead,
        }
    }

    fn is_one(&self) -> bool {
        self.jobs.jobs == 1 && !self.jobs.or_more
    }

    fn all(&self) -> String {
        crate::text::count(self.jobs)
    }
}

pub(crate) async fn show(ctx: Ctx) -> Answer {
    let world = ctx.world(true).await?;
    let (all, new) = (world.failures.groups.len(), world.news().count());
    let title = match new {
        0 => "Failures".to_owned(),
        new => format!("Failures: {}", of(new as u64, "new group", "new groups")),
    };
    let page = Page {
        frame: ctx.frame(Some(&world), Screen::Failures, title),
        summary: format!(
            "{}, new and come back first, then those with the most jobs",
            of(all as u64, "group", "groups")
        ),
        groups: world.failures.groups.iter().take(LISTED).map(|it| Group::of(it, &ctx)).collect(),
        more: all.saturating_sub(LISTED),
        complete: world.failures.complete,
    };
    ctx.page(&page)
}
