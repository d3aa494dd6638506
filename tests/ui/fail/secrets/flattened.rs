use queue::job;

#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
struct Card {
    pan: String,
}

#[job]
async fn charge(
    order: i64,
    #[secret]
    #[serde(flatten)]
    card: Card,
) {
    let _ = (order, card);
}

fn main() {}
