//! Searches as a person types them, in a terminal or on a page.

use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, NaiveDate, NaiveDateTime, TimeDelta, Utc};

use crate::state::{JobState, UnknownState};
use crate::store::view::Filter;

/// A [`Filter`] as a person types it: words such as `state:dead kind:send_email error:"timed out" since:2h`.
///
/// The command line and the dashboard read the same words. A time is a span before now, a date, or a time in UTC or
/// with its offset.
///
/// ```
/// use queue::admin::Search;
///
/// let search = Search::parse("state:dead args.order.id:42 failed-since:20m", chrono::Utc::now())?;
/// assert_eq!(search.words[1].to_string(), "args.order.id:42");
/// assert_eq!(search.value("state"), Some("dead"));
/// # let _ = search.filter;
///
/// let slip = Search::parse("stat:dead", chrono::Utc::now()).unwrap_err();
/// assert_eq!(slip.to_string(), "`stat` is not a word of a search; did you mean `state`?");
/// # Ok::<(), queue::admin::BadSearch>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Search {
    /// What all the words select.
    pub filter: Filter,
    /// The words in their order.
    pub words: Vec<Word>,
}

/// A word of a [`Search`]. Its `Display` is the word as it can be typed again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word {
    /// What stands before the colon, such as `kind`.
    pub name: String,
    /// What stands behind it. Empty for the word `retrying`.
    pub value: String,
}

impl Word {
    /// `name:value`. Double quotes in the value are left out, because no word can have them.
    ///
    /// ```
    /// # use queue::admin::Word;
    /// assert_eq!(Word::new("error", "timed out").to_string(), r#"error:"timed out""#);
    /// ```
    pub fn new(name: impl Into<String>, value: &str) -> Self {
        Self { name: name.into(), value: value.replace('"', "") }
    }
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&*self.name, &*self.value) {
            (name, "") => f.write_str(name),
            (name, value) if value.contains(char::is_whitespace) => write!(f, "{name}:\"{value}\""),
            (name, value) => write!(f, "{name}:{value}"),
        }
    }
}

/// Why a text is not a [`Search`]: a sentence that says what to write instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadSearch(String);

impl Search {
    /// The names of the words, each with an example.
    pub const WORDS: [(&str, &str); 13] = [
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

    /// Reads the words, which spaces separate unless these are within double quotes. All of them must match. No word
    /// at all selects every job. Spans are subtracted from `now`.
    ///
    /// # Errors
    ///
    /// A word that is unknown, or whose value is no such value.
    pub fn parse(text: &str, now: DateTime<Utc>) -> Result<Self, BadSearch> {
        let mut search = Self::default();
        for text in split(text)? {
            let (name, value) = text.split_once(':').unwrap_or((&text, ""));
            search.filter = with(search.filter, &text, now).map_err(BadSearch)?;
            search.words.push(Word { name: name.to_owned(), value: value.to_owned() });
        }
        Ok(search)
    }

    /// The value of the last word with this name.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.words.iter().rfind(|word| word.name == name).map(|word| &*word.value)
    }

    /// A span: `90s`, `20m`, `2h`, `7d`, and several together, such as `1h30m`. `None`: it is none.
    pub fn span(text: &str) -> Option<TimeDelta> {
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

    /// A time: `2026-11-28`, `2026-11-28 09:12` in UTC, or one of RFC 3339 with its offset. `None`: it is none.
    pub fn time(text: &str) -> Option<DateTime<Utc>> {
        if let Ok(time) = DateTime::parse_from_rfc3339(text) {
            return Some(time.to_utc());
        }
        let text = text.trim_end_matches('Z').replace('T', " ");
        let date = NaiveDate::parse_from_str(&text, "%F").ok().and_then(|date| date.and_hms_opt(0, 0, 0));
        let times = ["%F %H:%M", "%F %T"].into_iter().find_map(|form| NaiveDateTime::parse_from_str(&text, form).ok());
        date.or(times).map(|time| time.and_utc())
    }

    /// The word that was probably meant. `None`: no other one is near.
    ///
    /// ```
    /// # use queue::admin::Search;
    /// assert_eq!(Search::nearest("send_emial", ["send_email", "bill"]), Some("send_email"));
    /// assert_eq!(Search::nearest("bill", ["bill"]), None);
    /// ```
    pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
        let far = |known: &str| strsim::osa_distance(word, known);
        known.into_iter().filter(|known| *known != word).min_by_key(|known| far(known)).filter(|known| {
            let long = word.chars().count().max(known.chars().count());
            far(known) <= (long / 3).clamp(1, 3)
        })
    }
}

