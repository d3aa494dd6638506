use queue::{JobContext, JobError, State, job};
use sqlx::SqlitePool;

#[job]
async fn charge(ctx: JobContext, State(pool): State<SqlitePool>) -> Result<(), JobError> {
    ctx.complete_in(&pool, &()).await?;
    Ok(())
}

fn main() {}
