use queue::job;

#[job]
async fn send_email(to: String) {
    let _ = to;
}

async fn sign_up(pool: sqlx::SqlitePool) {
    SendEmail::new("a@example.org").enqueue(&pool).await.unwrap();
}

fn main() {}
