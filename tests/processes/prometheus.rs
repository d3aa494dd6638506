//! Prometheus scrapes two workers under load. Each metric of the table in `docs/watching.md` equals what the records
//! say, the rules are loaded and fire, and each query of the board in `ops/grafana.json` has an answer.
//!
//! Promise: P46.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use queue::{Enqueue, JobId};
use queue_test_support::{Engine, Helper};
use queue_tests::{AnyPool, eventually};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::jobs::{ACTS, LATE, Load, WaitForFile};
use crate::records::What;
use crate::scene::{PATIENCE, Process, Scene, text, touch_for};

/// Of the worker that is suspended. Shorter than the default, to save time.
const LEASE: Duration = Duration::from_secs(4);
/// The jobs that it is lost with.
const LOST: usize = 3;
/// The program that enqueues these has no metrics.
const OF_THE_TEST: &str = "('load', 'wait_for_file')";
/// All jobs, wherever they are.
const EVERY: &str = "(SELECT id, kind, queue, fence FROM queue_jobs
                      UNION ALL SELECT id, kind, queue, fence FROM queue_history
                      UNION ALL SELECT id, kind, queue, fence FROM queue_dead) AS j";
/// The database's clock counts in milliseconds on SQLite.
const CLOCK: f64 = 0.005;

/// By the values of the labels, in the order of the table.
type Values = BTreeMap<Vec<String>, f64>;

/// A row of the table.
#[derive(Debug, PartialEq, Eq)]
struct Metric {
    name: String,
    labels: Vec<String>,
    /// What Prometheus is asked.
    query: String,
}

fn project(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file)
}

fn read(file: &str) -> String {
    std::fs::read_to_string(project(file)).expect("text")
}

/// The cells of a table's row: `\|` is no end of a cell.
fn cells(line: &str) -> Vec<String> {
    let line = line.replace("\\|", "\0");
    line.split('|').map(|cell| cell.replace('\0', "|").trim().to_owned()).collect()
}

fn metrics(page: &str) -> Vec<Metric> {
    let rows = page.lines().filter(|line| line.starts_with("| `queue_")).map(cells);
    rows.map(|cells| {
        let words = |cell: &str| -> Vec<String> { cell.split('`').skip(1).step_by(2).map(str::to_owned).collect() };
        let (name, labels, meaning) = (words(&cells[1]).remove(0), words(&cells[2]), &cells[3]);
        let by = if meaning.starts_with("Gauge:") { "max" } else { "sum" };
        let part = if meaning.starts_with("Histogram:") { "_count" } else { "" };
        Metric { query: format!("{by} by ({}) ({name}{part})", labels.join(", ")), name, labels }
    })
    .collect()
}

/// The queries of the table "What to put on a wall", by panel.
fn wall(page: &str) -> Vec<(String, String)> {
    let table = page.split("## What to put on a wall").nth(1).expect("the table").split("\n## ").next().expect("it");
    let rows = table.lines().filter(|line| line.starts_with("| ") && !line.contains("(PromQL)")).map(cells);
    rows.map(|cells| (cells[1].clone(), cells[2].trim_matches('`').to_owned())).collect()
}

/// The queries of the board, by panel.
fn board() -> Vec<(String, String)> {
    let board: Value = serde_json::from_str(&read("ops/grafana.json")).expect("JSON");
    let panels = board["panels"].as_array().expect("panels").iter();
    let queries = panels.flat_map(|panel| {
        let title = panel["title"].as_str().expect("a title");
        let targets = panel["targets"].as_array().expect("targets").iter();
        targets.map(move |target| (title.to_owned(), target["expr"].as_str().expect("a query").to_owned()))
    });
    queries.collect()
}

/// What is wrong with a metric. None that was never counted is 0, but there has to be one.
fn differences(name: &str, seen: &Values, least: &Values, most: &Values) -> Vec<String> {
    if seen.is_empty() {
        return vec![format!("{name} is not there")];
    }
    let all: BTreeSet<_> = seen.keys().chain(least.keys()).chain(most.keys()).collect();
    let wrong = all.into_iter().filter_map(|labels| {
        let [seen, least, most] = [seen, least, most].map(|values| values.get(labels).copied().unwrap_or(0.0));
        (seen < least || seen > most).then(|| format!("{name}{labels:?} is {seen}, not {least}..{most}"))
    });
    wrong.collect()
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock past 1970").as_secs_f64()
}

/// A server. Killed when dropped.
struct Prometheus {
    address: String,
    _helper: Helper,
}

