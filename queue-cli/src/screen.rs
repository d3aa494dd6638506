//! Where answers go: data to standard output, all else to standard error.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use chrono::Utc;
use serde::Serialize;

use crate::failure::Failure;
use crate::findings::Finding;
use crate::text::{Look, Table, Tone, clean, cut, exact};
use unicode_width::UnicodeWidthStr as _;

/// The terminal of a command.
#[derive(Debug)]
pub(crate) struct Screen {
    pub(crate) look: Look,
    pub(crate) json: bool,
    /// The database, without its password.
    pub(crate) database: String,
}

impl Screen {
    pub(crate) fn new(json: bool, utc: bool) -> Self {
        let stdout = io::stdout();
        let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let given = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok()).filter(|width| *width > 0);
        let found = || terminal_size::terminal_size_of(&stdout).map(|(width, _)| usize::from(width.0));
        let colour = stdout.is_terminal() && io::stderr().is_terminal() && !set("NO_COLOR") && !dumb;
        let look = Look { width: given.or_else(found), colour, utc, now: Utc::now() };
        Self { look, json, database: String::new() }
    }

    /// Data.
    pub(crate) fn out(&self, text: &str) -> Result<(), Failure> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).map_err(|error| match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::default(),
            _ => Failure::new(1, format!("cannot write to standard output: {error}")),
        })
    }

    /// One object as one line.
    pub(crate) fn object(&self, item: &impl Serialize) -> Result<(), Failure> {
        let line = serde_json::to_string(item).map_err(|error| Failure::new(1, error.to_string()))?;
        self.out(&(line + "\n"))
    }

    /// A list: one object on each line, or a table.
    pub(crate) fn list<T: Serialize>(
        &self,
        items: &[T],
        nothing: &str,
        titles: &[&'static str],
        row: impl Fn(&mut Table, &T),
    ) -> Result<(), Failure> {
        if self.json {
            return items.iter().try_for_each(|item| self.object(item));
        }
        if items.is_empty() {
            self.say(nothing);
            return Ok(());
        }
        let mut table = Table::new(titles);
        items.iter().for_each(|item| row(&mut table, item));
        self.out(&table.lines(&self.look, 0))
    }

    /// A name and its text, which may have several lines. `whole`: long lines are broken, not cut.
    pub(crate) fn field(&self, name: &str, text: &str, whole: bool) -> String {
        let mut out = String::new();
        for (at, line) in text.lines().map(clean).enumerate() {
            let name = self.look.paint(Tone::Faint, &format!("{:9}", if at == 0 { name } else { "" }));
            let room = self.look.width.map_or(usize::MAX, |width| width.saturating_sub(12).max(1));
            // half a command is of no use
            let line = if line.starts_with("queue ") {
                line
            } else if whole {
                self.look.wrap(&line, 12, 12)
            } else {
                cut(&line, room)
            };
            out += &format!("  {name} {line}\n");
        }
        out
    }

    /// What is not data. Nobody may be listening.
    pub(crate) fn say(&self, text: &str) {
        let _ = io::stderr().write_all(text.as_bytes());
    }

    /// Names the database and the time.
    pub(crate) fn header(&self) -> String {
        let time = exact(self.look.now);
        let both = format!("{} · {time}", self.database);
        let line = match self.look.width {
            Some(width) if both.width() > width => format!("{}\n{time}", cut(&self.database, width)),
            _ => both,
        };
        self.look.paint(Tone::Faint, &line) + "\n"
    }

    /// Says which database is about to change.
    pub(crate) fn begin(&self) {
        if !self.json {
            self.say(&self.header());
        }
    }

    /// Sentences, each with its sign and the command that goes on.
    pub(crate) fn findings(&self, found: &[Finding]) -> String {
        let mut out = String::new();
        for Finding { severity, message, fix } in found {
            let (tone, sign) = severity.sign();
            out += &format!("  {} {}\n", self.look.paint(tone, sign), self.look.wrap(&clean(message), 4, 4));
            if let Some(fix) = fix {
                out += &format!("      {}\n", clean(fix));
            }
        }
        out
    }

    /// Asks on a terminal.
    pub(crate) fn agrees(&self, question: &str) -> bool {
        self.say(&format!("{question} [y/N] "));
        let mut answer = String::new();
        let _ = io::stdin().lock().read_line(&mut answer);
        matches!(answer.trim(), "y" | "Y" | "yes")
    }
}
