//! Statements, migrations and imports, as the sources have them. That no statement is built from input is proven by
//! sqlx's type for static texts, and by `queue/clippy.toml`.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Migrations that may be in somebody's database: file, length, and its FNV-1a hash. A later change of the schema is a
/// new file.
const FROZEN: &[(&str, usize, u64)] = &[
    ("mysql/0001_jobs.sql", 8_635, 0x67ab_25ae_bbe7_a739),
    ("postgres/0001_jobs.sql", 9_477, 0x88f8_e521_e42c_38ff),
    ("sqlite/0001_jobs.sql", 8_679, 0x81c3_f475_c0cf_4ff9),
    ("mysql/0002_schedules.sql", 3_399, 0x9131_5b5b_f6ed_c4b2),
    ("postgres/0002_schedules.sql", 3_406, 0x61e6_fb5d_cc53_582e),
    ("sqlite/0002_schedules.sql", 3_492, 0x0fff_24b4_1119_dca7),
    ("mysql/0003_unique.sql", 1_256, 0xec21_fe86_bea4_152e),
    ("postgres/0003_unique.sql", 1_319, 0x218e_6ded_4ddb_6d72),
    ("sqlite/0003_unique.sql", 1_118, 0x0a13_9b52_08d0_d227),
];

/// P42.
#[test]
fn released_migrations_do_not_change() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../migrations");
    let hash = |bytes: &[u8]| {
        bytes
            .iter()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
    };
    assert_ne!(hash(b"a"), hash(b"b"), "a hash that does not look");
    for (file, length, frozen) in FROZEN {
        let bytes = fs::read(folder.join(file)).expect(file);
        assert_eq!((bytes.len(), hash(&bytes)), (*length, *frozen), "{file} was released: write a new migration");
    }
}

/// A statement in a file: `mysql`, `claims`, `preview`, and its text.
struct Statement {
    engine: String,
    topic: String,
    name: String,
    text: String,
}

/// All statements: each engine has its own folder, and `engine` what they share.
fn statements() -> Vec<Statement> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace").join("queue/src/store");
    let mut paths = Vec::new();
    files(&root, "sql", &mut paths);
    let mut found = Vec::new();
    for path in paths {
        let words: Vec<_> =
            path.strip_prefix(&root).expect("below").iter().map(|part| part.to_string_lossy()).collect();
        let file = fs::read_to_string(&path).expect("text");
        for part in file.split("\n-- name: ").skip(1) {
            let (name, text) = part.split_once('\n').expect("a statement behind its name");
            found.push(Statement {
                engine: words[0].clone().into_owned(),
                topic: words[2].trim_end_matches(".sql").to_owned(),
                name: name.to_owned(),
                text: text.to_owned(),
            });
        }
    }
    assert!(found.len() > 200, "{} statements", found.len());
    found
}

/// P45: Statements lie in files, and a file knows no input.
#[test]
fn statements_name_places_and_not_values() {
    // filled with question marks, or with other statements (see `united`)
    let filled = [
        "mysql claims claim_others",
        "mysql claims claim_due",
        "mysql claims discover",
        "mysql claims discover_rest",
        "mysql claims discover_all",
        "mysql claims preview_many",
        "mysql unique look",
        "mysql unique holders",
        "sqlite claims preview_many",
        "sqlite claims claim_many",
    ];
    for Statement { engine, topic, name, text } in statements() {
        let place = format!("{engine} {topic} {name}");
        let templates = ["{}", "{0}", "{{", "/* "];
        let found: Vec<_> = templates.iter().filter(|it| text.contains(**it)).collect();
        let known = filled.contains(&&*place) && found == [&"/* "];
        assert!(found.is_empty() || known, "{place}: {found:?}");
        // it would be prepared anew each time: `LIMIT +$1`
        let anew = engine == "sqlite" && text.contains("LIMIT $");
        assert!(!anew, "{place}: the limit is nothing but a variable");
    }
}

