//! A Chromium of our own, and the protocol that it speaks.

use std::collections::HashMap;
use std::fs::File;
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use queue_test_servers::programs::in_path;
use queue_tests::within;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::{mpsc, oneshot};

use crate::page::{Look, Page};

/// The name of the program: that of Debian's package.
const PROGRAM: &str = "chromium";
/// Nothing but what the tests ask for: no look for updates, no first steps, no other hosts.
const WORDS: [&str; 14] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
];

/// Whether the machine has a browser for these tests.
pub fn is_there() -> bool {
    in_path(PROGRAM)
}

/// A browser of the test's own. It ends when it is dropped.
#[derive(Debug)]
pub struct Browser {
    link: Arc<Link>,
    child: Child,
    // removed when the browser has ended
    _profile: TempDir,
}

impl Browser {
    /// Starts one. `None`: there is none on this machine, so the test is to be skipped.
    ///
    /// # Panics
    /// When it does not start, and when there is none although `QUEUE_TEST_REQUIRE_ALL` is `1`.
    pub async fn start() -> Option<Self> {
        if !is_there() {
            let cure = format!("install Debian's package {PROGRAM}, or run `cargo xtask test`");
            assert!(std::env::var("QUEUE_TEST_REQUIRE_ALL").as_deref() != Ok("1"), "there is no browser: {cure}");
            println!("skipped: there is no browser. To run it, {cure}");
            return None;
        }
        let profile = TempDir::with_prefix("queue-browser-").expect("a temporary folder");
        let log = profile.path().join("log");
        // It reads commands from descriptor 3 and answers on 4. The shell makes these of the two pipes it is given.
        let child = Command::new("sh")
            .args(["-c", r#"exec "$0" "$@" 3<&0 4>&1 0</dev/null 1>&2"#, PROGRAM])
            .args(WORDS)
            .arg(format!("--user-data-dir={}", profile.path().join("data").display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(&log).expect("a log"))
            .kill_on_drop(true)
            .spawn();
        let mut child = child.expect("the shell starts");
        let (to, from) = (child.stdin.take().expect("a pipe"), child.stdout.take().expect("a pipe"));
        let link = Arc::new(Link::new(to));
        tokio::spawn(link.clone().listen(from));
        if let Err(error) = link.ask(None, "Browser.getVersion", json!({})).await {
            panic!("{PROGRAM} does not start: {error}\n{}", std::fs::read_to_string(&log).unwrap_or_default());
        }
        Some(Self { link, child, _profile: profile })
    }

    /// A new tab, which shares nothing with the others.
    pub async fn page(&self, look: Look) -> Page {
        let context = self.link.tell(None, "Target.createBrowserContext", json!({ "disposeOnDetach": true })).await;
        Page::open(self.link.clone(), &context["browserContextId"], look).await
    }

    /// Ends it, and waits for its end.
    pub async fn close(mut self) {
        let _ = self.link.ask(None, "Browser.close", json!({})).await;
        let _ = within("the end of the browser", self.child.wait()).await;
    }
}

type Answer = oneshot::Sender<Result<Value, String>>;

/// The two pipes: commands and their answers, which have its number; and events, each of a session.
#[derive(Debug)]
pub(crate) struct Link {
    to: tokio::sync::Mutex<ChildStdin>,
    number: AtomicU64,
    waiting: Mutex<Option<HashMap<u64, Answer>>>,
    sessions: Mutex<HashMap<String, mpsc::UnboundedSender<Value>>>,
}

impl Link {
    fn new(to: ChildStdin) -> Self {
        Self {
            to: tokio::sync::Mutex::new(to),
            number: AtomicU64::new(1),
            waiting: Mutex::new(Some(HashMap::new())),
            sessions: Mutex::default(),
        }
    }

    /// Whatever happens in this session from now on.
    pub(crate) fn events_of(&self, session: &str) -> mpsc::UnboundedReceiver<Value> {
        let (sender, events) = mpsc::unbounded_channel();
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner).insert(session.to_owned(), sender);
        events
    }

    /// A command and its answer.
    pub(crate) async fn ask(&self, session: Option<&str>, method: &str, params: Value) -> Result<Value, String> {
        let id = self.number.fetch_add(1, Ordering::Relaxed);
        let mut command = json!({ "id": id, "method": method, "params": params });
        if let Some(session) = session {
            command["sessionId"] = session.into();
        }
        let (sender, answer) = oneshot::channel();
        match &mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(waiting) => waiting.insert(id, sender),
            None => return Err("the browser has ended".to_owned()),
        };
        // a zero byte ends it
        let text = command.to_string() + "\0";
        self.to.lock().await.write_all(text.as_bytes()).await.map_err(|error| error.to_string())?;
        within(method, answer).await.unwrap_or_else(|_| Err("the browser has ended".to_owned()))
    }

    /// A command that does not fail.
    pub(crate) async fn tell(&self, session: Option<&str>, method: &str, params: Value) -> Value {
        self.ask(session, method, params).await.unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    /// Hands everything that the browser says to those who wait for it.
    async fn listen(self: Arc<Self>, from: ChildStdout) {
        let (mut from, mut text) = (BufReader::new(from), Vec::new());
        while from.read_until(0, &mut text).await.is_ok_and(|read| read > 0) {
            text.pop();
            if let Ok(message) = serde_json::from_slice::<Value>(&text) {
                self.hand_over(message);
            }
            text.clear();
        }
        // nobody will be answered any more
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn hand_over(&self, mut message: Value) {
        if let Some(id) = message["id"].as_u64() {
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(answer) = waiting.as_mut().and_then(|waiting| waiting.remove(&id)) else { return };
            let _ = answer.send(match message.get("error") {
                Some(error) => Err(error["message"].as_str().unwrap_or("an error").to_owned()),
                None => Ok(message["result"].take()),
            });
        } else if let Some(session) = message["sessionId"].as_str() {
            let sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(events) = sessions.get(session) {
                let _ = events.send(message);
            }
        }
    }
}
