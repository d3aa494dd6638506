#![deny(warnings)]

use std::sync::Arc;

use queue::{Job, JobContext, State, StateType, job};

#[derive(Clone)]
pub struct Mailer {
    pub host: &'static str,
}

pub trait Clock: Send + Sync {}

#[job]
pub async fn mixed(
    to: String,
    State(mailer): State<Mailer>,
    ctx: JobContext,
    subject: &str,
    State(Mailer { host }): State<Mailer>,
    clock: queue::State<Arc<dyn Clock>>,
    borrowed: &State<String>,
    again: &queue::JobContext,
    _: ::queue::JobContext,
    _: State<u8>,
) {
    let _ = (to, mailer.host, ctx.id(), subject, host, clock.0, &borrowed.0, again.attempt());
}

#[job]
pub async fn context_only(_: JobContext) {}

fn main() {
    let job = Mixed::new("a", "b");
    assert_eq!(serde_json::to_string(&job).unwrap(), r#"{"to":"a","subject":"b"}"#);
    let needed = [
        StateType::of::<Mailer>(),
        StateType::of::<Mailer>(),
        StateType::of::<Arc<dyn Clock>>(),
        StateType::of::<String>(),
        StateType::of::<u8>(),
    ];
    assert_eq!(Mixed::requires(), needed);
    assert!(ContextOnly::requires().is_empty());
    let _ = ContextOnly;
}
