//! How `top` looks. Each function makes lines from values, in the width that there is.

use ratatui::Frame;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;
use unicode_width::UnicodeWidthStr as _;

use super::{Page, State, TABS, Tab};
use crate::findings::{self, Finding, Severity};
use crate::look;
use crate::screen::Screen;
use crate::text::{Look, Table, Tone, clean, cut, exact, thousands};

/// A finding is not cut to less than this for the sake of its command.
const SENTENCE: usize = 60;
/// From this height on there are empty lines between the parts.
const ROOMY: usize = 16;
/// How wide the names of a page's fields are, in columns.
const NAMES: usize = 12;

const HELP: &str = "\
Keys
  q            leave; so do Esc and Ctrl-C
  Tab, 1 2 3   another tab
  j k, arrows  select a row, or scroll a page
  Enter        details of an error or a worker; Esc goes back
  .            hold the screen, or go on
  ?            this page

Capitals act, with `queue top --operate`. Shift says: I am sure.
  P            pause the selected queue, or resume it
  S            send back one dead letter of the selected error
  A            send back all of them

Each act stays on record: queue audit";

impl State {
    pub(super) fn draw(&self, frame: &mut Frame<'_>) {
        let area = frame.area();
        let (width, height) = (usize::from(area.width), usize::from(area.height));
        let gap = (height >= ROOMY).then(Line::default);
        let mut lines = vec![self.header(width)];
        if let Some(why) = &self.trouble {
            let text = format!("Not read since {}, trying again: {why}", self.look.now.format("%TZ"));
            lines.extend(self.told(Severity::Error, &text, width).into_iter().take((height / 5).max(1)));
        }
        lines.extend(gap.clone());
        if self.page.is_none() {
            lines.extend(self.findings(width, (height / 4).max(1)));
            lines.extend(gap.clone());
            lines.push(self.tabs(width));
        }
        let mut below = self.note(width);
        // its line is kept free, so that nothing jumps
        below.extend(gap.filter(|_| below.is_empty()));
        below.push(self.keys(width));
        let room = height.saturating_sub(lines.len() + below.len());
        let mut body = if self.page.is_some() { self.page(width, room) } else { self.rows(width, room) };
        body.resize(room, Line::default());
        frame.render_widget(Paragraph::new([lines, body, below].concat()), area);
    }

    fn style(&self, tone: Tone) -> Style {
        match tone {
            _ if !self.look.colour => Style::new(),
            Tone::Plain => Style::new(),
            Tone::Faint => Style::new().add_modifier(Modifier::DIM),
            Tone::Good => Style::new().fg(Color::Green),
            Tone::Warn => Style::new().fg(Color::Yellow),
            Tone::Bad => Style::new().fg(Color::Red),
        }
    }