/// The words without their quotes.
fn split(text: &str) -> Result<Vec<String>, BadSearch> {
    let (mut words, mut word, mut inside) = (Vec::new(), String::new(), false);
    for char in text.chars() {
        match char {
            '"' => inside = !inside,
            char if char.is_whitespace() && !inside => words.push(std::mem::take(&mut word)),
            char => word.push(char),
        }
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    if inside { Err(BadSearch(format!("a quote is open in `{text}`"))) } else { Ok(words) }
}

fn with(filter: Filter, word: &str, now: DateTime<Utc>) -> Result<Filter, String> {
    let states = JobState::ALL.map(JobState::as_str);
    let Some((name, value)) = word.split_once(':') else {
        let state = if states.contains(&word) { Some(word) } else { Search::nearest(word, states) };
        return match state {
            _ if word == "retrying" => Ok(filter.retrying()),
            Some(state) => Err(format!("`{word}` is not a word of a search; did you mean `state:{state}`?")),
            None => Err(unknown(word)),
        };
    };
    if value.is_empty() {
        return Err(format!("`{word}` lacks a value"));
    }
    let time = || {
        let time = Search::span(value).map_or_else(|| Search::time(value), |span| now.checked_sub_signed(span));
        time.ok_or_else(|| format!("`{value}` is not a time: write 2h, or 2026-11-28"))
    };
    Ok(match name {
        "state" => filter.state(JobState::from_str(value).map_err(|error: UnknownState| {
            let near = Search::nearest(value, states);
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
        "worker" => filter.worker(
            value.parse().map_err(|_| format!("`{value}` is not the id of a worker: the list of workers has them"))?,
        ),
        "group" if value.bytes().all(|it| it.is_ascii_hexdigit()) => filter.group(value.to_lowercase()),
        "group" => return Err(format!("`{value}` is not a group of failures: their list has them")),
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
    let names = Search::WORDS.map(|(name, _)| name);
    match Search::nearest(word.split('.').next().unwrap_or(word), names) {
        Some(near) => format!("`{word}` is not a word of a search; did you mean `{near}`?"),
        None => {
            let examples = Search::WORDS.map(|(_, example)| example).join("  ");
            format!("`{word}` is not a word of a search; there are: {examples}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> DateTime<Utc> {
        DateTime::from_timestamp(1_800_000_000, 0).expect("a time")
    }

    fn parse(text: &str) -> Result<Search, BadSearch> {
        Search::parse(text, now())
    }

    #[test]
    fn every_word_is_read_and_can_be_written_again() {
        let text = "state:dead kind:send_email queue:mail attempt:>3 error:\"timed out\" since:2h retrying";
        let search = parse(text).expect("a search");
        let expected = Filter::new().state(JobState::Dead).kind("send_email").queue("mail").min_attempt(4);
        let expected = expected.error("timed out").enqueued_since(now() - TimeDelta::hours(2)).retrying();
        assert_eq!(search.filter, expected);
        assert_eq!(search.words.iter().map(Word::to_string).collect::<Vec<_>>().join(" "), text);
        for (name, example) in Search::WORDS {
            let words = parse(example).expect(example).words;
            assert_eq!(words.len(), 1, "{example}");
            assert_eq!((words[0].to_string().as_str(), words[0].name.split('.').next()), (example, Some(name)));
        }
        let search = parse("worker:7 args.order.id:42 args.to:\"a b:c\"").expect("a search");
        assert_eq!(search.filter, Filter::new().worker(7).arg("order.id", "42").arg("to", "a b:c"));
        assert_eq!(parse(" "), Ok(Search::default()));
        let twice = parse("kind:a kind:b").expect("a search");
        assert_eq!((twice.value("kind"), &twice.filter), (Some("b"), &Filter::new().kind("b")));
        assert_eq!(Word::new("error", "a \"b c").to_string(), "error:\"a b c\"");
    }

    #[test]
    fn a_wrong_word_gets_the_nearest_one() {
        let message = |text| parse(text).expect_err(text).to_string();
        assert_eq!(message("stat:dead"), "`stat` is not a word of a search; did you mean `state`?");
        assert_eq!(message("state:daed"), "`daed` is not a state; did you mean `dead`?");
        assert_eq!(message("dead"), "`dead` is not a word of a search; did you mean `state:dead`?");
        assert!(message("state:x").contains("write one of scheduled"));
        assert!(message("colour:red").contains("there are: state:dead"));
        assert_eq!(message("arg.to:x"), "`arg.to` is not a word of a search; did you mean `args`?");
        assert!(message("args:x").contains("write args.order.id:42") && message("args.:x").contains("lacks the name"));
        assert!(message("worker:mail").contains("list of workers") && message("group:x").contains("their list"));
        assert_eq!(message("kind:"), "`kind:` lacks a value");
        assert!(message("attempt:3").contains("attempt:>=3"));
        assert!(message("since:soon").contains("write 2h"));
        assert_eq!(message("error:\"a b"), "a quote is open in `error:\"a b`");
    }

    #[test]
    fn times_are_read() {
        assert_eq!(Search::span("1h30m"), Some(TimeDelta::minutes(90)));
        assert_eq!(["", "5", "h", "5x", "99999999999999999999d"].map(Search::span), [None; 5]);
        let told = |text| Search::time(text).map(|time| time.to_rfc3339());
        assert_eq!(told("2026-11-28").as_deref(), Some("2026-11-28T00:00:00+00:00"));
        assert_eq!(told("2026-11-28 09:12").as_deref(), Some("2026-11-28T09:12:00+00:00"));
        assert_eq!(told("2026-11-28T09:12:01Z").as_deref(), Some("2026-11-28T09:12:01+00:00"));
        assert_eq!(told("2026-11-28T09:12:00+02:00").as_deref(), Some("2026-11-28T07:12:00+00:00"));
        assert_eq!(told("2h"), None);
    }

    #[test]
    fn the_nearest_word_is_near() {
        let known = ["state", "kind", "queue"];
        assert_eq!(
            ["stat", "kidn", "worker"].map(|it| Search::nearest(it, known)),
            [Some("state"), Some("kind"), None]
        );
    }
}
