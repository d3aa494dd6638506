use queue::job;

#[job(secret)]
async fn charge(card: String) {
    let _ = card;
}

fn main() {}
