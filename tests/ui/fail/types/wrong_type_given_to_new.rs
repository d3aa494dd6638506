use queue::{Job, job};

#[job]
async fn send_email(to: u32) {
    let _ = to;
}

fn main() {
    let _ = SendEmail::new("a").max_retries(3);
}
