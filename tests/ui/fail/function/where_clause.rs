use queue::{Job, job};

#[job]
async fn send_email(to: String)
where
    String: Clone,
{
    drop(to);
}

fn main() {
    let _ = SendEmail::new("a@example.org").max_retries(3);
}
