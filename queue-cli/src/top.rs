//! The command `top`: what `status`, `errors` and `workers` tell, on a screen that stays.
//!
//! [`State`] is the screen. It takes keys, and `draw` shows it. Neither knows a database or a terminal: both are left to
//! the loop below.

mod draw;
#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::io::{self, IsTerminal as _};
use std::panic::resume_unwind;
use std::pin::pin;
use std::time::Duration;

use chrono::{DateTime, Utc};
use queue::Error;
use queue::admin::{Action, Admin, FailureGroup, Filter, WorkerInfo};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{DisableBracketedPaste, EnableBracketedPaste};
use ratatui::crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers, poll, read};
use ratatui::crossterm::execute;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

use crate::act::{is_paused, was_done, was_not_done};
use crate::database::Database;
use crate::failure::Failure;
use crate::findings::Severity;
use crate::look::{Status, short};
use crate::screen::Screen;
use crate::text::{Look, clean, quoted};

/// From the begin of a read to the next one.
const EVERY: Duration = Duration::from_secs(2);
/// A read that takes longer has failed. A connection that is dead may not say so for minutes.
const PATIENCE: Duration = Duration::from_secs(10);
/// A read that takes longer is told of.
const SLOW: Duration = Duration::from_secs(3);
/// The thread of the keys looks this often whether the screen is left.
const BLINK: Duration = Duration::from_millis(200);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Tab {
    #[default]
    Queues,
    Errors,
    Workers,
}

const TABS: [Tab; 3] = [Tab::Queues, Tab::Errors, Tab::Workers];

/// What covers the tab.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Page {
    Help,
    /// Of the selected row.
    Details,
}

/// What a key asks for, and the screen itself cannot do.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Act {
    Leave,
    Pause {
        queue: String,
        paused: bool,
    },
    /// The dead letters of a group, or only the first of them.
    SendBack {
        group: String,
        first: Option<u32>,
    },
}

/// All that is on the screen.
#[derive(Debug, Default)]
struct State {
    /// Without its password.
    database: String,
    /// Its time is that of the last read that succeeded, or of the start.
    look: Look,
    operate: bool,
    status: Option<Status>,
    /// Why the database is not read.
    trouble: Option<String>,
    held: bool,
    tab: Tab,
    /// By name, on each tab. Rows move when they are read again: an act must not meet another one.
    selected: [Option<String>; 3],
    page: Option<Page>,
    scroll: usize,
    /// How far the page can be scrolled, as it was drawn last.
    bottom: Cell<usize>,
    /// What answers the last key.
    hint: Option<String>,
    /// The act under way.
    acting: Option<String>,
    /// What became of the last act.
    outcome: Option<(Severity, String)>,
}

impl State {
    fn new(screen: &Screen, operate: bool) -> Self {
        Self { database: screen.database.clone(), look: screen.look, operate, ..Self::default() }
    }

    /// What was read, at this time.
    fn read(&mut self, read: Result<Status, String>, at: DateTime<Utc>) {
        let status = match read {
            // it was on its way
            _ if self.held && self.status.is_some() => return,
            Ok(status) => status,
            Err(why) => return self.trouble = Some(why),
        };
        let before = TABS.map(|tab| self.names(tab));
        (self.status, self.trouble, self.look.now) = (Some(status), None, at);
        for (tab, before) in TABS.into_iter().zip(before) {
            let names = self.names(tab);
            let selected = &mut self.selected[tab as usize];
            match selected {
                Some(name) if !names.contains(name) => {
                    // not its neighbour: a capital may be on its way
                    *selected = None;
                    if tab == self.tab && self.page == Some(Page::Details) {
                        (self.page, self.hint) = (None, Some("it is gone".to_owned()));
                    }
                }
                None if before.is_empty() => *selected = names.into_iter().next(),
                _ => {}
            }
        }
    }

