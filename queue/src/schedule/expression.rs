//! The text of a schedule: five fields of cron, or an interval. The macro and the library share this file.

use std::time::Duration;

use chrono::{NaiveDate, NaiveDateTime};
use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};

use crate::duration;

/// The shortest interval.
const SHORTEST: Duration = Duration::from_secs(1);

/// When a schedule is due, without a time zone.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Expression {
    /// Each whole multiple of so many seconds since 1970.
    Every(u64),
    /// The wall-clock times that match.
    Cron(Box<Cron>),
}

/// A field of an expression, in order.
struct Field {
    name: &'static str,
    /// Names for numbers, from the first number on.
    names: &'static [&'static str],
    first: usize,
    /// How many numbers there are: a larger step leaves only the first.
    count: u64,
    /// The unit of an interval in place of a larger step.
    unit: Option<char>,
    /// Characters that it takes beside digits, `*`, `,`, `-` and `/`.
    others: &'static str,
}

const MONTHS: &[&str] = &["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const DAYS: &[&str] = &["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];
const FIELDS: [Field; 5] = [
    Field { name: "minute (0-59)", names: &[], first: 0, count: 60, unit: Some('m'), others: "" },
    Field { name: "hour (0-23)", names: &[], first: 0, count: 24, unit: Some('h'), others: "" },
    Field { name: "day of the month (1-31)", names: &[], first: 0, count: 31, unit: Some('d'), others: "LW" },
    Field { name: "month (1-12 or JAN-DEC)", names: MONTHS, first: 1, count: 12, unit: None, others: "" },
    Field { name: "day of the week (0-7 or SUN-SAT)", names: DAYS, first: 0, count: 7, unit: Some('d'), others: "L#" },
];
const NICKNAMES: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

impl Expression {
    /// Reads `0 9 * * MON-FRI`, `@daily` or `every 15m`, or says what to write instead. A time zone may follow the
    /// fields of cron; it is returned and not looked up.
    pub(crate) fn parse(text: &str) -> Result<(Self, Option<&str>), String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        if let ["every", interval @ ..] = words.as_slice() {
            return match interval {
                [interval] => Ok((Self::every(duration::parse(interval)?)?, None)),
                _ => Err(format!("`{text}` is no interval: write it like \"every 15m\"")),
            };
        }
        let nickname = words.first().and_then(|word| NICKNAMES.iter().find(|(name, _)| name == word));
        let (fields, zone) = match (nickname, words.as_slice()) {
            (Some((_, fields)), [_, zone @ ..]) => (fields.split(' ').collect(), zone),
            (None, [word, ..]) if word.starts_with('@') => {
                return Err(format!("`{word}` is unknown: write @hourly, @daily, @weekly, @monthly or @yearly"));
            }
            (_, words) if words.len() >= FIELDS.len() => {
                let (fields, zone) = words.split_at(FIELDS.len());
                (fields.to_vec(), zone)
            }
            _ => {
                return Err(format!(
                    "`{text}` has {} of the five fields minute, hour, day of the month, month, day of the week: write \
                     it like \"0 9 * * MON-FRI\", or \"every 15m\"",
                    words.len()
                ));
            }
        };
        let zone = match zone {
            [] => None,
            [zone] if zone.chars().any(char::is_alphabetic) => Some(*zone),
            _ => {
                return Err(format!(
                    "`{text}` has more than five fields: there are none for seconds and years; after the day of the \
                     week, only a time zone may follow"
                ));
            }
        };
        Ok((Self::cron(text, &fields)?, zone))
    }

    /// Each whole multiple of `interval` since 1970.
    pub(crate) fn every(interval: Duration) -> Result<Self, String> {
        if interval < SHORTEST || interval.subsec_nanos() != 0 {
            return Err(format!("an interval of {interval:?} is not possible: it is a whole number of seconds"));
        }
        if interval > duration::LONGEST {
            return Err("the interval is too long: the longest is \"365d\"".into());
        }
        Ok(Self::Every(interval.as_secs()))
    }

    fn cron(text: &str, fields: &[&str]) -> Result<Self, String> {
        let numbers: Vec<String> =
            FIELDS.iter().zip(fields).map(|(field, text)| field.numbers(text)).collect::<Result<_, _>>()?;
        let parser = CronParser::builder().seconds(Seconds::Disallowed).year(Year::Disallowed).build();
        for (at, field) in FIELDS.iter().enumerate() {
            // alone, so that the message names the field
            let alone: Vec<&str> = (0..FIELDS.len()).map(|it| if it == at { &*numbers[at] } else { "*" }).collect();
            if let Err(why) = parser.parse(&alone.join(" ")) {
                let why = why.to_string();
                let why = why.rsplit_once(": ").map_or(&*why, |(_, why)| why).trim_end_matches('.').to_lowercase();
                return Err(format!("`{}` is no {}: {why}", fields[at], field.name));
            }
        }
        let cron = parser.parse(&numbers.join(" ")).map_err(|error| format!("`{text}` is not possible: {error}"))?;
        let expression = Self::Cron(Box::new(cron));
        let start = NaiveDate::from_ymd_opt(2000, 1, 1).and_then(|day| day.and_hms_opt(0, 0, 0)).unwrap_or_default();
        match expression.wall_clock(start) {
            Some(_) => Ok(expression),
            None => Err(format!("`{text}` never happens: no such date exists")),
        }
    }

    /// The first matching wall-clock time from `from` on. None: there is no more, or it is an interval.
    pub(crate) fn wall_clock(&self, from: NaiveDateTime) -> Option<NaiveDateTime> {
        let Self::Cron(cron) = self else { return None };
        cron.find_next_occurrence(&from, true).ok()
    }
}

