//! Jobs: which are these, and what did the last attempt say?

use askama::Template;
use chrono::{DateTime, Utc};
use queue::admin::{JobRow, Search, Word};
use queue::{JobId, JobState};

use crate::site::{Answer, Ctx, Frame, Screen};
use crate::text::{Html, Sign, count, cut, encoded, first_line, of, thousands};
use crate::world::{World, sum};

/// The length of a list.
const LISTED: u32 = 50;
/// What a cell may take of a page, so that no list is larger than 40 kB.
const KIND: usize = 48;
const QUEUE: usize = 32;
const ERROR: usize = 160;

/// A job in a list.
pub(crate) struct Line {
    pub(crate) id: i64,
    pub(crate) sign: Sign,
    pub(crate) kind: String,
    pub(crate) queue: String,
    pub(crate) attempt: String,
    pub(crate) time: Html,
    pub(crate) error: String,
}

impl Line {
    pub(crate) fn of(job: &JobRow, ctx: &Ctx) -> Self {
        Self {
            id: job.id.get(),
            sign: sign(job),
            kind: cut(&job.kind, KIND),
            queue: cut(&job.queue, QUEUE),
            attempt: attempts(job),
            time: ctx.ago(moment(job)),
            error: cut(first_line(job.error.as_deref().unwrap_or_default()), ERROR),
        }
    }
}

pub(crate) fn sign(job: &JobRow) -> Sign {
    match job.state {
        JobState::Scheduled if job.retrying => Sign::new("retrying", "retrying"),
        JobState::Running if job.cancel_requested => Sign::new("running", "stopping"),
        state => Sign::new(state.as_str(), state.as_str()),
    }
}

/// "2 of 21".
pub(crate) fn attempts(job: &JobRow) -> String {
    match job.max_retries {
        Some(most) => format!("{} of {}", job.attempt, u64::from(most) + 1),
        None => job.attempt.to_string(),
    }
}

/// What happened to the job last, or happens next.
pub(crate) fn moment(job: &JobRow) -> DateTime<Utc> {
    match job.state {
        JobState::Running => job.claimed_at.unwrap_or(job.run_at),
        state if state.is_final() => job.finished_at.unwrap_or(job.run_at),
        _ => job.run_at,
    }
}

/// A link with a few words.
struct Tab {
    link: String,
    name: &'static str,
    number: String,
    current: bool,
}

/// What can be done to the jobs of a list: the word of the plan, the label, the class and the key of its button.
type Deed = (&'static str, &'static str, &'static str, &'static str);

#[derive(Template)]
#[template(path = "jobs.html")]
struct Page {
    frame: Frame,
    heading: &'static str,
    query: String,
    tabs: Vec<Tab>,
    /// Each word, and the search without it.
    chips: Vec<(String, String)>,
    problem: String,
    jobs: Vec<Line>,
    /// What the last column but one is about.
    when: &'static str,
    found: String,
    back_to: Option<Html>,
    searched: String,
    next: Option<String>,
    is_later: bool,
    hint: String,
    words: [(&'static str, &'static str); 13],
    deeds: Vec<Deed>,
}

/// The actions that change at least one job of a list in this state.
fn deeds(state: &str, frame: &Frame) -> Vec<Deed> {
    const RETRY: Deed = ("retry", "Retry now…", "", "r");
    const BACK: Deed = ("send_back", "Send back…", "pri", "r");
    const CANCEL: Deed = ("cancel", "Cancel…", "", "c");
    const DELETE: Deed = ("delete", "Delete…", "del", "D");
    let deeds: &[Deed] = match state.strip_prefix("state:").unwrap_or(state) {
        "dead" => &[BACK, DELETE],
        "scheduled" | "retrying" => &[RETRY, CANCEL, DELETE],
        "ready" => &[CANCEL, DELETE],
        "running" => &[CANCEL],
        "completed" | "cancelled" => &[DELETE],
        _ => &[RETRY, CANCEL, DELETE],
    };
    let may = |deed: &&Deed| if deed.0 == "delete" { frame.may_delete_many() } else { frame.may_act_on_many() };
    deeds.iter().filter(may).copied().collect()
}

/// The state that a search asks for: "retrying" is one as well here.
fn state(search: &Search) -> String {
    search.words.iter().rfind(|word| is_state(word)).map_or_else(String::new, Word::to_string)
}

fn is_state(word: &Word) -> bool {
    matches!(&*word.name, "state" | "retrying")
}

/// The search again, with those of its words, and one more.
fn again<'a>(words: impl Iterator<Item = &'a Word>, more: &str) -> String {
    let words = words.map(Word::to_string).chain(Some(more.to_owned()).filter(|more| !more.is_empty()));
    words.collect::<Vec<_>>().join(" ")
}

