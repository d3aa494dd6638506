//! How a command fails, and the exit code that says so.

use serde_json::json;

/// Why a command did not do what was asked.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: u8,
    message: String,
    /// The command that would cure it.
    fix: Option<String>,
    /// Nothing is to be said.
    silent: bool,
}

impl Failure {
    pub(crate) fn new(message: impl Into<String>, fix: Option<String>) -> Self {
        Self { code: 1, message: message.into(), fix, silent: false }
    }

    /// The command was not understood, or lacks something.
    pub(crate) fn usage(message: impl Into<String>, fix: Option<String>) -> Self {
        Self { code: 2, ..Self::new(message, fix) }
    }

    /// The same may succeed later.
    pub(crate) fn away(message: impl Into<String>, fix: Option<String>) -> Self {
        Self { code: 3, ..Self::new(message, fix) }
    }

    /// What is to be said is printed already.
    pub(crate) fn told(code: u8) -> Self {
        Self { code, silent: true, ..Self::new("", None) }
    }

    /// The reader of the output has gone.
    pub(crate) fn closed() -> Self {
        Self::told(0)
    }

    /// What goes to standard error.
    pub(crate) fn text(&self, json: bool) -> String {
        let fix = self.fix.as_deref();
        match (self.silent, json, fix) {
            (true, ..) => String::new(),
            (_, true, fix) => format!("{}\n", json!({"error": {"message": self.message, "fix": fix}})),
            (_, _, Some(fix)) => format!("error: {}\nfix: {fix}\n", self.message),
            (_, _, None) => format!("error: {}\n", self.message),
        }
    }
}
