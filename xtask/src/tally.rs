//! Counts of passed and failed tests.

/// What the test programs of a step reported.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
    pub(crate) ignored: usize,
    pub(crate) failures: Vec<String>,
}

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
        } else if let Some(name) = line.strip_prefix("test ").and_then(|rest| rest.strip_suffix(" ... FAILED")) {
            self.failures.push(name.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Tally;

    #[test]
    fn the_results_of_all_programs_are_added_up() {
        let mut tally = Tally::default();
        for line in [
            "test postgres::claim_is_exclusive ... FAILED",
            "test sqlite::claim_is_exclusive ... ok",
            "test result: FAILED. 1 passed; 1 failed; 2 ignored; 0 measured; 0 filtered out; finished in 0.10s",
            "test result: ok. 4 passed; 0 failed; 0 ignored; 0 measured; 3 filtered out; finished in 0.10s",
        ] {
            tally.read(line);
        }
        let failures = vec!["postgres::claim_is_exclusive".into()];
        assert_eq!(tally, Tally { passed: 5, failed: 1, ignored: 2, failures });
    }
}