fn tabs(search: &Search, world: &World) -> Vec<Tab> {
    let of =
        |number: fn(&queue::admin::Depth) -> queue::admin::Count| count(sum(world.gauges.depths.iter().map(number)));
    let all = [
        ("", "All", String::new()),
        ("state:ready", "Ready", of(|it| it.ready)),
        ("state:running", "Running", of(|it| it.running)),
        ("state:scheduled", "Scheduled", of(|it| it.scheduled)),
        ("retrying", "Retrying", String::new()),
        ("state:dead", "Dead", of(|it| it.dead)),
        ("state:completed", "Completed", String::new()),
        ("state:cancelled", "Cancelled", String::new()),
    ];
    // the counts are those of all kinds and queues
    let (plain, asked) = (search.words.iter().all(is_state), state(search));
    let tab = |(state, name, number): (&str, &'static str, String)| Tab {
        link: encoded(&again(search.words.iter().filter(|word| !is_state(word)), state)),
        name,
        number: if plain { number } else { String::new() },
        current: state == asked,
    };
    all.into_iter().map(tab).collect()
}

/// Each word, and the search without it.
fn chips(search: &Search) -> Vec<(String, String)> {
    let others = |at: usize| search.words.iter().enumerate().filter(move |(place, _)| *place != at).map(|(_, it)| it);
    let chip = |(at, word): (usize, &Word)| (cut(&word.to_string(), 200), encoded(&again(others(at), "")));
    search.words.iter().enumerate().map(chip).collect()
}

/// A sentence about a kind or a queue of the search that nobody has, with the one that was probably meant.
fn slips(search: &Search, world: &World) -> String {
    let (depths, workers) = (&world.gauges.depths, &world.workers);
    let kinds = depths.iter().map(|it| &it.kind).chain(workers.iter().flat_map(|it| &it.kinds));
    let queues = depths.iter().map(|it| &it.queue).chain(workers.iter().flat_map(|it| &it.queues));
    let slip = |name: &str, known: Vec<&str>| {
        let asked = search.value(name).filter(|it| !known.contains(it));
        let near = asked.and_then(|asked| Search::nearest(asked, known));
        near.map_or_else(String::new, |near| format!(" Did you mean {}?", Word::new(name, near)))
    };
    slip("kind", kinds.map(String::as_str).collect()) + &slip("queue", queues.map(String::as_str).collect())
}

pub(crate) async fn show(ctx: Ctx) -> Answer {
    let text = ctx.asked("q").unwrap_or_default();
    if let Ok(id) = text.trim().parse::<i64>() {
        return Ok(ctx.go(&format!("jobs/{id}")));
    }
    let world = ctx.world(false).await?;
    let (search, problem) = match Search::parse(&text, ctx.now()) {
        Ok(search) => (search, String::new()),
        Err(why) => (Search::default(), why.to_string()),
    };
    let asked = state(&search);
    let before = ctx.asked("before").and_then(|it| it.parse::<i64>().ok()).map(JobId::from);
    let filter = search.filter.clone().limit(if problem.is_empty() { LISTED } else { 1 });
    let filter = before.map_or(filter.clone(), |before| filter.before(before));
    let mut found = ctx.admin().jobs(&filter).await?;
    if !problem.is_empty() {
        (found.items, found.next) = (Vec::new(), None);
    }
    let (screen, heading) = match &*asked {
        "state:dead" => (Screen::Dead, "Dead letters"),
        _ => (Screen::Jobs, "Jobs"),
    };
    let mut frame = ctx.frame(Some(&world), screen, heading);
    frame.find.clone_from(&text);
    let number = found.items.len() as u64;
    let hint = match (number, text.is_empty(), before) {
        (0, true, None) => "No job is here yet. Enqueue one: in your code, or here.".to_owned(),
        (0, ..) if found.complete => {
            format!("No {}job matches.{}", before.map_or("", |_| "more "), slips(&search, &world))
        }
        (0, ..) => format!("No job yet.{}", slips(&search, &world)),
        _ => String::new(),
    };
    let page = Page {
        heading,
        tabs: tabs(&search, &world),
        chips: chips(&search),
        when: match &*asked {
            "state:dead" => "Died",
            "state:completed" | "state:cancelled" => "Ended",
            "state:running" => "Claimed",
            "" => "When",
            _ => "Due",
        },
        jobs: found.items.iter().map(|job| Line::of(job, &ctx)).collect(),
        found: format!("{} shown", thousands(number)),
        back_to: found.back_to.filter(|_| found.next.is_some()).map(|time| ctx.ago(time)),
        searched: of(found.searched, "row", "rows"),
        next: found.next.map(|next| format!("q={}&before={next}", encoded(&text))),
        is_later: before.is_some(),
        deeds: if number == 0 { Vec::new() } else { deeds(&asked, &frame) },
        hint: if problem.is_empty() { hint } else { String::new() },
        words: Search::WORDS,
        query: text,
        problem,
        frame,
    };
    ctx.page(&page)
}
