//! What a handler is given, and where it may stand.
//!
//! Promise: P29.

use chrono::TimeDelta;
use queue::{Job, JobContext, JobError, JobState, State, job};
use queue_tests::jobs::{Bare, Clones, CountsClones, DeepNote, Greeting, Greets, Note, Placed, Spreads, deep};
use queue_tests::{Db, Probe, What};
use serde_json::json;

conformance! {
    knows_its_context,
    takes_nothing,
    takes_borrowed_arguments,
    takes_any_serializable_argument,
    takes_several_states,
    gets_a_clone_of_the_state_each_time,
    may_stand_anywhere,
    stays_callable,
    may_be_written_by_hand,
    may_enqueue_others,
}

async fn knows_its_context(db: Db) {
    let placed = db.enqueue(Placed::new("a").max_retries(2)).await;
    let bare = db.enqueue(Bare).await;
    let worker = db.start(db.worker());
    db.probe.wait_for_all(What::Ended, 2).await;
    let event = db.probe.wait_for(What::Started, "a", 1).await;
    assert_eq!((event.id, event.attempt, event.max_attempts), (placed, 1, 3));
    assert_eq!((event.kind.as_str(), event.queue.as_str()), ("placed", "mail"));
    let row = db.job(placed).await.job.enqueued_at;
    assert!((event.enqueued_at - row).abs() < TimeDelta::milliseconds(1), "{} is not {row}", event.enqueued_at);
    let event = db.probe.wait_for(What::Started, "bare", 1).await;
    assert_eq!((event.id, event.attempt, event.max_attempts), (bare, 1, 21), "20 retries by default");
    assert_eq!((event.kind.as_str(), event.queue.as_str()), ("bare", "default"));
    worker.stop().await;
}

async fn takes_nothing(db: Db) {
    let id = db.enqueue(Bare).await;
    let new = db.enqueue(Bare::new().priority(1)).await;
    // whatever another program wrote as the arguments of a job that has none
    db.sql("INSERT INTO queue_jobs (kind) VALUES ('bare')").await;
    db.sql("INSERT INTO queue_jobs (kind, args) VALUES ('bare', 'null'), ('bare', '{}')").await;
    let worker = db.start(db.worker());
    db.probe.wait_for(What::Ended, "bare", 5).await;
    for id in [id, new] {
        let detail = db.reaches(id, JobState::Completed).await;
        assert!(["null", "{}"].contains(&detail.args.as_str()), "{}", detail.args);
    }
    db.finished(5).await;
    worker.stop().await;
}

#[job]
async fn borrows(
    ctx: &JobContext,
    State(probe): State<Probe>,
    name: &str,
    numbers: &[i64],
    nickname: Option<&str>,
    owned: &String,
) -> Result<usize, JobError> {
    probe.note(ctx, &format!("{name} {numbers:?} {nickname:?} {owned}"));
    Ok(numbers.len())
}

async fn takes_borrowed_arguments(db: Db) {
    let with = db.enqueue(Borrows::new("Ada", [1, 2], Some("A".to_owned()), "x")).await;
    db.enqueue(Borrows { name: "Bob".to_owned(), numbers: vec![], nickname: None, owned: String::new() }).await;
    let worker = db.start(db.worker().concurrency(1));
    db.probe.wait_for_all(What::Ended, 2).await;
    assert_eq!(db.probe.labels(What::Started), ["Ada [1, 2] Some(\"A\") x", "Bob [] None "]);
    assert_eq!(db.reaches(with, JobState::Completed).await.result.as_deref(), Some("2"));
    worker.stop().await;
}

#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
struct Order {
    lines: Vec<(u32, String)>,
    note: Option<String>,
    total: f64,
    when: chrono::DateTime<chrono::Utc>,
    kind: Kind,
}

#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
enum Kind {
    Gift { from: char },
    Own,
}

#[job]
async fn ships(
    order: Order,
    big: u64,
    small: i64,
    flags: std::collections::BTreeMap<String, bool>,
) -> Result<String, JobError> {
    Ok(format!("{order:?} {big} {small} {flags:?}"))
}

async fn takes_any_serializable_argument(db: Db) {
    let order = Order {
        lines: vec![(1, "ä".into()), (u32::MAX, String::new())],
        note: None,
        total: 0.1 + 0.2,
        when: "2024-02-29T23:59:59.999999999Z".parse().expect("a time"),
        kind: Kind::Gift { from: '🦀' },
    };
    let flags: std::collections::BTreeMap<_, _> = [("b".to_owned(), true), ("a".to_owned(), false)].into();
    let expected = format!("{order:?} {} {} {flags:?}", u64::MAX, i64::MIN);
    let id = db.enqueue(Ships::new(order, u64::MAX, i64::MIN, flags)).await;
    db.enqueue(Ships::new(
        Order {
            lines: vec![],
            note: Some("n".into()),
            total: -1.5e300,
            when: chrono::DateTime::UNIX_EPOCH,
            kind: Kind::Own,
        },
        0,
        0,
        std::collections::BTreeMap::new(),
    ))
    .await;
    let worker = db.start(db.worker());
    let result = db.reaches(id, JobState::Completed).await.result.expect("a result");
    assert_eq!(serde_json::from_str::<String>(&result).expect("a text"), expected);
    db.finished(2).await;
    worker.stop().await;
}

