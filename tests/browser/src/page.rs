//! A tab: what is shown in it, what a person does with it, and what went wrong.

use std::sync::Arc;

use base64::Engine as _;
use queue_tests::within;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::chromium::Link;

/// How a person looks at the dashboard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// Of the window, in pixels of CSS.
    pub width: u32,
    /// Whether the system asks for dark colours.
    pub dark: bool,
    /// Whether scripts run.
    pub scripts: bool,
}

impl Look {
    /// On a phone and on a desk, in both colour schemes.
    pub const ALL: [Self; 4] = [Self::new(360, false), Self::new(360, true), Self::new(1280, false), Self::WIDE_DARK];
    const WIDE_DARK: Self = Self::new(1280, true);
    /// On a desk, in light colours.
    pub const DESK: Self = Self::new(1280, false);
    /// The same with all scripts off.
    pub const NO_SCRIPTS: Self = Self { scripts: false, ..Self::DESK };

    const fn new(width: u32, dark: bool) -> Self {
        Self { width, dark, scripts: true }
    }

    fn height(self) -> u64 {
        if self.is_narrow() { 740 } else { 900 }
    }

    /// Whether it is a phone.
    pub fn is_narrow(self) -> bool {
        self.width < 800
    }
}

/// A tab.
#[derive(Debug)]
pub struct Page {
    link: Arc<Link>,
    session: String,
    target: String,
    events: mpsc::UnboundedReceiver<Value>,
    /// What it looks like.
    pub look: Look,
    /// The addresses that it asked for, `data:` left out.
    pub requests: Vec<String>,
    /// What the console and the content policy have to say against it.
    pub problems: Vec<String>,
}

impl Page {
    pub(crate) async fn open(link: Arc<Link>, context: &Value, look: Look) -> Self {
        let new = json!({ "url": "about:blank", "browserContextId": context });
        let target = link.tell(None, "Target.createTarget", new).await;
        let target = target["targetId"].as_str().expect("a target").to_owned();
        let attach = json!({ "targetId": target, "flatten": true });
        let session = link.tell(None, "Target.attachToTarget", attach).await;
        let session = session["sessionId"].as_str().expect("a session").to_owned();
        let events = link.events_of(&session);
        let page = Self { link, session, target, events, look, requests: Vec::new(), problems: Vec::new() };
        for domain in ["Page", "Runtime", "Network", "Log", "Audits"] {
            page.tell(&format!("{domain}.enable"), json!({})).await;
        }
        page.resize(look.height()).await;
        let scheme = if look.dark { "dark" } else { "light" };
        let scheme = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        page.tell("Emulation.setEmulatedMedia", scheme).await;
        page.tell("Emulation.setScriptExecutionDisabled", json!({ "value": !look.scripts })).await;
        page
    }

    /// A command of the protocol that does not fail.
    pub async fn tell(&self, method: &str, params: Value) -> Value {
        self.link.tell(Some(&self.session), method, params).await
    }

    async fn resize(&self, height: u64) {
        let Look { width, .. } = self.look;
        let narrow = self.look.is_narrow();
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": narrow });
        self.tell("Emulation.setDeviceMetricsOverride", size).await;
    }

    /// Shows this tab, and so hides the others of its window.
    pub async fn to_front(&self) {
        self.link.tell(None, "Target.activateTarget", json!({ "targetId": self.target })).await;
    }

    /// Another tab of the same window.
    pub async fn beside(&self) -> Self {
        let info = self.link.tell(None, "Target.getTargetInfo", json!({ "targetId": self.target })).await;
        Self::open(self.link.clone(), &info["targetInfo"]["browserContextId"], self.look).await
    }

    /// Whatever has happened since the last look.
    pub fn catch_up(&mut self) {
        while let Ok(event) = self.events.try_recv() {
            self.note(&event);
        }
    }

    /// Waits for an event.
    pub async fn wait_for(&mut self, method: &str) -> Value {
        self.wait_until(method, |event| event["method"] == *method).await
    }

    async fn wait_until(&mut self, what: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        loop {
            let event = within(what, self.events.recv()).await.expect("the browser is still there");
            self.note(&event);
            if is_it(&event) {
                return event["params"].clone();
            }
        }
    }

