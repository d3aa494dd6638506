//! The values of secret arguments are in the stored arguments, and nowhere else.
//!
//! Promise: P50.

use std::time::Duration;

use queue::admin::{Action, Admin, Filter, MARK, RawJob};
use queue::unique::OnConflict;
use queue::{Error, Job, JobContext, JobError, JobState, State, job};
use queue_tests::jobs::Play;
use queue_tests::{AnyPool, Db, Step, eventually};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::logs::captured;

conformance! {
    are_told_nowhere,
    would_be_found_if_they_were_told,
    are_hidden_without_their_type,
    are_kept_by_edits,
    are_not_searched_and_not_edited_in_bulk,
    are_hidden_in_schedules,
}

/// Of these are the values of [`card`]. Nothing else has them.
const PLANTED: [&str; 3] = ["pl4nted", "73519246", "n3sted"];

/// What is secret as a whole.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Card {
    pan: String,
    pin: u32,
    notes: Vec<String>,
}

fn card() -> Card {
    Card { pan: "pl4nted \"c4rd\"\n\u{202e}ü".to_owned(), pin: 73_519_246, notes: vec!["n3sted\\n0te".to_owned()] }
}

/// Ends as it is told, and repeats its secret in all ways.
#[job(max_retries = 0)]
async fn withdraw(
    ctx: JobContext,
    State(pool): State<AnyPool>,
    #[secret]
    #[serde(alias = "credit")]
    card: Card,
    how: String,
) -> Result<Value, JobError> {
    let told = format!("{card:?} {card:#?} {} {} {}", card.pan, card.pin, json!(card));
    match &*how {
        "fail" => Err(JobError::retry(std::io::Error::other(told))),
        "die" => Err(JobError::dead(told)),
        "panic" => panic!("{told}"),
        "cancel" => Err(JobError::cancel(told)),
        "snooze" => Err(JobError::snooze_because(Duration::from_secs(3600), told)),
        "commit" | "roll back" => {
            let mut tx = pool.begin().await;
            tx.complete(&ctx, &json!({"told": told, "card": card})).await?;
            if how == "commit" {
                tx.commit().await
            } else {
                tx.rollback().await
            }
            Err(JobError::retry(told))
        }
        _ => Ok(json!({"told": told, "card": card})),
    }
}

/// The lines of a text that repeat a secret.
fn leaks(text: &str) -> Vec<&str> {
    text.lines().filter(|line| PLANTED.iter().any(|planted| line.contains(planted))).collect()
}

fn has_none(what: &str, text: &str) {
    assert!(leaks(text).is_empty(), "{what}: {:?}", leaks(text));
}

/// A row of another language's.
async fn insert(db: &Db, kind: &str, args: &Value) {
    let is_mysql = db.dialect() == queue::migration::Engine::MySql;
    let args = args.to_string().replace('\\', if is_mysql { "\\\\" } else { "\\" });
    db.sql(format!("INSERT INTO queue_jobs (kind, args) VALUES ('{kind}', '{args}')")).await;
}

/// All that is stored, without the columns that have the arguments.
async fn stored(db: &Db) -> String {
    let mut all = String::new();
    for columns in [
        "SELECT coalesce(error, '') FROM queue_attempts",
        "SELECT error FROM queue_dead",
        "SELECT coalesce(error, '') FROM queue_history",
        "SELECT failure FROM queue_failures",
        "SELECT reason FROM queue_refusals",
        "SELECT unique_key FROM queue_unique_keys",
    ] {
        all += &db.column(columns).await.join("\n");
    }
    let text = if db.dialect() == queue::migration::Engine::Postgres { "result::text" } else { "result" };
    all + &db.column(format!("SELECT coalesce({text}, '') FROM queue_history")).await.join("\n")
}

