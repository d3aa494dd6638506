use queue::{Job, job};

macro_rules! jobs {
    ($($name:ident($($arg:ident: $ty:ty),*) in $queue:expr, $retries:literal;)*) => {
        $(
            #[job(queue = $queue, max_retries = $retries)]
            pub async fn $name($($arg: $ty),*) {
                $(let _ = $arg;)*
            }
        )*
    };
}

jobs! {
    first(text: &str, n: u32, list: Vec<String>) in "a", 3;
    second() in "b", 0;
}

fn main() {
    let _ = (First::new("a", 1, vec!["b".to_owned()]), Second);
    assert_eq!((First::QUEUE, First::MAX_RETRIES, Second::QUEUE, Second::MAX_RETRIES), ("a", 3, "b", 0));
}
