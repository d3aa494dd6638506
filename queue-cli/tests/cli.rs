//! Every command as a user runs it, on each engine.

use std::io::{BufRead as _, Write as _};
use std::process::{Command, Output, Stdio};

use queue::{Job as _, JobError, JobId, job};
use queue_test_support::{Engine, TestDb, database};
use serde_json::Value;
use unicode_width::UnicodeWidthStr as _;

/// Fails for good if it has nobody to write to.
#[job(queue = "mail", max_retries = 0)]
async fn send_email(to: String, subject: String) -> Result<(), JobError> {
    match to.as_str() {
        "nobody" => Err(JobError::dead(format!("connection refused (smtp.example.org:587)\nwhile sending {subject}"))),
        _ => Ok(()),
    }
}

/// Fails, and waits for a long time.
#[job(max_retries = 3, backoff = fixed("1h"))]
async fn charge() -> Result<(), JobError> {
    Err(JobError::retry("card terminal is away"))
}

/// The program, as a script runs it: without a terminal.
fn queue(url: &str, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_queue"));
    command.args(words).env("DATABASE_URL", url).env_remove("COLUMNS").env_remove("NO_COLOR");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[derive(Clone)]
struct Ran {
    words: String,
    code: i32,
    out: String,
    err: String,
}

impl Ran {
    fn new(words: &[&str], output: &Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("UTF-8");
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        let ran = Self { words: words.join(" "), code: output.status.code().expect("an exit code"), out, err };
        assert!(!format!("{}{}", ran.out, ran.err).contains('\u{1b}'), "no terminal, no colour: {}", ran.all());
        ran
    }

    fn all(&self) -> String {
        format!("$ queue {}\n{}--- stderr, exit code {}\n{}", self.words, self.out, self.code, self.err)
    }

    /// Each part is in one of the two streams; nothing at all if there is no part.
    fn says(&self, code: i32, out: &[&str], err: &[&str]) -> &Self {
        assert_eq!(self.code, code, "{}", self.all());
        for (stream, parts) in [(&self.out, out), (&self.err, err)] {
            assert!(!parts.is_empty() || stream.is_empty(), "{}", self.all());
            parts.iter().for_each(|part| assert!(stream.contains(part), "{part}\n{}", self.all()));
        }
        self
    }

    fn json(&self) -> Vec<Value> {
        self.out.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{}", self.all()))).collect()
    }
}

fn run(url: &str, line: &str) -> Ran {
    let words: Vec<&str> = line.split(' ').filter(|word| !word.is_empty()).collect();
    Ran::new(&words, &queue(url, &words).output().expect("it starts"))
}

fn run_with(url: &str, words: &[&str], stdin: &str) -> Ran {
    let mut child = queue(url, words).stdin(Stdio::piped()).spawn().expect("it starts");
    child.stdin.take().expect("a pipe").write_all(stdin.as_bytes()).expect("written");
    Ran::new(words, &child.wait_with_output().expect("it ends"))
}

/// What needs the driver's own type.
macro_rules! with_pool {
    ($db:expr, $pool:ident => $body:expr) => {
        match $db.engine() {
            Engine::Sqlite => {
                let $pool = &$db.sqlite_pool(3).await;
                $body
            }
            Engine::Postgres => {
                let $pool = &$db.pg_pool(10).await;
                $body
            }
            Engine::MariaDb | Engine::MySql => {
                let $pool = &$db.mysql_pool(10).await;
                $body
            }
        }
    };
}

/// One completed job, two dead letters, and jobs that wait. Returns their ids.
async fn fill(db: &TestDb) -> [JobId; 6] {
    with_pool!(db, pool => {
        let mut ids = Vec::new();
        for to in ["ada", "nobody", "nobody"] {
            ids.push(SendEmail::new(to, "Welcome").enqueue(pool).await.expect("enqueued"));
        }
        let admin = queue::admin::Admin::new(pool);
        let over = async {
            while admin.job(ids[2]).await.is_ok_and(|job| job.is_none_or(|job| !job.job.state.is_final()))
                || !admin.stats().await.is_ok_and(|stats| stats.iter().all(|stat| stat.state.is_final()))
            {
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        };
        queue::Worker::builder(pool).build().expect("a worker").run(over).await.expect("it ends well");
        let later = SendEmail::new("grace", "Later").after(std::time::Duration::from_secs(3600));
        ids.push(later.enqueue(pool).await.expect("enqueued"));
        ids.push(SendEmail::new("barbara", "Now").enqueue(pool).await.expect("enqueued"));
        // kinds of other programs
        let strange = "INSERT INTO queue_jobs (kind, queue, args) VALUES ('発送メール🙂', '発送', '{}')";
        sqlx::query(strange).execute(pool).await.expect("inserted");
        let last = admin.jobs(&queue::admin::Filter::new().queue("発送")).await.expect("listed").items;
        ids.push(last[0].id);
        ids.try_into().expect("six")
    })
}

/// What a command that does not end has printed, line by line.
struct Tail {
    child: std::process::Child,
    lines: std::io::Lines<std::io::BufReader<std::process::ChildStdout>>,
}

impl Tail {
    fn new(url: &str, line: &str) -> Self {
        let words: Vec<&str> = line.split(' ').collect();
        let mut child = queue(url, &words).spawn().expect("it starts");
        let lines = std::io::BufReader::new(child.stdout.take().expect("a pipe")).lines();
        Self { child, lines }
    }

    fn next(&mut self) -> String {
        self.lines.next().expect("a line").expect("read")
    }

    /// Ends it as Ctrl-C does.
    fn end(mut self) {
        let pid = nix::unistd::Pid::from_raw(self.child.id().try_into().expect("a process"));
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).expect("it runs");
        assert_eq!(self.child.wait().expect("it ends").code(), Some(0));
    }
}

/// Asks a server on this machine. Returns the whole answer.
#[cfg(feature = "web")]
fn ask(address: &str, head: &str) -> String {
    let mut stream = std::net::TcpStream::connect(address).expect("connected");
    stream.write_all(format!("{head}\r\nConnection: close\r\n\r\n").as_bytes()).expect("asked");
    std::io::read_to_string(stream).expect("an answer")
}

#[cfg(feature = "web")]
#[tokio::test]
async fn the_dashboard_is_for_this_machine_alone() {
    let Some(db) = database(Engine::Sqlite).await else { return };
    let url = db.url();
    run(url, "migrate").says(0, &["up to date"], &[" · "]);
    fill(&db).await;
    run(url, "web --listen 0.0.0.0:0").says(2, &[], &["without --tokens", "fix: queue web --listen 127.0.0.1:0"]);
    for (words, may) in [("web --listen 127.0.0.1:0", false), ("web --listen 127.0.0.1:0 --operate --as ada", true)] {
        let mut server = Tail::new(url, words);
        let line = server.next();
        let address = line.strip_prefix("http://").expect("an address");
        let page = ask(address, &format!("GET / HTTP/1.1\r\nHost: {address}"));
        assert!(page.starts_with("HTTP/1.1 200") && page.contains("connection refused"), "{page}");
        let page = ask(address, "GET / HTTP/1.1\r\nHost: evil.example");
        assert!(page.starts_with("HTTP/1.1 403") && !page.contains("connection refused"), "{page}");
        let form = "pause=mail&reason=";
        let page = ask(
            address,
            &format!(
                "POST /queues HTTP/1.1\r\nHost: {address}\r\nSec-Fetch-Site: same-origin\r\n\
                 Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{form}",
                form.len()
            ),
        );
        let expected = if may { "HTTP/1.1 303" } else { "HTTP/1.1 403" };
        assert!(page.starts_with(expected), "{page}");
        server.end();
        assert_eq!(run(url, "queues --json").json()[0]["paused_at"].is_string(), may);
    }
    run(url, "audit").says(0, &["ada", "pause"], &[]);
}

#[cfg(feature = "web")]
#[tokio::test]
async fn the_dashboard_is_for_those_who_have_a_token() {
    let Some(db) = database(Engine::Sqlite).await else { return };
    let url = db.url();
    run(url, "migrate").says(0, &["up to date"], &[" · "]);
    let file = tempfile::NamedTempFile::new().expect("a file");
    let path = file.path().to_str().expect("UTF-8");
    run(url, &format!("web --listen 0.0.0.0:0 --tokens {path}")).says(2, &[], &["nobody is in it"]);
    run(url, &format!("web --tokens {path} --operate")).says(2, &[], &["cannot be used with"]);
    // SHA-256 of "test"
    let hash = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
    std::fs::write(path, format!("ada act {hash}\nbob look {hash}\n")).expect("written");
    let mut server = Tail::new(url, &format!("web --listen 0.0.0.0:0 --tokens {path}"));
    let port = server.next().rsplit_once(':').expect("a port").1.to_owned();
    let (address, form) = (format!("127.0.0.1:{port}"), "pause=mail&reason=");
    let get = |authorization: &str| ask(&address, &format!("GET / HTTP/1.1\r\nHost: jobs.example\r\n{authorization}"));
    let post = |authorization: &str| {
        let head = format!(
            "POST /queues HTTP/1.1\r\nHost: jobs.example\r\nSec-Fetch-Site: same-origin\r\n{authorization}\r\n\
             Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{form}",
            form.len()
        );
        ask(&address, &head)
    };
    let [ada, bob, eve] =
        ["YWRhOnRlc3Q=", "Ym9iOnRlc3Q=", "YWRhOmd1ZXNz"].map(|it| format!("Authorization: Basic {it}"));
    for stranger in ["X-Nobody: 1", &eve] {
        let answers = [get(stranger), post(stranger)];
        let asked = |it: &String| it.starts_with("HTTP/1.1 401") && it.contains("www-authenticate: Basic");
        assert!(answers.iter().all(asked), "{answers:?}");
    }
    assert!(get(&bob).starts_with("HTTP/1.1 200") && post(&bob).starts_with("HTTP/1.1 403"));
    assert!(post(&ada).starts_with("HTTP/1.1 303"));
    server.end();
    run(url, "audit").says(0, &["ada", "pause"], &[]);
}

async fn tail_follows_on(engine: Engine) {
    let Some(db) = database(engine).await else { return };
    let url = db.url();
    run(url, "migrate").says(0, &["up to date"], &[" · "]);
    fill(&db).await;
    run(url, "tail state:ready").says(2, &[], &["`tail` takes kind:, queue: and state:completed", "queue list"]);
    run(url, "tail error:x").says(2, &[], &["`tail` takes kind:"]);
    let mut all = Tail::new(url, "tail --json --lines 3");
    let mut failed = Tail::new(url, "tail --failed kind:send_email --lines 1");
    let mut seen: Vec<Value> = (0..3).map(|_| serde_json::from_str(&all.next()).expect("JSON")).collect();
    seen.sort_by_key(|it| it["id"].as_i64());
    let told: Vec<_> = seen.iter().map(|it| (it["outcome"].as_str(), it["is_dead"].as_bool())).collect();
    assert_eq!(told, [(Some("completed"), Some(false)), (Some("failed"), Some(true)), (Some("failed"), Some(true))]);
    let line = failed.next();
    assert!(line.contains("send_email  failed, dead") && line.contains("connection refused (smtp"), "{line}");
    // what ends from now on
    let id = with_pool!(db, pool => {
        let id = SendEmail::new("nobody", "Later").queue("late").enqueue(pool).await.expect("enqueued");
        let admin = queue::admin::Admin::new(pool);
        let over = async {
            while !admin.job(id).await.is_ok_and(|job| job.is_some_and(|job| job.job.state.is_final())) {
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        };
        queue::Worker::builder(pool).queue("late", 1).build().expect("a worker").run(over).await.expect("it ends well");
        id.to_string()
    });
    let (line, json) = (failed.next(), all.next());
    assert!(line.contains(&id) && json.contains(&format!("\"id\":{id},")), "{line}\n{json}");
    [all, failed].into_iter().for_each(Tail::end);
}

async fn every_command_on(engine: Engine) {
    let Some(db) = database(engine).await else { return };
    let url = db.url();

    run(url, "status").says(1, &[], &["error: the queue tables are missing", "fix: queue migrate"]);
    run(url, "doctor").says(1, &["✓ The database answers.", "✗ the queue tables are missing", "queue migrate"], &[]);
    run(url, "migrate --sql").says(0, &["CREATE TABLE", "queue_jobs"], &[]);
    run(url, "migrate --sql --from 5").says(0, &["ADD COLUMN meta"], &[]);
    run(url, "migrate").says(0, &["The tables are up to date."], &[" · "]);
    run(url, "migrate --json").says(0, &["{\"migrated\":true}"], &[]);
    run(url, "status").says(0, &["! No worker is alive. Nothing waits."], &[]);
    run(url, "list").says(0, &[], &["No job matches."]);
    run(url, "workers").says(0, &[], &["No worker has run here."]);
    run(url, "queues").says(0, &[], &["No queue"]);
    run(url, "schedules").says(0, &[], &["There is no schedule."]);
    run(url, "errors").says(0, &[], &["Nothing fails."]);
    run(url, "why").says(0, &[], &["No job waits."]);
    run(url, "check").says(0, &["✓ Nothing waits that no live worker serves."], &[]);

    let [done, dead, other, later, now, strange] = fill(&db).await;

    // look
    let status = run(url, "status");
    status.says(
        0,
        &[
            "✗ No worker is alive, and 3 jobs wait.",
            "queue workers",
            "! Dead letters of kind `send_email`: 2, most of them: connection refused",
        ],
        &[],
    );
    status.says(0, &["queue errors ", "QUEUE  READY", "発送 ", "mail "], &[]);
    let json = run(url, "status --json").json();
    assert_eq!((json[0]["queues"][0]["queue"].as_str(), json[0]["workers"]["alive"].as_u64()), (Some("mail"), Some(0)));
    assert_eq!(json[0]["findings"][0]["severity"], "error");
    // the minute in which the worker ended is over
    let over = match db.engine() {
        Engine::Sqlite => "UPDATE queue_tallies SET began_at = began_at - 60000 WHERE span = 60",
        _ => "UPDATE queue_tallies SET began_at = began_at - INTERVAL '1' MINUTE WHERE span = 60",
    };
    with_pool!(db, pool => {
        sqlx::query(over).execute(pool).await.expect("tallies");
    });
    let status = run(url, "status");
    let mail = status.out.lines().find(|line| line.trim_start().starts_with("mail")).expect("a queue");
    assert!(mail.contains("  0.6  ") && mail.contains("  0.4  "), "{}", status.all());
    status.says(0, &["OLDEST", "PER MIN  FAILED/MIN", "MAX WAIT"], &[]);
    let json = run(url, "status --json").json();
    let mail = &json[0]["queues"][0];
    assert_eq!((mail["per_minute"].as_f64(), mail["failed_per_minute"].as_f64()), (Some(0.6), Some(0.4)));
    assert!(mail["wait_mean_s"].as_f64() <= mail["wait_longest_s"].as_f64() && mail["wait_mean_s"].is_f64(), "{mail}");
    let list = run(url, "list state:dead kind:send_email queue:mail attempt:>0 since:1h");
    list.says(0, &["ID  TRY  WHEN", "connection refused (smtp.example.org:587)\n"], &[]);
    assert_eq!(list.out.lines().count(), 3, "{}", list.all());
    run(url, "list error:refused failed-since:1h").says(0, &["STATE", "dead"], &[]);
    run(url, "list retrying").says(0, &[], &["No job matches."]);
    let first = run(url, "list --limit 1");
    let go_on = format!("(2 jobs looked at). Go on: queue list --limit 1 --before {strange}\n");
    first.says(0, &["ready"], &["1 job, searched back to ", &go_on]);
    run(url, &format!("list --before {done}")).says(0, &[], &["No more job matches."]);
    let jobs = run(url, "list --json").json();
    assert_eq!(jobs.len(), 6);
    assert_eq!((jobs[4]["state"].as_str(), jobs[4]["id"].as_i64()), (Some("dead"), Some(dead.get())));
    let of_args = run(url, "list args.to:nobody state:dead --json").json();
    assert_eq!(of_args.iter().filter_map(|job| job["id"].as_i64()).collect::<Vec<_>>(), [other.get(), dead.get()]);
    let worker = jobs[4]["worker"].as_i64().expect("it died there");
    assert_eq!(run(url, &format!("list worker:{worker} --json")).json().len(), 3);
    run(url, "list args.to:somebody").says(0, &[], &["No job matches."]);
    run(url, "list kind:send_emial").says(0, &[], &["No job matches.", "Did you mean `send_email`?"]);
    run(url, "list --utc").says(0, &["Z"], &[]);
    let show = run(url, &format!("show {dead}"));
    show.says(0, &["dead", "\"to\": \"nobody\"", "STARTED", "failed", "error     connection refused"], &[]);
    show.says(0, &[&format!("queue send-back {dead}\n")], &[]);
    assert_eq!(run(url, &format!("show {dead} --json")).json()[0]["attempts"][0]["attempt"], 1);
    run(url, &format!("show {done}")).says(0, &["completed"], &[]);
    run(url, &format!("why {now}")).says(
        0,
        &["because   no worker is alive", "cure      start a worker", "queue workers"],
        &[],
    );
    run(url, &format!("why {later}")).says(0, &[&format!("queue retry {later}\n"), "known by"], &[]);
    assert_eq!(run(url, &format!("why {dead} --json")).json()[0]["reason"]["name"], "dead");
    run(url, "why").says(0, &["JOBS  WAIT", "2  for a worker: none is alive", "1  until they are due"], &[]);
    assert_eq!(run(url, "why --json").json()[0]["jobs"]["jobs"], 2);
    run(url, "errors").says(0, &["GROUP", "NEW", "connection refused (<address>)"], &["queue errors GROUP"]);
    let errors = run(url, "errors --json").json();
    let group = errors[0]["groups"][0]["group"].as_str().expect("a group")[..8].to_owned();
    run(url, &format!("errors {group}")).says(
        0,
        &[
            "2 dead, 0 waiting for another attempt",
            "; new\n",
            "█ 2 attempts\n",
            "connection refused (smtp.example.org:587)",
            "while sending Welcome",
            &format!("queue send-back --match 'group:{group}' --first 1\n"),
        ],
        &[],
    );
    run(url, "errors 00000000").says(1, &[], &["nothing fails in a group `00000000`", "fix: queue errors"]);
    let of_group = run(url, &format!("list state:dead group:{group}"));
    assert_eq!(of_group.out.lines().count(), 3, "{}", of_group.all());
    run(url, "list group:mail").says(2, &[], &["`mail` is not a group"]);
    run(url, "workers").says(0, &["ended", "all", "send_email"], &[]);
    assert_eq!(run(url, "workers --json").json()[0]["alive"], false);
    run(url, "queues").says(0, &["QUEUE", "発送"], &[]);
    assert_eq!(run(url, "queues --json").json()[0]["queue"], "mail");
    run(url, "schedules --json").says(0, &[], &[]);
    run(url, "check").says(1, &["No worker is alive, and 3 jobs wait."], &[]);
    assert_eq!(run(url, "check --json").json()[0]["findings"][0]["fix"], "queue workers");
    run(url, "doctor").says(1, &["✓ The schema fits", "✓ The clocks", "✗ No worker", "✓ No queue is paused."], &[]);

    // narrow terminals
    for words in [
        "status",
        "list",
        "errors",
        "why",
        "workers",
        "queues",
        "check",
        "doctor",
        &format!("show {dead}"),
        &format!("why {now}"),
    ] {
        for columns in ["40", "80"] {
            let words: Vec<&str> = words.split(' ').collect();
            let ran = Ran::new(&words, &queue(url, &words).env("COLUMNS", columns).output().expect("it starts"));
            let most: usize = columns.parse().expect("a number");
            // a command is not cut
            let fits = |line: &str| line.width() <= most || line.contains(" queue ");
            assert!(ran.out.lines().all(fits), "{}", ran.all());
        }
    }

    // act on ids
    let send_back = run(url, &format!("send-back {dead}"));
    send_back.says(0, &[&format!("job {dead} sent back. Watch it: queue show {dead}\n")], &[" · "]);
    run(url, &format!("send-back {dead}")).says(1, &[], &["error: cannot send back job", "fix: queue show"]);
    run(url, &format!("retry {done}")).says(1, &[], &["it is completed"]);
    run(url, &format!("retry {later} 999999")).says(
        1,
        &["1 of 2 jobs retried."],
        &["there is no job 999999", "fix: queue list"],
    );
    run(url, &format!("reschedule {now} --in 2h")).says(0, &["rescheduled"], &[" · "]);
    run(url, &format!("reschedule {now} --at 2030-01-01")).says(0, &["rescheduled"], &[" · "]);
    run(url, &format!("show {now} --utc")).says(0, &["2030-01-01 00:00:00Z"], &[]);
    run(url, &format!("edit {other} --set to=grace")).says(
        0,
        &["  - \"to\": \"nobody\"\n  + \"to\": \"grace\"\n", &format!("queue send-back {other}\n")],
        &[" · "],
    );
    run_with(url, &["edit", &other.to_string(), r#"{"subject": "Hello"}"#], "").says(
        0,
        &["+ \"subject\": \"Hello\""],
        &[" · "],
    );
    run(url, &format!("edit {other} --set to=grace")).says(0, &[], &["Nothing to change"]);
    run(url, &format!("edit {other} --set too=grace")).says(2, &[], &["did you mean `to`?"]);
    run(url, &format!("edit {other} [1]")).says(2, &[], &["not a JSON object"]);
    run(url, &format!("edit {other} {{")).says(2, &[], &["this is not JSON"]);
    run(url, &format!("edit {done} --set to=grace")).says(1, &[], &["cannot edit", &format!("fix: queue show {done}")]);
    let args = run(url, &format!("show {other} --json")).json()[0]["args"].as_str().map(str::to_owned);
    let args: Value = serde_json::from_str(&args.expect("a text")).expect("JSON");
    assert_eq!(args, serde_json::json!({"to": "grace", "subject": "Hello"}));
    run(url, "pause mail").says(0, &["queue resume mail"], &[" · "]);
    run(url, "pause mial").says(
        0,
        &["paused"],
        &["No waiting job and no worker has the queue `mial`. Did you mean `mail`?"],
    );
    run(url, "resume mial").says(0, &["queue `mial` is not paused"], &[" · "]);
    run(url, "status").says(0, &["! The queue `mail` is paused: 3 jobs wait.", "queue resume mail"], &[]);
    run(url, &format!("why {dead}")).says(0, &["paused since", "queue resume mail"], &[]);
    run(url, "doctor").says(1, &["! The queue `mail` was paused"], &[]);
    run(url, "resume mail --json").says(0, &["{\"paused\":false,\"queue\":\"mail\"}"], &[]);

    // enqueue
    let enqueue = |kind: &str, args: &str, more: &[&str]| {
        let words = [&["enqueue", kind, args], more].concat();
        Ran::new(&words, &queue(url, &words).output().expect("it starts"))
    };
    let enqueued = enqueue(
        "send_email",
        r#"{"to": "🙂", "n": 340282366920938463463374607431768211455}"#,
        &["--queue", "mail", "--after", "1h", "--priority", "-7", "--max-retries", "2", "--meta", "request=7"],
    );
    let id = enqueued.out.trim_end().to_owned();
    enqueued.says(0, &[&id], &[" · ", &format!("queue show {id}\n")]);
    let shown = run(url, &format!("show {id} --json")).json().remove(0);
    assert_eq!(shown["args"], r#"{"to": "🙂", "n": 340282366920938463463374607431768211455}"#);
    assert_eq!((&shown["priority"], &shown["max_retries"]), (&Value::from(-7), &Value::from(2)));
    assert_eq!(
        (&shown["queue"], &shown["state"], &shown["meta"]),
        (&"mail".into(), &"scheduled".into(), &r#"{"request":"7"}"#.into())
    );
    run(url, &format!("edit {id} --set n=340282366920938463463374607431768211454 --json")).says(
        0,
        &[&format!(r#"{{"args":{{"to": "🙂", "n": 340282366920938463463374607431768211454}},"id":{id}}}"#)],
        &[],
    );
    run(url, &format!("delete {id}")).says(0, &["deleted"], &[" · "]);
    let at = enqueue("send_email", "{}", &["--at", "2030-01-01", "--json"]).json().remove(0);
    assert_eq!(at["new"], true);
    run(url, &format!("show {} --utc", at["id"])).says(0, &["2030-01-01 00:00:00Z", "default"], &[]);
    run(url, &format!("delete {}", at["id"])).says(0, &["deleted"], &[" · "]);
    let slip =
        "no worker and no unfinished job has the kind `send_emial`; did you mean `send_email`? Otherwise add --force";
    let fix = "fix: queue enqueue send_email '{\"to\": \"ada\"}' --queue mail\n";
    enqueue("send_emial", "{\"to\": \"ada\"}", &["--queue", "mail"]).says(1, &[], &[slip, fix]);
    enqueue("brand_new", "{}", &[]).says(
        1,
        &[],
        &["has the kind `brand_new`; --force", "fix: queue enqueue brand_new '{}' --force\n"],
    );
    let forced = enqueue("brand_new", "{}", &["--queue", "nowhere", "--force"]).out;
    run(url, &format!("delete {}", forced.trim_end())).says(0, &["deleted"], &[" · "]);
    enqueue("send_email", "[1]", &["--queue", "mail"]).says(
        2,
        &[],
        &["`send_email`: its arguments are not a JSON object"],
    );
    enqueue("send_email", "{", &["--queue", "mail"]).says(
        2,
        &[],
        &["its arguments are not a JSON object", "fix: queue help enqueue\n"],
    );
    let address = r#"{"url": "https://example.org"}"#;
    enqueue("brand_new", address, &[]).says(1, &[], &[&format!("fix: queue enqueue brand_new '{address}' --force\n")]);

    // ids on standard input, and what matches
    let listed = run(url, "list queue:mail state:ready --json").out;
    run_with(url, &["cancel", "-"], &listed).says(0, &["2 of 2 jobs cancelled or told to stop."], &[" · "]);
    run_with(url, &["cancel", "--json", "-"], &format!("{now}\n{now}")).says(0, &["\"changed\":2"], &[]);
    run_with(url, &["cancel", "-"], "x").says(2, &[], &["`x` is not the id of a job", "fix: queue list"]);
    for words in ["delete --match kind:send_email", "delete --match kind:send_email --json"] {
        run(url, words).says(2, &[], &["nothing was done: add --yes", &format!("queue {words} --yes")]);
    }
    assert_eq!(run(url, "list kind:send_email --json").json().len(), 5, "nothing was done");
    run(url, "send-back --match kind:send_emial --yes").says(
        0,
        &["0 jobs sent back."],
        &["Did you mean `send_email`?"],
    );
    run(url, "send-back --match kind:send_email --yes").says(0, &["1 job sent back."], &[" · "]);
    run(url, "delete --match kind:send_email --first 1 --yes").says(0, &["1 job deleted."], &[" · "]);
    let edit = ["edit", "--match", "kind:send_email", "--set", "subject=Sooner", "--yes"];
    let edited = Ran::new(&edit, &queue(url, &edit).output().expect("it starts"));
    edited.says(0, &[" edited."], &[" · "]);
    run(url, "edit --match kind:send_email").says(2, &[], &["error:"]);
    run(url, "edit 1 --match kind:send_email --set a=1").says(2, &[], &["error:"]);
    run(url, "edit --match kind:none --set a=1 --yes").says(0, &[], &["Nothing to do"]);

    run(url, "delete --match kind:send_email --yes --json").says(0, &["{\"changed\":4,\"operation\":"], &[]);

    // the record of all that
    let audit = run(url, "audit --json").json();
    let deleted = &audit[0];
    assert_eq!((&deleted["action"], &deleted["changed"]), (&"delete".into(), &4.into()), "{deleted}");
    assert_eq!(deleted["details"]["filter"]["kind"], "send_email", "{deleted}");
    let id = deleted["id"].to_string();
    let list = run(url, "audit");
    list.says(0, &["WHO", "kind:send_email", "queue mail", "send-back", "pause"], &[]);
    run(url, &format!("audit {id}")).says(0, &[&format!("delete {id} · done"), "  changed   4\n"], &[]);
    run(url, "audit 999999").says(1, &[], &["error: there is no operation 999999", "fix: queue audit"]);
    run(url, &format!("stop {id}")).says(0, &["It is over already."], &[" · "]);
    run(url, "stop 999999").says(1, &[], &["there is no operation", "fix: queue audit"]);
    run(url, "pause mail --as ada --reason disk").says(0, &["is paused"], &[" · "]);
    let last = &run(url, "audit --json").json()[0];
    assert_eq!((&last["actor"], &last["reason"]), (&"ada".into(), &"disk".into()), "{last}");
    run(url, "resume mail").says(0, &["is not paused"], &[" · "]);
    run(url, "send-back --match state:dead --over soon --yes").says(2, &[], &["`soon` is not a span"]);
    run(url, "retry --match state:scheduled --over 10m --reason slowly --yes").says(0, &["retried."], &[" · "]);
    run(url, &format!("delete {strange}")).says(0, &["deleted"], &[" · "]);
    run(url, "list").says(0, &[], &["No job matches."]);

    // a database that takes no writes
    let read_only = match engine {
        Engine::Sqlite => url.replace("mode=rwc", "mode=ro"),
        Engine::Postgres => format!("{url}?options=-c%20default_transaction_read_only%3Don"),
        // sessions of these get no settings by their address; the account of a reader is as in docs/security.md
        Engine::MariaDb | Engine::MySql => return,
    };
    for words in ["list", "audit", "queues", "status", "errors", "why"] {
        let ran = run(&read_only, words);
        assert!(ran.code == 0 && !format!("{}{}", ran.out, ran.err).contains("error:"), "{}", ran.all());
    }
    for words in ["pause mail", "enqueue send_email {}", "send-back --match state:dead --yes"] {
        let ran = run(&read_only, words);
        assert!(ran.code == 1 && ran.err.contains("only") && ran.err.contains("fix: "), "{}", ran.all());
    }
}

#[tokio::test]
async fn sqlite_tail_follows() {
    tail_follows_on(Engine::Sqlite).await;
}

#[tokio::test]
async fn postgres_tail_follows() {
    tail_follows_on(Engine::Postgres).await;
}

#[tokio::test]
async fn mariadb_tail_follows() {
    tail_follows_on(Engine::MariaDb).await;
}

#[tokio::test]
async fn mysql_tail_follows() {
    tail_follows_on(Engine::MySql).await;
}

#[tokio::test]
async fn sqlite_every_command() {
    every_command_on(Engine::Sqlite).await;
}

#[tokio::test]
async fn postgres_every_command() {
    every_command_on(Engine::Postgres).await;
}

#[tokio::test]
async fn mariadb_every_command() {
    every_command_on(Engine::MariaDb).await;
}

#[tokio::test]
async fn mysql_every_command() {
    every_command_on(Engine::MySql).await;
}

#[tokio::test]
async fn failures_are_told_before_jobs_are_dead() {
    let Some(db) = database(Engine::Sqlite).await else { return };
    run(db.url(), "migrate").says(0, &["up to date"], &[" · "]);
    let pool = &db.sqlite_pool(3).await;
    let id = Charge::new().enqueue(pool).await.expect("enqueued");
    let admin = queue::admin::Admin::new(pool);
    let failed = async {
        while !admin.job(id).await.is_ok_and(|job| job.is_some_and(|job| job.job.retrying)) {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        let fails = "Of `charge`, 1 job waits after a failure: card terminal is away";
        run(db.url(), "status").says(0, &[fails, "queue errors "], &[]);
        run(db.url(), "list retrying kind:charge").says(0, &["card terminal is away"], &[]);
        run(db.url(), &format!("show {id}")).says(0, &["its next attempt is due in", "queue retry"], &[]);
    };
    queue::Worker::builder(pool).build().expect("a worker").run(failed).await.expect("it ends well");
}

#[test]
fn what_is_not_understood_names_the_nearest_word() {
    let url = "sqlite::memory:";
    for (words, err) in [
        ("sendback 1", ["there is no command `sendback`; did you mean `send-back`?", "fix: queue send-back"]),
        ("list stat:dead", ["did you mean `state`?", "error: "]),
        ("list dead", ["did you mean `state:dead`?", "error: "]),
        ("list --limit 5000", ["5000", "fix: queue help"]),
        ("show x", ["invalid value 'x' for '<ID>'", "fix: queue help"]),
        ("retry", ["ID", "fix: queue help retry"]),
        ("retry --match  --yes", ["--match", "fix: queue help"]),
        ("reschedule 1", ["--at", "--in"]),
        ("reschedule 1 --in soon", ["`soon` is not a time", "error: "]),
        ("reschedule 1 --at soon", ["`soon` is not a time", "error: "]),
        ("edit 1", ["JSON", "error: "]),
        ("enqueue a", ["JSON", "fix: queue help enqueue"]),
        ("enqueue a {} --after soon", ["`soon` is not a span", "error: "]),
        ("enqueue a {} --at soon", ["`soon` is not a time", "error: "]),
        ("enqueue a {} --at 2030-01-01 --after 1h", ["--at", "--after"]),
        ("enqueue a {} --meta b", ["`b` is not NAME=VALUE", "error: "]),
        ("work", ["there is no command `work`; did you mean `workers`?", "fix: queue workers"]),
        ("status --jso", ["did you mean `--json`?", "fix: queue help status"]),
    ] {
        run(url, words).says(2, &[], &err);
    }
    let json: Value = serde_json::from_str(&run(url, "list stat:dead --json").err).expect("JSON");
    assert!(json["error"]["message"].as_str().is_some_and(|text| text.contains("`state`")), "{json}");
    let all = Ran::new(&["retry"], &queue(url, &["retry", "--match", "", "--yes"]).output().expect("it starts"));
    all.says(2, &[], &["--match needs at least one word"]);
}

#[test]
fn what_needs_no_database_asks_none() {
    run("", "").says(0, &["queue status", "queue send-back 42"], &[]);
    #[cfg(feature = "top")]
    {
        run("", "").says(0, &["\n  queue top "], &[]);
        run("mariadb://nowhere/shop", "top").says(2, &[], &["error: `top` needs a terminal\nfix: queue status\n"]);
        let fix = r#""fix":"queue status --json""#;
        run("mariadb://nowhere/shop", "top --operate --json").says(2, &[], &["no --json", fix]);
    }
    run("", "help").says(0, &["send-back"], &[]);
    run("", "completions bash").says(0, &["send-back", "max-retries"], &[]);
    run("mariadb://nowhere/shop", "migrate --sql").says(0, &["CREATE TABLE", "queue_jobs"], &[]);
}

#[test]
fn a_wrong_address_tells_no_password() {
    let folder = tempfile::tempdir().expect("a folder");
    let missing = format!("sqlite://{}/none.sqlite", folder.path().display());
    for (url, code, err) in [
        ("", 2, "set DATABASE_URL"),
        ("nonsense", 2, "names no engine"),
        ("oracle://ada:secret@db1/shop", 2, "oracle://ada@db1/shop names no engine"),
        ("postgres://ada:secret@host:port/shop", 2, "postgres://ada@host:port/shop is not a URL"),
        ("postgres://ada:secret@127.0.0.1:1/shop", 3, "cannot connect to postgres://ada@127.0.0.1:1/shop"),
        ("mysql://ada:secret@127.0.0.1:1/shop", 3, "cannot connect to mysql://ada@127.0.0.1:1/shop"),
        (missing.as_str(), 1, "mode=rwc"),
    ] {
        let mut command = queue(url, &["status"]);
        let ran = Ran::new(&["status"], &command.current_dir(folder.path()).output().expect("it starts"));
        ran.says(code, &[], &[err]);
        assert!(!ran.err.contains("secret"), "{}", ran.all());
    }
}

#[test]
fn no_error_repeats_a_password() {
    for words in [
        "status postgres://ada:secret@db1/shop",
        "--database postgres://ada:secret@db1/shop retry --match kind:a",
        "retry --match kind:a --database=postgres://ada:secret@db1/shop",
        "show postgres://ada:secret@db1/shop",
        "retry postgres://ada:secret@db1/shop",
        "postgres://ada:secret@db1/shop status",
        "list postgres://ada:secret@db1/shop",
    ] {
        let ran = run("sqlite::memory:", words);
        assert!(ran.code == 2 && !ran.err.contains("secret"), "{}", ran.all());
    }
}

#[test]
fn the_address_may_be_in_a_file() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join(".env"), "DATABASE_URL=sqlite://jobs.sqlite?mode=rwc\n").expect("written");
    for words in ["migrate", "status"] {
        let mut command = queue("", &[words]);
        let output = command.env_remove("DATABASE_URL").current_dir(folder.path()).output().expect("it starts");
        let ran = Ran::new(&[words], &output);
        assert_eq!(ran.code, 0, "{}", ran.all());
        assert!(format!("{}{}", ran.out, ran.err).contains("sqlite://jobs.sqlite · "), "{}", ran.all());
    }
}

#[test]
fn a_closed_pipe_ends_quietly() {
    let folder = tempfile::tempdir().expect("a folder");
    let url = format!("sqlite://{}/jobs.sqlite?mode=rwc", folder.path().display());
    run(&url, "migrate").says(0, &["up to date"], &[" · "]);
    for words in ["status", "help", "migrate --sql", "completions zsh"] {
        let words: Vec<&str> = words.split(' ').collect();
        let mut child = queue(&url, &words).spawn().expect("it starts");
        drop(child.stdout.take());
        Ran::new(&words, &child.wait_with_output().expect("it ends")).says(0, &[], &[]);
    }
}

#[tokio::test]
async fn on_a_terminal_it_asks() {
    let Some(db) = database(Engine::Sqlite).await else { return };
    run(db.url(), "migrate").says(0, &["up to date"], &[" · "]);
    fill(&db).await;
    let words = ["delete", "--match", "kind:send_email"];
    let asked = |answer: &str| {
        let terminal = nix::pty::openpty(None, None).expect("a terminal");
        let child = queue(db.url(), &words).stdin(terminal.slave).spawn().expect("it starts");
        std::fs::File::from(terminal.master.try_clone().expect("a handle"))
            .write_all(answer.as_bytes())
            .expect("typed");
        let ran = Ran::new(&words, &child.wait_with_output().expect("it ends"));
        drop(terminal.master);
        ran
    };
    let question = "This will delete 5 jobs, on sqlite://";
    asked("\n").says(1, &[], &["connection refused", question, "Go on? [y/N] error: nothing was done"]);
    asked("y\n").says(0, &["5 jobs deleted."], &[question]);
    asked("y\n").says(0, &[], &["Nothing to do: no such job matches."]);
}

#[cfg(feature = "top")]
#[tokio::test]
async fn top_acts_on_a_terminal_and_gives_it_back() {
    use std::fs::File;
    use std::io::Read as _;

    use nix::pty::{Winsize, openpty};
    use nix::sys::termios::tcgetattr;

    let Some(db) = database(Engine::Sqlite).await else { return };
    run(db.url(), "migrate").says(0, &["up to date"], &[" · "]);
    fill(&db).await;
    let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
    let terminal = openpty(Some(&size), None).expect("a terminal");
    let before = tcgetattr(&terminal.master).expect("its modes");
    let words = ["top", "--operate", "--as", "ada", "--reason", "disk"];
    let stdin = terminal.slave.try_clone().expect("a handle");
    let mut child = queue(db.url(), &words).stdin(stdin).stdout(terminal.slave).spawn().expect("it starts");
    let mut keys = File::from(terminal.master.try_clone().expect("a handle"));
    let mut shown = File::from(terminal.master.try_clone().expect("a handle"));
    let (mut text, mut part) = (String::new(), [0; 4096]);
    let mut until = |end: &str| {
        // what follows the last key alone
        text.clear();
        while !text.contains(end) {
            let read = shown.read(&mut part).expect("shown");
            text += &String::from_utf8_lossy(&part[..read]);
        }
    };
    until("[1 Queues 2]");
    // a text that is pasted presses no key: on another tab, P does nothing
    keys.write_all(b"\x1b[200~2\x1b[201~").expect("pasted");
    keys.write_all(b"P").expect("typed");
    // only what changes is written: no whole sentence
    until("✓");
    keys.write_all(b"q").expect("typed");
    until("\x1b[?1049l");
    assert!(child.wait().expect("it ends").success());
    assert_eq!(tcgetattr(&terminal.master).expect("its modes"), before);
    let audit = run(db.url(), "audit --json").json();
    assert_eq!((&audit[0]["action"], &audit[0]["actor"]), (&"pause".into(), &"ada".into()), "{audit:?}");
}

/// Of no type of the program `queue`. It repeats its secret in all ways.
#[job(queue = "bank", max_retries = 0)]
async fn pay(#[secret] card: String, how: String) -> Result<String, JobError> {
    match how.as_str() {
        "fail" => Err(JobError::dead(format!("{card} {card:?}"))),
        "panic" => panic!("{card}"),
        "wait" => Err(JobError::snooze_because(std::time::Duration::from_secs(3600), card)),
        _ => Ok(card),
    }
}

async fn secrets_on(engine: Engine) {
    const PLANTED: &str = "pl4nted";
    let Some(db) = database(engine).await else { return };
    let url = db.url();
    run(url, "migrate").says(0, &["up to date"], &[" · "]);
    let [failed, panicked, waits, done] = with_pool!(db, pool => {
        let mut ids = Vec::new();
        for how in ["fail", "panic", "wait", "return"] {
            ids.push(Pay::new("pl4nted \"card\"", how).enqueue(pool).await.expect("enqueued"));
        }
        let hidden = run(url, &format!("show {}", ids[0]));
        hidden.says(0, &["\"card\": \"••••\"", "\"how\": \"••••\"", "hidden    all arguments, until a worker"], &[]);
        let admin = queue::admin::Admin::new(pool);
        let over = async {
            while !admin.ended(10).await.is_ok_and(|ended| ended.len() == 4) {
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        };
        queue::Worker::builder(pool).build().expect("a worker").run(over).await.expect("it ends well");
        <[JobId; 4]>::try_from(ids).expect("four")
    });
    let none = |ran: &Ran| assert!(!ran.all().contains(PLANTED), "{}", ran.all());
    let errors = run(url, "errors --json").json();
    let group = errors[0]["groups"][0]["group"].as_str().expect("a group").to_owned();
    let ids = [failed, panicked, waits, done].map(|id| id.to_string());
    let of_each = ids.iter().flat_map(|id| ["show", "why", "audit"].map(|word| format!("{word} {id}")));
    let words = [
        "status",
        "list",
        "list kind:pay",
        "errors",
        "why",
        "workers",
        "queues",
        "schedules",
        "audit",
        "check",
        "doctor",
    ];
    let words = words.map(str::to_owned).into_iter().chain(of_each).chain([format!("errors {group}")]);
    for line in words {
        for line in [format!("{line} --json"), line] {
            none(&run(url, &line));
        }
    }
    let mut tail = Tail::new(url, "tail --json --lines 4");
    (0..4).map(|_| tail.next()).for_each(|line| assert!(!line.contains(PLANTED), "{line}"));
    tail.child.kill().expect("it runs");
    tail.child.wait().expect("it ends");
    run(url, &format!("show {failed}")).says(0, &["\"card\": \"••••\"", "\"how\": \"fail\"", "error     •••• "], &[]);
    run(url, &format!("show {done}")).says(0, &["result    \"••••\""], &[]);
    for line in ["list args.card:x", "list kind:pay args.card:x", "edit --match kind:pay --set card=x --yes"] {
        run(url, line).says(2, &[], &["`card` is a secret argument of `pay`"]);
    }
    // edits
    let stored = async || {
        with_pool!(db, pool => {
            queue::admin::Admin::new(pool).reveal_secrets().job(waits).await.expect("read").expect("there").args
        })
    };
    let edited = run(url, &format!("edit {waits} --set how=fail"));
    none(edited.says(0, &["+ \"how\": \"fail\""], &[" · "]));
    assert_eq!(stored().await, r#"{"card":"pl4nted \"card\"","how":"fail"}"#);
    run(url, &format!("edit {waits} --set card=••••")).says(0, &[], &["Nothing to change"]);
    run(url, &format!("edit {waits} --set card=x••••")).says(2, &[], &["`card` is secret, and `••••` only stands for"]);
    run(url, &format!("edit {waits} --set card=4711")).says(2, &[], &["without --set"]);
    let edited = run(url, &format!("edit {waits} --set card=pl4nted-2"));
    none(&Ran { words: String::new(), ..edited.says(0, &["+ \"card\": \"••••\""], &[" · "]).clone() });
    let json = run_with(url, &["edit", &ids[2], r#"{"card":"pl4nted-3"}"#, "--json"], "");
    assert_eq!(json.json()[0]["args"]["card"], "••••");
    assert_eq!(stored().await, r#"{"card":"pl4nted-3","how":"fail"}"#);
}

#[tokio::test]
async fn sqlite_secrets_are_told_by_no_command() {
    secrets_on(Engine::Sqlite).await;
}

#[tokio::test]
async fn postgres_secrets_are_told_by_no_command() {
    secrets_on(Engine::Postgres).await;
}

#[tokio::test]
async fn mariadb_secrets_are_told_by_no_command() {
    secrets_on(Engine::MariaDb).await;
}

#[tokio::test]
async fn mysql_secrets_are_told_by_no_command() {
    secrets_on(Engine::MySql).await;
}
