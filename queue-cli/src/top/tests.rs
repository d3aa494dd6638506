use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::style::{Color, Modifier};
use serde_json::{Value, json};

use super::*;
use crate::findings::World;
use crate::flow::by_queue;

/// What a key or an act is told to.
fn state(operate: bool) -> State {
    let look = Look { width: None, colour: true, utc: false, now: now() };
    State::new(&Screen { look, json: false, database: "postgres://ada@db1/shop".to_owned() }, operate)
}

fn now() -> DateTime<Utc> {
    "2026-11-28T13:14:25Z".parse().expect("a time")
}

fn count(jobs: u64) -> Value {
    json!({"jobs": jobs, "or_more": jobs >= 10_000})
}

fn lane(kind: &str, queue: &str, [ready, running, scheduled, dead]: [u64; 4], oldest: u64) -> Value {
    json!({
        "kind": kind, "queue": queue, "ready": count(ready), "running": count(running), "scheduled": count(scheduled),
        "dead": count(dead), "oldest_due": (oldest > 0).then_some(Duration::from_secs(oldest)),
        "paused": queue == "reports",
    })
}

fn group(group: &str, kind: &str, [dead, retrying]: [u64; 2], error: &str) -> Value {
    json!({
        "group": format!("{group}00000000"), "kind": kind, "title": error, "dead": count(dead),
        "retrying": count(retrying), "first": now() - Duration::from_secs(4_000), "sample": 4711,
        "last": now() - Duration::from_secs(42), "error": error, "is_new": group == "37b50ced", "back_since": null,
        "by_hour": vec![dead / 24; 24],
    })
}

fn worker(id: i64, [running, slots]: [u64; 2], alive: bool) -> Value {
    json!({
        "id": id, "host": format!("web-{id}"), "pid": 4000 + id, "concurrency": slots, "queues": [],
        "kinds": ["charge", "send_email", "thumbnail"], "started_at": now() - Duration::from_secs(7_300),
        "heartbeat_at": now() - Duration::from_secs(if alive { 1 } else { 95 }), "stopped_at": null, "alive": alive,
        "running": running, "limits": {"mail": 8}, "held": {"mail": running.min(8)},
    })
}

fn of(depths: &[Value], groups: &[Value], workers: &[Value]) -> Status {
    let paused = json!([{"queue": "reports", "since": now() - Duration::from_secs(600)}]);
    let gauges = json!({"depths": depths, "paused": paused, "workers": workers.len(), "complete": true});
    let world: World = World::of(gauges, workers.into(), groups.into());
    let tally = |queue: &str, outcome: &str, attempts: u64| {
        json!({"began_at": now() - Duration::from_secs(120), "queue": queue, "kind": "k", "outcome": outcome,
               "attempts": attempts, "total": Duration::from_millis(400 * attempts), "longest": Duration::from_secs(3)})
    };
    let throughput = json!({
        "span": Duration::from_secs(60), "open_since": now(), "complete": true,
        "tallies": [
            tally("default", "started", 6_000), tally("default", "completed", 6_000),
            tally("mail", "started", 310), tally("mail", "completed", 240), tally("mail", "dead", 70),
        ],
    });
    Status::new(world, Ok(by_queue(&serde_json::from_value(throughput).expect("a throughput"))))
}

/// An incident: the host of mails is down, and a worker is lost.
fn incident() -> Status {
    of(
        &[
            lane("charge", "default", [3, 12, 40, 0], 2),
            lane("send_email", "mail", [1_204, 8, 310, 10_000], 432),
            lane("monthly", "reports", [25, 0, 2, 1], 3_700),
            lane("thumbnail", "images", [0, 0, 0, 0], 0),
        ],
        &[
            group("37b50ced", "send_email", [10_000, 310], "connection refused (<address>)\nwhile sending <text>"),
            group("a01f2c3d", "monthly", [1, 0], "timed out"),
            group("bb907712", "charge", [0, 7], "card terminal is away"),
        ],
        &[worker(3, [0, 8], false), worker(2, [12, 16], true), worker(1, [8, 8], true)],
    )
}

fn shown(operate: bool) -> State {
    let mut state = state(operate);
    state.read(Ok(incident()), now());
    state
}

fn press(state: &mut State, keys: &str) -> Option<Act> {
    keys.chars().fold(None, |_, char| {
        let code = match char {
            '\n' => KeyCode::Enter,
            '\t' => KeyCode::Tab,
            '\u{1b}' => KeyCode::Esc,
            char => KeyCode::Char(char),
        };
        state.on_key(code.into())
    })
}

