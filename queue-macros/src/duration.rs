//! Durations as the options write them: `"500ms"`, `"30s"`, `"1h30m"`.

use std::time::Duration;

/// The longest duration that an option takes: 365 days.
pub(crate) const LONGEST: Duration = Duration::from_secs(365 * 86_400);

/// Units from long to short, in milliseconds.
const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// Reads a duration, or says what to write instead.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let parts = split(text)?;
    let mut millis: u64 = 0;
    let mut shortest_so_far = u64::MAX;
    for (count, unit) in parts {
        let Some((_, size)) = UNITS.iter().find(|(name, _)| *name == unit) else {
            return Err(unknown_unit(text, unit));
        };
        if *size >= shortest_so_far {
            return Err(format!(
                "`{text}` does not name its units from long to short, each once: write it like \"1h30m\" or \"1m30s\""
            ));
        }
        shortest_so_far = *size;
        let part = count.parse::<u64>().ok().and_then(|n| n.checked_mul(*size));
        millis = part.and_then(|part| millis.checked_add(part)).ok_or_else(|| too_long(text))?;
    }
    let duration = Duration::from_millis(millis);
    match duration {
        Duration::ZERO => Err(format!("`{text}` is no time at all: write at least \"1ms\", or leave the option out")),
        duration if duration > LONGEST => Err(too_long(text)),
        duration => Ok(duration),
    }
}

/// Cuts `1h30m` into `(1, h)`, `(30, m)`.
fn split(text: &str) -> Result<Vec<(&str, &str)>, String> {
    let mut parts = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let (count, after) = rest.split_at(digits);
        let letters = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at(letters);
        if count.is_empty() || unit.is_empty() {
            return Err(malformed(text));
        }
        parts.push((count, unit));
        rest = after;
    }
    if parts.is_empty() { Err(malformed(text)) } else { Ok(parts) }
}

fn malformed(text: &str) -> String {
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        return format!("`{text}` has no unit: write \"{text}s\" for seconds (or ms, m, h, d)");
    }
    if text.starts_with('-') {
        return format!("`{text}` is negative: a duration is a whole number with a unit, like \"30s\"");
    }
    format!("`{text}` is no duration: write whole numbers with the units ms, s, m, h or d, like \"30s\" or \"1h30m\"")
}

fn unknown_unit(text: &str, unit: &str) -> String {
    let bare = unit.trim().to_ascii_lowercase();
    let known = match bare.as_str() {
        "ms" | "msec" | "msecs" | "milli" | "millis" | "millisecond" | "milliseconds" => "ms",
        "s" | "sec" | "secs" | "second" | "seconds" => "s",
        "m" | "min" | "mins" | "minute" | "minutes" => "m",
        "h" | "hr" | "hrs" | "hour" | "hours" => "h",
        "d" | "day" | "days" => "d",
        _ => return malformed(text),
    };
    format!("`{unit}` is no unit of a duration: write \"{}\"", text.replace(unit, known))
}

fn too_long(text: &str) -> String {
    format!("`{text}` is too long: the longest duration is \"365d\"")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in any::<String>(), close in "[-0-9dhms. ]{0,24}") {
            for text in [text, close] {
                match parse(&text) {
                    Ok(duration) => prop_assert!(duration > Duration::ZERO && duration <= LONGEST),
                    Err(error) => prop_assert!(error.contains('`') && error.contains(':'), "{}", error),
                }
            }
        }

        #[test]
        fn what_is_written_is_read(parts in prop::array::uniform5(0..400u64), picked in 1..32u8) {
            let (mut text, mut millis) = (String::new(), 0);
            for (at, (unit, size)) in UNITS.iter().enumerate().filter(|(at, _)| picked & (1 << at) != 0) {
                text += &format!("{}{unit}", parts[at]);
                millis += parts[at] * size;
            }
            let expected = Some(Duration::from_millis(millis)).filter(|it| !it.is_zero() && *it <= LONGEST);
            prop_assert_eq!(parse(&text).ok(), expected, "{}", text);
        }
    }

    #[test]
    fn reads_every_unit() {
        let table = [
            ("1ms", 1),
            ("500ms", 500),
            ("30s", 30_000),
            ("5m", 300_000),
            ("2h", 7_200_000),
            ("1d", 86_400_000),
            ("365d", 365 * 86_400_000),
            ("1h30m", 5_400_000),
            ("1d2h3m4s5ms", 93_784_005),
            ("0h5s", 5_000),
            ("007s", 7_000),
        ];
        for (text, millis) in table {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn says_what_to_write_instead() {
        let table = [
            ("", "no duration"),
            ("s", "no duration"),
            ("abc", "no duration"),
            ("1.5h", "no duration"),
            ("2w", "no duration"),
            ("1h30", "no duration"),
            ("30", "write \"30s\""),
            ("-5s", "negative"),
            ("30 s", "write \"30s\""),
            ("5min", "write \"5m\""),
            ("10 Seconds", "write \"10s\""),
            ("1hour", "write \"1h\""),
            ("30m1h", "long to short"),
            ("1s1s", "long to short"),
            ("0s", "no time at all"),
            ("0h0m", "no time at all"),
            ("366d", "too long"),
            ("365d1ms", "too long"),
            ("99999999999999999999s", "too long"),
            ("18446744073709551615d", "too long"),
        ];
        for (text, part) in table {
            let error = parse(text).expect_err(text);
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
