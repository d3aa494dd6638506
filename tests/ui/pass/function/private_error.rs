//! A job that others may enqueue, whose error they do not see: as with the plain function.
#![deny(warnings)]
#![allow(private_interfaces, reason = "what the plain function warns of")]

mod mail {
    use queue::job;

    #[derive(Debug)]
    struct MailError;

    impl std::fmt::Display for MailError {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("no mail")
        }
    }

    impl std::error::Error for MailError {}

    #[job]
    pub async fn deliver(to: String) -> Result<(), MailError> {
        if to.is_empty() { Err(MailError) } else { Ok(()) }
    }
}

fn main() {
    drop(mail::Deliver::new(String::new()));
}
