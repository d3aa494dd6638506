//! Jobs that another crate defines and re-exports, for the macro's tests.

/// The framework under another path, as a company's own prelude would have it.
pub mod rt {
    pub use ::queue;
}

pub mod jobs {
    //! Jobs in a module.

    /// Sends one mail.
    #[queue::job(queue = "lib")]
    pub async fn send_mail(to: String) {
        let _ = to;
    }

    /// Defined with a path to a re-export.
    #[queue::job(crate = crate::rt::queue, queue = "lib")]
    pub async fn through_re_export(n: u32) {
        let _ = n;
    }
}

/// Re-exported once.
pub mod once {
    pub use crate::jobs::{SendMail, ThroughReExport, send_mail};
}

/// Re-exported twice.
pub use once::{SendMail, send_mail};
