use queue::job;

#[job]
async fn result(to: String) -> Result<(), std::fmt::Error> {
    drop(to);
    Ok(())
}

fn main() {}