    /// How the act under way ended.
    fn ended(&mut self, severity: Severity, text: &str, at: DateTime<Utc>) {
        (self.acting, self.outcome) = (None, Some((severity, format!("{} {text}", at.format("%TZ")))));
    }

    /// The workers that have not ended.
    fn workers(&self) -> Vec<&WorkerInfo> {
        let all = self.status.iter().flat_map(|it| &it.world.workers);
        all.filter(|it| it.stopped_at.is_none()).collect()
    }

    fn groups(&self) -> &[FailureGroup] {
        self.status.as_ref().map_or(&[], |it| &it.world.failing)
    }

    /// The names of a tab's rows.
    fn names(&self, tab: Tab) -> Vec<String> {
        match tab {
            Tab::Queues => self.status.iter().flat_map(|it| it.flows.keys().cloned()).collect(),
            Tab::Errors => self.groups().iter().map(|it| it.group.clone()).collect(),
            Tab::Workers => self.workers().iter().map(|it| it.id.to_string()).collect(),
        }
    }

    fn selected(&self) -> Option<&String> {
        self.selected[self.tab as usize].as_ref()
    }

    fn group(&self) -> Option<&FailureGroup> {
        let selected = self.selected().filter(|_| self.tab == Tab::Errors)?;
        self.groups().iter().find(|it| it.group == *selected)
    }

    /// Where the selected one is among all rows.
    fn at(&self, names: &[String]) -> Option<usize> {
        names.iter().position(|name| Some(name) == self.selected())
    }

    fn on_key(&mut self, key: KeyEvent) -> Option<Act> {
        self.hint = None;
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if control => return Some(Act::Leave),
            _ if control || key.modifiers.contains(KeyModifiers::ALT) => {}
            KeyCode::Char('q') => return Some(Act::Leave),
            KeyCode::Esc if self.page.is_none() => return Some(Act::Leave),
            KeyCode::Esc => self.page = None,
            KeyCode::Char('?') if self.page == Some(Page::Help) => self.page = None,
            KeyCode::Char('?') => (self.page, self.scroll) = (Some(Page::Help), 0),
            KeyCode::Char('.') => self.held = !self.held,
            KeyCode::Char(digit @ '1'..='3') => self.turn(digit as usize - '1' as usize),
            KeyCode::Tab => self.turn(self.tab as usize + 1),
            KeyCode::BackTab => self.turn(self.tab as usize + 2),
            KeyCode::Char('j') | KeyCode::Down => self.step(true),
            KeyCode::Char('k') | KeyCode::Up => self.step(false),
            KeyCode::Enter => self.enter(),
            KeyCode::Char(letter) if letter.is_uppercase() => match self.act(letter) {
                Ok((act, doing)) => {
                    self.acting = Some(doing);
                    return Some(act);
                }
                Err(hint) => self.hint = Some(hint),
            },
            _ => {}
        }
        None
    }

    fn turn(&mut self, to: usize) {
        (self.tab, self.page) = (TABS[to % TABS.len()], None);
    }

    fn step(&mut self, down: bool) {
        let next = |at: usize, last: usize| if down { (at + 1).min(last) } else { at.saturating_sub(1) };
        if self.page.is_some() {
            self.scroll = next(self.scroll, self.bottom.get());
            return;
        }
        let names = self.names(self.tab);
        let last = names.len().saturating_sub(1);
        let to = self.at(&names).map_or(if down { 0 } else { last }, |at| next(at, last));
        self.selected[self.tab as usize] = names.into_iter().nth(to);
    }

    fn enter(&mut self) {
        match (self.selected(), self.tab) {
            _ if self.page.is_some() => {}
            (None, _) => self.hint = Some("nothing is selected: j or k selects".to_owned()),
            (Some(queue), Tab::Queues) => {
                self.hint = Some(format!("its jobs: queue list {}", quoted(&format!("queue:{queue}"))));
            }
            (Some(_), _) => (self.page, self.scroll) = (Some(Page::Details), 0),
        }
    }

    /// The act of a capital, and how it is told while it is under way. Otherwise why there is none.
    fn act(&self, letter: char) -> Result<(Act, String), String> {
        if !self.operate {
            return Err("read-only: start with `queue top --operate`".to_owned());
        }
        if let Some(doing) = &self.acting {
            return Err(format!("wait: still {doing}"));
        }
        match (letter, self.selected()) {
            _ if self.page == Some(Page::Help) => Err("Esc closes the help first".to_owned()),
            ('P', Some(queue)) if self.tab == Tab::Queues => {
                // they are summed up because there are too many
                let it = self.status.as_ref().filter(|_| !queue.is_empty()).ok_or("these are several queues")?;
                let paused = it.queue(queue).is_none_or(|it| it.paused_at.is_none());
                let doing = if paused { "pausing" } else { "resuming" };
                Ok((Act::Pause { queue: queue.clone(), paused }, format!("{doing} `{}`", clean(queue))))
            }
            ('S' | 'A', _) if let Some(it) = self.group() => {
                let (group, short) = (it.group.clone(), short(&it.group));
                if it.dead.jobs == 0 {
                    return Err(format!("no dead letters: queue retry --match 'retrying group:{short}' --first 1"));
                }
                let first = (letter == 'S').then_some(1);
                let what = first.map_or("all dead letters", |_| "one dead letter");
                Ok((Act::SendBack { group, first }, format!("sending back {what} of {short}")))
            }
            ('P', _) => Err("P pauses or resumes a queue: press 1 and select it".to_owned()),
            ('S' | 'A', _) => Err(format!("{letter} sends dead letters back: press 2 and select an error")),
            _ => Err("no such act: ? shows all".to_owned()),
        }
    }
}

