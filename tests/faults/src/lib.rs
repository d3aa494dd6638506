//! The fault suite: `cargo xtask faults`.
//!
//! Producers enqueue, real worker processes run what they enqueued, and something is done to one of them, to the network
//! or to the database. Each writes down what it did ([`record`]). When all is quiet again the [`checker`] decides from
//! the records and the tables alone whether a job was lost, ran twice, ran too early, and so on. `docs/reliability.md`
//! says what is promised and how each fault is made.

pub mod balancer;
pub mod checker;
pub mod crew;
pub mod faults;
pub mod figures;
pub mod jobs;
pub mod load;
pub mod mix;
pub mod order;
pub mod point;
pub mod record;
pub mod scene;
pub mod suite;
pub mod worker;
