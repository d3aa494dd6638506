//! `cargo xtask guide`: follows docs/guide.md literally.

use std::fs;

use anyhow::{Context as _, Result, bail, ensure};
use nix::sys::signal::Signal;
use queue_test_servers::process::{self, Supervised};
use queue_test_servers::{Durability, Engine, Servers, Settings, paths};

use crate::install::install;

/// Follows the guide in an empty folder: writes its files, runs its commands, and checks what its workers did.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only these engines; by default SQLite and PostgreSQL
    #[arg(long = "engine", value_name = "ENGINE", value_delimiter = ',', value_enum)]
    engines: Vec<Engine>,
}

/// Who is welcomed in the guide.
const WELCOMED: [&str; 6] = ["ada", "grace", "lin", "mary", "kim", "joe"];

/// Waits until no job waits or runs. Then the oldest worker is told to stop, and must end without an error.
const STOP: &str = r#"
for _ in $(seq 240); do
    counts=$(cargo run -q --bin app)
    case "$counts" in *Ready*|*Running*|*Scheduled*) sleep 0.25 ;; *) break ;; esac
done
case "$counts" in *Ready*|*Running*|*Scheduled*) echo "jobs are left: $counts"; exit 1 ;; esac
kill -TERM "${workers[0]}"
wait "${workers[0]}"
workers=("${workers[@]:1}")
"#;

pub(crate) fn run(args: &Args) -> Result<bool> {
    let engines = if args.engines.is_empty() { vec![Engine::Sqlite, Engine::Postgres] } else { args.engines.clone() };
    let page = fs::read_to_string(paths::workspace().join("docs/guide.md")).context("docs/guide.md")?;
    for engine in engines {
        println!("\n==> the guide on {engine}");
        // always a server of its own: the guide begins with an empty database
        if engine != Engine::Sqlite {
            install(&[engine])?;
        }
        let servers = Servers::start(&[engine], &Settings::new(Durability::Relaxed))?;
        follow(&page, engine, servers.url(engine))?;
    }
    println!("\nthe guide does what it says");
    Ok(true)
}

fn follow(page: &str, engine: Engine, server: Option<String>) -> Result<()> {
    let folder = tempfile::tempdir().context("a folder")?;
    let script = script(&on_engine(page, engine, server.as_deref())?)?;
    fs::write(folder.path().join("session.sh"), script)?;
    // so that the same versions are used, and nothing is downloaded
    fs::copy(paths::workspace().join("Cargo.lock"), folder.path().join("Cargo.lock"))?;
    let mut bash = process::command("bash", None, Signal::SIGKILL);
    bash.arg("session.sh").current_dir(folder.path());
    bash.env("CARGO_TARGET_DIR", paths::target().join("guide")).env_remove("DATABASE_URL");
    // a cargo that runs this program sets variables for it alone
    bash.env_remove("CARGO_MANIFEST_DIR").env_remove("CARGO_PKG_NAME");
    let status = Supervised::spawn(bash, Signal::SIGKILL)?.wait()?;
    ensure!(status.success(), "a step of the guide failed on {engine}: {status}");
    let log = fs::read_to_string(folder.path().join("app/workers.log")).context("what the workers printed")?;
    welcomed_once(&log)
}

/// The page for another engine, by the replacements of its last table.
fn on_engine(page: &str, engine: Engine, server: Option<&str>) -> Result<String> {
    let (page, _) = page.split_once("## Other databases").context("the guide's table of databases")?;
    Ok(match engine {
        Engine::Sqlite => page.to_owned(),
        Engine::Postgres => {
            let url = server.context("a server")?;
            page.replace("path = \"../queue/queue\" }", "path = \"../queue/queue\", features = [\"postgres\"] }")
                .replace("\"sqlite\"", "\"postgres\"")
                .replace("SqlitePool", "PgPool")
                .replace("SqliteConnection", "PgConnection")
                .replace("sqlite://app.db?mode=rwc", url)
        }
        other => bail!("the guide is followed on SQLite and PostgreSQL, not on {other}"),
    })
}

/// The page as one session of bash.
fn script(page: &str) -> Result<String> {
    let library = paths::workspace().join("queue").display().to_string();
    let mut script = "set -euo pipefail\nworkers=()\n".to_owned();
    for (info, body) in blocks(page) {
        script += &match info.split_once('=').unwrap_or((info, "")) {
            ("run", _) if body.contains("cd app") => format!("{body}cp ../Cargo.lock .\n"),
            ("run", _) => body.into(),
            // compiled first, so that it is the program that gets the signal
            ("run background", _) => {
                format!("cargo build -q --bins\n{} >> workers.log 2>&1 &\nworkers+=($!)\n", body.trim())
            }
            ("stop", _) => STOP.into(),
            ("file", path) => {
                let body = body.replace("../queue/queue", &library);
                format!("mkdir -p \"$(dirname {path})\"\ncat > {path} <<'END'\n{body}END\n")
            }
            _ => bail!("a block of the guide does not say what it is: `{info}`"),
        };
    }
    Ok(script)
}

/// The blocks that say what they are behind the language: those words, and the text.
fn blocks(page: &str) -> impl Iterator<Item = (&str, &str)> {
    let blocks = page.split("```").skip(1).step_by(2).filter_map(|block| block.split_once('\n'));
    blocks.filter_map(|(info, body)| Some((info.split_once(' ')?.1, body)))
}

/// Everybody got one mail; the voucher came with the second release, and not for jobs of the first.
fn welcomed_once(log: &str) -> Result<()> {
    for who in WELCOMED {
        let mails: Vec<_> = log.lines().filter(|line| line.contains(&format!("mail to {who}@example.org"))).collect();
        ensure!(mails.len() == 1, "{who} got {} mails instead of one:\n{log}", mails.len());
        let voucher = !["ada", "grace", "lin"].contains(&who);
        ensure!(mails[0].contains("voucher") == voucher, "not as the guide says: {}", mails[0]);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_say_what_they_are() {
        let page = "a\n```sh run\nls\n```\n```rust\nfn a() {}\n```\n```toml file=Cargo.toml\n\
                    queue = { path = \"../queue/queue\" }\n```\n";
        assert_eq!(blocks(page).map(|(info, _)| info).collect::<Vec<_>>(), ["run", "file=Cargo.toml"]);
        let script = script(page).expect("a script");
        let library = format!("queue = {{ path = \"{}\" }}", paths::workspace().join("queue").display());
        assert!(script.contains("\nls\n") && script.contains(&library), "{script}");
        assert!(super::script("```sh later\nls\n```\n").is_err());
    }

    #[test]
    fn a_mail_too_many_is_noticed() {
        let line = |who: &&str| {
            let voucher = if ["ada", "grace", "lin"].contains(who) { "" } else { " and a voucher" };
            format!("mail to {who}@example.org: welcome{voucher}\n")
        };
        let log: String = WELCOMED.iter().map(line).collect();
        assert!(welcomed_once(&log).is_ok());
        assert!(welcomed_once(&format!("{log}{}", line(&"ada"))).is_err());
        assert!(welcomed_once(&log.replace("mail to lin", "mail to nobody")).is_err());
        assert!(welcomed_once(&log.replace(" and a voucher", "")).is_err());
    }
}
