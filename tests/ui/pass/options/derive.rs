use queue::job;

#[job(derive(PartialEq, Eq, Hash))]
async fn send_email(to: String, copies: u8) {
    let _ = (to, copies);
}

#[job(max_retries = 3, derive(PartialOrd, PartialEq))]
async fn tick() {}

fn main() {
    assert_eq!(SendEmail::new("a", 1), SendEmail::new("a", 1));
    assert_ne!(SendEmail::new("a", 1), SendEmail::new("a", 2));
    assert!(Tick >= Tick);
}
