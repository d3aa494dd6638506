//! Duties that every worker offers to do. Each is a bounded `run_once`; the statements see to it that several workers doing
//! one at a time do not disturb each other, so there is no leader to lose.

pub(crate) mod rescue;
pub(crate) mod retention;
