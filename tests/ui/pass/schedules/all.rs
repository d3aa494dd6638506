#![deny(warnings)]

use std::time::Duration;

use queue::{Job, job};
use queue::schedule::{Fold, Gap, Missed, Overlap, Periodic, Schedule};

#[job]
pub async fn never() {}

#[job(schedule = "0 9 * * MON-FRI Europe/Berlin")]
pub async fn morning() {}

#[job(schedule = "every 15m", name = "quarter")]
pub async fn quarterly() {}

#[job(schedule(cron = "@daily"))]
pub async fn daily(ctx: queue::JobContext) {
    let _ = ctx;
}

#[job(
    derive(PartialEq),
    crate = ::queue,
    schedule(
        cron = "30 2 * * *",
        zone = "Europe/Berlin",
        gap = skip,
        fold = both,
        missed = all("6h"),
        jitter = "5m",
        overlap = skip,
        args = SyncShop { shop: 7, name: String::from("seven") },
        name = "sync-7",
        queue = "bulk",
        priority = -1,
    ),
    schedule(cron = "0 9 * * * Asia/Tokyo", gap = shift, fold = first, missed = last, overlap = allow, args = eight(), name = "sync-8"),
    schedule(every = "1h30m", missed = none, args = SyncShop::new(9, "nine"), name = "sync-9", priority = 32767_i16),
    schedule(cron = "0 9 1 JAN *", fold = last, args = { let shop = 10; Self::new(shop, "ten") }, name = "sync-10", queue = "bulk"),
)]
pub async fn sync_shop(shop: u32, name: &str) {
    let _ = (shop, name);
}

fn eight() -> SyncShop {
    SyncShop::new(8, "eight")
}

macro_rules! scheduled {
    ($name:ident($text:expr, $zone:literal, $args:expr)) => {
        #[job(schedule(cron = $text, zone = $zone, args = $args))]
        pub async fn $name(n: u8) {
            let _ = n;
        }
    };
}
scheduled!(by_macro_rules("@hourly", "UTC", ByMacroRules { n: 1 }));

fn main() -> Result<(), queue::Error> {
    let same = |found: String, expected: String| assert_eq!(found, expected);
    same(format!("{:?}", Never::schedules()?), "[]".to_owned());
    let morning = Schedule::cron("0 9 * * MON-FRI Europe/Berlin")?;
    same(format!("{:?}", Morning::schedules()?), format!("{:?}", [Periodic::new("morning", morning, Morning)]));
    let quarter = Schedule::cron("every 15m")?;
    same(format!("{:?}", Quarterly::schedules()?), format!("{:?}", [Periodic::new("quarter", quarter, Quarterly)]));
    let daily = Schedule::cron("@daily")?;
    same(format!("{:?}", Daily::schedules()?), format!("{:?}", [Periodic::new("daily", daily, Daily)]));

    let berlin = Schedule::cron("30 2 * * *")?.zone("Europe/Berlin")?.gap(Gap::Skip).fold(Fold::Both);
    let berlin = berlin.missed(Missed::All { within: Duration::from_secs(6 * 3600) }).overlap(Overlap::Skip);
    let berlin = berlin.jitter(Duration::from_secs(300));
    let tokyo = Schedule::cron("0 9 * * * Asia/Tokyo")?.gap(Gap::Shift).fold(Fold::First);
    let expected = [
        Periodic::new("sync-7", berlin, SyncShop::new(7, "seven").queue("bulk").priority(-1)),
        Periodic::new("sync-8", tokyo, eight()),
        Periodic::new("sync-9", Schedule::cron("every 1h30m")?.missed(Missed::None), SyncShop::new(9, "nine").priority(i16::MAX)),
        Periodic::new("sync-10", Schedule::cron("0 9 1 JAN *")?.fold(Fold::Last), SyncShop::new(10, "ten").queue("bulk")),
    ];
    same(format!("{:?}", SyncShop::schedules()?), format!("{expected:?}"));

    let hourly = [Periodic::new("by_macro_rules", Schedule::cron("@hourly")?.zone("UTC")?, ByMacroRules { n: 1 })];
    same(format!("{:?}", ByMacroRules::schedules()?), format!("{hourly:?}"));
    Ok(())
}