/// What is refused without the database.
pub(crate) fn refuse(screen: &Screen) -> Result<(), Failure> {
    match screen.json {
        true => Err(Failure::new(2, "`top` is a screen: it has no --json").fix("queue status --json")),
        false if io::stdin().is_terminal() && io::stdout().is_terminal() => Ok(()),
        false => Err(Failure::new(2, "`top` needs a terminal").fix("queue status")),
    }
}

/// Shows the screen until it is left.
pub(crate) async fn top(admin: &Admin, url: &str, screen: &Screen, operate: bool) -> Result<(), Failure> {
    let mut state = State::new(screen, operate);
    // it gives the terminal back after a panic too
    let done = match ratatui::try_init() {
        Ok(mut terminal) => {
            let _typed = execute!(io::stdout(), EnableBracketedPaste).map(|()| Typed);
            show(admin, url, &mut state, &mut terminal).await
        }
        Err(error) => Err(lost(error)),
    };
    ratatui::restore();
    if let Some(doing) = state.acting {
        screen.say(&format!("You left while it was {doing}. What came of it: queue audit\n"));
    }
    done
}

fn lost(error: io::Error) -> Failure {
    Failure::new(1, format!("the terminal fails: {error}"))
}

/// What is pasted is told from what is typed: it must not act.
struct Typed;

impl Drop for Typed {
    fn drop(&mut self) {
        let _ = execute!(io::stdout(), DisableBracketedPaste);
    }
}

/// What a task has to tell.
enum Done {
    Read(Result<Status, String>),
    Acted(Severity, String),
}

