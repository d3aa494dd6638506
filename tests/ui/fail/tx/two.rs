use queue::{Tx, job};

#[job]
async fn charge(from: &mut Tx<sqlx::Sqlite>, to: &mut Tx<sqlx::Sqlite>, cents: i64) {
    let _ = (from, to, cents);
}

fn main() {}
