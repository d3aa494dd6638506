//! The workload `compile`: 200 jobs by `#[job]`, and 200 by hand with serde and a `match`.

use std::fs;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use serde_json::json;

use super::record::{Measured, Side};
use super::workload::Workload;
use crate::tool::cargo;
use queue_test_servers::paths;
use queue_test_servers::process::check_interrupted;

/// Of the workload. No side of it needs a database.
pub(crate) const NAME: &str = "compile";

/// Files in a crate, and jobs in each.
const FILES: usize = 10;
const JOBS: usize = 20;

const MANIFEST: &str = r#"[package]
name = "NAME"
version = "0.0.0"
edition = "2024"

[workspace]

[dependencies]
serde = { version = "1", features = ["derive"] }
serde_json = "1"
"#;
/// Before a job's function by hand. `FILE` and `JOB` are numbers, also below.
const STRUCT: &str = "
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct JobFILExJOB {
    pub n: i64,
    pub s: String,
}
";
/// `MARK` is a number, by which one build differs from another.
const FUNCTION: &str = r#"
pub async fn job_FILE_JOB(n: i64, s: String) -> Result<(), std::io::Error> {
    println!("MARK job_FILE_JOB: {n} {s}");
    Ok(())
}
"#;
const ARM: &str = r#"
        "job_FILE_JOB" => {
            let part_FILE::JobFILExJOB { n, s } = serde_json::from_str(args)?;
            part_FILE::job_FILE_JOB(n, s).await?;
        }"#;
const MATCH: &str = r#"
pub async fn run(kind: &str, args: &str) -> Result<(), Box<dyn std::error::Error>> {
    match kind {ARMS
        _ => return Err("unknown kind".into()),
    }
    Ok(())
}
"#;

/// One of the two crates, below the target folder.
struct Crate {
    name: &'static str,
    side: Side,
    /// Besides serde.
    dependency: String,
    /// Each of the files.
    file: String,
    /// What the root has besides its modules.
    root: String,
}

impl Crate {
    fn folder(&self) -> PathBuf {
        paths::target().join("bench-compile").join(self.name)
    }

    fn write(&self) -> Result<()> {
        fs::create_dir_all(self.folder().join("src"))?;
        fs::write(self.folder().join("Cargo.toml"), MANIFEST.replace("NAME", self.name) + &self.dependency)?;
        fs::copy(paths::workspace().join("Cargo.lock"), self.folder().join("Cargo.lock"))?;
        let modules: String = (0..FILES).map(|file| format!("pub mod part_{file};\n")).collect();
        fs::write(self.folder().join("src/lib.rs"), modules + &self.root)?;
        (0..FILES).try_for_each(|file| self.write_file(file, 0))
    }

    /// Writes one file; `mark` comes into the first of its functions.
    fn write_file(&self, file: usize, mark: usize) -> Result<()> {
        let text = self.file.replacen("MARK", &mark.to_string(), 1).replace("MARK", "0");
        let path = self.folder().join(format!("src/part_{file}.rs"));
        Ok(fs::write(path, text.replace("FILE", &file.to_string()))?)
    }

    /// How many seconds it takes.
    fn cargo(&self, args: &[&str]) -> Result<f64> {
        check_interrupted()?;
        let mut command = cargo(args);
        command.arg("--quiet").current_dir(self.folder());
        command.env("CARGO_TARGET_DIR", paths::target().join("bench-compile/target"));
        let start = Instant::now();
        let status = command.status().context("running cargo")?;
        ensure!(status.success(), "cargo {} failed in {}", args.join(" "), self.folder().display());
        Ok(start.elapsed().as_secs_f64())
    }
}

/// Both in turn; the dependencies are built before.
pub(crate) fn run(workload: &'static Workload, rounds: usize) -> Result<Measured> {
    let jobs = |text: &str| (0..JOBS).map(|job| text.replace("JOB", &job.to_string())).collect::<String>();
    let arms: String = (0..FILES).map(|file| jobs(ARM).replace("FILE", &file.to_string())).collect();
    let by_hand = Crate {
        name: "compile-hand",
        side: Side::Floor,
        dependency: String::new(),
        file: format!("use serde::{{Deserialize, Serialize}};\n{}", jobs(&[STRUCT, FUNCTION].concat())),
        root: MATCH.replace("ARMS", &arms),
    };
    let by_macro = Crate {
        name: "compile-macro",
        side: Side::Ours,
        dependency: format!("queue = {{ path = \"{}\" }}\n", paths::workspace().join("queue").display()),
        file: format!("use queue::job;\n{}", jobs(&["\n#[job(max_retries = 3)]", FUNCTION].concat())),
        root: String::new(),
    };
    let crates = [by_hand, by_macro];
    for it in &crates {
        it.write().with_context(|| format!("writing {}", it.folder().display()))?;
        it.cargo(&["build"])?;
    }
    let mut measured = Measured::default();
    for round in 1..=rounds {
        for it in &crates {
            it.cargo(&["clean", "--package", it.name])?;
            let clean = it.cargo(&["build"])?;
            it.write_file(FILES / 2, round)?;
            let incremental = it.cargo(&["build"])?;
            println!("round {round} {}: clean {clean:.2} s, incremental {incremental:.2} s", it.name);
            let figures = json!({ "clean_s": clean, "incremental_s": incremental });
            measured.put("none", workload, it.side.clone(), &figures);
        }
    }
    Ok(measured)
}