impl Prometheus {
    /// It looks at the workers and at the rules each second.
    async fn start(scene: &Scene, workers: &[String]) -> Self {
        let (config, rules) = (scene.path("prometheus.yml"), project("ops/prometheus-rules.yml"));
        let config_text = serde_json::json!({
            "global": { "scrape_interval": "1s", "evaluation_interval": "1s" },
            "rule_files": [rules],
            "scrape_configs": [{ "job_name": "workers", "static_configs": [{ "targets": workers }] }],
        });
        // JSON is YAML, too
        std::fs::write(&config, config_text.to_string()).expect("written");
        let options = [
            format!("--config.file={}", config.display()),
            format!("--storage.tsdb.path={}", scene.path("prometheus").display()),
            "--web.listen-address=127.0.0.1:0".to_owned(),
        ];
        // its log is on standard error
        let mut command = Command::new("sh");
        command.args(["-c", "exec prometheus \"$@\" 2>&1", "sh"]).args(options);
        let mut helper = Helper::start(&mut command);
        let line = helper.wait_for("msg=\"Listening on\"", PATIENCE).await;
        helper.wait_for("Server is ready", PATIENCE).await;
        let address = line.split("address=").nth(1).expect("an address").trim().to_owned();
        Self { address, _helper: helper }
    }

    /// The data of an answer. Error: Prometheus refuses.
    async fn get(&self, path: &str) -> Result<Value, String> {
        let mut stream = TcpStream::connect(&self.address).await.expect("a connection");
        stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).await.expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("an answer");
        let body = answer.split_once("\r\n\r\n").expect("a body").1;
        let mut body: Value = serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer}"));
        if body["status"] == "success" { Ok(body["data"].take()) } else { Err(body["error"].to_string()) }
    }

    /// The answer to a query, by the values of these labels.
    async fn query(&self, query: &str, labels: &[String]) -> Result<Values, String> {
        let query: String = query.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let data = self.get(&format!("/api/v1/query?query={query}")).await?;
        let series = data["result"].as_array().ok_or("no series")?.iter().map(|series| {
            let label = |name: &String| series["metric"][name].as_str().unwrap_or_default().to_owned();
            let value = series["value"][1].as_str().and_then(|value| value.parse().ok()).expect("a number");
            (labels.iter().map(label).collect(), value)
        });
        Ok(series.collect())
    }

    /// Waits until it has scraped each of so many workers later than now.
    async fn scraped(&self, workers: usize) {
        let since = now();
        eventually("a scrape of each worker", async || {
            let times = self.query("timestamp(queue_workers)", &["instance".to_owned()]).await.expect("times");
            (times.len() == workers && times.values().all(|time| *time > since)).then_some(())
        })
        .await;
    }

    /// The rules' states by name, once each was evaluated later than now.
    async fn rules(&self) -> BTreeMap<String, String> {
        let since = chrono::Utc::now();
        eventually("each rule is evaluated", async || {
            let data = self.get("/api/v1/rules").await.expect("rules");
            let groups = data["groups"].as_array()?.iter();
            let rules: Vec<&Value> = groups.filter_map(|group| group["rules"].as_array()).flatten().collect();
            let mut states = BTreeMap::new();
            for rule in rules {
                let text = |name: &str| rule[name].as_str().expect("text").to_owned();
                assert_ne!(text("health"), "err", "{rule:#}");
                let evaluated = chrono::DateTime::parse_from_rfc3339(&text("lastEvaluation")).expect("a time");
                if text("health") != "ok" || evaluated < since {
                    return None;
                }
                states.insert(text("name"), text("state"));
            }
            Some(states)
        })
        .await
    }
}

/// What the records say.
struct Records<'a> {
    pool: AnyPool,
    engine: Engine,
    workers: [&'a Process; 2],
}

