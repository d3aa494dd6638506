//! The plan: how many, which, what becomes of them, and can it be undone? Then it is carried out.

use std::time::Duration;

use askama::Template;
use axum::body::Bytes;
use axum::http::StatusCode;
use queue::admin::{Action, Admin, Count, Filter, JobRow, Operation, Progress, Search};
use queue::{Error, JobId};

use crate::access::Rights;
use crate::pages::jobs::Line;
use crate::site::{Answer, Ctx, Fields, Frame, Problem, Screen, local};
use crate::text::{count, cut, exact, quoted};
use crate::{done, text};

/// The most samples that are shown.
const SAMPLES: usize = 10;
/// The most jobs that can be checked: those of one list.
const CHECKED: usize = 50;
/// What does not take longer is over when the next page is shown.
const WAITED: Duration = Duration::from_millis(1_500);

/// Over which times jobs can be spread, in seconds.
const SPREADS: [(u64, &str); 4] =
    [(0, "no time: all at once"), (60, "1 minute"), (600, "10 minutes"), (3600, "1 hour")];

/// What is done to jobs, in words.
#[derive(Debug, Clone, PartialEq)]
struct Deed {
    action: Action,
    /// In the address, and in what was done.
    word: &'static str,
    /// On the button, and of the command line.
    verb: &'static str,
    /// What becomes of each.
    becomes: &'static str,
    undo: &'static str,
}

fn deed(word: &str) -> Result<Deed, Problem> {
    let deed = |action, word, verb, becomes, undo| Deed { action, word, verb, becomes, undo };
    Ok(match word {
        "retry" => deed(
            Action::Retry,
            "retry",
            "Retry",
            "becomes ready, and runs as soon as a worker has a free slot",
            "It cannot be undone. You can stop it while it runs.",
        ),
        "send_back" => deed(
            Action::SendBack,
            "send_back",
            "Send back",
            "becomes ready, with all its retries. Its earlier attempts stay on record",
            "It cannot be undone. You can stop it while it runs.",
        ),
        "cancel" => deed(
            Action::Cancel,
            "cancel",
            "Cancel",
            "is cancelled. One that runs is told to stop, and ends within a heartbeat or completes all the same",
            "It cannot be undone: a cancelled job never runs again. You can enqueue a copy of it.",
        ),
        "delete" => deed(
            Action::Delete,
            "delete",
            "Delete",
            "is gone, with its attempts and its errors. One that a worker holds is left alone",
            "It cannot be undone.",
        ),
        _ => return Err(Problem::unclear("Say what to do: retry, send back, cancel or delete.")),
    })
}

impl Deed {
    fn rights(&self, many: bool) -> Rights {
        let one = if self.action == Action::Delete { Rights::DELETE } else { Rights::ACT };
        if many { one | Rights::ACT_ON_MANY } else { one }
    }

    /// Whether due times can be spread.
    fn makes_due(&self) -> bool {
        matches!(self.action, Action::Retry | Action::SendBack)
    }
}

/// The jobs that are meant.
enum Chosen {
    Checked(Vec<JobId>),
    Matching(Box<Search>),
}

fn chosen(form: &Fields, ctx: &Ctx) -> Result<Chosen, Problem> {
    let ids: Result<Vec<JobId>, _> = form.all("id").into_iter().map(str::parse).collect();
    let ids = ids.map_err(|_| Problem::unclear("That is not the id of a job."))?;
    match (form.text("on"), &ids[..]) {
        ("checked", []) => return Err(Problem::unclear("No job is checked. Go back, and check one.")),
        ("all", _) | (_, []) => {}
        (_, ids) if ids.len() > CHECKED => return Err(Problem::unclear("More jobs are checked than a list has.")),
        (_, ids) => return Ok(Chosen::Checked(ids.to_vec())),
    }
    let search = Search::parse(form.text("q"), ctx.now()).map_err(|error| Problem::unclear(error.to_string()))?;
    match search.words.is_empty() {
        true => Err(Problem::unclear("This would be every job. Search for some first, such as state:dead.")),
        false => Ok(Chosen::Matching(Box::new(search))),
    }
}

