use queue::{Job, job};

#[job(blocking)]
const fn send_email(to: u32) {
    let _ = to;
}

fn main() {
    let _ = SendEmail::new(1).max_retries(3);
}