impl Records<'_> {
    /// The last column by the others.
    async fn values(&self, sql: &str) -> Values {
        let rows = self.pool.sql(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
        let value = |mut row: Vec<Option<String>>| {
            let value = row.pop().flatten().expect("a value").parse().expect("a number");
            (row.into_iter().map(Option::unwrap_or_default).collect(), value)
        };
        rows.into_iter().map(value).collect()
    }

    /// How often the logs have an event.
    fn told(&self, event: &str) -> Values {
        let count: usize = self.workers.iter().map(|worker| worker.log().matches(event).count()).sum();
        Values::from([(vec![], count as f64)])
    }

    async fn of(&self, name: &str) -> Values {
        let lanes = |what: &str, which: &str| format!("SELECT kind, queue, {what} FROM {which} GROUP BY kind, queue");
        let unfinished = "queue_all WHERE state IN ('ready', 'scheduled', 'running', 'dead')";
        // a claim that was given back before it began is none of these
        let begun = format!(
            "(SELECT kind, queue FROM queue_attempts JOIN {EVERY} ON job_id = id
              WHERE outcome NOT IN ('released', 'unstarted')
              UNION ALL SELECT kind, queue FROM queue_history WHERE state = 'completed'
              UNION ALL SELECT kind, queue FROM queue_jobs WHERE worker_id <> 0) AS b"
        );
        let sql = match name {
            "queue_jobs" => {
                format!("SELECT kind, queue, state, COUNT(*) FROM {unfinished} GROUP BY kind, queue, state")
            }
            "queue_jobs_capped" => return Values::new(),
            "queue_oldest_due_seconds" => {
                let age = match self.engine {
                    Engine::Postgres => "extract(epoch FROM now() - MIN(run_at))",
                    Engine::MariaDb | Engine::MySql => {
                        "TIMESTAMPDIFF(MICROSECOND, MIN(run_at), UTC_TIMESTAMP(6)) / 1000000"
                    }
                    Engine::Sqlite => "(julianday('now') - 2440587.5) * 86400 - MIN(run_at) / 1000.0",
                };
                lanes(age, &format!("queue_jobs WHERE worker_id = 0 AND run_at <= {}", self.now()))
            }
            "queue_paused" => lanes("1", &format!("{unfinished} AND queue IN (SELECT queue FROM queue_paused)")),
            "queue_workers" => "SELECT COUNT(*) FROM queue_workers WHERE stopped_at IS NULL".to_owned(),
            "queue_gauges_complete" => "SELECT 1".to_owned(),
            "queue_enqueued_total" => lanes("COUNT(*)", &format!("{EVERY} WHERE kind NOT IN {OF_THE_TEST}")),
            "queue_claimed_total" => lanes("SUM(fence)", EVERY),
            "queue_wait_seconds" => lanes("COUNT(*)", &begun),
            "queue_run_seconds" => format!(
                "SELECT kind, queue, outcome, COUNT(*)
                 FROM (SELECT kind, queue, outcome FROM queue_attempts JOIN {EVERY} ON job_id = id
                       WHERE outcome NOT IN ('lost', 'unstarted')
                       UNION ALL SELECT kind, queue, 'completed' FROM queue_history WHERE state = 'completed') AS e
                 GROUP BY kind, queue, outcome"
            ),
            "queue_dead_total" => lanes("COUNT(*)", "queue_dead"),
            "queue_promise_total" => format!(
                "SELECT kind, queue, CASE WHEN kind = 'late' THEN 'false' ELSE 'true' END, COUNT(*)
                 FROM {begun} WHERE kind IN ('act', 'late') GROUP BY kind, queue"
            ),
            "queue_rescued_total" => "SELECT CASE WHEN d.id IS NOT NULL THEN 'dead' WHEN h.state = 'cancelled'
                    THEN 'cancelled' ELSE 'ready' END, COUNT(*)
                 FROM queue_attempts AS a LEFT JOIN queue_dead AS d ON d.id = a.job_id
                 LEFT JOIN queue_history AS h ON h.id = a.job_id WHERE a.outcome = 'lost' GROUP BY 1"
                .to_owned(),
            "queue_refused_total" => return self.told("job.refused"),
            "queue_lease_lost_total" => return self.told("worker.lease_lost"),
            _ => panic!("{name} is compared with nothing"),
        };
        self.values(&sql).await
    }

    fn now(&self) -> &'static str {
        match self.engine {
            Engine::Postgres => "now()",
            Engine::MariaDb | Engine::MySql => "UTC_TIMESTAMP(6)",
            Engine::Sqlite => "(julianday('now') - 2440587.5) * 86400000",
        }
    }

    /// What the next scrape says that is not what the records say, by name.
    async fn differ(&self, prometheus: &Prometheus) -> BTreeMap<String, Vec<String>> {
        const AGE: &str = "queue_oldest_due_seconds";
        let earlier = self.of(AGE).await;
        prometheus.scraped(self.workers.len()).await;
        let mut all = BTreeMap::new();
        for Metric { name, labels, query } in metrics(&read("docs/watching.md")) {
            let seen = prometheus.query(&query, &labels).await.expect("values");
            let mut most = self.of(&name).await;
            let mut least = most.clone();
            if name == "queue_run_seconds" {
                // the ends that were refused may be among them
                let late = ["wait_for_file", "default", "completed"].map(str::to_owned).to_vec();
                *most.entry(late).or_default() += LOST as f64;
            }
            if name == AGE {
                // it grows while it is looked at
                least = earlier.clone();
                least.values_mut().for_each(|age| *age -= CLOCK);
                most.values_mut().for_each(|age| *age += CLOCK);
            }
            let wrong = differences(&name, &seen, &least, &most);
            if !wrong.is_empty() {
                all.insert(name, wrong);
            }
        }
        all
    }
}

