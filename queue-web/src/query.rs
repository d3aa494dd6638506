//! The words of the search line. They are those of `queue list`.

use chrono::{DateTime, NaiveDate, NaiveDateTime, TimeDelta, Utc};
use queue::JobState;
use queue::admin::Filter;

use crate::text::nearest;

/// What each word takes, as an example.
pub(crate) const WORDS: [(&str, &str); 13] = [
    ("state", "state:dead"),
    ("kind", "kind:send_email"),
    ("queue", "queue:mail"),
    ("attempt", "attempt:>3"),
    ("error", "error:\"timed out\""),
    ("since", "since:2h"),
    ("before", "before:2026-11-28"),
    ("failed-since", "failed-since:20m"),
    ("failed-before", "failed-before:1h"),
    ("retrying", "retrying"),
    ("worker", "worker:7"),
    ("args", "args.order.id:42"),
    ("group", "group:3f9a1b2c"),
];

/// What a search line says. All its words must match.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Query {
    pub(crate) filter: Filter,
    /// As they were written.
    pub(crate) words: Vec<String>,
}

impl Query {
    pub(crate) fn parse(text: &str, now: DateTime<Utc>) -> Result<Self, String> {
        let mut query = Self::default();
        for word in split(text)? {
            query.filter = with(query.filter, &word.replace('"', ""), now)?;
            query.words.push(word);
        }
        Ok(query)
    }

    /// The line again, without one word.
    pub(crate) fn without(&self, place: usize) -> String {
        let others = self.words.iter().enumerate().filter(|(at, _)| *at != place).map(|(_, word)| word.as_str());
        others.collect::<Vec<_>>().join(" ")
    }

    /// The line with another state: "retrying" is one as well here.
    pub(crate) fn in_state(&self, state: &str) -> String {
        let others = self.words.iter().filter(|word| !word.starts_with("state:") && *word != "retrying");
        let words: Vec<&str> = others.map(String::as_str).chain(Some(state).filter(|it| !it.is_empty())).collect();
        words.join(" ")
    }

    /// The state that it asks for.
    pub(crate) fn state(&self) -> &str {
        self.words.iter().rev().find(|it| it.starts_with("state:") || *it == "retrying").map_or("", String::as_str)
    }
}

/// A word of a search line, quoted if it needs to be.
pub(crate) fn word(name: &str, value: &str) -> String {
    let value = value.replace('"', "");
    if value.contains(char::is_whitespace) { format!("{name}:\"{value}\"") } else { format!("{name}:{value}") }
}

fn with(filter: Filter, word: &str, now: DateTime<Utc>) -> Result<Filter, String> {
    let states = JobState::ALL.map(JobState::as_str);
    let Some((name, value)) = word.split_once(':') else {
        let state = if states.contains(&word) { Some(word) } else { nearest(word, states) };
        return match state {
            _ if word == "retrying" => Ok(filter.retrying()),
            Some(state) => Err(format!("`{word}` is not a word of a search; did you mean `state:{state}`?")),
            None => Err(unknown(word)),
        };
    };
    if value.is_empty() {
        return Err(format!("`{word}` lacks a value"));
    }
    let time = || moment(value, now, true).ok_or_else(|| format!("`{value}` is not a time: write 2h, or 2026-11-28"));
    Ok(match name {
        "state" => filter.state(value.parse().map_err(|error: queue::admin::UnknownState| {
            let near = nearest(value, states);
            near.map_or(error.to_string(), |near| format!("`{value}` is not a state; did you mean `{near}`?"))
        })?),
        "kind" => filter.kind(value),
        "queue" => filter.queue(value),
        "attempt" => {
            let bound = value.strip_prefix('>').map(|it| it.strip_prefix('=').map_or((it, 1), |it| (it, 0)));
            let bound = bound.and_then(|(number, more)| number.parse::<u32>().ok()?.checked_add(more));
            filter
                .min_attempt(bound.ok_or_else(|| format!("`{word}` is not a bound: write attempt:>3 or attempt:>=3"))?)
        }
        "error" => filter.error(value),
        "worker" => filter.worker(value.parse().map_err(|_| format!("`{value}` is not the id of a worker"))?),
        "group" if value.bytes().all(|it| it.is_ascii_hexdigit()) => filter.group(value.to_lowercase()),
        "group" => return Err(format!("`{value}` is not a group: the screen Failures lists them")),
        "since" => filter.enqueued_since(time()?),
        "before" => filter.enqueued_before(time()?),
        "failed-since" => filter.failed_since(time()?),
        "failed-before" => filter.failed_before(time()?),
        _ => match name.strip_prefix("args.").filter(|path| !path.is_empty()) {
            Some(path) => filter.arg(path, value),
            None if name.trim_end_matches('.') == "args" => {
                return Err(format!("`{word}` lacks the name of an argument: write args.order.id:42"));
            }
            None => return Err(unknown(name)),
        },
    })
}

