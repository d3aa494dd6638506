//! Counts of passed and failed tests.

/// What the test programs of a step reported.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
    pub(crate) ignored: usize,
    pub(crate) failures: Vec<Failure>,
    /// What is read now belongs to the story of this test.
    pub(crate) telling: Option<Failure>,
}

/// A failed test, and what it said.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) name: String,
    pub(crate) story: Vec<String>,
}

/// The lines of a story that are worth repeating.
const STORY: usize = 40;

impl Tally {
    /// Takes account of a line of a test program's output.
    pub(crate) fn read(&mut self, line: &str) {
        if let Some((_, counts)) = line.split_once("test result: ").and_then(|(_, rest)| rest.split_once(". ")) {
            for count in counts.split(';') {
                let mut words = count.split_whitespace();
                let (Some(number), Some(what)) =
                    (words.next().and_then(|word| word.parse::<usize>().ok()), words.next())
                else {
                    continue;
                };
                match what {
                    "passed" => self.passed += number,
                    "failed" => self.failed += number,
                    "ignored" => self.ignored += number,
                    _ => {}
                }
            }
        } else if let Some(name) = line.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" stdout ----")) {
            self.told();
            self.telling = Some(Failure { name: name.into(), ..Failure::default() });
        } else if line == "failures:" || line.starts_with("test ") {
            self.told();
            if let Some(name) = line.strip_prefix("test ").and_then(|rest| rest.strip_suffix(" ... FAILED")) {
                self.failure(name);
            }
        } else if let Some(failure) = self.telling.as_mut().filter(|it| it.story.len() < STORY && !line.is_empty()) {
            failure.story.push(line.into());
        }
    }

    /// The story that was told is over.
    fn told(&mut self) {
        if let Some(Failure { name, story }) = self.telling.take() {
            self.failure(&name).story = story;
        }
    }

    fn failure(&mut self, name: &str) -> &mut Failure {
        let index = self.failures.iter().position(|it| it.name == name).unwrap_or_else(|| {
            self.failures.push(Failure { name: name.into(), ..Failure::default() });
            self.failures.len() - 1
        });
        &mut self.failures[index]
    }
}

#[cfg(test)]
mod tests {
    use super::{Failure, Tally};

    #[test]
    fn the_results_of_all_programs_are_added_up() {
        let mut tally = Tally::default();
        for line in [
            "test postgres::claim_is_exclusive ... FAILED",
            "test sqlite::claim_is_exclusive ... ok",
            "",
            "failures:",
            "",
            "---- postgres::claim_is_exclusive stdout ----",
            "",
            "thread panicked: two workers have job 7",
            "",
            "failures:",
            "    postgres::claim_is_exclusive",
            "test result: FAILED. 1 passed; 1 failed; 2 ignored; 0 measured; 0 filtered out; finished in 0.10s",
            "test result: ok. 4 passed; 0 failed; 0 ignored; 0 measured; 3 filtered out; finished in 0.10s",
        ] {
            tally.read(line);
        }
        let name = "postgres::claim_is_exclusive".into();
        let failures = vec![Failure { name, story: vec!["thread panicked: two workers have job 7".into()] }];
        assert_eq!(tally, Tally { passed: 5, failed: 1, ignored: 2, failures, telling: None });
    }

    #[test]
    fn a_story_is_the_test_s_own_whichever_line_comes_first() {
        let mut tally = Tally::default();
        for line in [
            "---- mysql::sigstop stdout ----",
            "1 violation",
            "test mysql::sigstop ... FAILED",
            "test mysql::locks ... ok",
            "somebody else's line",
        ] {
            tally.read(line);
        }
        assert_eq!(tally.failures, [Failure { name: "mysql::sigstop".into(), story: vec!["1 violation".into()] }]);
    }
}
