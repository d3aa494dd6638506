use queue::{Job, job};

#[job]
async fn send_email(to: String) {
    let _ = to;
}

async fn sign_up(pool: sqlx::SqlitePool) {
    let tx = pool.begin().await.unwrap();
    SendEmail::new("a@example.org").enqueue(&tx).await.unwrap();
    tx.commit().await.unwrap();
}

fn main() {}
