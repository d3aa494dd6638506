use queue::{Job, job};

#[job]
#[allow(unused_variables)]
async fn send_email(to: String, to: String) {
    let _ = to;
}

fn main() {
    let _ = SendEmail::new("", "").max_retries(3);
}