/// Every answer of the administration, as text and JSON.
async fn answers(admin: &Admin) -> String {
    let (mut all, mut next) = (String::new(), None);
    macro_rules! add {
        ($($answer:expr),+ $(,)?) => {
            $({ let answer = $answer.await.expect("an answer"); all += &format!("{answer:?}\n{answer:#?}\n{}\n", json!(answer)); })+
        };
    }
    add!(
        admin.stats(),
        admin.throughput(Duration::from_secs(3600)),
        admin.failures(),
        admin.ended(1000),
        admin.queues(),
        admin.workers(),
        admin.operations(None),
        admin.why_summary(&Filter::new()),
        admin.schedules(None),
    );
    all += &admin.prometheus().await.expect("a page");
    loop {
        let filter = next.map_or_else(Filter::new, |next| Filter::new().before(next));
        let page = admin.jobs(&filter).await.expect("a page");
        for row in &page.items {
            add!(admin.job(row.id), admin.operations_on(row.id));
            all += &admin.why(row.id).await.expect("a reason").reason.to_string();
        }
        all += &format!("{page:?} {}", json!(page));
        let plan = admin.plan(Action::SendBack, &filter).await.expect("a plan");
        all += &format!("{:?} {}", plan.samples(), json!(plan.samples()));
        next = page.next;
        if next.is_none() {
            return all;
        }
    }
}

/// P40, P50.
async fn are_told_nowhere(db: Db) {
    let engine = db.engine();
    let log = captured(engine, "trace", async |db: Db| {
        for how in ["fail", "die", "panic", "cancel", "snooze", "return", "commit", "roll back"] {
            let job = Withdraw::new(card(), how);
            has_none("Debug", &format!("{job:?} {:#?}", job.clone().after(Duration::ZERO)));
            db.enqueue(job).await;
        }
        // too long to come with the claim
        let long = Card { notes: vec!["n3sted".repeat(4000)], ..card() };
        db.enqueue(Withdraw::new(long, "fail")).await;
        // what does not decode, and whose decoder quotes it; the last one is a list
        for args in [
            json!({"card": card().pan, "how": "x"}),
            json!({"credit": {"pan": card().pan, "pin": "73519246", "notes": []}, "how": "x"}),
            json!({"card": {"pan": card().pin, "pin": 1, "notes": []}, "how": "x"}),
            json!([card().pan, "x"]),
        ] {
            insert(&db, "withdraw", &args).await;
        }
        has_none("Admin, before any worker", &answers(&db.admin()).await);
        let worker = db.start(db.worker().tally_every(Duration::from_millis(50)));
        eventually("all have ended but one", async || (db.count("queue_jobs").await == 1).then_some(())).await;
        worker.stop().await;
        has_none("Admin", &answers(&db.admin()).await);
        has_none("the tables", &stored(&db).await);
        // they are where they belong
        let told = answers(&db.admin().reveal_secrets()).await;
        assert!(PLANTED.iter().all(|planted| told.contains(planted)), "the arguments stay");
        assert_eq!(db.counts().await, (1, 3, 9));
        let dead = db.admin().jobs(&Filter::new().state(JobState::Dead).error(MARK)).await.expect("a page").items;
        assert_eq!(dead.len(), 9, "each error says where a secret was");
    })
    .await;
    assert!(log.contains("job.dead") && log.contains(MARK), "{log}");
    // sqlx logs the texts of statements: those with values in them are the test's own
    let log: String = log.lines().filter(|line| !line.contains("VALUES ('")).collect::<Vec<_>>().join("\n");
    has_none("the log", &log);
}

/// P50: A violation, planted where each search looks.
async fn would_be_found_if_they_were_told(db: Db) {
    let log = captured(db.engine(), "trace", async |db: Db| {
        let steps = [Step::Fail("pl4nted".into()), Step::Fail("n3sted".into()), Step::Return(json!("73519246"))];
        db.enqueue(Play::new("open", steps)).await;
        let worker = db.start(db.worker());
        db.finished(1).await;
        worker.stop().await;
        for text in [answers(&db.admin()).await, stored(&db).await] {
            assert!(PLANTED.iter().all(|planted| leaks(&text).iter().any(|line| line.contains(planted))), "{text}");
        }
    })
    .await;
    assert!(!leaks(&log).is_empty());
}

/// A worker of another program has declared this.
async fn declare(db: &Db, kinds: &str) {
    let worker = db.fake_worker(1).await;
    db.sql(format!("UPDATE queue_workers SET kinds = '{kinds}', stopped_at = {} WHERE id = {worker}", db.time(-1000)))
        .await;
}

