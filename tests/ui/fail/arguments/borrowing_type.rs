use queue::{Job, job};

#[job]
async fn send_email(to: Message<'_>) {
    let _ = to;
}

struct Message<'a>(&'a str);

fn main() {
    let _ = SendEmail::new(Message("")).max_retries(3);
}
