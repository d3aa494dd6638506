use queue::job;

struct Mailer;

#[job]
impl Mailer {}

fn main() {}
