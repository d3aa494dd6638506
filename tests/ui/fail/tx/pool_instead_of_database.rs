use queue::{Tx, job};

#[job]
async fn charge(tx: &mut Tx<sqlx::SqlitePool>, cents: i64) {
    let _ = (tx, cents);
}

fn main() {}