fn screen(state: &State, width: u16, height: u16) -> (String, ratatui::buffer::Buffer) {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
    terminal.draw(|frame| state.draw(frame)).expect("drawn");
    let buffer = terminal.backend().buffer().clone();
    let lines = buffer.content().chunks(width.max(1).into());
    let lines =
        lines.map(|cells| cells.iter().map(|cell| cell.symbol()).collect::<String>().trim_end().to_owned() + "\n");
    (lines.collect(), buffer)
}

/// Compares a screen with its file. `QUEUE_SCREENS=overwrite` writes the files: look at them as a user would.
#[track_caller]
fn is_as_before(name: &str, state: &State, [width, height]: [u16; 2]) {
    let file = format!("{}/src/top/screens/{name}-{width}x{height}.txt", env!("CARGO_MANIFEST_DIR"));
    let (text, _) = screen(state, width, height);
    if std::env::var_os("QUEUE_SCREENS").is_some_and(|value| value == "overwrite") {
        std::fs::write(&file, &text).expect("written");
    }
    let before = std::fs::read_to_string(&file).unwrap_or_default();
    assert_eq!(text, before, "{file}\n{text}");
}

#[test]
fn a_screen_looks_the_same_at_each_size() {
    for size in [[100, 30], [80, 24], [40, 10]] {
        let mut it = shown(false);
        is_as_before("queues", &it, size);
        press(&mut it, "2j");
        is_as_before("errors", &it, size);
        press(&mut it, "k\n");
        is_as_before("error", &it, size);
        press(&mut it, "3j\n");
        is_as_before("worker", &it, size);
        press(&mut it, "\u{1b}");
        is_as_before("workers", &it, size);
        press(&mut it, "?");
        is_as_before("help", &it, size);
    }
}

#[test]
fn a_database_that_is_away_leaves_the_last_screen_and_says_since_when() {
    let mut it = shown(true);
    let later = |seconds| now() + Duration::from_secs(seconds);
    for seconds in [2, 4] {
        it.read(Err("cannot reach the database: connection refused".to_owned()), later(seconds));
    }
    press(&mut it, "jj.");
    is_as_before("away", &it, [80, 24]);
    it.read(Ok(incident()), later(5));
    assert!(screen(&it, 80, 24).0.contains("Not read since 13:14:25Z"), "it is held");
    press(&mut it, ".");
    it.read(Ok(incident()), later(6));
    let (text, _) = screen(&it, 80, 24);
    assert!(!text.contains("Not read") && text.contains("13:14:31Z"), "{text}");
    // from the start
    let mut it = state(false);
    it.read(Err("no answer for 10 s".to_owned()), now());
    assert!(screen(&it, 80, 24).0.contains("✗ Not read since 13:14:25Z, trying again: no answer for 10 s"));
}

#[test]
fn nothing_is_too_small_and_nothing_is_hostile() {
    let evil = "a\u{1b}[2J\r\nb\u{202e}c\t\u{7}";
    let mut it = state(true);
    let worker = json!({
        "id": 1, "host": evil, "pid": 1, "concurrency": 4, "queues": [evil], "kinds": [evil], "started_at": now(),
        "heartbeat_at": now(), "stopped_at": null, "alive": true, "running": 9,
        "limits": {evil: 9}, "held": {evil: 9},
    });
    let depths = [lane(evil, evil, [1, 2, 3, 4], 900)];
    it.read(Ok(of(&depths, &[group("37b50ced", evil, [3, 1], evil)], &[worker])), now());
    for keys in ["1", "P", "\n", "2", "\n", "j", "3", "\n", "?", "?"] {
        press(&mut it, keys);
        for (width, height) in (1..50).flat_map(|width| (1..14).map(move |height| (width, height))) {
            screen(&it, width, height);
        }
        let (text, _) = screen(&it, 100, 30);
        assert!(!text.contains(['\u{1b}', '\u{202e}', '\u{7}', '\r', '\t']), "{text:?}");
    }
    it.ended(Severity::Error, &line(Failure::new(1, clean(evil)).fix("queue doctor")), now());
    press(&mut it, "2");
    let (text, _) = screen(&it, 100, 30);
    assert!(text.contains(r"✗ 13:14:25Z a\u{1b}[2J\r\nb\u{202e}c\t\u{7} · fix: queue doctor"), "{text}");
}

#[test]
fn without_colour_there_is_none_and_the_selected_row_is_still_seen() {
    let plain = |it: &State| {
        let (text, buffer) = screen(it, 80, 24);
        let colours = buffer.content().iter().filter(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset).count();
        let reversed = buffer.content().iter().filter(|cell| cell.modifier.contains(Modifier::REVERSED)).count();
        (text, colours, reversed)
    };
    let mut it = shown(false);
    let (with, colours, reversed) = plain(&it);
    assert!(colours > 0 && reversed == 80, "{colours} {reversed}");
    it.look.colour = false;
    let (without, colours, reversed) = plain(&it);
    assert_eq!((with, 0, 80), (without.clone(), colours, reversed));
    assert!(
        without.contains("\n> default ") && without.contains("✗ error ") && without.contains("! warning "),
        "{without}"
    );
}