    fn span(&self, tone: Tone, text: impl Into<String>) -> Span<'static> {
        Span::styled(text.into(), self.style(tone))
    }

    /// Two texts at the ends of a line. The left one is cut.
    fn apart(&self, width: usize, left: (Tone, &str), right: (Tone, &str)) -> [Span<'static>; 2] {
        let room = width.saturating_sub(right.1.width() + 2);
        let text = cut(left.1, room);
        let pad = " ".repeat(width.saturating_sub(text.width() + right.1.width()));
        [self.span(left.0, text), self.span(right.0, pad + right.1)]
    }

    /// The database, the time of what is shown, and whether capitals act.
    fn header(&self, width: usize) -> Line<'static> {
        let now = self.look.now;
        let time = if width < 80 { now.format("%TZ").to_string() } else { exact(now) };
        let time = self.status.as_ref().map(|_| time);
        let (tone, mode) = if self.operate { (Tone::Warn, "operating") } else { (Tone::Faint, "read-only") };
        let held = self.held.then(|| "held".to_owned());
        let right = held.into_iter().chain(time).chain([mode.to_owned()]).collect::<Vec<_>>().join(" · ");
        Line::from(self.apart(width, (Tone::Plain, &self.database), (tone, &right)).to_vec())
    }

    /// A sentence with its sign, in as many lines as it needs.
    fn told(&self, severity: Severity, text: &str, width: usize) -> Vec<Line<'static>> {
        let (tone, sign) = severity.sign();
        let text = Look { width: Some(width), ..self.look }.wrap(&format!("{sign} {}", clean(text)), 0, 2);
        text.lines().map(|line| self.span(tone, line).into()).collect()
    }

    /// What is wrong, a line each.
    fn findings(&self, width: usize, most: usize) -> Vec<Line<'static>> {
        let Some(status) = &self.status else { return Vec::new() };
        let mut found = findings::status(&status.world);
        found.extend(status.flowless.iter().map(|why| Finding::new(Severity::Warning, why, "")));
        if found.is_empty() {
            found.push(Finding::new(Severity::Ok, "All well.", ""));
        }
        let hidden = found.len().saturating_sub(most);
        let line = |(place, it): (usize, &Finding)| {
            let (tone, sign) = it.severity.sign();
            let word = format!("{sign} {:8} ", format!("{:?}", it.severity).to_lowercase());
            let (room, text) = (width.saturating_sub(word.width()), clean(&it.message));
            let more = (hidden > 0 && place + 1 == most).then(|| format!("{hidden} more"));
            let fix = clean(it.fix.as_deref().unwrap_or_default());
            let fits = room >= text.width().min(SENTENCE) + 2 + fix.width();
            let fix = more.unwrap_or(if fits { fix } else { String::new() });
            let [text, fix] = self.apart(room, (Tone::Plain, &text), (Tone::Faint, &fix));
            Line::from(vec![self.span(tone, word), text, fix])
        };
        found.iter().take(most).enumerate().map(line).collect()
    }

    fn tabs(&self, width: usize) -> Line<'static> {
        let mut spans = Vec::new();
        for tab in TABS {
            let names = self.names(tab);
            let label = format!("{} {tab:?} {}", tab as usize + 1, names.len());
            spans.push(match tab == self.tab {
                true => Span::styled(format!("[{label}] "), Style::new().add_modifier(Modifier::BOLD)),
                false => self.span(Tone::Faint, format!(" {label}  ")),
            });
        }
        let [_, running, slots] = self.status.as_ref().map_or([0; 3], |it| it.world.slots()).map(thousands);
        let busy = format!("Slots busy: {running} of {slots}");
        let taken: usize = spans.iter().map(Span::width).sum();
        if slots != "0" && taken + busy.len() <= width {
            spans.extend(self.apart(width - taken, (Tone::Plain, ""), (Tone::Faint, &busy)));
        }
        spans.into()
    }

    /// The rows of the tab: those around the selected one.
    fn rows(&self, width: usize, room: usize) -> Vec<Line<'static>> {
        let Some(status) = &self.status else {
            return vec![self.span(Tone::Faint, if self.trouble.is_none() { "  Reading." } else { "" }).into()];
        };
        let look = Look { width: Some(width), ..self.look };
        let (table, nothing) = match self.tab {
            Tab::Queues => (status.table(&status.flows), look::NO_QUEUE),
            Tab::Errors => (look::groups_table(&status.world.failing, &look), look::NO_ERROR),
            Tab::Workers => {
                let mut table = Table::new(&look::WORKER);
                self.workers().into_iter().for_each(|it| look::worker_row(&mut table, it, &look));
                (table, "No worker is alive. Those that ended: queue workers")
            }
        };
        let names = self.names(self.tab);
        if names.is_empty() {
            return vec![self.span(Tone::Faint, cut(&format!("  {}", nothing.trim_end()), width)).into()];
        }
        let (at, rows) = (self.at(&names), table.fitted(&look, 2));
        let room = room.saturating_sub(1);
        let first = at.unwrap_or(0).saturating_sub(room / 2).min(names.len().saturating_sub(room));
        let line = |(place, (tone, text)): (usize, &(Tone, String))| match at {
            // without colours too
            Some(at) if place == at + 1 => {
                let text = format!(">{}", text.get(1..).unwrap_or_default());
                let pad = " ".repeat(width.saturating_sub(text.width()));
                Line::styled(text + &pad, Style::new().add_modifier(Modifier::REVERSED | Modifier::BOLD))
            }
            _ => self.span(*tone, text).into(),
        };
        let shown = rows.iter().enumerate().skip(1 + first).take(room);
        rows.iter().enumerate().take(1).chain(shown).map(line).collect()
    }

    /// The part of a page that fits.
    fn page(&self, width: usize, room: usize) -> Vec<Line<'static>> {
        let look = Look { width: Some(width), colour: false, ..self.look };
        let screen = Screen { look, json: false, database: String::new() };
        let selected = self.selected();
        let text = match (self.page, self.group()) {
            (Some(Page::Help), _) => HELP.to_owned(),
            (_, Some(group)) => look::error(group, &screen),
            _ => {
                let worker = self.workers().into_iter().find(|it| Some(&it.id.to_string()) == selected);
                worker.map_or_else(String::new, |it| look::worker(it, &screen))
            }
        };
        // half a command is of no use
        let text: Vec<String> = text.lines().map(|line| look.wrap(line, 0, NAMES + 2)).collect();
        let lines: Vec<&str> = text.iter().flat_map(|line| line.lines().chain(line.is_empty().then_some(""))).collect();
        self.bottom.set(lines.len().saturating_sub(room));
        let line = |line: &&str| match line.split_at_checked(NAMES) {
            Some((name, text)) if name.starts_with("  ") && self.page == Some(Page::Details) => {
                Line::from(vec![self.span(Tone::Faint, name), self.span(Tone::Plain, text)])
            }
            _ => self.span(Tone::Plain, *line).into(),
        };
        lines.iter().skip(self.scroll.min(self.bottom.get())).take(room).map(line).collect()
    }

    /// What answers the last key, or else the last act.
    fn note(&self, width: usize) -> Vec<Line<'static>> {
        match (&self.hint, &self.acting, &self.outcome) {
            (Some(hint), ..) => self.told(Severity::Warning, hint, width),
            (_, Some(doing), _) => self.told(Severity::Warning, &format!("{doing} …"), width),
            (_, _, Some((severity, text))) => self.told(*severity, text, width),
            _ => Vec::new(),
        }
    }

    /// The keys that do something here, those that fit.
    fn keys(&self, width: usize) -> Line<'static> {
        let (listed, is) = (self.page.is_none(), |tab| self.tab == tab && self.page != Some(Page::Help));
        let keys = [
            ("P pause or resume", self.operate && is(Tab::Queues)),
            ("S send one back", self.operate && is(Tab::Errors)),
            ("A all", self.operate && is(Tab::Errors)),
            ("Esc back", !listed),
            ("q leave", true),
            ("? help", listed),
            ("Tab next", listed),
            ("j k select", listed),
            ("j k scroll", !listed),
            ("Enter details", listed && !is(Tab::Queues)),
            (". hold", !self.held),
            (". go on", self.held),
        ];
        let mut text = String::new();
        for (key, _) in keys.iter().filter(|(_, works)| *works) {
            let gap = if text.is_empty() { "" } else { "   " };
            if text.len() + gap.len() + key.len() <= width {
                text += &format!("{gap}{key}");
            }
        }
        self.span(Tone::Faint, text).into()
    }
}
