//! Durations as the options of `#[job]` write them: `"500ms"`, `"30s"`, `"1h30m"`, `"2d"`.

use std::time::Duration;

/// None: it is no duration.
pub(super) fn parse(text: &str) -> Option<Duration> {
    let mut rest = text.trim();
    let mut sum = Duration::ZERO;
    loop {
        let digits = rest.find(|it: char| !it.is_ascii_digit())?;
        let (count, after) = rest.split_at(digits);
        let letters = after.find(|it: char| !it.is_ascii_alphabetic()).unwrap_or(after.len());
        let (unit, after) = after.split_at(letters);
        let millis = match unit {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => return None,
        };
        sum = sum.checked_add(Duration::from_millis(count.parse::<u64>().ok()?.checked_mul(millis)?))?;
        rest = after.trim_start();
        if rest.is_empty() {
            return Some(sum);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_or_refused() {
        let seconds = |text| parse(text).map(|it| it.as_secs_f64());
        assert_eq!(seconds("2d"), Some(172_800.0));
        assert_eq!(seconds("1h30m"), Some(5_400.0));
        assert_eq!(seconds(" 1m 30s "), Some(90.0));
        assert_eq!(seconds("250ms"), Some(0.25));
        for wrong in ["", "5", "s", "1 s", "-1s", "1h30", "1w", "99999999999999999999s", "1.5h", "ein Tag"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
