use queue::job;

#[job]
mod jobs {}

fn main() {}