impl Field {
    /// The text with numbers in place of names.
    fn numbers(&self, text: &str) -> Result<String, String> {
        let upper = text.to_ascii_uppercase();
        let mut numbers = String::with_capacity(upper.len());
        for item in upper.split(',') {
            if item.is_empty() {
                return Err(format!("`{text}` is no {}: something is missing beside a comma", self.name));
            }
            if item == "L" && self.others == "L#" {
                return Err(format!(
                    "`{text}` is no {}: name the day, as in `FRIL` for the last Friday of the month; the last day of \
                     the month is `L` in the third field",
                    self.name
                ));
            }
            if let Some(step) = item.split_once('/').and_then(|(_, step)| step.parse().ok())
                && step > self.count
            {
                return Err(format!(
                    "`{text}` is no {}: the largest step is {}{}",
                    self.name,
                    self.count,
                    self.interval(step)
                ));
            }
            if !numbers.is_empty() {
                numbers.push(',');
            }
            let mut rest = item;
            while let Some(next) = rest.chars().next() {
                let name = self.names.iter().position(|name| rest.starts_with(name));
                if let Some(at) = name {
                    // the Sunday that ends a range is the seventh day
                    let number = if at == 0 && self.first == 0 && numbers.ends_with('-') { 7 } else { at + self.first };
                    numbers += &number.to_string();
                    rest = &rest[self.names[at].len()..];
                } else if next.is_ascii_digit() || "*-/".contains(next) || self.others.contains(next) {
                    numbers.push(next);
                    rest = &rest[1..];
                } else {
                    return Err(format!("`{text}` is no {}", self.name));
                }
            }
        }
        Ok(numbers)
    }

