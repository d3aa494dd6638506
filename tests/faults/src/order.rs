//! The request on the command line.

use std::fmt;

use anyhow::{Result, bail};

/// How much to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Seconds: what the test command runs.
    Short,
    /// Minutes.
    Long,
}

/// The request on the command line.
#[derive(Clone, Copy, Debug)]
pub struct Order {
    /// Seed of all random choices.
    pub seed: u64,
    /// How much to do.
    pub form: Form,
    /// Least number of jobs, if given.
    pub jobs: Option<usize>,
    /// Number of faults, if given.
    pub rounds: Option<u32>,
}

/// The arguments that repeat this run.
impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Order { seed, form, jobs, rounds } = self;
        write!(f, "--seed {seed} {}", if *form == Form::Short { "--short" } else { "--long" })?;
        jobs.map_or(Ok(()), |jobs| write!(f, " --jobs {jobs}"))?;
        rounds.map_or(Ok(()), |rounds| write!(f, " --rounds {rounds}"))
    }
}

impl Order {
    /// Compares a figure with its promise. Only the long form fails: the short one also runs on slow or busy machines.
    ///
    /// # Errors
    /// When the figure exceeds the promise, in the long form.
    pub fn promised(self, figure: &str, seconds: f64, promised: f64) -> Result<String> {
        if seconds <= promised {
            return Ok(figure.to_owned());
        }
        let text = format!("{figure}, more than the {promised} s that are promised");
        if self.form == Form::Short { Ok(text) } else { bail!("{text}") }
    }
}

#[cfg(test)]
mod tests {
    use super::{Form, Order};

    #[test]
    fn the_long_form_insists_on_what_is_promised() {
        let order = |form| Order { seed: 1, form, jobs: None, rounds: None };
        assert_eq!(order(Form::Long).promised("3 s", 3.0, 3.0).expect("within the promise"), "3 s");
        order(Form::Long).promised("4 s", 4.0, 3.0).expect_err("more than promised");
        let note = order(Form::Short).promised("4 s", 4.0, 3.0).expect("only noted");
        assert_eq!(note, "4 s, more than the 3 s that are promised");
    }

    #[test]
    fn the_same_can_be_asked_for_again() {
        let order = Order { seed: 7, form: Form::Long, jobs: None, rounds: None };
        assert_eq!(order.to_string(), "--seed 7 --long");
        let order = Order { form: Form::Short, jobs: Some(300), rounds: Some(2), ..order };
        assert_eq!(order.to_string(), "--seed 7 --short --jobs 300 --rounds 2");
    }
}