    fn note(&mut self, event: &Value) {
        let params = &event["params"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        match event["method"].as_str().unwrap_or_default() {
            "Network.requestWillBeSent" => {
                let url = text(&params["request"]["url"]);
                if !url.starts_with("data:") {
                    self.requests.push(url);
                }
            }
            "Network.webSocketCreated" => self.requests.push(text(&params["url"])),
            "Runtime.exceptionThrown" => {
                let details = &params["exceptionDetails"];
                self.problems.push(format!("exception: {} {}", details["text"], details["exception"]["description"]));
            }
            "Runtime.consoleAPICalled" => {
                let kind = text(&params["type"]);
                if ["error", "warning", "assert"].contains(&&*kind) {
                    self.problems.push(format!("console.{kind}: {}", params["args"]));
                }
            }
            "Log.entryAdded" => {
                let entry = &params["entry"];
                if entry["level"] == "error" || entry["level"] == "warning" {
                    self.problems.push(format!("{}: {} {}", text(&entry["level"]), entry["text"], entry["url"]));
                }
            }
            "Audits.issueAdded" if params["issue"]["code"] == "ContentSecurityPolicyIssue" => {
                self.problems.push(format!("content policy: {}", params["issue"]["details"]));
            }
            _ => {}
        }
    }

    // ---- go somewhere ----

    /// Opens an address, and waits until the page has loaded. Forgets what was before.
    pub async fn go(&mut self, url: &str) {
        self.catch_up();
        (self.requests, self.problems) = (Vec::new(), Vec::new());
        self.tell("Page.navigate", json!({ "url": url })).await;
        self.loaded().await;
    }

    /// Waits until a page has loaded.
    pub async fn loaded(&mut self) {
        self.wait_for("Page.loadEventFired").await;
    }

    /// The path and the query of its address.
    pub async fn path(&self) -> String {
        self.text_of("location.pathname + location.search").await
    }

    /// Runs a script in every page that comes, before its own ones.
    pub async fn before_scripts(&self, source: &str) {
        self.tell("Page.addScriptToEvaluateOnNewDocument", json!({ "source": source })).await;
    }

    /// Forgets all files, as a browser that comes for the first time.
    pub async fn empty_cache(&self) {
        self.tell("Network.clearBrowserCache", json!({})).await;
    }

    // ---- look ----

    /// The value of an expression in the page, which may be a promise.
    pub async fn eval(&self, expression: &str) -> Value {
        self.eval_in(None, expression).await
    }

    /// A world of its own beside the page's: a script in there sees the page, and the page does not see it.
    pub async fn isolated(&self) -> Value {
        let frames = self.tell("Page.getFrameTree", json!({})).await;
        let world = json!({ "frameId": frames["frameTree"]["frame"]["id"], "worldName": "tests" });
        self.tell("Page.createIsolatedWorld", world).await["executionContextId"].clone()
    }

    /// The same in such a world.
    pub async fn eval_in(&self, world: Option<&Value>, expression: &str) -> Value {
        let mut asked = json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        if let Some(world) = world {
            asked["contextId"] = world.clone();
        }
        let mut found = self.tell("Runtime.evaluate", asked).await;
        let start: String = expression.chars().take(200).collect();
        assert!(found.get("exceptionDetails").is_none(), "{start}: {}", found["exceptionDetails"]);
        found["result"]["value"].take()
    }

    /// The value of an expression, a text.
    pub async fn text_of(&self, expression: &str) -> String {
        self.eval(expression).await.as_str().unwrap_or_default().to_owned()
    }

    /// Waits until the page is so, and looks whenever it changes.
    pub async fn until(&self, expression: &str) {
        let watch = "{ subtree: true, childList: true, attributes: true, characterData: true }";
        self.eval(&format!(
            "new Promise(done => {{
                const look = () => {{ if ({expression}) {{ seen.disconnect(); done(); }} }};
                const seen = new MutationObserver(look);
                seen.observe(document, {watch});
                look();
            }})"
        ))
        .await;
    }

    /// All that a person reads on the page.
    pub async fn text(&self) -> String {
        self.text_of("document.body.innerText").await
    }

    /// The line that says what the last change did.
    pub async fn told(&self) -> String {
        self.text_of("document.querySelector('[role=status]')?.innerText ?? ''").await
    }

    /// What has the focus: its name, or else what it says.
    pub async fn focus(&self) -> String {
        self.text_of("((on) => on.name || on.id || on.innerText || on.nodeName)(document.activeElement)").await
    }

    // ---- act ----

    /// Where the middle of something is. `what` is a selector, or the words on a button or a link.
    async fn find(&self, what: &str) -> [f64; 2] {
        let name = serde_json::Value::from(what);
        let found = self
            .eval(&format!(
                "((what) => {{
                    const named = [...document.querySelectorAll('main :is(a, button, summary), header button')]
                        .filter(it => it.checkVisibility());
                    const is = it => it.innerText.trim().replace(/\\s+/g, ' ');
                    let found = named.find(it => is(it) === what) || named.find(it => is(it).startsWith(what));
                    try {{ found ??= document.querySelector(what); }} catch {{ }}
                    if (!found) return null;
                    found.scrollIntoView({{ block: 'center', inline: 'center', behavior: 'instant' }});
                    const box = found.getBoundingClientRect();
                    return [box.x + box.width / 2, box.y + box.height / 2];
                }})({name})"
            ))
            .await;
        let Some([x, y]) = found.as_array().map(Vec::as_slice) else {
            panic!("there is no {what} on {}:\n{}", self.path().await, self.text().await)
        };
        [x, y].map(|it| it.as_f64().expect("a number"))
    }

    /// Clicks something: a selector, or the words on a button or a link.
    pub async fn click(&self, what: &str) {
        let [x, y] = self.find(what).await;
        for kind in ["mousePressed", "mouseReleased"] {
            let event = json!({ "type": kind, "x": x, "y": y, "button": "left", "clickCount": 1 });
            self.tell("Input.dispatchMouseEvent", event).await;
        }
    }

    /// Clicks something, and waits for the page that comes then.
    pub async fn follow(&mut self, what: &str) {
        self.catch_up();
        self.click(what).await;
        self.loaded().await;
    }

    /// Clicks a field, and types a text instead of what is in it.
    pub async fn fill(&self, field: &str, text: &str) {
        self.click(field).await;
        let all = json!({ "type": "keyDown", "key": "a", "code": "KeyA", "windowsVirtualKeyCode": 65, "modifiers": 2,
                          "commands": ["selectAll"] });
        self.tell("Input.dispatchKeyEvent", all).await;
        self.press("Delete").await;
        for letter in text.chars() {
            self.press(letter.encode_utf8(&mut [0; 4])).await;
        }
    }

    /// Presses a key: a letter, or one with a name.
    pub async fn press(&self, key: &str) {
        let (code, text) = match key {
            "Enter" => (13, "\r"),
            "Tab" => (9, ""),
            "Escape" => (27, ""),
            "Delete" => (46, ""),
            one => (one.to_ascii_uppercase().bytes().next().filter(u8::is_ascii_alphanumeric).unwrap_or(0), key),
        };
        let kind = if text.is_empty() { "rawKeyDown" } else { "keyDown" };
        let down = json!({ "type": kind, "key": key, "text": text, "windowsVirtualKeyCode": code });
        self.tell("Input.dispatchKeyEvent", down).await;
        self.tell("Input.dispatchKeyEvent", json!({ "type": "keyUp", "key": key, "windowsVirtualKeyCode": code }))
            .await;
    }

    /// A picture of the whole page, as a PNG file.
    pub async fn picture(&self) -> Vec<u8> {
        // a window that is as high: what sticks to its edge is where the page ends
        let height = self.eval("document.documentElement.scrollHeight").await;
        self.resize(height.as_u64().unwrap_or_default()).await;
        let found = self.tell("Page.captureScreenshot", json!({ "format": "png" })).await;
        self.resize(self.look.height()).await;
        let text = found["data"].as_str().expect("a picture");
        base64::engine::general_purpose::STANDARD.decode(text).expect("base64")
    }
}
