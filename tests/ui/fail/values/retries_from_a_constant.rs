use queue::{Job, job};

#[job(max_retries = RETRIES)]
async fn send_email(to: String) {
    let _ = to;
}

const RETRIES: u32 = 3;

fn main() {
    let _ = SendEmail::new("a@example.org").max_retries(3);
}
