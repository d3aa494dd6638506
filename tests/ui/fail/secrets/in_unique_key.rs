use queue::job;

#[job(unique)]
async fn charge(order: i64, #[secret] card: String) {
    let _ = (order, card);
}

#[job(unique)]
async fn verify(#[secret] card: String) {
    let _ = card;
}

#[job(unique(by = (order, card)))]
async fn refund(order: i64, #[secret] card: String) {
    let _ = (order, card);
}

fn main() {}