/// The structs in `topics.rs`, and the file that each reads.
const TOPICS: &[(&str, &str)] = &[
    ("attempts", "AttemptStatements"),
    ("leases", "LeaseStatements"),
    ("sessions", "SessionStatements"),
    ("retention", "RetentionStatements"),
    ("schema", "SchemaStatements"),
    ("admin", "AdminStatements"),
    ("gauges", "GaugeStatements"),
    ("operations", "OperationStatements"),
    ("tallies", "TallyStatements"),
    ("schedules", "ScheduleStatements"),
    ("unique", "UniqueStatements"),
    ("testing", "TestStatements"),
];

/// Whether the sources name this statement: as a field of its topic, or with `sql!`. The compiler finds names that no
/// file has.
fn is_named(statement: &Statement, sources: &str) -> bool {
    let Statement { engine, topic, name, .. } = statement;
    let is_field = |kinds: &[&str], text: &str| kinds.iter().any(|kind| text.contains(&format!(" {name}: {kind},")));
    if engine == "engine" {
        return is_field(&["shared"], sources);
    }
    let fields_of = |of: &str| sources.split_once(&format!(" {of} {{"))?.1.split_once(" } }").map(|(fields, _)| fields);
    let fields = TOPICS.iter().find(|(file, _)| file == topic).and_then(|(_, of)| fields_of(of));
    fields.is_some_and(|fields| is_field(&["sql", "script", "maybe_sql", "maybe_script"], fields))
        || sources.contains(&format!("sql!(\"{engine}\", \"{topic}\", \"{name}\")"))
}

/// P45.
#[test]
fn every_statement_is_used() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace").join("queue/src/store");
    let mut paths = Vec::new();
    files(&root, "rs", &mut paths);
    paths.retain(|path| !path.components().any(|part| part.as_os_str() == "tests"));
    // one line, so that it does not matter where a line is broken
    let texts = paths.iter().map(|path| fs::read_to_string(path).expect("text"));
    let sources = texts.collect::<String>().split_whitespace().collect::<Vec<_>>().join(" ").replace("( ", "(");
    let orphans: Vec<_> = statements().into_iter().filter(|statement| !is_named(statement, &sources)).collect();
    let names: Vec<_> = orphans.iter().map(|it| format!("{} {} {}", it.engine, it.topic, it.name)).collect();
    assert!(names.is_empty(), "no source names {names:#?}");
    // and one that nobody names is noticed
    for (engine, topic, name) in
        [("mysql", "leases", "finish"), ("mysql", "claims", "insert"), ("engine", "shared", "stats")]
    {
        let [engine, topic, name] = [engine, topic, name].map(str::to_owned);
        assert!(!is_named(&Statement { engine, topic, name, text: String::new() }, &sources));
    }
}

/// Statements that are literals, as arguments of sqlx: what else is given to it must be wrapped, and is found above.
pub(crate) fn files(folder: &Path, kind: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files(&path, kind, found);
        } else if path.extension().is_some_and(|extension| extension == kind) {
            found.push(path);
        }
    }
}

/// A path in the code of a file, such as `crate::a::B` or `super::C`, and in how many inline modules it stands.
type Named = (Vec<String>, usize);

/// A file of a crate, by what it names and what it passes on.
struct Source {
    named: Vec<Named>,
    /// Paths of `pub use` and `pub(crate) use`.
    passed_on: Vec<Named>,
}

