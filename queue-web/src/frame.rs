//! The frame around every page, and the fields of forms and addresses.

use crate::access::Rights;
use crate::text::{Html, encoded};
use crate::world::World;

/// Which entry of the list of screens is this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Screen {
    Overview,
    Failures,
    Dead,
    Jobs,
    Queues,
    Workers,
    Schedules,
    Operations,
    None,
}

/// An entry of the list of screens.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) path: &'static str,
    pub(crate) name: &'static str,
    pub(crate) key: &'static str,
    pub(crate) current: bool,
    pub(crate) class: &'static str,
    pub(crate) badge: String,
}

/// What is around every page.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) base: String,
    pub(crate) here: String,
    pub(crate) title: String,
    pub(crate) instance: Option<(String, &'static str)>,
    pub(crate) theme: &'static str,
    pub(crate) who: String,
    pub(crate) entries: Vec<Entry>,
    pub(crate) find: String,
    /// Whether the script refreshes it.
    pub(crate) live: bool,
    pub(crate) at: Html,
    pub(crate) sampled: Option<Html>,
    pub(crate) notice: Option<String>,
    pub(crate) reads_only: bool,
    pub(crate) rights: Rights,
    pub(crate) css: &'static str,
    pub(crate) js: &'static str,
}

impl Frame {
    pub(crate) fn may_act(&self) -> bool {
        self.rights.include(Rights::ACT)
    }

    pub(crate) fn may_act_on_many(&self) -> bool {
        self.rights.include(Rights::ACT_ON_MANY)
    }

    pub(crate) fn may_edit(&self) -> bool {
        self.rights.include(Rights::EDIT)
    }

    pub(crate) fn may_delete(&self) -> bool {
        self.rights.include(Rights::DELETE)
    }

    pub(crate) fn may_delete_many(&self) -> bool {
        self.rights.include(Rights::DELETE | Rights::ACT_ON_MANY)
    }

    /// The overview: a router that is nested answers without a slash at the end.
    pub(crate) fn home(&self) -> &str {
        if self.base.is_empty() { "/" } else { &self.base }
    }

    /// This page again.
    pub(crate) fn again(&self) -> String {
        match self.here.split_once('?') {
            Some(("", query)) => format!("{}?{query}", self.home()),
            None if self.here.is_empty() => self.home().to_owned(),
            _ => format!("{}/{}", self.base, self.here),
        }
    }

    /// This page in another theme, for a link.
    pub(crate) fn themed(&self, theme: &str) -> String {
        format!("{}/theme?to={theme}&from={}", self.base, encoded(&self.here))
    }
}

/// The list of screens, with what somebody should know about each.
pub(crate) fn entries(world: Option<&World>, screen: Screen) -> Vec<Entry> {
    let badge = |which: Screen| world.map_or_else(Default::default, |world| world.badge(which));
    let all = [
        (Screen::Overview, "", "Overview", "g o"),
        (Screen::Failures, "failures", "Failures", "g f"),
        (Screen::Dead, "jobs?q=state:dead", "Dead letters", "g d"),
        (Screen::Jobs, "jobs", "Jobs", "g j"),
        (Screen::Queues, "queues", "Queues", "g q"),
        (Screen::Workers, "workers", "Workers", "g w"),
        (Screen::Schedules, "schedules", "Schedules", "g s"),
        (Screen::Operations, "operations", "Operations", "g a"),
    ];
    let entry = |(which, path, name, key)| {
        let (class, badge) = badge(which);
        Entry { path, name, key, current: which == screen, class, badge }
    };
    all.map(entry).into_iter().collect()
}

/// The fields of a form or a query.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fields(Vec<(String, String)>);

impl Fields {
    pub(crate) fn read(text: &[u8]) -> Self {
        // browsers end the lines of a text with both characters
        let read = |(name, value): (String, String)| (name, value.replace("\r\n", "\n"));
        Self(form_urlencoded::parse(text).into_owned().map(read).collect())
    }

    pub(crate) fn of<const N: usize>(fields: [(&str, String); N]) -> Self {
        Self(fields.map(|(name, value)| (name.to_owned(), value)).to_vec())
    }

    /// The last one of this name: a button says more than a hidden field before it. Empty ones say nothing.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().rev().find(|(is, value)| is == name && !value.is_empty()).map(|(_, value)| value.as_str())
    }

    /// The last one of this name, which may be empty.
    pub(crate) fn last(&self, name: &str) -> Option<&str> {
        self.0.iter().rev().find(|(is, _)| is == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn all(&self, name: &str) -> Vec<&str> {
        self.0.iter().filter(|(is, _)| is == name).map(|(_, value)| value.as_str()).collect()
    }

    pub(crate) fn text(&self, name: &str) -> &str {
        self.get(name).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_field_of_a_name_counts_unless_it_is_empty() {
        let fields = Fields::read(b"do=a&do=b+c&do=&id=1&id=2");
        assert_eq!(fields.get("do"), Some("b c"));
        assert_eq!(fields.all("id"), ["1", "2"]);
    }
}
