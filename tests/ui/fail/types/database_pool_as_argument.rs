use queue::job;

#[job]
async fn send_email(pool: Pool, to: String) {
    let _ = (pool, to);
}

#[derive(Clone)]
struct Pool;

fn main() {
    let _ = SendEmail::new(Pool, "");
}
