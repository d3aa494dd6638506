//! Databases whose encoding cannot hold every character: an end that is not ASCII is the same end all the same.
//!
//! Promise: P43.

use queue::admin::Filter;
use queue::{Job, JobContext, JobError, JobState, job};
use queue_test_support::Engine;
use queue_tests::jobs::Note;
use queue_tests::{Db, eventually};
use serde_json::{Value, json};

conformance! {
    that_are_no_unicode_change_no_outcome,
}

async fn that_are_no_unicode_change_no_outcome(db: Db) {
    let encodings: &[&str] = match db.engine() {
        Engine::Postgres => &[
            "ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C'",
            "ENCODING 'WIN1252' LC_COLLATE 'C' LC_CTYPE 'C'",
            "ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C'",
            "ENCODING 'EUC_JP' LC_COLLATE 'C' LC_CTYPE 'C'",
        ],
        Engine::MariaDb | Engine::MySql => &["CHARACTER SET latin1", "CHARACTER SET utf8mb3"],
        Engine::Sqlite => return,
    };
    for encoding in encodings {
        let other = db.encoded(encoding).await;
        other.migrate().await.unwrap_or_else(|error| panic!("{encoding}: {error}"));
        ends_as_it_ended(&other, encoding).await;
    }
}

/// Its arguments are ASCII, what it says is not.
#[job(max_retries = 2, backoff = fixed("10ms"))]
async fn speaks(ctx: JobContext, text: Vec<u32>, how: String) -> Result<Value, JobError> {
    let text: String = text.into_iter().filter_map(char::from_u32).collect();
    match (how.as_str(), ctx.attempt()) {
        ("dies", _) => Err(JobError::dead(text)),
        ("cancels", _) => Err(JobError::cancel(text)),
        ("fails", _) | (_, 1) => Err(JobError::retry(text)),
        (_, 2) => panic!("{text}"),
        _ => Ok(json!({ "text": text })),
    }
}

async fn ends_as_it_ended(db: &Db, encoding: &str) {
    const TEXTS: [&str; 4] = ["plain", "größer", "日本", "crab 🦀 \u{1}"];
    let mut jobs = Vec::new();
    for text in TEXTS {
        let speaks = |how: &str| Speaks::new(text.chars().map(u32::from).collect::<Vec<_>>(), how);
        jobs.push((
            text,
            db.enqueue(speaks("completes at last")).await,
            db.enqueue(speaks("dies")).await,
            db.enqueue(speaks("cancels")).await,
            db.enqueue(speaks("fails")).await,
        ));
    }
    let notes = 20;
    for n in 0..notes {
        db.enqueue(Note::new(format!("plain {n}")).queue("plain")).await;
    }
    let worker = db.start(db.worker());
    let all = notes + 2 * TEXTS.len() as i64;
    let ends = (0, all, 2 * TEXTS.len() as i64);
    eventually(&format!("{encoding}: all ends"), async || (db.counts().await == ends).then_some(())).await;
    worker.stop().await;
    let told = |error: Option<String>, text: &str| {
        let error = error.expect("an error");
        assert!(error.contains(text) || error.contains(r"\u{"), "{encoding}: {text}: {error}");
    };
    for (text, completes, dies, cancelled, fails) in jobs {
        let detail = db.job(completes).await;
        let outcomes: Vec<_> = detail.attempts.iter().map(|it| it.outcome.as_str()).collect();
        assert_eq!(outcomes, ["failed", "panicked", "completed"], "{encoding}: {text}");
        told(detail.attempts[0].error.clone(), text);
        let result = detail.result.expect("a result");
        let result: serde_json::Value = serde_json::from_str(&result).expect("JSON");
        let result = result["text"].as_str().expect("a text").to_owned();
        assert!(result == text || result.contains(r"\u{"), "{encoding}: {text}: {result}");
        assert_eq!((db.state(dies).await, db.state(cancelled).await), (JobState::Dead, JobState::Cancelled));
        told(db.job(dies).await.job.error, text);
        told(db.job(cancelled).await.job.error, text);
        let fails = db.job(fails).await;
        assert_eq!((fails.job.state, fails.attempts.len()), (JobState::Dead, 3), "{encoding}: {text}");
        told(fails.job.error, text);
    }
    let sent = db.admin().send_back_all(&Filter::new().state(JobState::Dead)).await.expect("sent back");
    assert_eq!(sent, 2 * TEXTS.len() as u64);
    assert_eq!(db.count("queue_dead").await, 0);
}
