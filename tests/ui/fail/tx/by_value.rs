use queue::{Tx, job};

#[job]
async fn charge(tx: Tx<sqlx::Sqlite>, cents: i64) {
    let _ = (tx, cents);
}

fn main() {}