#[derive(Template)]
#[template(path = "plan.html")]
struct Page {
    frame: Frame,
    heading: String,
    deed: Deed,
    one: bool,
    is_first: bool,
    number: Count,
    all: String,
    gone: usize,
    samples: Vec<Line>,
    query: String,
    chips: Vec<String>,
    ids: Vec<i64>,
    from: String,
    over: u64,
    spreads: [(u64, &'static str); 4],
    command: String,
    counted: String,
    warning: String,
    needs_reason: bool,
}

pub(crate) async fn show(ctx: Ctx) -> Answer {
    let form = ctx.query();
    let deed = deed(form.text("do"))?;
    let chosen = chosen(&form, &ctx)?;
    let world = ctx.world(false).await?;
    let (number, found, ids, words) = match &chosen {
        Chosen::Checked(ids) => {
            ctx.must(deed.rights(ids.len() > 1))?;
            let found = checked(ctx.admin(), ids).await?;
            let ids: Vec<i64> = found.iter().map(|job| job.id.get()).collect();
            (exactly(found.len()), found, ids, Vec::new())
        }
        Chosen::Matching(search) => {
            ctx.must(deed.rights(true))?;
            let plan = ctx.admin().plan(deed.action.clone(), &search.filter).await?;
            (plan.count(), plan.samples().to_vec(), Vec::new(), search.words.iter().map(ToString::to_string).collect())
        }
    };
    let query = words.join(" ");
    let one = number.jobs == 1 && !number.or_more;
    let all = if number.or_more {
        format!("at least {} jobs", text::thousands(number.jobs))
    } else {
        text::jobs(number.jobs)
    };
    let gone = form.all("id").len().saturating_sub(ids.len());
    let is_first = form.get("first").is_some() && !one && ids.is_empty();
    let late: Vec<&str> =
        world.late().into_keys().filter(|queue| found.iter().any(|job| job.queue == *queue)).collect();
    let warning = match &late[..] {
        [late, ..] if deed.makes_due() => {
            format!("{} is late now: its jobs already wait. Send one first, or spread them.", cut(late, 60))
        }
        _ => String::new(),
    };
    let command = deed.word.replace('_', "-");
    let command = match &ids[..] {
        [] => format!("queue {command} --match {}", quoted(&query)),
        ids => format!("queue {command} {}", ids.iter().map(i64::to_string).collect::<Vec<_>>().join(" ")),
    };
    let heading = format!("{} {all}", deed.verb);
    let page = Page {
        frame: ctx.frame(Some(&world), Screen::None, format!("Dry run: {}", heading.to_lowercase())),
        heading,
        one,
        is_first,
        number,
        all: count(number),
        gone: if query.is_empty() { gone } else { 0 },
        samples: found.iter().take(SAMPLES).map(|job| Line::of(job, &ctx)).collect(),
        chips: words.iter().map(|word| cut(word, 200)).collect(),
        query,
        ids,
        from: local(form.get("from").unwrap_or("jobs")),
        over: form.get("over").and_then(|it| it.parse().ok()).unwrap_or(0),
        spreads: SPREADS,
        command: cut(&command, 600),
        counted: exact(ctx.now()),
        warning,
        needs_reason: deed.action == Action::Delete,
        deed,
    };
    ctx.page(&page)
}

fn exactly(jobs: usize) -> Count {
    let mut count = Count::default();
    count.jobs = jobs as u64;
    count
}

/// The checked jobs that are still there. They were neighbours in a list, so a few searches from the newest one on find
/// them, and not a statement for each.
async fn checked(admin: &Admin, ids: &[JobId]) -> Result<Vec<JobRow>, Problem> {
    if let [id] = ids {
        return Ok(admin.job(*id).await?.map(|detail| detail.job).into_iter().collect());
    }
    let newest = ids.iter().max().map_or(i64::MAX, |id| id.get().saturating_add(1));
    let oldest = ids.iter().min().copied().unwrap_or(JobId::from(i64::MIN));
    let (mut found, mut before) = (Vec::new(), JobId::from(newest));
    for _ in 0..4 {
        let page = admin.jobs(&Filter::new().before(before).limit(1_000)).await?;
        let next = page.next.filter(|next| *next >= oldest);
        found.extend(page.items.into_iter().filter(|job| ids.contains(&job.id)));
        match next {
            Some(next) if found.len() < ids.len() => before = next,
            _ => return Ok(found),
        }
    }
    // far apart: one by one
    let missing: Vec<JobId> = ids.iter().filter(|id| !found.iter().any(|job| job.id == **id)).copied().collect();
    for id in missing {
        found.extend(admin.job(id).await?.map(|detail| detail.job));
    }
    Ok(found)
}

async fn one(admin: &Admin, action: &Action, id: JobId) -> Result<(), Error> {
    match action {
        Action::Retry => admin.retry(id).await,
        Action::SendBack => admin.send_back(id).await,
        Action::Cancel => admin.cancel(id).await,
        _ => admin.delete(id).await,
    }
}

pub(crate) async fn run(ctx: Ctx, body: Bytes) -> Answer {
    let form = Fields::read(&body);
    let (deed, chosen) = (deed(form.text("do"))?, chosen(&form, &ctx)?);
    let many = !matches!(&chosen, Chosen::Checked(ids) if ids.len() == 1);
    ctx.must(deed.rights(many))?;
    if deed.action == Action::Delete && form.text("reason").trim().is_empty() {
        return Err(Problem::unclear("Nothing was deleted: a reason is missing. Go back, and write one."));
    }
    let admin = ctx.acting(deed.rights(many), form.text("reason")).await?;
    let from = form.get("from").unwrap_or("jobs");
    match chosen {
        Chosen::Checked(ids) => {
            let mut refused: Vec<Error> = Vec::new();
            for id in &ids {
                refused.extend(one(&admin, &deed.action, *id).await.err());
            }
            let (all, not) = (ids.len() as u64, refused.len() as u64);
            match refused.into_iter().next() {
                None => Ok(ctx.done(from, deed.word, all)),
                Some(why) if all == 1 => Err(why.into()),
                Some(why) => Err(Problem::new(StatusCode::CONFLICT, done::partly(all - not, all, &why.to_string()))),
            }
        }
        Chosen::Matching(search) => {
            let mut plan = admin.plan(deed.action.clone(), &search.filter).await?;
            let mut only = None;
            if form.text("scope") == "one" {
                only = plan.samples().first().map(|job| job.id);
                plan = plan.first(1);
            } else if let Some(over) = form.get("over").and_then(|it| it.parse().ok()).filter(|it| *it > 0) {
                plan = plan.over(Duration::from_secs(over));
            }
            let begun = plan.begin().await?;
            let done = finished(&admin, begun.id).await?;
            ctx.site.looks.forget();
            Ok(match (done, only) {
                (Some(done), Some(only)) if done.changed == 1 => ctx.done(&format!("jobs/{only}"), deed.word, 1),
                (Some(done), _) if done.refused.jobs == 0 => ctx.done(from, deed.word, done.changed),
                _ => ctx.go(&format!("operations/{}", begun.id)),
            })
        }
    }
}

/// Carries it out beside the answer. `None`: it takes longer than somebody likes to wait.
async fn finished(admin: &Admin, operation: i64) -> Result<Option<Operation>, Error> {
    let admin = admin.clone();
    let run = tokio::spawn(async move { admin.go_on(operation).await });
    match tokio::time::timeout(WAITED, run).await {
        Ok(Ok(done)) => done.map(|done| Some(done).filter(|done| done.progress == Progress::Done)),
        // a worker goes on with it
        Ok(Err(_)) | Err(_) => Ok(None),
    }
}
