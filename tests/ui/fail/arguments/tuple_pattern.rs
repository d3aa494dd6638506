use queue::{Job, job};

#[job]
async fn send_email((to, subject): (String, String)) {
    let _ = (to, subject);
}

fn main() {
    let _ = SendEmail::new((String::new(), String::new())).max_retries(3);
}
