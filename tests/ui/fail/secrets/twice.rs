use queue::job;

#[job]
async fn charge(
    #[secret]
    #[secret]
    card: String,
) {
    let _ = card;
}

fn main() {}
