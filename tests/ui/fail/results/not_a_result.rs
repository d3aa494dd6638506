use queue::{Job, job};

#[job]
async fn send_email(to: String) -> u32 {
    to.len() as u32
}

fn main() {
    let _ = SendEmail::new("a@example.org").max_retries(3);
}
