#![deny(warnings)]

use queue::{Job, JobContext, JobError, Tx, job};
use sqlx::{Postgres, Sqlite};

#[job]
pub async fn charge(ctx: &JobContext, tx: &mut Tx<Sqlite>, cents: i64) -> Result<i64, JobError> {
    sqlx::query("INSERT INTO ledger VALUES ($1)").bind(cents).execute(&mut **tx).await?;
    ctx.guard(&mut *tx).await?;
    Note::new().enqueue(tx).await?;
    Ok(cents)
}

#[job]
pub async fn note(_: &mut queue::Tx<Postgres>) {}

#[job(name = "other")]
pub async fn with_any_error(order: u32, tx: &mut ::queue::Tx<Sqlite>) -> Result<(), sqlx::Error> {
    sqlx::query("DELETE FROM orders WHERE id = $1").bind(order).execute(&mut **tx).await.map(drop)
}

fn main() {
    assert_eq!(serde_json::to_string(&Charge::new(5)).unwrap(), r#"{"cents":5}"#);
    assert_eq!((Charge::requires().len(), Note::requires().len(), WithAnyError::requires().len()), (1, 1, 1));
    let _ = Note;
}
