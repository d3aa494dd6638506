//! The options that there are, with an example of each, and which one a user of another library means.

use crate::names;

/// The options in one pair of parentheses.
pub(crate) struct Known {
    /// Whose they are, for the messages.
    of: &'static str,
    /// In the order in which the messages list them: the name, what other libraries call it, and an example.
    options: &'static [(&'static str, &'static str)],
    /// What is no option here, and how to get it.
    elsewhere: &'static [(&'static str, &'static str)],
}

pub(crate) const JOB: Known = Known {
    of: "",
    options: &[
        ("name identifier job_name job_type kind rename task_name", "name = \"send_email\""),
        ("aliases alias", "aliases = [\"old_name\"]"),
        ("queue queue_name", "queue = \"mail\""),
        ("priority prio", "priority = -10"),
        ("max_retries attempts max_attempts max_retry retries retry", "max_retries = 3"),
        ("timeout time_limit", "timeout = \"30s\""),
        ("start_within sla slo latency", "start_within = \"10s\""),
        ("backoff delay retry_backoff retry_delay", "backoff = exponential(\"2s\", max = \"10m\")"),
        ("schedule", "schedule = \"0 9 * * MON-FRI Europe/Berlin\""),
        ("unique dedup dedupe deduplicate singleton", "unique"),
        ("blocking block cpu spawn_blocking sync", "blocking"),
        ("derive", "derive(PartialEq)"),
        ("struct_name struct type_name", "struct_name = \"SendEmailJob\""),
        ("crate", "crate = my_crate::queue"),
    ],
    elsewhere: &[
        ("attempts max_attempts", "; did you mean `max_retries`? (`max_retries = 3` is four attempts)"),
        ("cron periodic recurring", ": write `schedule = \"0 9 * * MON-FRI Europe/Berlin\"`"),
        ("every interval", ": write `schedule = \"every 15m\"`"),
        ("secret secrets sensitive", ": write `#[secret]` before the argument"),
        ("unique_by", ": write `unique(by = user)`"),
        ("unique_for", ": write `unique(for = \"1h\")`"),
        ("unique_until", ": write `unique(until = \"start\")`"),
        ("unique_key", ": the key belongs to the enqueue: write `.unique_key(…)` there, or `unique(by = user)` here"),
        (
            "debounce",
            ": the delay belongs to the enqueue: write `.debounce(delay)` there, and `unique(by = user)` here",
        ),
        (
            "concurrency limit rate_limit throttle",
            ": limits belong to a queue and a worker: write `queue = \"mail\"` here and `.queue(\"mail\", 2)` on the \
             worker's builder",
        ),
        ("run_at run_in", ": the time belongs to the enqueue: write `.after(delay)` or `.at(time)` there"),
    ],
};

#[cfg(feature = "schedules")]
pub(crate) const SCHEDULE: Known = Known {
    of: " of a schedule",
    options: &[
        ("cron expr expression schedule", "cron = \"0 9 * * MON-FRI\""),
        ("every interval period", "every = \"15m\""),
        ("zone time_zone timezone tz", "zone = \"Europe/Berlin\""),
        ("gap", "gap = skip"),
        ("fold", "fold = both"),
        ("missed catch_up misfire", "missed = all(\"6h\")"),
        ("overlap concurrency", "overlap = skip"),
        ("jitter", "jitter = \"5m\""),
        ("args arguments job", "args = SendEmail { … }"),
        ("name id", "name = \"sync-7\""),
        ("queue", "queue = \"mail\""),
        ("priority", "priority = -10"),
    ],
    elsewhere: &[],
};

pub(crate) const UNIQUE: Known = Known {
    of: " of `unique`",
    options: &[
        ("by args argument arguments field fields key keys", "by = (user, day)"),
        ("until scope", "until = \"start\""),
        ("for at_least duration expires per period timeout ttl unique_for window within", "for = \"1h\""),
        ("on_conflict conflict on_duplicate policy strategy", "on_conflict = \"reject\""),
    ],
    elsewhere: &[],
};

impl Known {
    fn names(&self) -> impl Iterator<Item = &'static str> {
        self.options.iter().map(|(words, _)| names::first(words))
    }

    /// The option that is meant by a word.
    pub(crate) fn meant(&self, word: &str) -> Option<&'static str> {
        names::meant(word, self.options.iter().map(|(words, _)| *words))
    }

    /// An example of the option, if there is one of that name.
    pub(crate) fn example(&self, name: &str) -> Option<&'static str> {
        self.options.iter().find(|(words, _)| names::first(words) == name).map(|(_, example)| *example)
    }

    /// What to write instead of an option that does not exist.
    pub(crate) fn unknown(&self, word: &str) -> String {
        let of = self.of;
        let elsewhere = self.elsewhere.iter().find(|(words, _)| words.split(' ').any(|it| it == word));
        match (elsewhere, self.meant(word)) {
            (Some((_, cure)), _) => format!("unknown option `{word}`{of}{cure}"),
            (None, Some(meant)) => format!("unknown option `{word}`{of}; did you mean `{meant}`?"),
            (None, None) => {
                let its = if of.is_empty() { "the" } else { "its" };
                format!("unknown option `{word}`{of}; {its} options are {}", names::listed(self.names()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: &[Known] = &[
        JOB,
        #[cfg(feature = "schedules")]
        SCHEDULE,
        UNIQUE,
    ];

    #[test]
    fn no_word_stands_for_two_options() {
        for known in ALL {
            let words = known.options.iter().flat_map(|(words, _)| words.split(' '));
            let mut seen = std::collections::HashSet::new();
            for word in words {
                assert!(seen.insert(word), "{word}");
            }
        }
    }

    #[test]
    fn every_example_is_one_of_its_option() {
        for (words, example) in ALL.iter().flat_map(|known| known.options) {
            assert!(example.starts_with(names::first(words)), "{words}: {example}");
        }
    }
}
