//! No SQL is built from input: all of it is in the sources, and values are bound. A short list here names the code that
//! builds statement text, and why no outside input gets into it.

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

/// The file or folder, what stands there, how often, and why it may.
const ALLOWED: &[(&str, &str, usize, &str)] = &[
    // what is run and is no literal where it is run
    (
        "queue/src/store/engine/dialect.rs",
        "AssertSqlSafe(sql)",
        2,
        "runs what `prepare` or `united` made of files in sql/",
    ),
    ("queue/src/store/engine/dialect.rs", "DB::fetch(conn, sql, arguments)", 1, "runs what `prepare` made"),
    ("queue/src/store/engine/dialect.rs", "DB::execute(conn, sql, arguments)", 1, "runs what `prepare` made"),
    ("queue/src/store/engine/dialect.rs", "raw_sql(sql)", 1, "takes a &'static str: settings and migrations"),
    ("queue/src/store/sqlite/connections.rs", "(sql).fetch_one(conn)", 1, "takes a &'static str"),
    ("queue/src/store/engine/leases.rs", "DB::insert_row(conn, sql, arguments)", 2, "runs what `prepare` made"),
    ("queue/src/store/postgres/dialect.rs", "raw_sql(\"\")", 1, "asks nothing: whether the connection answers"),
    ("queue/src/store/postgres/dialect.rs", "Self::fetch(conn, sql, arguments)", 1, "runs what `prepare` made"),
    ("queue/src/store/sqlite/dialect.rs", "AssertSqlSafe(sql)", 1, "runs what `prepare` made of a file in sql/"),
    ("queue/src/store/sqlite/dialect.rs", "insert_row(conn, sql, arguments)", 2, "runs what `prepare` made"),
    ("queue/src/store/sqlite/dialect.rs", "Self::fetch(conn, union.sql.into(), ", 2, "runs what `united` made"),
    (
        "queue/src/store/mysql/",
        "AssertSqlSafe(sql)",
        3,
        "runs what `prepare` made, the INSERT of many rows, and a look",
    ),
    ("queue/src/store/mysql/", "raw_sql(AssertSqlSafe(text))", 2, "runs what `one_text` made"),
    ("queue/src/store/mysql/text.rs", "text.push_str(", 2, "`one_text`: literals and constants, with `Digits`"),
    ("queue/src/store/mysql/", "insert_row(conn, sql, arguments)", 2, "runs what `prepare` made"),
    ("queue/src/store/mysql/", "fetch(conn, union.sql, &union.binds)", 3, "runs what `united` made"),
    ("queue/src/store/mysql/", "fetch(conn, sql, &binds)", 3, "runs what `with_places` and `united` made"),
    (
        "queue/src/store/mysql/",
        "fetch(conn, sql, &all)",
        1,
        "runs what `with_places` and `question_marks` made of three files",
    ),
    ("queue/src/store/mysql/", "MySql::fetch(conn, sql.into(), ", 1, "runs what the five above give it"),
    ("queue/src/store/postgres/dialect.rs", "sqlx::query(hint)", 1, "takes a &'static str"),
    ("queue/src/store/sqlite/connections.rs", "query_scalar::<_, i64>(sql)", 1, "takes a &'static str"),
    ("queue/src/store/postgres/dialect.rs", "raw_sql(settings::NO_END_OF_IDLE)", 1, "a constant"),
    // what puts a text together
    ("queue/src/store/mysql/", "head.replace(LANES, &union.sql)", 1, "a file in sql/, with what `united` made"),
    ("queue/src/store/engine/dialect.rs", "text.push", 4, "`question_marks`: a literal with ? for each $1"),
    (
        "queue/src/store/engine/many_lanes.rs",
        "union.sql.push_str(",
        2,
        "`united`: literals, and numbers of their parts",
    ),
    (
        "queue/src/store/mysql/",
        "around.replace(LANES, ",
        1,
        "with what `with_places` and `united` made of files in sql/",
    ),
    ("queue/src/store/mysql/", "around.replace(OTHERS, &others)", 1, "a file in sql/, with two others"),
    ("queue/src/store/mysql/", ".replace(\"/* places */\"", 1, "with question marks, one for each value"),
    ("queue/src/store/mysql/", "sql.push_str(", 4, "a comma, and the parts of `Rows`: literals with question marks"),
    // what a text is passed on by
    ("queue/src/store/engine/dialect.rs", "sql: Cow<'static, str>,", 3, "of the functions above"),
    ("queue/src/store/engine/dialect.rs", "sql: std::borrow::Cow<'static, str>,", 2, "of the functions above"),
    (
        "queue/src/store/engine/dialect.rs",
        "fn question_marks(sql: &str)",
        1,
        "of literals, and of what stands around LANES in one",
    ),
    ("queue/src/store/postgres/dialect.rs", "sql: Cow<'static, str>,", 1, "of `insert_row`"),
    ("queue/src/store/sqlite/dialect.rs", "sql: Cow<'static, str>,", 1, "of `insert_row`"),
    ("queue/src/store/mysql/", "sql: Cow<'static, str>,", 1, "of `insert_row`"),
    ("queue/src/store/mysql/", "async fn fetch(conn: &mut MySqlConnection, sql: String, ", 1, "of the four above"),
    ("queue/src/store/mysql/", "fn with_places(sql: &str, ", 1, "a file in sql/, with question marks or without"),
    ("queue/src/store/engine/many_lanes.rs", "sql: String,", 1, "what `united` makes"),
    ("queue/src/store/engine/many_lanes.rs", "Union { sql: head, ", 1, "the part of a literal before LANES"),
    // values and numbers
    ("queue/src/store/engine/migrate.rs", "script.split_once(", 1, "looks for a part of a migration"),
    ("queue/src/store/engine/migrate.rs", "names.join(", 1, "an error's words"),
    ("queue/src/store/engine/migrate.rs", "there.join(", 1, "an error's words"),
    ("queue/src/store/engine/migrate.rs", "missing.join(", 1, "an error's words"),
    ("queue/src/store/postgres/dialect.rs", "format!(\"row level security hides rows of", 1, "an error's words"),
    ("queue/src/store/postgres/dialect.rs", "query_scalar(settings::HIDDEN)", 1, "a constant"),
    ("queue/src/store/engine/migrate.rs", "columns.join(", 1, "names of columns, to be compared"),
    ("queue/src/store/sqlite/in_memory.rs", "faults.join(", 1, "a warning's words"),
    ("queue/src/store/mysql/", "self.round_trips += 2;", 1, "a number"),
    ("queue/src/store/engine/insert.rs", "list += ", 2, "JSON, which is a value"),
    ("queue/src/store/engine/insert.rs", "sum += job.args.len();", 1, "a number"),
    ("queue/src/store/engine/ends.rs", "text.replace('\\0', ", 1, "an error text, which is a value"),
    ("queue/src/store/values/workers.rs", "self.ready += other.ready;", 1, "a number"),
    ("queue/src/store/values/workers.rs", "self.dead += other.dead;", 1, "a number"),
    ("queue/src/store/values/workers.rs", "self.cancelled += other.cancelled;", 1, "a number"),
    ("queue/src/store/mysql/", "*count += row.int(6)?;", 1, "a number"),
    ("queue/src/store/engine/leases.rs", "sum += one;", 1, "numbers"),
    ("queue/src/store/engine/schedules/fire.rs", "jobs += plan.fire.len();", 1, "a number"),
    ("queue/src/store/engine/schedules/mod.rs", "removed += ", 1, "a number"),
    ("queue/src/store/schedules.rs", "self.locked += other.locked;", 1, "a number"),
    ("queue/src/store/schedules.rs", "self.jobs += other.jobs;", 1, "a number"),
];

