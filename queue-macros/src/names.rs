//! Names: spelling suggestions, and the name of a function's struct.

use proc_macro2::Ident;
use quote::format_ident;

/// The option that a written word means: the same word, one that has it as a synonym, or one with a typing mistake.
/// Each of `words` is followed by its synonyms.
pub(crate) fn meant<'a>(written: &str, words: impl Iterator<Item = &'a str> + Clone) -> Option<&'a str> {
    let lower = written.to_lowercase();
    let known = words.clone().find(|words| words.split(' ').any(|word| word == lower));
    known.map(first).or_else(|| closest(&lower, words.map(first)))
}

/// The word in front of its synonyms.
pub(crate) fn first(words: &str) -> &str {
    words.split(' ').next().unwrap_or(words)
}

/// The candidate that `word` most likely stands for, if any is close.
pub(crate) fn closest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let allowed = (word.chars().count() / 3).clamp(1, 3);
    let scored = candidates.into_iter().map(|candidate| (distance(word, candidate), candidate));
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
    camel(name, char::to_uppercase)
}

/// The variant of an enum for a word: `Start` for `start`.
pub(crate) fn variant(word: &str) -> Ident {
    format_ident!("{}", upper_camel(word))
}

/// The name with the first letter of each word changed by `upper`, and without the `_` between them.
pub(crate) fn camel<L: IntoIterator<Item = char>>(name: &str, upper: impl Fn(char) -> L) -> String {
    let words = name.split('_').flat_map(|word| {
        let mut letters = word.chars();
        let first = letters.next().into_iter().flat_map(&upper);
        first.chain(letters).collect::<Vec<_>>()
    });
    words.collect()
}

pub(crate) fn listed<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    words.into_iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
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
            assert_eq!(closest(word, options), expected, "{word}");
        }
        assert_eq!(closest("schedule", options), None);
        assert_eq!(closest("", options), None);
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
