use queue::{Job, job};

#[job(derive(Clone, PartialEq))]
async fn send_email(to: String) {
    let _ = to;
}

#[job(derive = "PartialEq")]
async fn send_letter(to: String) {
    let _ = to;
}

fn main() {
    let _ = SendEmail::new("a@example.org").max_retries(3);
    let _ = SendLetter::new("a@example.org").max_retries(3);
}