/// What makes SQL of a text that is not a literal, or looks like it.
fn is_suspicious(line: &str) -> bool {
    const CALLS: [&str; 7] =
        ["AssertSqlSafe(", "raw_sql(", "QueryBuilder", "SqlSafeStr", "SqlStr::", "Box::leak(", ".leak()"];
    if CALLS.iter().any(|call| line.contains(call)) || line.contains(".replace(\"/*") {
        return true;
    }
    let builds = ["format!(", "write!(", "writeln!(", "concat!(", "push_str(", "format_args!("];
    builds.iter().any(|call| line.contains(call)) && has_sql(line)
}

/// What runs a statement that is not a literal right there: in the library.
fn is_run(line: &str) -> bool {
    line.contains("sqlx::query") && !line.contains("(\"") && !line.contains("(include_str!(")
}

/// What may put a statement together or pass on one that is not a literal, where statements are made: in the store.
fn is_suspicious_in_store(line: &str) -> bool {
    const BUILDS: [&str; 8] = [
        ".concat()",
        ".replace(",
        ".replacen(",
        "push_str(",
        "insert_str(",
        ".push('",
        ".join(\"",
        "collect::<String>",
    ];
    const PASSES: [&str; 3] = ["fetch(conn,", "execute(conn,", "insert_row(conn,"];
    // a number is counted up
    let grows = line.contains("+=") && !line.contains("+= 1;");
    BUILDS.iter().any(|call| line.contains(call))
        || grows
        || PASSES.iter().any(|call| line.contains(call))
        || (line.contains("sql: ") && !line.contains("sql: &'static str"))
}

