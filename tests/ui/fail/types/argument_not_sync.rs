use std::cell::RefCell;

use queue::job;

#[job]
async fn send_email(to: RefCell<String>) {
    let _ = to;
}

fn main() {
    let _ = SendEmail::new(RefCell::new(String::new()));
}