async fn show(admin: &Admin, url: &str, state: &mut State, terminal: &mut DefaultTerminal) -> Result<(), Failure> {
    let (mut keys, mut tasks, mut leave) = (keys(), JoinSet::new(), pin!(queue::shutdown_signal()));
    let (mut due, mut began, mut reads) = (Instant::now(), Instant::now(), false);
    loop {
        terminal.draw(|frame| state.draw(frame)).map_err(lost)?;
        let admin = admin.clone();
        tokio::select! {
            () = &mut leave => return Ok(()),
            event = keys.recv() => match event {
                None => return Ok(()),
                Some(Event::Key(key)) if key.is_press() => match state.on_key(key) {
                    Some(Act::Leave) => return Ok(()),
                    Some(act) => drop(tasks.spawn(act.carry_out(admin))),
                    None => {}
                },
                // of another size
                Some(_) => {}
            },
            Some(done) = tasks.join_next() => match done.unwrap_or_else(|error| resume_unwind(error.into_panic())) {
                Done::Read(read) => {
                    reads = false;
                    // a database that is slow gets a rest too
                    due = (began + EVERY).max(Instant::now() + began.elapsed().min(EVERY));
                    state.read(read, Utc::now());
                }
                Done::Acted(severity, text) => {
                    due = Instant::now();
                    state.ended(severity, &text, Utc::now());
                }
            },
            () = sleep_until(due), if !reads && !state.held => {
                (began, reads) = (Instant::now(), true);
                tasks.spawn(look(admin, url.to_owned()));
            }
            () = sleep_until(began + SLOW), if reads && !state.held && state.trouble.is_none() => {
                state.read(Err("no answer yet".to_owned()), Utc::now());
            }
        }
    }
}

/// Keys, and changes of the size. It ends with the terminal, or when nobody listens any more.
fn keys() -> UnboundedReceiver<Event> {
    let (sender, keys) = unbounded_channel();
    std::thread::spawn(move || {
        while !sender.is_closed() {
            match poll(BLINK).and_then(|some| some.then(read).transpose()) {
                Ok(event) => event.into_iter().for_each(|event| drop(sender.send(event))),
                Err(_) => return,
            }
        }
    });
    keys
}

async fn look(admin: Admin, url: String) -> Done {
    let why = match timeout(PATIENCE, Status::read(&admin)).await {
        Ok(Ok(status)) => return Done::Read(Ok(status)),
        Ok(Err(error)) => line(error.into()),
        Err(_) => format!("no answer for {} s", PATIENCE.as_secs()),
    };
    // a pool does not say why it cannot connect
    Done::Read(Err(match Database::open(&url, 1).await {
        Ok(other) => {
            other.close().await;
            why
        }
        Err(failure) => line(failure),
    }))
}

/// A failure in one line.
fn line(failure: Failure) -> String {
    failure.text(false).trim_start_matches("error: ").trim_end().replace('\n', " · ")
}

impl Act {
    async fn carry_out(self, admin: Admin) -> Done {
        match self.outcome(&admin).await {
            Ok((text, Ok(()))) => Done::Acted(Severity::Ok, text),
            Ok((text, Err(rest))) => Done::Acted(Severity::Warning, format!("{text} {}", line(rest))),
            Err(error) => Done::Acted(Severity::Error, line(error.into())),
        }
    }

    /// What was done, and what was not.
    async fn outcome(self, admin: &Admin) -> Result<(String, Result<(), Failure>), Error> {
        match self {
            Self::Leave => Ok((String::new(), Ok(()))),
            Self::Pause { queue, paused } => {
                if paused {
                    admin.pause(&queue).await?
                } else {
                    admin.resume(&queue).await?
                }
                Ok((is_paused(&queue, paused), Ok(())))
            }
            Self::SendBack { group, first } => {
                let filter = Filter::new().group(group);
                let filter = first.map_or(filter.clone(), |first| filter.limit(first));
                let plan = admin.plan(Action::SendBack, &filter).await?;
                let only = plan.samples().first().filter(|_| plan.count().jobs == 1).map(|job| job.id);
                let done = plan.run().await?;
                let mut text = was_done(&done, "sent back", only);
                if done.changed > 1 {
                    text += &format!(" On record: queue audit {}", done.id);
                }
                Ok((text, was_not_done(&done, "sent back")))
            }
        }
    }
}
