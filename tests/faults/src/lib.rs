//! The fault suite: `cargo xtask faults`.
//!
//! Producers enqueue jobs, and real worker processes run them, while the suite damages a process, the network or the
//! database. Each process records what it does ([`record`]). When no job waits or runs, the [`checker`] decides from
//! the records and the tables alone whether a job was lost, ran twice, ran too early, and so on. `docs/reliability.md`
//! lists the promises and the faults.

pub mod balancer;
pub mod checker;
pub mod crew;
pub mod effects;
pub mod faults;
pub mod figures;
pub mod jobs;
pub mod load;
pub mod mix;
pub mod order;
pub mod point;
pub mod producers;
pub mod record;
pub mod scene;
pub mod suite;
pub mod timetable;
pub mod worker;
