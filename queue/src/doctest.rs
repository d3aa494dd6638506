// The beginning of an example in the documentation: a migrated database in memory. Not part of the library.
async {
    let options = sqlx::sqlite::SqlitePoolOptions::new().max_connections(1).idle_timeout(None).max_lifetime(None);
    let pool = options.connect("sqlite::memory:").await.expect("memory");
    queue::migrate(&pool).await.expect("an empty database takes the schema");
    pool
}
