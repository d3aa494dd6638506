#![deny(warnings)]

use queue::{BoxError, Job, JobError, job};

type Outcome<T> = Result<T, BoxError>;

#[derive(serde::Serialize)]
pub struct Receipt {
    number: u32,
}

#[job]
pub async fn nothing() {}

#[job]
pub async fn unit() -> () {}

#[job]
pub async fn std_error() -> Result<(), std::num::ParseIntError> {
    "1".parse::<u32>().map(drop)
}

#[job]
pub async fn charge() -> Result<Receipt, JobError> {
    let number = "1".parse()?;
    Ok(Receipt { number })
}

#[job]
pub async fn text() -> Result<Option<u32>, String> {
    Err("no".into())
}

#[job]
pub async fn static_text() -> Result<&'static str, &'static str> {
    Err("no")
}

#[job]
pub async fn alias() -> Outcome<Vec<u32>> {
    Err("no")?
}

#[job]
pub async fn boxed() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    Ok(())
}

#[job(blocking)]
pub fn blocks(text: &str, n: u32) -> Result<usize, std::fmt::Error> {
    Ok(text.len() + n as usize)
}

#[job(blocking)]
pub fn blocks_without_result(text: Option<&str>, list: &[u32]) {
    let _ = (text, list);
}

fn output<J: Job>() -> &'static str {
    std::any::type_name::<J::Output>()
}

fn main() {
    assert_eq!([output::<Nothing>(), output::<Unit>(), output::<StdError>()], ["()"; 3]);
    assert!(output::<Charge>().ends_with("Receipt"));
    assert_eq!(output::<Text>(), "core::option::Option<u32>");
    assert_eq!(output::<StaticText>(), "&str");
    assert_eq!(output::<Alias>(), "alloc::vec::Vec<u32>");
    assert_eq!(output::<Boxed>(), "()");
    assert_eq!(output::<Blocks>(), "usize");
    assert_eq!(blocks("ab", 1), Ok(3));
    let _ = (Blocks::new("", 1), BlocksWithoutResult::new(None, [1]));
}
