use queue::job;

#[job]
async fn charge(#[secret = true] card: String, #[secret = "pin"] pin: u32) {
    let _ = (card, pin);
}

fn main() {}