#[test]
fn a_capital_does_nothing_unless_it_may() {
    let mut it = shown(false);
    for keys in ["P", "2S", "A", "X"] {
        assert_eq!(press(&mut it, keys), None);
        assert_eq!(it.hint.as_deref(), Some("read-only: start with `queue top --operate`"));
    }
    press(&mut it, "j");
    assert_eq!(it.hint, None, "it answers one key");
}

#[test]
fn capitals_act_on_what_is_selected() {
    let pause = |queue: &str, paused| Some(Act::Pause { queue: queue.to_owned(), paused });
    let send_back = |group: &str, first| Some(Act::SendBack { group: format!("{group}00000000"), first });
    let ended = |it: &mut State| it.ended(Severity::Ok, "done", now());
    let it = &mut shown(true);
    assert_eq!(press(it, "jjP"), pause("mail", true));
    assert_eq!(it.acting.as_deref(), Some("pausing `mail`"));
    assert_eq!((press(it, "P"), it.hint.as_deref()), (None, Some("wait: still pausing `mail`")));
    ended(it);
    assert_eq!(press(it, "jP"), pause("reports", false));
    ended(it);
    assert_eq!(press(it, "S"), None);
    assert!(it.hint.as_deref().is_some_and(|hint| hint.contains("press 2")), "{:?}", it.hint);
    assert_eq!(press(it, "2S"), send_back("37b50ced", Some(1)));
    ended(it);
    // on its page too, but not under the help
    assert_eq!(press(it, "\nA"), send_back("37b50ced", None));
    ended(it);
    assert_eq!((press(it, "?A"), it.hint.as_deref()), (None, Some("Esc closes the help first")));
    assert_eq!(press(it, "?jjA"), None);
    assert!(it.hint.as_deref().is_some_and(|hint| hint.starts_with("no dead letters")), "{:?}", it.hint);
    assert_eq!(press(it, "P"), None);
    assert_eq!(press(it, "q"), Some(Act::Leave));
    assert_eq!(it.on_key(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)), Some(Act::Leave));
    assert_eq!(it.on_key(KeyEvent::new(KeyCode::Char('A'), KeyModifiers::ALT)), None);
}

#[test]
fn an_act_never_meets_a_row_that_moved_under_it() {
    let it = &mut shown(true);
    press(it, "jj");
    // one comes before it, and then it is gone
    let depth = |queue: &str| lane("k", queue, [1, 0, 0, 0], 1);
    let all = [depth("another"), depth("default"), depth("mail"), depth("zoo")];
    it.read(Ok(of(&all, &[], &[])), now());
    assert_eq!(press(it, "P"), Some(Act::Pause { queue: "mail".to_owned(), paused: true }));
    it.ended(Severity::Ok, "done", now());
    // the others have a flow still
    it.selected[0] = Some("zoo".to_owned());
    it.read(Ok(of(&all[..3], &[], &[])), now());
    assert_eq!((press(it, "P"), it.selected()), (None, None));
    // its page closes
    it.read(Ok(incident()), now());
    press(it, "2\n");
    it.read(Ok(of(&all, &[], &[])), now());
    assert_eq!((it.page, it.hint.as_deref()), (None, Some("it is gone")));
    assert!(screen(it, 80, 24).0.contains("Nothing fails."));
}

#[test]
fn keys_move() {
    let it = &mut shown(false);
    assert_eq!(it.selected().map(String::as_str), Some("default"));
    press(it, "kjjjjjjj");
    assert_eq!(it.selected().map(String::as_str), Some("reports"));
    press(it, "\t\t");
    assert_eq!((it.tab, it.selected().map(String::as_str)), (Tab::Workers, Some("3")));
    press(it, "\t");
    it.on_key(KeyCode::BackTab.into());
    assert_eq!((it.tab, it.page), (Tab::Workers, None));
    press(it, "2\n");
    let (_, _) = screen(it, 40, 10);
    press(it, "jjjjjjjjjjjjjjjjjjjjjjj");
    let (last, _) = screen(it, 40, 10);
    assert!(last.contains("              10m"), "{last}");
    press(it, "k");
    assert_ne!(screen(it, 40, 10).0, last, "one key goes one line back");
    assert_eq!((press(it, "\u{1b}"), it.page), (None, None));
    press(it, "1\n");
    assert_eq!(it.hint.as_deref(), Some("its jobs: queue list queue:reports"));
    press(it, ".");
    assert!(it.held && screen(it, 80, 24).0.contains("held · 2026-11-28 13:14:25Z · read-only"));
    assert_eq!(press(it, "\u{1b}"), Some(Act::Leave));
}
