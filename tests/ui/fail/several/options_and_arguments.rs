use queue::{Job, job};

#[job(retry = 3, timeout = 30, queue = "mail", queue = "letters")]
fn send_email((to, subject): (String, String), copies: Vec<&str>) {
    let _ = (to, subject, copies);
}

fn main() {
    let _ = SendEmail::new((String::new(), String::new()), vec![""]).max_retries(3);
}
