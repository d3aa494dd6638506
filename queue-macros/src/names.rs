//! Names: spelling suggestions, and the name of a function's struct.

/// The candidate that `word` most likely stands for, if any is close.
pub(crate) fn closest<'a>(word: &str, candidates: &[&'a str]) -> Option<&'a str> {
    let allowed = (word.chars().count() / 3).clamp(1, 3);
    let scored = candidates.iter().map(|candidate| (distance(word, candidate), *candidate));
    scored.filter(|(distance, _)| *distance <= allowed).min().map(|(_, candidate)| candidate)
}

/// Edit distance: insertions, removals, replacements and swaps of neighbours that turn `a` into `b`.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<_>, Vec<_>) = (a.chars().collect(), b.chars().collect());
    let mut table = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            table[i][j] = if i == 0 || j == 0 {
                i + j
            } else {
                let replaced = table[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
                let best = replaced.min(table[i - 1][j] + 1).min(table[i][j - 1] + 1);
                let swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
                if swapped { best.min(table[i - 2][j - 2] + 1) } else { best }
            };
        }
    }
    table[a.len()][b.len()]
}

/// `send_email` gives `SendEmail`.
pub(crate) fn upper_camel(name: &str) -> String {
    name.split('_')
        .flat_map(|word| {
            let mut letters = word.chars();
            let first = letters.next().into_iter().flat_map(char::to_uppercase);
            first.chain(letters).collect::<Vec<_>>()
        })
        .collect()
}

/// The option that is meant by another word: one of its synonyms, or a slip of the pen.
pub(crate) fn meant(key: &str, synonyms: &[(&str, &'static str)], keys: &[&'static str]) -> Option<&'static str> {
    let lower = key.to_lowercase();
    let synonym = synonyms.iter().find(|(synonym, _)| *synonym == lower).map(|(_, key)| *key);
    synonym.or_else(|| closest(&lower, keys))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        let table =
            [("", "", 0), ("a", "", 1), ("kitten", "sitting", 3), ("qeueu", "queue", 2), ("timoeut", "timeout", 1)];
        for (a, b, expected) in table {
            assert_eq!(distance(a, b), expected, "{a} {b}");
            assert_eq!(distance(b, a), expected, "{b} {a}");
        }
    }

    #[test]
    fn closest_is_close_or_nothing() {
        let options = ["name", "queue", "priority", "max_retries", "timeout", "blocking"];
        let table = [
            ("que", None), // two letters away, which is too much for a word of three
            ("max_retry", Some("max_retries")),
            ("timeot", Some("timeout")),
            ("blokcing", Some("blocking")),
            ("prioirty", Some("priority")),
        ];
        for (word, expected) in table {
            assert_eq!(closest(word, &options), expected, "{word}");
        }
        assert_eq!(closest("schedule", &options), None);
        assert_eq!(closest("", &options), None);
    }

    #[test]
    fn camel_case() {
        let table = [
            ("send_email", "SendEmail"),
            ("a", "A"),
            ("_private", "Private"),
            ("send__2fa_code", "Send2faCode"),
            ("überweisen", "Überweisen"),
            ("SendEmail", "SendEmail"),
            ("送信", "送信"),
            ("__", ""),
        ];
        for (name, expected) in table {
            assert_eq!(upper_camel(name), expected, "{name}");
        }
    }
}
