//! Running jobs: the slots, and the steps of an attempt from the claim to its end.

pub(crate) mod attempt;
pub(crate) mod ending;
pub(crate) mod isolation;
pub(crate) mod note_starts;
pub(crate) mod slot;
pub(crate) mod slots;
pub(crate) mod verdict;
pub(crate) mod work;
