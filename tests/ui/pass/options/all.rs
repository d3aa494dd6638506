#![deny(warnings)]

use std::time::Duration;

use queue::{Backoff, Job, job};

#[job]
pub async fn defaults(n: u32) {
    let _ = n;
}

#[job(
    name = "mail.send",
    aliases = ["send_mail", "mail"],
    queue = "mail",
    priority = -10,
    max_retries = 3,
    timeout = "1h30m",
    backoff = exponential("2s", max = "10m"),
    struct_name = "SendEmailJob",
    crate = ::queue,
)]
pub async fn send_email(n: u32) {
    let _ = n;
}

/// In the way of the usual name.
pub struct SendEmail;

#[job(backoff = linear("10s", max = "5m"), crate = "queue", priority = 32767_i16, max_retries = 0)]
pub async fn linear() {}

#[job(backoff = linear("10s"), aliases = [], struct_name = LinearDefault, priority = -32768)]
pub async fn linear_without_max() {}

#[job(backoff = exponential("1h"))]
pub async fn exponential() {}

#[job(backoff = fixed("500ms"), blocking)]
pub fn fixed() {}

#[job(backoff = custom(delays::by_attempt))]
pub async fn custom() {}

mod delays {
    pub(super) fn by_attempt(attempt: u32) -> std::time::Duration {
        std::time::Duration::from_secs(u64::from(attempt))
    }
}

fn main() {
    const S: Duration = Duration::from_secs(1);
    assert_eq!(Defaults::KIND, "defaults");
    assert_eq!(Defaults::ALIASES, [""; 0]);
    assert_eq!((Defaults::QUEUE, Defaults::PRIORITY, Defaults::TIMEOUT), ("default", 0, None));
    assert_eq!(Defaults::BACKOFF, Backoff::DEFAULT);

    assert_eq!(SendEmailJob::KIND, "mail.send");
    assert_eq!(SendEmailJob::ALIASES, ["send_mail", "mail"]);
    assert_eq!((SendEmailJob::QUEUE, SendEmailJob::PRIORITY, SendEmailJob::MAX_RETRIES), ("mail", -10, 3));
    assert_eq!(SendEmailJob::TIMEOUT, Some(5400 * S));
    assert_eq!(SendEmailJob::BACKOFF, Backoff::exponential(2 * S, 600 * S));

    assert_eq!(Linear::BACKOFF, Backoff::linear(10 * S, 300 * S));
    assert_eq!((Linear::PRIORITY, Linear::MAX_RETRIES, LinearDefault::PRIORITY), (i16::MAX, 0, i16::MIN));
    assert_eq!(LinearDefault::BACKOFF, Backoff::linear(10 * S, 3600 * S));
    assert_eq!(Exponential::BACKOFF, Backoff::exponential(3600 * S, 3600 * S));
    assert_eq!(Fixed::BACKOFF, Backoff::fixed(Duration::from_millis(500)));
    assert_eq!(Custom::BACKOFF.delay(4), 4 * S);
    let _ = SendEmail;
}
