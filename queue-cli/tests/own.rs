//! The command line inside a program that has jobs. This file is that program, and its tests run it.

use std::io::Read as _;
use std::process::{Child, Command, ExitCode, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use queue::{State, job};
use queue_test_support::{Engine, database};

/// The state of the program's worker.
#[derive(Clone)]
struct Mailer(&'static str);

#[job(queue = "mail", max_retries = 3)]
async fn send_email(State(Mailer(host)): State<Mailer>, to: String) -> Result<String, String> {
    Ok(format!("{to} by {host}"))
}

#[job(unique)]
async fn index(page: u64) {
    let _ = page;
}

const TESTS: [(&str, Engine); 4] = [
    ("sqlite_own_program", Engine::Sqlite),
    ("postgres_own_program", Engine::Postgres),
    ("mariadb_own_program", Engine::MariaDb),
    ("mysql_own_program", Engine::MySql),
];

/// The program, or a harness as cargo and nextest call it.
fn main() -> ExitCode {
    if std::env::var_os("QUEUE_TEST_OWN_PROGRAM").is_some() {
        let mailer = Mailer("smtp.example.org");
        return queue_cli::Cli::new().worker(|worker| worker.concurrency(4).state(mailer)).main();
    }
    let words: Vec<String> = std::env::args().skip(1).collect();
    let is = |flag: &str| words.iter().any(|word| word == flag);
    let named = words.iter().find(|word| !word.starts_with('-'));
    for (name, engine) in TESTS.iter().filter(|(name, _)| named.is_none_or(|part| name.contains(&**part))) {
        match (is("--list"), is("--ignored")) {
            (true, false) => println!("{name}: test"),
            (false, false) => {
                let runtime = tokio::runtime::Runtime::new().expect("a runtime");
                runtime.block_on(own_program_on(*engine));
            }
            (_, true) => {}
        }
    }
    ExitCode::SUCCESS
}

fn start(url: &str, words: &[&str]) -> Child {
    let mut command = Command::new(std::env::current_exe().expect("this file"));
    command.args(words).env("QUEUE_TEST_OWN_PROGRAM", "1").env("DATABASE_URL", url).env_remove("RUST_LOG");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts")
}

/// Its exit code, standard output and standard error.
fn ended(child: Child) -> (i32, String, String) {
    let output = child.wait_with_output().expect("it ends");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (output.status.code().expect("an exit code"), text(output.stdout), text(output.stderr))
}

fn run(url: &str, words: &[&str]) -> (i32, String, String) {
    ended(start(url, words))
}

/// It fails with this code, and says each part.
fn refuses(url: &str, words: &[&str], code: i32, parts: &[&str]) {
    let (is, out, err) = run(url, words);
    assert!(is == code && out.is_empty(), "{words:?}: {is}\n{out}\n{err}");
    parts.iter().for_each(|part| assert!(err.contains(part), "{words:?}: {part}\n{err}"));
}

async fn own_program_on(engine: Engine) {
    let Some(db) = database(engine).await else { return };
    let url = db.url();
    assert_eq!(run(url, &["migrate"]).0, 0);

    // its types are known although no worker has run
    let (code, out, err) = run(url, &["enqueue", "send_email", r#"{"to": "ada"}"#]);
    let id = out.trim_end().to_owned();
    assert!(code == 0 && id.parse::<i64>().is_ok() && err.contains(&format!("queue show {id}")), "{out}{err}");
    let (_, show, _) = run(url, &["show", &id, "--json"]);
    assert!(show.contains(r#""queue":"mail""#) && show.contains(r#""max_retries":3"#), "{show}");
    let wrong = "`send_email`: its arguments do not fit: `to`: invalid type: integer `7`, expected a string";
    refuses(url, &["enqueue", "send_email", r#"{"to": 7}"#], 2, &[wrong]);
    refuses(url, &["enqueue", "send_emial", r#"{"to": "ada"}"#], 1, &["did you mean `send_email`?"]);
    let slip = ["has the queue `mial`; did you mean `mail`? Otherwise add --force", "--queue mail\n"];
    refuses(url, &["enqueue", "send_email", r#"{"to": "ada"}"#, "--queue", "mial"], 1, &slip);
    let misfit = "`send_email`: `to`: invalid type: integer `7`, expected a string";
    refuses(url, &["edit", &id, r#"{"to": 7}"#], 2, &[misfit, &format!("fix: queue show {id}")]);
    let (code, out, err) = run(url, &["edit", &id, "--set", "to=grace"]);
    assert!(code == 0 && out.contains("+ \"to\": \"grace\""), "{out}{err}");
    let (_, first, _) = run(url, &["enqueue", "index", r#"{"page":18446744073709551615}"#]);
    let (code, second, err) = run(url, &["enqueue", "index", r#"{ "page" : 18446744073709551615 }"#]);
    assert!(code == 0 && first == second && err.contains("has its key already"), "{first}{second}{err}");
    let (_, json, _) = run(url, &["enqueue", "index", r#"{"page":18446744073709551615}"#, "--json"]);
    assert_eq!(json, format!("{{\"id\":{},\"new\":false}}\n", first.trim_end()));

    // it works until it is told to stop
    let mut worker = start(url, &["work"]);
    let done = || run(url, &["show", &id, "--json"]).1;
    while !done().contains(r#""state":"completed""#) {
        let early = worker.try_wait().expect("a child");
        assert!(early.is_none(), "{:?}", worker.stderr.take().map(|mut it| it.read_to_string(&mut String::new())));
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert!(done().contains("grace by smtp.example.org"), "{}", done());
    let (_, workers, _) = run(url, &["workers", "--json"]);
    assert!(workers.contains(r#""concurrency":4"#), "{workers}");
    kill(Pid::from_raw(worker.id().cast_signed()), Signal::SIGTERM).expect("it lives");
    let (code, out, err) = ended(worker);
    assert!(code == 0 && out.is_empty() && err.contains("worker.started"), "{code}\n{out}{err}");
    assert!(!err.contains('\u{1b}'), "no terminal, no colour: {err}");
    refuses(url, &["work", "--connections", "0"], 2, &["fix: queue help work"]);
    let (_, help, _) = run(url, &["help"]);
    let (_, script, _) = run(url, &["completions", "bash"]);
    assert!(help.contains("  work ") && script.contains("connections"), "{help}");
}
