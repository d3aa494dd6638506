use queue::job;

#[job]
async fn charge(#[secret(all)] card: String) {
    let _ = card;
}

fn main() {}
