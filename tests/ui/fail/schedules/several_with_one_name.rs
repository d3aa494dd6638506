use queue::{Job, job};

#[job(
    schedule(every = "15m", args = SyncShop { shop: 7 }, name = "sync"),
    schedule(cron = "@daily", args = SyncShop { shop: 8 }, name = "sync"),
)]
async fn sync_shop(shop: u32) {
    let _ = shop;
}

fn main() {
    let _ = SyncShop::new(7_u32).max_retries(3);
}
