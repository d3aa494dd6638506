use models::*;
use queue::job;

mod models {
    #[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
    pub struct Invoice;
}

#[job]
async fn invoice(invoice: Option<Invoice>) {
    let _ = invoice;
}

#[job]
async fn sync() {}

fn main() {}