pub(crate) async fn every_metric_says_what_the_records_say(scene: &Scene) {
    if Command::new("prometheus").arg("--version").output().is_err() {
        return eprintln!("skipped: there is no prometheus (Debian: apt-get install prometheus)");
    }
    let pool = match scene.engine() {
        Engine::Postgres => AnyPool::Pg(scene.base.pg_pool(4).await),
        Engine::MariaDb | Engine::MySql => AnyPool::MySql(scene.base.mysql_pool(4).await),
        Engine::Sqlite => AnyPool::Sqlite(scene.base.sqlite_pool(4).await),
    };
    let admin = pool.admin();
    admin.pause("paused").await.expect("paused");

    // what becomes of the jobs of a lost worker: one is ready, one dead, one cancelled
    let path = text(&scene.path("go"));
    let wait = || Enqueue::from(WaitForFile { path: path.clone() });
    let jobs: [_; LOST] = [wait(), wait().max_retries(0), wait()];
    let mut ids: Vec<JobId> = Vec::new();
    for job in jobs {
        ids.push(scene.db.enqueue(job).await);
    }
    let mut lost = scene.worker("lost").metrics().lease(LEASE).start().await;
    scene.wait_for_records("all jobs run", PATIENCE, |records| records.len() == LOST).await;
    eventually("a note of each start", async || {
        (scene.db.count("queue_jobs WHERE started_fence = 1 AND fence = 1").await == LOST as i64).then_some(())
    })
    .await;
    let mut other = scene.worker("other").metrics().start().await;
    let addresses = [lost.metrics().await, other.metrics().await];
    let prometheus = Prometheus::start(scene, &addresses).await;
    prometheus.scraped(2).await;
    let states = prometheus.rules().await;
    assert!(states.len() >= 6 && states.values().all(|state| state == "inactive"), "{states:?}");

    lost.helper.pause();
    admin.cancel(ids[2]).await.expect("cancelled");
    scene.db.enqueue(Load {}).await;
    let ended: usize = ACTS.iter().map(|(_, jobs)| jobs).sum::<usize>() + LATE + 1;
    let dead = |name: &str| ACTS.iter().find(|(how, _)| *how == name).expect("an act").1;
    let buried = ["fail", "panic", "bury", "hang"].map(dead).iter().sum::<usize>() + 1;
    scene.wait_for_rows("queue_dead", i64::try_from(buried).expect("few"), PATIENCE).await;
    let (put_off, cancelled) = (dead("snooze"), 1);
    let rest = i64::try_from(ended - (buried - 1) - put_off + cancelled).expect("few");
    scene.wait_for_rows("queue_history", rest, PATIENCE).await;
    scene
        .wait_for_records("the rescued job runs", PATIENCE, |records| {
            records.iter().any(|it| it.what == What::Start && it.process == other.id() && it.attempt == 2)
        })
        .await;
    // its handlers end when it is back, and nobody wants to know
    touch_for(lost.id(), &scene.path("go"));
    lost.helper.resume();
    lost.wait_for_log("worker.joined", PATIENCE).await;

    let records = Records { pool, engine: scene.engine(), workers: [&lost, &other] };
    let mut last = BTreeMap::new();
    // a metric may follow its record
    for _ in 0..10 {
        last = records.differ(&prometheus).await;
        if last.is_empty() {
            break;
        }
    }
    assert!(last.is_empty(), "{last:#?}\n{}", scene.logs());
    assert_eq!(records.of("queue_lease_lost_total").await.values().sum::<f64>(), 1.0);
    assert_eq!(records.of("queue_rescued_total").await.len(), 3);

    let states = prometheus.rules().await;
    let firing: Vec<_> = states.iter().filter(|(_, state)| *state == "firing").map(|(name, _)| &**name).collect();
    assert_eq!(firing, ["QueueDeadLetters", "QueueRescued"], "{states:?}");
    assert_eq!(states["QueueNoWorker"], "inactive");
    for (panel, query) in wall(&read("docs/watching.md")).into_iter().chain(board()) {
        let query = ["kind", "queue"].iter().fold(query, |query, name| query.replace(&format!("${name}"), ".+"));
        let query = query.replace("$__rate_interval", "5m");
        let answer = prometheus.query(&query, &[]).await.unwrap_or_else(|error| panic!("{panel}: {query}: {error}"));
        assert!(!answer.is_empty(), "{panel}: {query} has no answer");
    }

    // a job that ends elsewhere is noticed
    let gone = "DELETE FROM queue_history WHERE id = (SELECT id FROM (SELECT MIN(id) AS id FROM queue_history \
                WHERE kind = 'act' AND state = 'completed') AS h)";
    records.pool.sql(gone).await.expect("deleted");
    let noticed: Vec<_> = records.differ(&prometheus).await.into_keys().collect();
    let expected = ["claimed_total", "enqueued_total", "promise_total", "run_seconds", "wait_seconds"];
    assert_eq!(noticed, expected.map(|name| format!("queue_{name}")));
    touch_for(other.id(), &scene.path("go"));
    other.end(PATIENCE).await;
    lost.end(PATIENCE).await;
    // their pages are gone, too
    eventually("no worker", async || (prometheus.rules().await["QueueNoWorker"] == "pending").then_some(())).await;
}

