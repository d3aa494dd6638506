//! What a change did, as a line on the next page. The address holds a word and a number, never the text itself: so
//! nobody can make the dashboard say something by a link.

use crate::text::{of, thousands};

/// The word in an address, and what it says of one and of many.
const SENTENCES: [(&str, &str, &str); 8] = [
    ("retry", "job is ready now", "jobs are ready now"),
    ("send_back", "job was sent back", "jobs were sent back"),
    ("cancel", "job was cancelled or told to stop", "jobs were cancelled or told to stop"),
    ("delete", "job was deleted", "jobs were deleted"),
    ("edit", "job was edited", "jobs were edited"),
    ("pause", "queue was paused. Its running jobs continue", "queues were paused"),
    ("resume", "queue was resumed", "queues were resumed"),
    ("refused", "job could not be changed", "jobs could not be changed"),
];

/// Those that have no number, or one that names something.
const OTHERS: [(&str, &str); 8] = [
    ("reschedule", "The job has another due time now."),
    ("enqueued", "The job was enqueued as {}."),
    ("kept", "Job {} has this key already, and stands for it."),
    ("schedule_pause", "The schedule is paused. A deploy does not resume it."),
    ("schedule_resume", "The schedule goes on with its next tick."),
    ("schedule_fire", "The schedule was fired: job {}."),
    ("stop", "The operation was stopped. What it has changed stays."),
    ("over", "The operation was over already."),
];

/// The sentence of `word.number`.
pub(crate) fn sentence(done: &str) -> Option<String> {
    let (word, number) = done.split_once('.')?;
    let number: u64 = number.parse().ok()?;
    if let Some((_, text)) = OTHERS.iter().find(|(is, _)| *is == word) {
        // a number that names something has no commas
        return Some(text.replace("{}", &number.to_string()));
    }
    let (_, one, many) = SENTENCES.iter().find(|(is, ..)| *is == word)?;
    Some(format!("{}.", of(number, one, many)))
}

/// How many of all that were chosen could not be changed.
pub(crate) fn partly(changed: u64, all: u64, why: &str) -> String {
    format!("{} of {} were changed. The first that was not: {why}", thousands(changed), thousands(all))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_words_say_something() {
        assert_eq!(sentence("send_back.1").as_deref(), Some("1 job was sent back."));
        assert_eq!(sentence("delete.1200").as_deref(), Some("1,200 jobs were deleted."));
        assert_eq!(sentence("enqueued.1200").as_deref(), Some("The job was enqueued as 1200."));
        assert_eq!([sentence("call 555.1"), sentence("delete.x"), sentence("delete")], [None, None, None]);
    }
}
