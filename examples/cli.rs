//! The command line in a program that knows its jobs. Run it with
//!
//! ```text
//! export DATABASE_URL='sqlite://jobs.sqlite?mode=rwc'
//! cargo run --example cli -- migrate
//! cargo run --example cli -- enqueue greet '{"name": "Ada"}'
//! cargo run --example cli -- enqueue greet '{"name": 7}'       # refused: a name is a text
//! cargo run --example cli -- work                              # until Ctrl-C
//! ```

use std::process::ExitCode;

use queue::{State, job};

/// What all handlers share.
#[derive(Clone)]
struct Greeting(&'static str);

#[job]
async fn greet(State(Greeting(word)): State<Greeting>, name: String) {
    println!("{word}, {name}!");
}

fn main() -> ExitCode {
    queue_cli::Cli::new().worker(|worker| worker.concurrency(4).state(Greeting("Hello"))).main()
}