fn has_sql(line: &str) -> bool {
    const WORDS: [&str; 14] = [
        "SELECT ",
        "INSERT INTO",
        "UPDATE queue",
        "DELETE FROM",
        "CREATE ",
        "DROP ",
        "ALTER ",
        "GRANT ",
        "TRUNCATE ",
        " WHERE ",
        " FROM queue",
        " VALUES ",
        "SET SESSION",
        "PRAGMA ",
    ];
    WORDS.iter().any(|word| line.contains(word))
}

/// Statements that are literals, as arguments of sqlx: what else is given to it must be wrapped, and is found above.
fn files(folder: &Path, kind: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files(&path, kind, found);
        } else if path.extension().is_some_and(|extension| extension == kind) {
            found.push(path);
        }
    }
}

/// The code of a file without its tests, comments, and `use` lines; calls that rustfmt broke are joined.
fn code(text: &str) -> Vec<String> {
    let tests =
        text.find("\nmod tests {").filter(|at| text[..*at].lines().last().is_some_and(|it| it.starts_with("#[cfg(")));
    let text = &text[..tests.unwrap_or(text.len())];
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines().map(str::trim) {
        let goes_on = lines.last().is_some_and(|last| last.ends_with('(') || last.ends_with('\\'));
        match lines.last_mut() {
            _ if line.starts_with("//") || line.starts_with("use ") || line.starts_with("pub use ") => {}
            Some(last) if goes_on => last.push_str(line),
            _ => lines.push(line.to_owned()),
        }
    }
    lines
}

/// `(file, line)` of everything suspicious.
fn suspicious() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
    let mut sources = Vec::new();
    for folder in ["queue/src", "queue-macros/src", "examples"] {
        files(&root.join(folder), "rs", &mut sources);
    }
    assert!(sources.len() > 40, "the sources are not where they were");
    let mut found = Vec::new();
    for path in sources {
        let name = path.strip_prefix(root).expect("below").display().to_string();
        if name.ends_with("tests.rs") || name.starts_with("queue/src/store/engine/tests/") {
            continue;
        }
        let text = fs::read_to_string(&path).expect("text");
        let in_queue = name.starts_with("queue/src/");
        let in_store = name.starts_with("queue/src/store/");
        let is_found = |line: &String| {
            is_suspicious(line) || (in_queue && is_run(line)) || (in_store && is_suspicious_in_store(line))
        };
        found.extend(code(&text).into_iter().filter(is_found).map(|line| (name.clone(), line)));
    }
    found
}

#[test]
fn no_statement_is_built_from_input() {
    let (mut left, mut others) = (suspicious(), Vec::new());
    for (file, part, times, why) in ALLOWED {
        let before = left.len();
        left.retain(|(name, line)| !name.starts_with(file) || !line.contains(part));
        let found = before - left.len();
        if found != *times {
            others.push(format!("{file}: {part} ({why}): {found} times, not {times}"));
        }
    }
    assert!(others.is_empty(), "look at each, then change the list: {others:#?}\n{left:#?}");
    assert!(
        left.is_empty(),
        "SQL made of text: bind the values, or say in this test why nothing from outside gets in: {left:#?}"
    );
}

