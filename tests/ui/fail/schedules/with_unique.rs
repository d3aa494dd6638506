use queue::{Job, job};

#[job(unique, schedule(every = "15m", args = SyncShop { shop: 7 }))]
async fn sync_shop(shop: u32) {
    let _ = shop;
}

fn main() {
    let _ = SyncShop::new(7_u32).max_retries(3);
}
