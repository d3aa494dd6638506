//! What `#[job]` accepts, and what the compiler says to what it does not.
//!
//! One file per mistake, named after it. After a change of the messages, or of CI's toolchain, read the new messages as
//! a user would. Then save them: `TRYBUILD=overwrite cargo test -p queue-tests --test ui`.

#[path = "ui/run.rs"]
mod run;

/// Apart from the programs that pass: so one run of cargo checks them all.
#[test]
fn the_compiler_says_it_once_where_it_is_and_what_to_write() {
    trybuild::TestCases::new().compile_fail("ui/fail/*/*.rs");
}

#[test]
fn the_compiler_accepts_what_is_allowed() {
    trybuild::TestCases::new().pass("ui/pass/*/*.rs");
}

/// `docs/macro-errors.md` shows the messages verbatim.
#[test]
fn the_documented_messages_are_the_tested_ones() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(root.join("../docs/macro-errors.md")).expect("the page");
    let shown: Vec<_> =
        page.lines().filter_map(|line| line.strip_prefix("<!-- tests/ui/fail/")?.strip_suffix(" -->")).collect();
    assert_eq!(shown.len(), 13);
    for name in shown {
        let message = std::fs::read_to_string(root.join(format!("ui/fail/{name}.stderr"))).expect(name);
        assert!(page.contains(message.trim_end()), "{name}: the page shows another message than the test");
    }
}