impl Source {
    /// Of the code outside the tests.
    fn of(text: &str) -> Self {
        let text = text.split("#[cfg(test)]\nmod ").next().expect("a first part");
        let code: Vec<&str> = text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect();
        let mut code = code.join(" ").split_whitespace().collect::<Vec<_>>().join(" ");
        while let Some(at) = code.find("#[cfg(test)] use ") {
            let end = code[at..].find(';').map_or(code.len(), |end| at + end + 1);
            code.replace_range(at..end, "");
        }
        let (mut named, mut passed_on) = (Vec::new(), Vec::new());
        let (mut blocks, mut inside) = (Vec::new(), 0);
        for (at, letter) in code.char_indices() {
            match letter {
                '{' => {
                    let opened = code[..at].trim_end();
                    let is_module = opened.rsplit(['{', '}', ';', ']']).next().is_some_and(|head| {
                        let mut words = head.split_whitespace().filter(|word| !word.starts_with("pub"));
                        words.next() == Some("mod")
                    });
                    inside += usize::from(is_module);
                    blocks.push(is_module);
                }
                '}' => inside -= usize::from(blocks.pop().unwrap_or(false)),
                _ => {}
            }
            let starts = at == 0 || !is_word(code[..at].chars().next_back().expect("a letter before"));
            let before = code[..at].trim_end();
            let is_use = before.ends_with(" use") || before == "use";
            let is_absolute = ["crate::", "super::", "self::"].iter().any(|start| code[at..].starts_with(start));
            if !starts || before.ends_with("::") || !(is_absolute || (is_use && is_word(letter))) {
                continue;
            }
            let mut paths = Vec::new();
            tree(&code[at..], &mut Vec::new(), &mut paths);
            let paths: Vec<Named> = paths.into_iter().map(|path| (path, inside)).collect();
            let visible = before.strip_suffix("use").unwrap_or_default().trim_end();
            let is_visible = ["pub", "pub(crate)", "pub(super)"].iter().any(|word| visible.ends_with(word));
            if is_use && is_visible { passed_on.extend(paths) } else { named.extend(paths) }
        }
        Self { named, passed_on }
    }
}

fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// Reads a path with its lists in braces. Returns what follows it.
fn tree<'a>(mut rest: &'a str, before: &mut Vec<String>, found: &mut Vec<Vec<String>>) -> &'a str {
    let depth = before.len();
    loop {
        rest = rest.trim_start();
        if let Some(list) = rest.strip_prefix('{') {
            rest = list;
            while !rest.trim_start().starts_with('}') && !rest.is_empty() {
                rest = tree(rest, before, found).trim_start();
                rest = rest.strip_prefix(',').unwrap_or(rest);
            }
            rest = rest.trim_start().strip_prefix('}').unwrap_or(rest);
            break;
        }
        let end = rest.find(|letter| !is_word(letter) && letter != '*').unwrap_or(rest.len());
        if end == 0 {
            // not a path
            rest = rest.get(1..).unwrap_or_default();
            break;
        }
        before.push(rest[..end].to_owned());
        rest = &rest[end..];
        match rest.strip_prefix("::") {
            Some(more) => rest = more,
            None => {
                found.push(before.clone());
                if let Some(alias) = rest.trim_start().strip_prefix("as ") {
                    rest = alias.trim_start_matches(is_word);
                }
                break;
            }
        }
    }
    before.truncate(depth);
    rest
}

/// The files of a crate by module path; `""` is its root.
fn sources(crate_sources: &str) -> HashMap<String, Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace").join(crate_sources);
    let mut paths = Vec::new();
    files(&root, "rs", &mut paths);
    paths.retain(|path| !path.components().any(|part| part.as_os_str().to_string_lossy().contains("tests")));
    paths.retain(|path| !path.to_string_lossy().ends_with("tests.rs"));
    let module = |path: &PathBuf| {
        let module = path.strip_prefix(&root).expect("inside").with_extension("").to_string_lossy().replace('/', "::");
        if module == "lib" {
            return String::new();
        }
        module.strip_suffix("::mod").unwrap_or(&module).to_owned()
    };
    paths.iter().map(|path| (module(path), Source::of(&fs::read_to_string(path).expect("text")))).collect()
}

/// The files that each file imports. A name that a module only passes on is one of the file that it comes from.
fn imports(all: &HashMap<String, Source>) -> HashMap<String, HashSet<String>> {
    let of = |own: &String, source: &Source| {
        let files = source.named.iter().filter_map(|named| file_of(all, own, named, 0));
        // the root and a folder collect what is inside: only their own items are imports
        files.filter(|file| file != own && !file.is_empty()).collect()
    };
    all.iter().map(|(own, source)| (own.clone(), of(own, source))).collect()
}

