//! The protocol, searched.
use std::time::Instant;
use queue_model::rules::Rules;
use queue_model::search::{Found, search};
use queue_model::world::Bounds;

#[test]
fn scout() {
    let var = |n: &str, d: u32| std::env::var(n).ok().map_or(d, |v| v.parse().unwrap());
    let bounds = Bounds { processes: var("P",3) as usize, jobs: var("J",3) as usize, retries: var("R",1) as i32, lease: var("L",2), faults: var("F",1) as u8, troubles: var("T",1) as u8, rules: Rules::default() };
    let begin = Instant::now();
    match search(&bounds, None) {
        Found::Sound { states, transitions } => println!("{states} states {transitions} transitions {:?}", begin.elapsed()),
        Found::Broken(story) => panic!("\n{story}"),
    }
}