async fn takes_several_states(db: Db) {
    db.enqueue(Greets::new("Ada")).await;
    let worker = db.start(db.worker().state(Greeting("Hi")).state(Greeting("Hello")));
    db.probe.wait_for(What::Ended, "Hello, Ada!", 1).await;
    worker.stop().await;
}

async fn gets_a_clone_of_the_state_each_time(db: Db) {
    let clones = Clones::default();
    let count = clones.count();
    let worker = db.start(db.worker().state(clones));
    db.enqueue_all((0..5).map(|_| CountsClones)).await;
    db.finished(5).await;
    assert_eq!(count.load(std::sync::atomic::Ordering::SeqCst), 5);
    worker.stop().await;
}

mod outer {
    pub(super) mod inner {
        use queue::{JobContext, State, job};
        use queue_tests::Probe;

        /// As private as it can be where it is enqueued from here.
        #[job]
        async fn hidden(ctx: JobContext, State(probe): State<Probe>) {
            probe.note(&ctx, "hidden");
        }

        pub(in super::super) async fn enqueue_hidden(db: &queue_tests::Db) {
            db.enqueue(Hidden).await;
        }

        /// For whoever is above.
        #[job]
        pub(in super::super) async fn seen_above(ctx: JobContext, State(probe): State<Probe>) {
            probe.note(&ctx, "seen above");
        }
    }
    pub(super) use inner::SeenAbove as FromOutside;
}

/// In a library, its modules, under another name, in a module of this file, in the body of a function.
async fn may_stand_anywhere(db: Db) {
    #[job]
    async fn in_a_body(ctx: JobContext, State(probe): State<Probe>) {
        probe.note(&ctx, "in a body");
    }
    db.enqueue(Note::new("library")).await;
    db.enqueue(DeepNote::new("deep")).await;
    db.enqueue(deep::deeper::Note::new("deep again")).await;
    db.enqueue(outer::FromOutside).await;
    db.enqueue(outer::inner::SeenAbove).await;
    outer::inner::enqueue_hidden(&db).await;
    db.enqueue(InABody).await;
    let worker = db.start(db.worker().concurrency(1));
    db.probe.wait_for_all(What::Ended, 7).await;
    worker.stop().await;
    let expected = ["library", "deep", "deep again", "seen above", "seen above", "hidden", "in a body"];
    assert_eq!(db.probe.labels(What::Started), expected);
    let kinds: Vec<_> = db.probe.log().into_iter().filter(|e| e.what == What::Ended).map(|e| e.kind).collect();
    assert_eq!(kinds, ["note", "deeper_note", "deeper_note", "seen_above", "seen_above", "hidden", "in_a_body"]);
}

#[job]
async fn adds(a: i64, b: i64) -> Result<i64, JobError> {
    a.checked_add(b).ok_or_else(|| JobError::dead("too large"))
}

async fn stays_callable(db: Db) {
    assert_eq!(adds(1, 2).await.expect("a sum"), 3);
    assert!(adds(i64::MAX, 1).await.is_err());
    let id = db.enqueue(Adds { a: 40, b: 2 }).await;
    assert_eq!(Adds::new(1, 2).clone().a, 1);
    let worker = db.start(db.worker());
    assert_eq!(db.reaches(id, JobState::Completed).await.result.as_deref(), Some("42"));
    worker.stop().await;
}

/// Generic, which the macro cannot make.
#[derive(serde::Serialize, serde::Deserialize)]
struct ByHand<T> {
    value: T,
}

impl<T> Job for ByHand<T>
where
    T: serde::Serialize + serde::de::DeserializeOwned + std::fmt::Debug + Send + Sync + 'static,
{
    const KIND: &'static str = "by hand";
    const QUEUE: &'static str = "hands";
    const MAX_RETRIES: u32 = 0;
    type Output = String;

    async fn run(self, ctx: JobContext) -> Result<String, JobError> {
        Ok(format!("{:?} {}", self.value, ctx.queue()))
    }
}

async fn may_be_written_by_hand(db: Db) {
    let id = db.enqueue(ByHand { value: json!([1]) }).await;
    let worker = db.start(db.worker().register::<ByHand<serde_json::Value>>().register::<ByHand<serde_json::Value>>());
    let detail = db.reaches(id, JobState::Completed).await;
    assert_eq!(detail.result.as_deref(), Some("\"Array [Number(1)] hands\""));
    worker.stop().await;
}

/// P32.
async fn may_enqueue_others(db: Db) {
    let worker = db.start(db.worker());
    db.enqueue(Spreads::new(5)).await;
    db.finished(63).await;
    worker.stop().await;
    assert_eq!(db.counts().await, (0, 63, 0));
}