    /// The advice to write an interval, if there is one.
    fn interval(&self, step: u64) -> String {
        let interval = self.unit.map(|unit| format!("{step}{unit}"));
        match interval.filter(|text| duration::parse(text).is_ok_and(|found| Expression::every(found).is_ok())) {
            Some(interval) => format!("; write \"every {interval}\" for an interval"),
            None => String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn refused(text: &str) -> String {
        Expression::parse(text).map(drop).expect_err(text)
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in any::<String>(), close in "[-0-9*/,LW#@A-Z ]{0,24}", fields in "([-0-9*/,LW#]{1,4} ){5}") {
            for text in [text, close, fields] {
                if let Err(error) = Expression::parse(&text) {
                    prop_assert!(error.contains('`') || error.contains("interval"), "{}", error);
                }
            }
        }
    }

    #[test]
    fn names_count_only_in_their_fields() {
        let same = |one: &str, other: &str| {
            let numbers = |text: &str| match Expression::parse(text).expect(text).0 {
                Expression::Cron(cron) => cron.pattern.as_str().to_owned(),
                Expression::Every(seconds) => seconds.to_string(),
            };
            assert_eq!(numbers(one), numbers(other));
        };
        same("0 9 * JAN,dec MON-FRI", "0 9 * 1,12 1-5");
        same("0 9 * * FRI-SUN", "0 9 * * 5-7");
        same("0 9 * * SUN-TUE", "0 9 * * 0-2");
        same("0 9 * * FRI#2,SUNL", "0 9 * * 5#2,0L");
        same("@daily", "0 0 * * *");
        same("every 1m30s", "every 90s");
        assert_eq!(refused("FRI 9 * * *"), "`FRI` is no minute (0-59)");
        assert_eq!(refused("0 9 * MON *"), "`MON` is no month (1-12 or JAN-DEC)");
        assert_eq!(refused("0 9 * * SUNMONTUESDAY"), "`SUNMONTUESDAY` is no day of the week (0-7 or SUN-SAT)");
    }

    #[test]
    fn what_is_wrong_is_named() {
        assert_eq!(refused("0 25 * * *"), "`25` is no hour (0-23): number out of bounds");
        assert_eq!(refused("*/0 * * * *"), "`*/0` is no minute (0-59): step cannot be zero");
        assert_eq!(refused("0 9 31 2 *"), "`0 9 31 2 *` never happens: no such date exists");
        assert_eq!(refused("1,,2 * * * *"), "`1,,2` is no minute (0-59): something is missing beside a comma");
        assert!(refused("0 9 * *").contains("has 4 of the five fields"), "{}", refused("0 9 * *"));
        assert!(refused("0 0 9 * * MON *").contains("none for seconds"));
        assert!(refused("@reboot").contains("@hourly"));
        assert!(refused("every 15").contains("has no unit"));
        assert!(refused("every 1500ms").contains("whole number of seconds"));
        assert!(refused("every 15 m").contains("\"every 15m\""));
        for odd in ["? 9 * * *", "0 9 * * +1", "5/5 * * * *", "0 9 * * 5-1", "0 9 L-3 * *", "0 9 32 * *"] {
            refused(odd);
        }
    }

    #[test]
    fn a_step_beyond_its_field_is_refused() {
        let every = |text: &str, step: &str, interval: &str| {
            let refused = refused(text);
            let expected = format!("the largest step is {step}; write \"every {interval}\" for an interval");
            assert!(refused.ends_with(&expected), "{refused}");
        };
        every("*/90 * * * *", "60", "90m");
        every("0,0-30/61 * * * *", "60", "61m");
        every("0 */25 * * *", "24", "25h");
        every("0 9 */32 * *", "31", "32d");
        every("0 9 * * MON-FRI/8", "7", "8d");
        assert_eq!(refused("0 9 1 */13 *"), "`*/13` is no month (1-12 or JAN-DEC): the largest step is 12");
        assert_eq!(refused("0 9 */366 * *"), "`*/366` is no day of the month (1-31): the largest step is 31");
        for all in ["*/60 * * * *", "0 */24 * * *", "0 9 */31 * *", "0 9 1 */12 *", "0 9 * * */7"] {
            Expression::parse(all).expect(all);
        }
    }

    #[test]
    fn the_last_day_of_the_month_is_no_day_of_the_week() {
        for text in ["0 0 * * L", "0 0 * * l", "0 0 * * MON,L", "0 0 1 * L"] {
            let refused = refused(text);
            assert!(refused.contains("is no day of the week") && refused.contains("in the third field"), "{refused}");
        }
        for text in ["0 0 L * *", "0 0 * * FRIL", "0 0 * * 5L,0L"] {
            Expression::parse(text).expect(text);
        }
    }

    #[test]
    fn a_zone_may_follow() {
        assert_eq!(Expression::parse("0 9 * * MON-FRI Europe/Berlin").expect("read").1, Some("Europe/Berlin"));
        assert_eq!(Expression::parse("@daily Asia/Tokyo").expect("read").1, Some("Asia/Tokyo"));
        assert_eq!(Expression::parse("0 9 * * *").expect("read").1, None);
    }
}