async fn the_only(db: &Db, kind: &str) -> queue::JobId {
    db.admin().jobs(&Filter::new().kind(kind)).await.expect("a page").items[0].id
}

/// P50: Also after the last worker has ended.
async fn are_hidden_without_their_type(db: Db) {
    for kind in ["pay", "log", "unheard_of"] {
        insert(&db, kind, &json!({"card": {"pan": "pl4nted"}, "order": 7})).await;
    }
    insert(&db, "pay_list", &json!(["pl4nted", 7])).await;
    let shown = async |kind: &str| {
        let job = db.admin().job(the_only(&db, kind).await).await.expect("read").expect("there");
        assert_eq!(job.hides("card"), job.args.contains("\"card\":\"••••\"") || kind == "pay_list");
        job.args
    };
    assert_eq!(shown("pay").await, r#"{"card":"••••","order":"••••"}"#, "nobody has told which are secret");
    declare(&db, r#"["pay","pay_list","log",{"pay":["card"],"pay_list":["card"]}]"#).await;
    declare(&db, r#"["pay","pay_list","log"]"#).await;
    assert_eq!(shown("pay").await, r#"{"card":"••••","order":7}"#);
    assert_eq!(shown("pay_list").await, r#""••••""#, "no names, so all of them");
    assert_eq!(shown("log").await, r#"{"card":{"pan":"pl4nted"},"order":7}"#);
    assert_eq!(shown("unheard_of").await, r#"{"card":"••••","order":"••••"}"#);
    let raw = RawJob::new("unheard_of", r#"{"card":"pl4nted"}"#);
    has_none("Debug", &format!("{raw:?} {:?}", RawJob::new("withdraw", r#"{"card":"pl4nted","how":"x"}"#)));
}

/// P50.
async fn are_kept_by_edits(db: Db) {
    declare(&db, r#"["pay",{"pay":["card"]}]"#).await;
    insert(&db, "pay", &json!({"card": "pl4nted", "order": 7})).await;
    let (id, admin) = (the_only(&db, "pay").await, db.admin());
    let stored = async || db.value(format!("SELECT args FROM queue_jobs WHERE id = {id}")).await.expect("arguments");
    let merged = admin.merge_args(id, r#"{"order":8}"#).await.expect("edited");
    assert_eq!(
        (merged.as_str(), stored().await.as_str()),
        (r#"{"card":"••••","order":8}"#, r#"{"card":"pl4nted","order":8}"#)
    );
    let merged = admin.merge_args(id, r#"{"card":"n3sted"}"#).await.expect("edited");
    assert_eq!(
        (merged.as_str(), stored().await.as_str()),
        (r#"{"card":"••••","order":8}"#, r#"{"card":"n3sted","order":8}"#)
    );
    for refused in [
        admin.merge_args(id, &format!(r#"{{"card":"{MARK}","order":9}}"#)).await.map(drop),
        admin.merge_args(id, &format!(r#"{{"card":{{"pan":["{MARK}"]}}}}"#)).await.map(drop),
        admin.edit_args(id, &json!({"card": MARK, "order": 9})).await,
        admin.edit_args(id, &json!([MARK])).await,
        admin.enqueue(RawJob::new("pay", format!(r#"{{"card":"{MARK}"}}"#))).await.map(drop),
    ] {
        let why = refused.expect_err("the mark is no value").to_string();
        assert!(why.contains("is secret, and `••••` only stands for its value"), "{why}");
    }
    assert_eq!(stored().await, r#"{"card":"n3sted","order":8}"#);
    admin.edit_args(id, &json!({"card": "pl4nted", "order": MARK})).await.expect("of another argument it is one");
    // a value of its type, and what does not fit it
    let id = db.enqueue(Withdraw::new(card(), "die").after(Duration::from_secs(3600))).await;
    admin.edit(id, |job: &mut Withdraw| job.how = "fail".to_owned()).await.expect("edited");
    let revealed = db.admin().reveal_secrets().job(id).await.expect("read").expect("there").args;
    assert_eq!(revealed, serde_json::to_string(&Withdraw::new(card(), "fail")).expect("JSON"));
    let misfit = admin.merge_args(id, r#"{"card":"pl4nted"}"#).await.expect_err("a text is no card").to_string();
    assert!(misfit.contains(MARK) && leaks(&misfit).is_empty(), "{misfit}");
    let misfit = admin.enqueue(RawJob::new("withdraw", r#"{"card":"pl4nted","how":""}"#)).await.expect_err("nor there");
    assert!(misfit.to_string().contains(MARK) && leaks(&misfit.to_string()).is_empty(), "{misfit}");
    // a dead letter, sent back
    let worker = db.start(db.worker());
    admin.retry(id).await.expect("due");
    db.reaches(id, JobState::Dead).await;
    worker.stop().await;
    admin.send_back(id).await.expect("sent back");
    assert_eq!(db.admin().reveal_secrets().job(id).await.expect("read").expect("there").args, revealed);
}

/// P50.
async fn are_not_searched_and_not_edited_in_bulk(db: Db) {
    declare(&db, r#"["pay",{"pay":["card"]}]"#).await;
    insert(&db, "pay", &json!({"card": "pl4nted", "order": 7})).await;
    let (admin, all) = (db.admin(), Filter::new());
    let fields = |json: Value| json.as_object().cloned().expect("an object");
    let refused = async |filter: &Filter, fields| {
        let [listed, planned] = match fields {
            None => [admin.jobs(filter).await.map(drop), admin.delete_all(filter).await.map(drop)],
            Some(fields) => [
                admin.plan(Action::Edit(fields), filter).await.map(drop),
                Err(Error::Config("is a secret argument of `pay`".into())),
            ],
        };
        for refused in [listed, planned] {
            let why = refused.expect_err("a secret").to_string();
            assert!(why.contains("is a secret argument of `"), "{why}");
        }
    };
    for (path, value) in [("card", "pl4nted"), ("card.pan", "x"), ("credit", "x"), ("0", "pl4nted")] {
        refused(&all.clone().arg(path, value), None).await;
    }
    refused(&all.clone().kind("pay").arg("card", "x"), None).await;
    refused(&all.clone().kind("withdraw").arg("0", "x"), None).await;
    refused(&all, Some(fields(json!({"card": "n3sted"})))).await;
    refused(&all.clone().kind("pay"), Some(fields(json!({"order": 1, "card": "n3sted"})))).await;
    let open = all.clone().kind("pay").arg("order", "7");
    assert_eq!(admin.jobs(&open).await.expect("a page").items.len(), 1);
    assert_eq!(admin.jobs(&all.clone().kind("note").arg("card", "x")).await.expect("a page").items.len(), 0);
    let plan = admin.plan(Action::Edit(fields(json!({"order": 8}))), &open).await.expect("a plan");
    assert_eq!(plan.run().await.expect("done").changed, 1);
    // nor are they in keys
    let job = Withdraw::new(card(), "x");
    let why =
        db.pool().enqueue(job.clone().on_conflict(OnConflict::Reject)).await.expect_err("all arguments").to_string();
    assert!(why.contains("would show the secret argument `card`") && leaks(&why).is_empty(), "{why}");
    db.enqueue(job.unique_key("order-7")).await;
}

/// P50.
async fn are_hidden_in_schedules(db: Db) {
    let every = queue::schedule::Schedule::cron("0 3 * * *").expect("a schedule");
    let admin = db.admin();
    admin.schedule("nightly", every.clone(), Withdraw::new(card(), "x")).await.expect("scheduled");
    admin.schedule_raw("raw", every, "unheard_of", &json!({"card": "pl4nted"}), "default").await.expect("scheduled");
    let shown = admin.schedules(None).await.expect("schedules");
    let args: Vec<&str> = shown.iter().map(|it| it.args.as_str()).collect();
    assert_eq!(args, [r#"{"card":"••••","how":"x"}"#, r#"{"card":"••••"}"#]);
    assert!(admin.reveal_secrets().schedules(None).await.expect("schedules")[1].args.contains("pl4nted"));
}
