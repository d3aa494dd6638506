//! How a command fails, and the exit code that says so.

use queue::admin::BadSearch;
use serde_json::json;

/// Why a command did not do what was asked.
#[derive(Debug, Default)]
pub(crate) struct Failure {
    /// 1: it failed, or something was found. 2: it was not understood. 3: the same may succeed later.
    pub(crate) code: u8,
    /// Empty: what is to be said is printed already.
    message: String,
    /// The command that would cure it.
    fix: Option<String>,
}

impl Failure {
    pub(crate) fn new(code: u8, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), fix: None }
    }

    pub(crate) fn fix(self, fix: impl Into<String>) -> Self {
        Self { fix: Some(fix.into()), ..self }
    }

    /// What goes to standard error.
    pub(crate) fn text(&self, json: bool) -> String {
        let fix = self.fix.as_ref().map_or_else(String::new, |fix| format!("fix: {fix}\n"));
        match (self.message.is_empty(), json) {
            (true, _) => String::new(),
            (_, true) => format!("{}\n", json!({"error": {"message": self.message, "fix": self.fix}})),
            (_, false) => format!("error: {}\n{fix}", self.message),
        }
    }
}

/// A word of the command that is not understood.
impl From<BadSearch> for Failure {
    fn from(error: BadSearch) -> Self {
        Self::new(2, error.to_string())
    }
}

impl From<String> for Failure {
    fn from(message: String) -> Self {
        Self::new(2, message)
    }
}