#[test]
fn what_would_be_dangerous_is_noticed() {
    for line in [
        r#"sqlx::query(AssertSqlSafe(format!("SELECT 1 FROM queue_jobs WHERE kind = '{kind}'")))"#,
        r#"sqlx::raw_sql(&text).execute(pool)"#,
        r#"let sql = format!("DELETE FROM queue_jobs WHERE id = {id}");"#,
        r#"write!(sql, " WHERE queue = '{queue}'")"#,
        r#"sql.push_str(&[" WHERE kind = '", kind, "'"].concat());"#,
        r#"let builder = QueryBuilder::new(text);"#,
    ] {
        assert!(is_suspicious(line), "{line}");
    }
    for line in [
        r#"let sql = ["SELECT 1 WHERE kind = '", kind, "'"].concat();"#,
        r#"let sql = around.replace(LANES, kind);"#,
        r#"sql += kind;"#,
        r#"let rows = fetch(conn, sql, &binds).await?;"#,
        r#"async fn look(conn: &mut MySqlConnection, sql: String) -> Result<(), Error> {"#,
        r#"let rows = Self::fetch(conn, sql.into(), values(&binds)?).await?;"#,
        r#"let sql: String = parts.into_iter().collect();"#,
    ] {
        assert!(is_suspicious_in_store(line), "{line}");
    }
    assert!(is_run("sqlx::query_scalar(sql).fetch_one(conn)"), "it may be anything");
    for line in [
        r#"sqlx::query_scalar("SELECT 1").fetch_one(conn)"#,
        r#"async fn run(conn: &mut MySqlConnection, sql: &'static str) -> Result<(), Error> {"#,
        r#"self.tries += 1;"#,
    ] {
        assert!(!is_suspicious(line) && !is_run(line) && !is_suspicious_in_store(line), "{line}");
    }
    let broken = "let sql = format!(\n    \"SELECT {}\",\n    name\n);\n#[cfg(test)]\nmod tests {\nraw_sql(x)";
    let lines = code(broken);
    assert!(is_suspicious(&lines[0]) && lines.iter().skip(1).all(|line| !is_suspicious(line)), "{lines:?}");
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

/// Statements lie in files, and a file knows no input.
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

/// The structs in `statements.rs`, and the file that each reads.
const TOPICS: &[(&str, &str)] = &[
    ("attempts", "AttemptStatements"),
    ("leases", "LeaseStatements"),
    ("sessions", "SessionStatements"),
    ("retention", "RetentionStatements"),
    ("schema", "SchemaStatements"),
    ("admin", "AdminStatements"),
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

/// The files of a crate by module path, and the module paths that each imports outside its tests.
fn imports(crate_sources: &str) -> HashMap<String, HashSet<String>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace").join(crate_sources);
    let mut sources = Vec::new();
    files(&root, "rs", &mut sources);
    let texts: HashMap<String, String> = sources
        .iter()
        .filter(|path| !path.components().any(|part| part.as_os_str().to_string_lossy().contains("tests")))
        .filter(|path| !path.to_string_lossy().ends_with("tests.rs"))
        .map(|path| {
            let text = fs::read_to_string(path).expect("text");
            let module =
                path.strip_prefix(&root).expect("inside").with_extension("").to_string_lossy().replace('/', "::");
            let module = module.trim_end_matches("mod").trim_end_matches("::").to_owned();
            (module, text.split("#[cfg(test)]\nmod ").next().expect("a first part").to_owned())
        })
        .collect();
    let known: HashSet<String> = texts.keys().cloned().collect();
    texts.into_iter().map(|(module, text)| (module.clone(), imported(&text, &module, &known))).collect()
}

/// The modules that a text names by `crate::`, each as far as it is a file. Of a list in braces, each entry.
fn imported(text: &str, own: &str, known: &HashSet<String>) -> HashSet<String> {
    let code: Vec<&str> = text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect();
    let code = code.join(" ").replace("#[cfg(test)] use crate::", "");
    let mut found = HashSet::new();
    for rest in code.split("crate::").skip(1) {
        let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':')).unwrap_or(rest.len());
        let base = rest[..end].trim_end_matches("::");
        let list = rest[end..].strip_prefix('{').and_then(|rest| rest.split_once('}')).map_or("", |(list, _)| list);
        let paths = std::iter::once(base.to_owned()).chain(list.split(',').map(|it| format!("{base}::{}", it.trim())));
        for path in paths {
            // of `use crate::{a, b}`, the base is empty
            let parts: Vec<&str> = path.trim_start_matches("::").split("::").collect();
            let file = (1..=parts.len()).rev().map(|n| parts[..n].join("::")).find(|path| known.contains(path));
            // a list imports its entries: the folder itself is named only by its own items
            if let Some(file) = file.filter(|file| file != own && (list.is_empty() || *file != base || path != base)) {
                found.insert(file);
            }
        }
    }
    found
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

#[test]
fn no_two_files_import_each_other_in_a_circle() {
    let mut all = imports("queue/src");
    assert!(all.len() > 70, "{} files", all.len());
    assert!(
        all["worker::claim::plan"].contains("store::values")
            && all["store::engine::enqueue"].contains("store::engine::unique")
    );
    assert_eq!(circles(&all), [""; 0]);
    let of_macros = imports("queue-macros/src");
    assert!(of_macros["schedule"].contains("duration") && of_macros["attr"].contains("entry"));
    assert_eq!(circles(&of_macros), [""; 0]);
    // and a circle is noticed
    all.get_mut("store::values").expect("a file").insert("worker::claim::plan".into());
    assert!(circles(&all).contains(&&"store::values".to_owned()));
}
