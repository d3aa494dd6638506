//! `tail`: what ends, as it ends.

use std::collections::HashSet;
use std::time::Duration;

use chrono::{DateTime, Utc};
use queue::admin::{Admin, Ended, Search};
use queue::{JobId, JobState};
use tokio::time::sleep;
use unicode_width::UnicodeWidthStr as _;

use crate::failure::Failure;
use crate::screen::Screen;
use crate::text::{Tone, clean, cut, duration, first_line};

/// The pause between two looks, and how many ends each one sees.
const PAUSE: Duration = Duration::from_secs(1);
const SEEN: u32 = 1_000;

/// Which ends are shown.
#[derive(Debug)]
pub(crate) struct Shown {
    kind: Option<String>,
    queue: Option<String>,
    state: Option<JobState>,
    failed: bool,
}

impl Shown {
    pub(crate) fn read(words: &[String], failed: bool, now: DateTime<Utc>) -> Result<Self, Failure> {
        let search = Search::parse(&words.join(" "), now)?;
        let [kind, queue, state] = ["kind", "queue", "state"].map(|name| search.value(name));
        let known = [kind, queue, state].iter().flatten().count();
        let state = state.and_then(|state| state.parse::<JobState>().ok());
        let [kind, queue] = [kind, queue].map(|name| name.map(str::to_owned));
        if search.words.len() > known || state.is_some_and(|state| !state.is_final()) {
            let message = "`tail` takes kind:, queue: and state:completed, state:cancelled or state:dead, each once";
            return Err(Failure::new(2, message).fix("queue list"));
        }
        Ok(Self { kind, queue, state, failed })
    }

    fn has(&self, it: &Ended) -> bool {
        let outcome = &*it.attempt.outcome;
        let state = match self.state {
            None => true,
            Some(JobState::Dead) => it.is_dead,
            Some(state) => outcome == state.as_str(),
        };
        state
            && self.kind.as_ref().is_none_or(|kind| *kind == it.kind)
            && self.queue.as_ref().is_none_or(|queue| *queue == it.queue)
            && (!self.failed || is_failure(outcome))
    }
}

fn is_failure(outcome: &str) -> bool {
    matches!(outcome, "failed" | "panicked" | "timed_out" | "undecodable" | "lost")
}

type Key = (JobId, Option<DateTime<Utc>>, u32);

fn key(it: &Ended) -> Key {
    (it.id, it.attempt.ended_at, it.attempt.attempt)
}

/// Of the ends that a look saw, newest first, those that the look before did not see, oldest first. And whether there
/// may have been more between the two.
fn new(ended: Vec<Ended>, before: &mut Option<HashSet<Key>>) -> (Vec<Ended>, bool) {
    let keys: HashSet<Key> = ended.iter().map(key).collect();
    let Some(seen) = before.replace(keys) else { return (ended.into_iter().rev().collect(), false) };
    let missed = ended.len() == SEEN as usize && ended.iter().all(|it| !seen.contains(&key(it)));
    (ended.into_iter().rev().filter(|it| !seen.contains(&key(it))).collect(), missed)
}

pub(crate) async fn tail(admin: &Admin, screen: &Screen, shown: Shown, lines: usize) -> Result<(), Failure> {
    let (mut before, mut widths, mut failing) = (None, [0; 3], false);
    loop {
        match admin.ended(SEEN).await {
            Ok(ended) => {
                let first = before.is_none();
                let (mut ended, missed) = new(ended, &mut before);
                ended.retain(|it| shown.has(it));
                if missed {
                    screen.say("More ended than can be shown.\n");
                }
                let from = if first { ended.len().saturating_sub(lines) } else { 0 };
                ended[from..].iter().try_for_each(|it| tell(screen, it, &mut widths))?;
                failing = false;
            }
            // what worked once is tried again
            Err(error) if before.is_some() => {
                if !failing {
                    screen.say(&format!("{} It is tried again.\n", clean(&format!("{error}."))));
                }
                failing = true;
            }
            Err(error) => return Err(error.into()),
        }
        tokio::select! {
            () = sleep(PAUSE) => {}
            _ = tokio::signal::ctrl_c() => return Ok(()),
        }
    }
}

