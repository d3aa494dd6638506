//! Mirrors of Debian, as the machine's own source lists name them.

use std::fs;
use std::path::{Path, PathBuf};

use crate::paths::entries;

/// The mirrors in apt's source lists.
pub(crate) fn mirrors() -> Vec<Source> {
    sources(&read_sources(), &codename())
}

/// A mirror of Debian, as the machine's own source list names it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Source {
    uri: String,
    signed_by: Option<String>,
}

impl Source {
    /// The line of a source list for the unstable suite.
    pub(crate) fn unstable(&self) -> String {
        let options = self.signed_by.as_ref().map(|path| format!("[signed-by={path}] ")).unwrap_or_default();
        format!("deb {options}{} unstable main\n", self.uri)
    }
}

/// The release of the machine, such as `bookworm`.
fn codename() -> String {
    let text = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let name = text.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    name.unwrap_or_default().trim_matches('"').into()
}

fn read_sources() -> Vec<String> {
    let mut files = vec![PathBuf::from("/etc/apt/sources.list")];
    files.extend(
        entries(Path::new("/etc/apt/sources.list.d"))
            .into_iter()
            .filter(|path| path.extension().is_some_and(|extension| extension == "list" || extension == "sources")),
    );
    files.iter().filter_map(|file| fs::read_to_string(file).ok()).collect()
}

/// The mirrors of Debian among the sources, in both of apt's formats. Other vendors' repositories, and Debian's own for
/// security updates, use other names for their suites.
fn sources(files: &[String], codename: &str) -> Vec<Source> {
    let is_debian = |suites: &str, components: &str| {
        let known = ["oldstable", "stable", "testing", "unstable", "sid", codename];
        suites.split_whitespace().any(|suite| known.contains(&suite))
            && components.split_whitespace().any(|component| component == "main")
    };
    let mut found = Vec::new();
    let mut add = |uri: &str, signed_by: Option<&str>| {
        let source = Source { uri: uri.into(), signed_by: signed_by.map(Into::into) };
        if !found.contains(&source) {
            found.push(source);
        }
    };
    for file in files {
        for line in file.lines().filter_map(|line| line.trim().strip_prefix("deb ")) {
            let (options, rest) = match line.trim().strip_prefix('[').and_then(|rest| rest.split_once(']')) {
                Some((options, rest)) => (options, rest),
                None => ("", line),
            };
            let signed_by = options.split_whitespace().find_map(|option| option.strip_prefix("signed-by="));
            let mut words = rest.split_whitespace();
            if let (Some(uri), Some(suite)) = (words.next(), words.next())
                && is_debian(suite, &words.collect::<Vec<_>>().join(" "))
            {
                add(uri, signed_by);
            }
        }
        let lines: Vec<&str> = file.lines().filter(|line| !line.starts_with('#')).collect();
        for stanza in lines.split(|line| line.trim().is_empty()) {
            let field = |name: &str| {
                stanza.iter().find_map(|line| {
                    let (key, value) = line.split_once(':')?;
                    key.eq_ignore_ascii_case(name).then(|| value.trim())
                })
            };
            let value = |name| field(name).unwrap_or_default();
            if value("Types").split_whitespace().any(|kind| kind == "deb")
                && !value("Enabled").eq_ignore_ascii_case("no")
                && is_debian(value("Suites"), value("Components"))
            {
                // A key may also stand in the stanza itself, over several lines; then apt's own keys have to do.
                let signed_by = field("Signed-By").filter(|path| path.starts_with('/'));
                value("URIs").split_whitespace().for_each(|uri| add(uri, signed_by));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{Source, sources};

    fn uris(text: &str) -> Vec<String> {
        sources(&[text.into()], "bookworm").iter().map(Source::unstable).collect()
    }

    #[test]
    fn the_mirror_is_found_in_both_formats() {
        let one_line = "# comment\ndeb [arch=amd64 signed-by=/k.gpg] http://m.example/debian bookworm main contrib\n\
                        deb-src http://m.example/debian bookworm main\n\
                        deb http://m.example/security bookworm-security main";
        assert_eq!(uris(one_line), ["deb [signed-by=/k.gpg] http://m.example/debian unstable main\n"]);
        let stanzas = "Types: deb\n# comment\nURIs: http://m.example/debian\nSuites: bookworm bookworm-updates\n\
                       Components: main\nSigned-By: /k.gpg\n\nTypes: deb\nURIs: http://m.example/security\n\
                       Suites: bookworm-security\nComponents: main\n";
        assert_eq!(uris(stanzas), ["deb [signed-by=/k.gpg] http://m.example/debian unstable main\n"]);
    }

    #[test]
    fn other_vendors_and_disabled_sources_are_left_out() {
        assert!(uris("deb https://v.example/linux/debian bookworm stable").is_empty());
        assert!(uris("deb https://v.example/apt bookworm-pgdg main").is_empty());
        assert!(
            uris("Types: deb\nEnabled: no\nURIs: http://m.example/debian\nSuites: bookworm\nComponents: main")
                .is_empty()
        );
    }
}
