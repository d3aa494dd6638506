//! What a pool of connections tells.

use sqlx::{Database, Pool};

/// Whether the pool can give a connection without keeping anybody else waiting for one.
pub(crate) fn can_spare_one<DB: Database>(pool: &Pool<DB>) -> bool {
    pool.num_idle() > 0 || pool.size() < pool.options().get_max_connections()
}
