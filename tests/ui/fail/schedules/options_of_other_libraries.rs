use queue::{Job, job};

#[job(cron = "0 9 * * *", every = "15m")]
async fn sync_shop(shop: u32) {
    let _ = shop;
}

fn main() {
    let _ = SyncShop::new(7_u32).max_retries(3);
}
