//! The workload `compile`: 200 jobs by `#[job]`, and 200 by hand with serde and a `match`.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};

use super::machine::today;
use super::numbers::{Spread, round};
use super::record::Row;
use super::workload::COMPILE;
use queue_test_servers::paths;
use queue_test_servers::process::check_interrupted;

/// Files in a crate, and jobs in each.
const FILES: usize = 10;
const JOBS: usize = 20;

/// How a crate is written.
#[derive(Clone, Copy)]
enum By {
    Macro,
    Hand,
}

impl By {
    fn name(self) -> &'static str {
        match self {
            By::Macro => "compile-macro",
            By::Hand => "compile-hand",
        }
    }

    fn dependencies(self) -> String {
        let serde = "serde = { version = \"1\", features = [\"derive\"] }\nserde_json = \"1\"";
        match self {
            By::Macro => format!("queue = {{ path = \"{}\" }}\n{serde}", paths::workspace().join("queue").display()),
            By::Hand => serde.into(),
        }
    }

    /// One file; `mark` is a number in the first of its functions.
    fn file(self, file: usize, mark: usize) -> String {
        let mut text = String::from(match self {
            By::Macro => "use queue::job;\n\n",
            By::Hand => "use serde::{Deserialize, Serialize};\n\n",
        });
        for job in 0..JOBS {
            let name = format!("job_{file}_{job}");
            let mark = if job == 0 { mark } else { 0 };
            let body = format!("println!(\"{mark} {name}: {{n}} {{s}}\");\n    Ok(())");
            let function =
                format!("pub async fn {name}(n: i64, s: String) -> Result<(), std::io::Error> {{\n    {body}\n}}\n\n");
            let _ = match self {
                By::Macro => write!(text, "#[job(max_retries = 3)]\n{function}"),
                By::Hand => write!(
                    text,
                    "#[derive(Debug, Clone, Serialize, Deserialize)]\npub struct Job{file}x{job} {{\n    \
                     pub n: i64,\n    pub s: String,\n}}\n\n{function}"
                ),
            };
        }
        text
    }

    /// The root: for the jobs by hand, their dispatch.
    fn root(self) -> String {
        let mut text: String = (0..FILES).map(|file| format!("pub mod part_{file};\n")).collect();
        if let By::Hand = self {
            text += "\npub async fn run(kind: &str, args: &str) -> Result<(), Box<dyn std::error::Error>> {\n    \
                     match kind {\n";
            for (file, job) in (0..FILES).flat_map(|file| (0..JOBS).map(move |job| (file, job))) {
                let _ = writeln!(
                    text,
                    "        \"job_{file}_{job}\" => {{\n            let part_{file}::Job{file}x{job} {{ n, s }} = \
                     serde_json::from_str(args)?;\n            part_{file}::job_{file}_{job}(n, s).await?;\n        }}"
                );
            }
            text += "        _ => return Err(\"unknown kind\".into()),\n    }\n    Ok(())\n}\n";
        }
        text
    }
}

/// A crate below the target folder.
struct Crate {
    by: By,
    folder: PathBuf,
}

impl Crate {
    fn write(by: By) -> Result<Crate> {
        let folder = paths::target().join("bench-compile").join(by.name());
        let source = folder.join("src");
        fs::create_dir_all(&source).with_context(|| format!("creating {}", source.display()))?;
        let manifest = format!(
            "[package]\nname = \"{}\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[dependencies]\n{}\n\n[workspace]\n",
            by.name(),
            by.dependencies()
        );
        fs::write(folder.join("Cargo.toml"), manifest)?;
        fs::copy(paths::workspace().join("Cargo.lock"), folder.join("Cargo.lock"))?;
        fs::write(source.join("lib.rs"), by.root())?;
        let it = Crate { by, folder };
        for file in 0..FILES {
            it.touch(file, 0)?;
        }
        Ok(it)
    }

    fn touch(&self, file: usize, mark: usize) -> Result<()> {
        let path = self.folder.join(format!("src/part_{file}.rs"));
        fs::write(&path, self.by.file(file, mark)).with_context(|| format!("writing {}", path.display()))
    }

    fn cargo(&self, args: &[&str]) -> Result<f64> {
        check_interrupted()?;
        let target: &Path = &paths::target().join("bench-compile/target");
        let start = Instant::now();
        let mut command = Command::new("cargo");
        command.args(args).arg("--quiet").current_dir(&self.folder).env("CARGO_TARGET_DIR", target);
        let status = command.status().context("running cargo")?;
        ensure!(status.success(), "cargo {} failed in {}", args.join(" "), self.folder.display());
        Ok(start.elapsed().as_secs_f64())
    }
}

/// Both in turn; the dependencies are built before.
pub(crate) fn run(rounds: usize) -> Result<Vec<Row>> {
    let crates = [Crate::write(By::Hand)?, Crate::write(By::Macro)?];
    for it in &crates {
        it.cargo(&["build"])?;
    }
    // by figure and side
    let mut seconds = [[Vec::new(), Vec::new()], [Vec::new(), Vec::new()]];
    for mark in 1..=rounds {
        for (side, it) in crates.iter().enumerate() {
            it.cargo(&["clean", "--package", it.by.name()])?;
            seconds[0][side].push(it.cargo(&["build"])?);
            it.touch(FILES / 2, mark)?;
            seconds[1][side].push(it.cargo(&["build"])?);
            let [clean, incremental] = [0, 1].map(|figure| seconds[figure][side].last().copied().unwrap_or_default());
            println!("round {mark} {}: clean {clean:.2} s, incremental {incremental:.2} s", it.by.name());
        }
    }
    let date = today();
    let row = |(figure, sides): (usize, &[Vec<f64>; 2])| {
        let (floor, ours) = (Spread::of(&sides[0]), Spread::of(&sides[1]));
        Row {
            engine: "none".into(),
            workload: "compile".into(),
            figure: COMPILE[figure].key.into(),
            date: date.clone(),
            rounds,
            floor,
            ours,
            ratio: ours.zip(floor).map(|(ours, floor)| round(ours.median / floor.median)),
        }
    };
    Ok(seconds.iter().enumerate().map(row).collect())
}
