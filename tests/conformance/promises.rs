//! Each test of the suites names the promises of `docs/reliability.md` that it holds, and each promise has a test.
//!
//! `/// P7.`, or `/// P7, P12:` before the other words of its comment. A file whose tests all hold the same one says so
//! at its top, as this one does.
//!
//! Promise: P45.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::sources::files;

/// Below the folder of this crate.
const SUITES: [&str; 6] =
    ["conformance", "processes", "tx.rs", "model/tests", "model/replay/tests", "faults/src/faults"];
/// The macros that list tests by name; in the first file of a folder also by file and name, such as `kill::at_random`.
const LISTS: [&str; 5] = ["conformance!", "on_servers!", "on_driver!(@tests", "tests!", "faults!"];

type Numbers = BTreeSet<u32>;

/// Those of `P7, P12: …`.
fn numbers(text: &str) -> Numbers {
    let named = text.split(['.', ':']).next().unwrap_or_default();
    named.split(", ").map(|it| it.strip_prefix('P')?.parse().ok()).collect::<Option<_>>().unwrap_or_default()
}

/// The words in the lists of a file.
fn listed(text: &str) -> HashSet<&str> {
    let lists = LISTS.iter().flat_map(|list| text.split(list).skip(1)).map(|list| {
        let end = ["\n}", ");"].iter().filter_map(|end| list.find(end)).min();
        &list[..end.unwrap_or(list.len())]
    });
    lists.flat_map(|list| list.split(|it: char| !it.is_alphanumeric() && !"_:".contains(it))).collect()
}

/// The tests of a file, and what each names.
fn tests(text: &str, is_listed: impl Fn(&str) -> bool) -> BTreeMap<&str, Numbers> {
    // those of a suite's own parts hold no promise
    let text = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let of_file = text.lines().find_map(|line| line.strip_prefix("//! Promise"));
    let of_file = of_file.map(|it| numbers(it.trim_start_matches(['s', ':', ' ']))).unwrap_or_default();
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let mut found = BTreeMap::new();
    for (at, line) in lines.iter().enumerate() {
        let Some((before, name)) = line.split_once("fn ") else { continue };
        let name = name.split(['(', '<']).next().unwrap_or_default();
        if name.starts_with('$') || before.split_whitespace().any(|it| it != "async" && !it.starts_with("pub")) {
            continue;
        }
        let head = lines[..at].iter().rev().take_while(|it| it.starts_with("///") || it.starts_with("#["));
        let head: Vec<&&str> = head.collect();
        if is_listed(name) || head.iter().any(|it| it.starts_with("#[test]") || it.starts_with("#[tokio::test")) {
            let comment = head.iter().rev().find_map(|it| it.strip_prefix("/// ")).unwrap_or_default();
            found.entry(name).or_insert_with(|| of_file.clone()).extend(numbers(comment));
        }
    }
    found
}

/// How many tests there are, and what is wrong with them.
fn judge(page: &str, files: &[(PathBuf, String)]) -> (usize, Vec<String>) {
    let rows: Vec<u32> =
        page.lines().filter_map(|line| line.strip_prefix("| P")?.split(' ').next()?.parse().ok()).collect();
    let promised: Numbers = rows.iter().copied().collect();
    let (mut count, mut held, mut wrong) = (0, Numbers::new(), Vec::new());
    if promised.len() < rows.len() {
        wrong.push("two promises have one number".to_owned());
    }
    for (path, text) in files {
        let is_first = |other: &Path| ["main.rs", "mod.rs"].iter().any(|name| path.with_file_name(name) == other);
        let first = files.iter().find(|(other, _)| is_first(other)).map(|(_, text)| listed(text)).unwrap_or_default();
        let (own, stem) = (listed(text), path.file_stem().unwrap_or_default().to_string_lossy());
        let is_listed = |name: &str| own.contains(name) || first.contains(&*format!("{stem}::{name}"));
        for (name, named) in tests(text, is_listed) {
            count += 1;
            let unknown: Vec<_> = named.difference(&promised).collect();
            if named.is_empty() || !unknown.is_empty() {
                wrong.push(format!("{}: {name} names {named:?}, unknown {unknown:?}", path.display()));
            }
            held.extend(named);
        }
    }
    wrong.extend(promised.difference(&held).map(|number| format!("P{number} has no test")));
    (count, wrong)
}

#[test]
fn each_test_names_its_promise_and_each_promise_has_a_test() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (of_suites, of_files): (Vec<_>, Vec<_>) =
        SUITES.map(|it| root.join(it)).into_iter().partition(|it| it.is_dir());
    let mut paths = of_files;
    of_suites.iter().for_each(|folder| files(folder, "rs", &mut paths));
    let texts: Vec<_> = paths.into_iter().map(|path| (path.clone(), fs::read_to_string(path).expect("text"))).collect();
    let (count, wrong) = judge(&fs::read_to_string(root.join("../docs/reliability.md")).expect("the page"), &texts);
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(count > 400, "only {count} tests were seen");
}

#[test]
fn what_is_not_named_or_not_promised_is_noticed() {
    let page = "| P1 | One. | `Lost` |\n| P2 | Two. |\n";
    let good = "conformance! {\n    one,\n}\n/// P1: so.\nasync fn one(db: Db) {}\n/// P2.\n#[test]\nfn two() {}\n";
    let wrong = |page: &str, text: &str| judge(page, &[(PathBuf::from("a/b.rs"), text.to_owned())]);
    assert_eq!(wrong(page, good), (2, vec![]));
    assert_eq!(wrong(page, &good.replace("/// P1: so.", "")).1.len(), 2, "a test without a promise, and the reverse");
    assert_eq!(wrong(page, &good.replace("P2.", "P3.")).1.len(), 2, "an unknown one");
    assert_eq!(wrong(&page.replace("P2", "P1"), good).1.len(), 2, "two of one number");
    assert_eq!(wrong(&format!("{page}| P3 | Three. |"), good).1, ["P3 has no test"]);
    assert_eq!(wrong(page, &format!("//! Promises: P1, P2.\n{}", good.replace("/// P", "/// Q"))), (2, vec![]));
    let files = [
        ("a/mod.rs", "faults! {\n    \"x\" on ALL: kill::nine, \"x\";\n}"),
        ("a/kill.rs", "pub(super) async fn nine() {}"),
    ];
    let files = files.map(|(path, text)| (path.into(), text.to_owned()));
    assert_eq!(judge("", &files), (1, vec!["a/kill.rs: nine names {}, unknown []".to_owned()]));
}