fn unknown(word: &str) -> String {
    // of `arg.order.id`, the first name
    match nearest(word.split('.').next().unwrap_or(word), WORDS.map(|(name, _)| name)) {
        Some(near) => format!("`{word}` is not a word of a search; did you mean `{near}`?"),
        None => {
            let examples = WORDS.map(|(_, example)| example).join("  ");
            format!("`{word}` is not a word of a search; there are: {examples}")
        }
    }
}

/// Words are separated by spaces, unless these are within double quotes.
fn split(text: &str) -> Result<Vec<String>, String> {
    let (mut words, mut word, mut inside) = (Vec::new(), String::new(), false);
    for char in text.chars() {
        inside ^= char == '"';
        if char.is_whitespace() && !inside { words.push(std::mem::take(&mut word)) } else { word.push(char) }
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    if inside { Err(format!("a quote is open in `{text}`")) } else { Ok(words) }
}

/// "90s", "20m", "2h", "7d", also several: "1h30m".
pub(crate) fn span(text: &str) -> Option<TimeDelta> {
    let (mut sum, mut number) = (TimeDelta::zero(), String::new());
    for char in text.chars() {
        if char.is_ascii_digit() {
            number.push(char);
            continue;
        }
        let seconds: i64 = match char {
            's' => 1,
            'm' => 60,
            'h' => 3600,
            'd' => 86_400,
            _ => return None,
        };
        let part = TimeDelta::try_seconds(number.parse::<i64>().ok()?.checked_mul(seconds)?)?;
        sum = sum.checked_add(&part)?;
        number.clear();
    }
    (number.is_empty() && !text.is_empty()).then_some(sum)
}

/// A date, or a time in UTC or with its offset. If `past`, also a span before now.
fn moment(text: &str, now: DateTime<Utc>, past: bool) -> Option<DateTime<Utc>> {
    if let Some(span) = span(text).filter(|_| past) {
        return now.checked_sub_signed(span);
    }
    if let Ok(time) = DateTime::parse_from_rfc3339(text) {
        return Some(time.to_utc());
    }
    let text = text.trim_end_matches('Z').replace('T', " ");
    let date = NaiveDate::parse_from_str(&text, "%F").ok().and_then(|date| date.and_hms_opt(0, 0, 0));
    let times = ["%F %H:%M", "%F %T"].into_iter().find_map(|form| NaiveDateTime::parse_from_str(&text, form).ok());
    date.or(times).map(|time| time.and_utc())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> DateTime<Utc> {
        DateTime::from_timestamp(1_800_000_000, 0).expect("a time")
    }

    fn parse(text: &str) -> Result<Query, String> {
        Query::parse(text, now())
    }

    #[test]
    fn every_word_is_read() {
        let query = parse("state:dead kind:send_email queue:mail attempt:>3 error:\"timed out\" since:2h retrying");
        let expected = Filter::new().state(JobState::Dead).kind("send_email").queue("mail").min_attempt(4);
        let expected = expected.error("timed out").enqueued_since(now() - TimeDelta::hours(2)).retrying();
        let query = query.expect("a query");
        assert_eq!((query.filter.clone(), query.words.len()), (expected, 7));
        assert_eq!(query.in_state("state:ready").matches("state").count(), 1);
        assert!(!query.without(4).contains("timed out"));
        for (_, example) in WORDS {
            assert_eq!(parse(example).map(|query| query.words.len()), Ok(1), "{example}");
        }
        assert_eq!(parse(&word("error", "a \"b c")).expect("a query").filter, Filter::new().error("a b c"));
    }

    #[test]
    fn a_wrong_word_gets_the_nearest_one() {
        let message = |text| parse(text).expect_err(text);
        assert_eq!(message("stat:dead"), "`stat` is not a word of a search; did you mean `state`?");
        assert_eq!(message("state:daed"), "`daed` is not a state; did you mean `dead`?");
        assert_eq!(message("dead"), "`dead` is not a word of a search; did you mean `state:dead`?");
        assert!(message("colour:red").contains("there are: state:dead"));
        assert!(message("args:x").contains("write args.order.id:42"));
        assert_eq!(message("kind:"), "`kind:` lacks a value");
        assert_eq!(message("error:\"a b"), "a quote is open in `error:\"a b`");
    }
}
