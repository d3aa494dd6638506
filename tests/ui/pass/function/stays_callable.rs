//! The function is as it was written, and carries over what the struct needs.

#![deny(warnings, missing_docs, unreachable_pub)]

use queue::{Job, job};

mod jobs {
    use queue::job;

    /// For this crate.
    #[job]
    pub(crate) async fn shared(n: u32) -> Result<u32, std::num::ParseIntError> {
        Ok(n)
    }

    /// For the module above only.
    #[job]
    pub(super) async fn above(n: u32) {
        let _ = n;
    }

    #[job]
    async fn private(n: u32) {
        let _ = n;
    }

    pub(crate) fn made_here() -> usize {
        let job = Private { n: 3 };
        job.n as usize
    }

    /// Not compiled.
    #[job]
    #[cfg(any())]
    pub(crate) async fn absent(n: NoSuchType) {}

    #[cfg(any())]
    #[job(no_such_option)]
    pub(crate) async fn absent_too() {}
}

/// Going.
#[job]
#[deprecated = "write to them instead"]
#[allow(dead_code)]
async fn call_them(n: u32) {
    let _ = n;
}

#[job]
#[must_use]
#[inline]
async fn with_more_attributes(n: u32) -> Result<(), JobFailed> {
    #![allow(unused_variables)]
    let unused = n;
    Err(JobFailed)
}

#[derive(Debug)]
struct JobFailed;

impl std::fmt::Display for JobFailed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("failed")
    }
}

impl std::error::Error for JobFailed {}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    assert_eq!(jobs::shared(3).await, Ok(3));
    jobs::above(3).await;
    assert_eq!(jobs::Above { n: 4 }.n, 4);
    assert_eq!(jobs::Shared { n: 4 }.n, 4);
    assert_eq!(jobs::made_here(), 3);
    assert!(with_more_attributes(1).await.is_err());
    assert_eq!(WithMoreAttributes::KIND, "with_more_attributes");
    #[allow(deprecated)]
    call_them(CallThem::new(2).n).await;
}
