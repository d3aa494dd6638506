//! The people who may use the dashboard from other machines: a file that names them, and what they send.

use axum::http::{HeaderMap, header};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use queue_web::{Rights, Viewer};
use sha2::{Digest as _, Sha256};

/// The words for rights.
const RIGHTS: [(&str, Rights); 6] = [
    ("look", Rights::LOOK),
    ("act", Rights::ACT),
    ("act-on-many", Rights::ACT_ON_MANY),
    ("edit", Rights::EDIT),
    ("delete", Rights::DELETE),
    ("all", Rights::ALL),
];

/// Those who may look, each with the SHA-256 of a token.
#[derive(Debug, Clone)]
pub(super) struct Tokens(Vec<(Viewer, String, [u8; 32])>);

impl Tokens {
    /// Reads lines such as `ada act-on-many,edit 9f86d081…`. Those that begin with `#` are comments.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let lines = text.lines().enumerate().map(|(at, line)| (at + 1, line.trim()));
        let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let read = |(at, line)| person(line).map_err(|why| format!("line {at}: {why}"));
        let all = lines.map(read).collect::<Result<Vec<_>, _>>()?;
        let twice = all.iter().enumerate().find(|(at, it)| all[..*at].iter().any(|other| other.1 == it.1));
        match (twice, all.is_empty()) {
            (Some((_, (_, name, _))), _) => Err(format!("`{name}` is there twice")),
            (None, true) => Err("nobody is in it".to_owned()),
            (None, false) => Ok(Self(all)),
        }
    }

    /// Who sent these headers: a name and a token, as browsers send a name and a password.
    pub(super) fn viewer(&self, headers: &HeaderMap) -> Option<Viewer> {
        let sent = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
        let (scheme, sent) = sent.split_once(' ')?;
        let sent = String::from_utf8(STANDARD.decode(sent.trim()).ok()?).ok()?;
        let (name, token) = sent.split_once(':').filter(|_| scheme.eq_ignore_ascii_case("basic"))?;
        let hash: [u8; 32] = Sha256::digest(token).into();
        self.0.iter().find(|it| it.1 == name && it.2 == hash).map(|it| it.0.clone())
    }
}

fn person(line: &str) -> Result<(Viewer, String, [u8; 32]), String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [name, rights, hash] = words[..] else {
        return Err("write a name, rights, and the SHA-256 of a token: ada act,edit 9f86d081…".to_owned());
    };
    if name.contains(':') {
        return Err(format!("the name `{name}` has a colon, which browsers cannot send"));
    }
    let mut viewer = Viewer::new(name);
    for word in rights.split(',') {
        let known = RIGHTS
            .iter()
            .find(|(known, _)| *known == word)
            .ok_or_else(|| format!("`{word}` is not a right; there are {}", RIGHTS.map(|(word, _)| word).join(", ")))?;
        viewer = viewer.may(known.1);
    }
    let hash = bytes(hash).ok_or("a SHA-256 has 64 hexadecimal digits: printf %s \"$token\" | sha256sum")?;
    Ok((viewer, name.to_owned(), hash))
}

fn bytes(hex: &str) -> Option<[u8; 32]> {
    let digits = hex.bytes().map(|digit| char::from(digit).to_digit(16)).collect::<Option<Vec<u32>>>()?;
    let bytes: Vec<u8> = digits.chunks(2).filter_map(|pair| u8::try_from(pair[0] * 16 + pair.get(1)?).ok()).collect();
    bytes.try_into().ok().filter(|_| hex.len() == 64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SHA-256 of "test".
    const HASH: &str = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";

    fn sent(tokens: &Tokens, authorization: &str) -> Option<Viewer> {
        let mut headers = HeaderMap::new();
        headers.insert(header::AUTHORIZATION, authorization.parse().expect("a header"));
        tokens.viewer(&headers)
    }

    #[test]
    fn a_name_and_its_token_let_in() {
        let tokens = Tokens::read(&format!("# on call\nada act,edit {HASH}\n\nbob look {}", HASH.to_uppercase()));
        let tokens = tokens.expect("two people");
        let basic = |text: &str| format!("Basic {}", STANDARD.encode(text));
        assert_eq!(sent(&tokens, &basic("ada:test")), Some(Viewer::new("ada").may(Rights::ACT | Rights::EDIT)));
        assert_eq!(sent(&tokens, &basic("bob:test")), Some(Viewer::new("bob")));
        for wrong in ["ada:", "ada:test ", "eve:test", ":test", "ada", ":"] {
            assert_eq!(sent(&tokens, &basic(wrong)), None, "{wrong}");
        }
        for wrong in ["Basic", "Basic !", "Bearer test", &basic("ada:test").replace("Basic", "Digest"), ""] {
            assert_eq!(sent(&tokens, wrong), None, "{wrong}");
        }
        assert_eq!(tokens.viewer(&HeaderMap::new()), None);
    }

    #[test]
    fn a_bad_line_is_named() {
        let why = |text: &str| Tokens::read(text).map(drop).expect_err(text);
        assert_eq!(why("# nobody\n"), "nobody is in it");
        assert!(why("ada act").starts_with("line 1: write a name"));
        assert!(why(&format!("\nada admin {HASH}")).starts_with("line 2: `admin` is not a right; there are look, act"));
        assert!(why(&format!("a:b act {HASH}")).contains("colon"));
        for hash in ["9f86", "x", &format!("{HASH}0"), &HASH.replace('9', "é")] {
            assert!(why(&format!("ada act {hash}")).contains("64 hexadecimal digits"), "{hash}");
        }
        assert_eq!(why(&format!("ada act {HASH}\nada look {HASH}")), "`ada` is there twice");
    }
}
