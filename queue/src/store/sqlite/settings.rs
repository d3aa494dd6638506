//! What to do about errors that settings cause.

use sqlx::error::DatabaseError;

/// What to do about an error caused by a setting or option.
pub(crate) fn cure(error: &dyn DatabaseError) -> Option<&'static str> {
    match error.code()?.as_ref() {
        "8" => {
            Some(" (query_only is on, or the file cannot be written: open it for writing, without `PRAGMA query_only`)")
        }
        "14" => Some(
            " (does the file exist, and may this account open it? A relative path leads elsewhere after a change of the \
             working directory)",
        ),
        "1" if error.message().contains("no such table: queue_") => Some(crate::store::schema::NO_TABLES),
        _ => None,
    }
}
