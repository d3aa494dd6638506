use queue::{Job, job};

#[job]
async fn send_email(#[serde(default)] ctx: queue::JobContext, to: String) {
    let _ = (ctx, to);
}

fn main() {
    let _ = SendEmail::new("a@example.org").max_retries(3);
}
