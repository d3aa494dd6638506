//! Jobs of a library, re-exported several times, and jobs of this crate that reach `queue` through it.

#![deny(warnings)]

use queue::Job;
use queue_tests_lib::SendMail;
use queue_tests_lib::once::ThroughReExport;

mod renamed {
    pub(crate) use queue_tests_lib::once::SendMail as Mail;
}

#[queue_tests_lib::rt::queue::job(crate = queue_tests_lib::rt::queue)]
async fn here(n: u32) {
    let _ = n;
}

fn main() {
    let same: SendMail = renamed::Mail::new("a");
    assert_eq!(same.to, "a");
    assert_eq!((SendMail::KIND, ThroughReExport::KIND, Here::KIND), ("send_mail", "through_re_export", "here"));
    assert_eq!(ThroughReExport { n: 1 }.n + Here { n: 1 }.n, 2);
    drop(queue_tests_lib::send_mail(String::new()));
}