/// The file that has what a path in the file `own` names. None: another crate.
fn file_of(all: &HashMap<String, Source>, own: &str, (path, inside): &Named, depth: usize) -> Option<String> {
    let mut place: Vec<&str> = own.split("::").filter(|part| !part.is_empty()).collect();
    let mut rest = &path[..];
    match rest.first()?.as_str() {
        "crate" => (place, rest) = (Vec::new(), &rest[1..]),
        "self" => rest = &rest[1..],
        "super" => {
            let mut inside = *inside;
            while rest.first().is_some_and(|part| part == "super") {
                rest = &rest[1..];
                match inside {
                    0 => drop(place.pop()),
                    _ => inside -= 1,
                }
            }
        }
        // of an inner module, or of another crate
        first if all.contains_key(&[&place[..], &[first]].concat().join("::")) => {}
        _ => return None,
    }
    while let Some(part) = rest.first() {
        let deeper = [&place[..], &[part]].concat();
        if !all.contains_key(&deeper.join("::")) {
            break;
        }
        (place, rest) = (deeper, &rest[1..]);
    }
    let module = place.join("::");
    let Some(name) = rest.first() else { return Some(module) };
    let passed_on =
        all.get(&module).filter(|_| depth < 8)?.passed_on.iter().find(|(path, _)| path.last() == Some(name));
    match passed_on.and_then(|named| file_of(all, &module, named, depth + 1)) {
        Some(file) => Some(file),
        None => Some(module),
    }
}

/// The modules that reach themselves.
fn circles(imports: &HashMap<String, HashSet<String>>) -> Vec<&String> {
    let reaches_itself = |start: &&String| {
        let (mut seen, mut next) = (HashSet::new(), vec![*start]);
        while let Some(module) = next.pop() {
            for other in imports.get(module).into_iter().flatten() {
                if other == *start {
                    return true;
                }
                if seen.insert(other) {
                    next.push(other);
                }
            }
        }
        false
    };
    let mut circles: Vec<_> = imports.keys().filter(reaches_itself).collect();
    circles.sort();
    circles
}

/// P45.
#[test]
fn no_two_files_import_each_other_in_a_circle() {
    let all = imports(&sources("queue/src"));
    assert!(all.len() > 70, "{} files", all.len());
    assert!(
        all["worker::claim::plan"].contains("store::values::lanes")
            && all["store::engine::jobs::enqueue"].contains("store::engine::unique")
    );
    assert_eq!(circles(&all), [""; 0]);
    let of_macros = imports(&sources("queue-macros/src"));
    assert!(of_macros["schedule"].contains("duration") && of_macros["attr"].contains("entry"));
    assert_eq!(circles(&of_macros), [""; 0]);
}

/// P45: Circles by each way in which a file can name another one.
#[test]
fn a_circle_is_noticed() {
    let circles_of = |texts: &[(&str, &str)]| {
        let all = texts.iter().map(|(module, text)| ((*module).to_owned(), Source::of(text))).collect();
        circles(&imports(&all)).into_iter().cloned().collect::<Vec<_>>()
    };
    let back = ("a::two", "use crate::a::{one::{One, More}, three};");
    let names = ["a::one", "a::two"];
    for one in [
        "use crate::a::two::Two;",
        "fn f() -> crate::a::two::Two {}",
        "use super::two::Two;",
        "fn f() { super::two::f() }",
        "use super::{three, two::Two};",
        "mod inner { use super::super::two::Two; }",
        "use crate::Two;",
        "use crate::a::Passed;",
    ] {
        let root = ("", "pub use a::two::Two;");
        let folder = ("a", "mod one; mod two; pub(crate) use self::two::Two as Passed; pub(crate) use two::Passed;");
        assert_eq!(circles_of(&[root, folder, ("a::one", one), back, ("a::three", "")]), names, "{one}");
    }
    for one in [
        "use super::three;",
        "mod inner { use super::two::Two; }",
        "#[cfg(test)]\nmod tests { use super::super::two::Two; }",
        "use other::two::Two; // crate::a::two",
    ] {
        assert_eq!(circles_of(&[("a", ""), ("a::one", one), back, ("a::three", "")]), [""; 0], "{one}");
    }
}