/// One line. The columns grow with what they have shown.
fn tell(screen: &Screen, it: &Ended, widths: &mut [usize; 3]) -> Result<(), Failure> {
    if screen.json {
        return screen.object(it);
    }
    let attempt = &it.attempt;
    let end = attempt.ended_at.unwrap_or(attempt.started_at);
    let time = end.format(if screen.look.utc { "%F %TZ" } else { "%T" }).to_string();
    let kind = if it.kind.is_empty() { "(deleted)" } else { &it.kind };
    let mut outcome = attempt.outcome.replace('_', " ");
    if it.is_dead {
        outcome += ", dead";
    }
    let took = (end - attempt.started_at).to_std().ok().filter(|_| attempt.attempt > 0).map(duration);
    let cells = [it.id.to_string(), clean(kind), clean(&outcome)];
    let [id, kind, outcome] = std::array::from_fn(|at| {
        widths[at] = widths[at].max(cells[at].width());
        let pad = " ".repeat(widths[at] - cells[at].width());
        if at == 0 { format!("{pad}{}", cells[at]) } else { format!("{}{pad}", cells[at]) }
    });
    let worker = attempt.worker_name.as_deref().unwrap_or("-");
    let error = first_line(attempt.error.as_deref().unwrap_or_default());
    let rest = clean(&format!("{:>9}  {worker}  {error}", took.unwrap_or_default()));
    let line = format!("{time}  {id}  {kind}  {outcome}  {}", rest.trim_end());
    let tone = match &*attempt.outcome {
        outcome if is_failure(outcome) => Tone::Bad,
        "completed" => Tone::Plain,
        _ => Tone::Faint,
    };
    let line = cut(&line, screen.look.width.unwrap_or(usize::MAX));
    screen.out(&(screen.look.paint(tone, line.trim_end()) + "\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(id: i64, outcome: &str, is_dead: bool) -> Ended {
        serde_json::from_value(serde_json::json!({
            "id": id, "kind": "mail", "queue": "q", "is_dead": is_dead, "attempt": 1, "worker": 1, "worker_name": null,
            "started_at": DateTime::UNIX_EPOCH, "ended_at": DateTime::UNIX_EPOCH, "outcome": outcome, "error": null,
        }))
        .expect("an end")
    }

    #[test]
    fn each_end_is_shown_once() {
        let ids = |ended: &[Ended]| ended.iter().map(|it| it.id.get()).collect::<Vec<_>>();
        let look = |from: i64, to: i64| (from..to).rev().map(|id| ended(id, "completed", false)).collect::<Vec<_>>();
        let mut before = None;
        let (first, missed) = new(look(1, 4), &mut before);
        assert_eq!((ids(&first), missed), (vec![1, 2, 3], false), "the oldest first");
        assert_eq!(ids(&new(look(1, 4), &mut before).0), [0; 0]);
        // one that was written late is older than what was shown
        let mut late = look(2, 6);
        late.insert(2, ended(99, "failed", true));
        assert_eq!(ids(&new(late, &mut before).0), [99, 4, 5]);
        let many = i64::from(SEEN);
        let (shown, missed) = new(look(5, 5 + many), &mut before);
        assert_eq!((shown.len(), missed), (SEEN as usize - 2, false));
        assert!(new(look(many + 5, 2 * many + 5), &mut before).1, "nothing that was known: some were missed");
    }

    #[test]
    fn words_select() {
        let shown = |text: &str, failed| Shown::read(&[text.to_owned()], failed, DateTime::UNIX_EPOCH);
        let [completed, failed, dead] = [("completed", false), ("failed", false), ("timed_out", true)]
            .map(|(outcome, dead)| ended(1, outcome, dead));
        let has = |text: &str, only| {
            let shown = shown(text, only).expect("words");
            [&completed, &failed, &dead].map(|it| shown.has(it))
        };
        assert_eq!(has("", false), [true; 3]);
        assert_eq!(has("", true), [false, true, true]);
        assert_eq!(has("state:dead kind:mail", false), [false, false, true]);
        assert_eq!(has("state:completed queue:q", false), [true, false, false]);
        assert_eq!(has("queue:other", false), [false; 3]);
        for wrong in ["state:ready", "error:x", "kind:a kind:b", "colour:red"] {
            assert_eq!(shown(wrong, false).map(|_| ()).map_err(|failure| failure.code), Err(2), "{wrong}");
        }
    }
}
