use queue::{Tx, job};

#[job(blocking)]
fn charge(tx: &mut Tx<sqlx::Sqlite>, cents: i64) {
    let _ = (tx, cents);
}

fn main() {}