#[test]
fn a_number_that_is_wrong_is_noticed() {
    let values = |all: &[(&str, f64)]| -> Values { all.iter().map(|(it, n)| (vec![(*it).to_owned()], *n)).collect() };
    let told = values(&[("a", 3.0), ("b", 1.0)]);
    let wrong = |seen: &[(&str, f64)]| differences("m", &values(seen), &told, &told).len();
    assert_eq!(wrong(&[("a", 3.0), ("b", 1.0), ("c", 0.0)]), 0);
    assert_eq!(wrong(&[("a", 2.0), ("b", 1.0)]), 1, "one less");
    assert_eq!(wrong(&[("a", 3.0), ("b", 2.0)]), 1, "one more");
    assert_eq!(wrong(&[("a", 3.0)]), 1, "a label is missing");
    assert_eq!(wrong(&[("a", 3.0), ("b", 1.0), ("c", 1.0)]), 1, "a label too many");
    assert_eq!(differences("m", &Values::new(), &Values::new(), &Values::new()), ["m is not there"]);
    assert_eq!(differences("m", &values(&[("a", 2.0)]), &values(&[("a", 1.5)]), &values(&[("a", 2.5)])).len(), 0);
}

#[test]
fn the_tables_are_read() {
    let metric = |name: &str, labels: &[&str], query: &str| {
        let labels = labels.iter().map(|&label| label.to_owned()).collect();
        Metric { name: name.to_owned(), labels, query: query.to_owned() }
    };
    let page = "| `queue_a` | `kind`, `to` | Gauge: what |\n| `queue_b_total` | | Jobs |\n| `queue_c` | `q` | Histogram: x |\n\
                ## What to put on a wall\n\n| Panel | Query (PromQL) |\n|---|---|\n| One | `a{b=~\"c\\|d\"}` |\n\n## End\n";
    let expected = [
        metric("queue_a", &["kind", "to"], "max by (kind, to) (queue_a)"),
        metric("queue_b_total", &[], "sum by () (queue_b_total)"),
        metric("queue_c", &["q"], "sum by (q) (queue_c_count)"),
    ];
    assert_eq!(metrics(page), expected);
    assert_eq!(wall(page), [("One".to_owned(), "a{b=~\"c|d\"}".to_owned())]);
}

/// Grafana itself is not in Debian, so only the queries and the names are tested.
#[test]
fn the_board_has_the_panels_of_the_page_and_no_other_metrics() {
    let page = read("docs/watching.md");
    let names: BTreeSet<String> = metrics(&page).into_iter().map(|metric| metric.name).collect();
    assert!(names.len() >= 15, "{names:?}");
    let text = read("ops/grafana.json");
    let words = text.split(|it: char| !it.is_alphanumeric() && it != '_').filter(|word| word.starts_with("queue_"));
    for word in words {
        let name = ["_bucket", "_count", "_sum"].iter().find_map(|part| word.strip_suffix(part)).unwrap_or(word);
        assert!(names.contains(name), "{word} is no metric");
    }
    let titles: BTreeSet<String> = board().into_iter().map(|(title, _)| title).collect();
    for (panel, _) in wall(&page) {
        assert!(titles.contains(&panel), "{panel} is not on the board: {titles:?}");
    }
    let board: Value = serde_json::from_str(&text).expect("JSON");
    let variables = board["templating"]["list"].as_array().expect("variables").iter();
    let variables: Vec<_> = variables
        .map(|variable| (variable["name"].as_str().expect("text"), variable["type"].as_str().expect("text")))
        .collect();
    assert_eq!(variables, [("datasource", "datasource"), ("kind", "query"), ("queue", "query")]);
}
