use queue::{Job, job};

#[job]
async fn send_email(to: String) -> Length {
    Length(to.len())
}

struct Length(usize);

fn main() {
    let _ = SendEmail::new("a@example.org").max_retries(3);
}
