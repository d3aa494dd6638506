//! The command that changes arguments. Their text stays as it is, so nothing is read as a number and written again.

use std::collections::BTreeMap;

use queue::admin::{Action, Admin, MARK, Search};
use queue::{Error, JobId, JobState};
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::act::{self, How};
use crate::failure::Failure;
use crate::screen::Screen;
use crate::text::{Tone, clean};

type Fields<'a> = BTreeMap<String, &'a RawValue>;

/// A hidden value, as JSON.
fn hidden() -> String {
    Value::from(MARK).to_string()
}

fn fields(json: &str) -> Option<Fields<'_>> {
    serde_json::from_str(json).ok()
}

/// What differs after an edit, with the new values of secrets hidden too. Empty: nothing does.
fn diff(args: &str, new: &str, hides: impl Fn(&str) -> bool) -> Result<String, String> {
    let (old, new) = match (fields(args), fields(new)) {
        (Some(old), Some(new)) => (old, new),
        (Some(_), None) => {
            return Err("the new arguments are not a JSON object: write {\"name\": \"value\"}".to_owned());
        }
        (None, _) if args == new => return Ok(String::new()),
        (None, _) => {
            let new = if args == hidden() { hidden() } else { clean(new) };
            return Ok(format!("- {}\n+ {new}\n", clean(args)));
        }
    };
    let mut diff = String::new();
    for (name, value) in &new {
        let line = |sign, value: &RawValue| {
            let value = if hides(name) { hidden() } else { clean(value.get()) };
            format!("{sign} {}: {value}\n", Value::from(name.as_str()))
        };
        match old.get(name) {
            Some(before) if before.get() == value.get() => continue,
            Some(before) => diff += &line('-', before),
            None => {
                if let Some(near) = Search::nearest(name, old.keys().map(String::as_str)) {
                    return Err(format!("the job has no argument `{}`; did you mean `{}`?", clean(name), clean(near)));
                }
            }
        }
        diff += &line('+', value);
    }
    Ok(diff)
}

/// `name=value`: the value is JSON if it can be, unless a text stands there now.
fn assignment(text: &str, args: &Value) -> Result<(String, Box<RawValue>), String> {
    let (name, value) = text.split_once('=').ok_or_else(|| format!("`{text}` is not NAME=VALUE"))?;
    let json: Option<Value> = serde_json::from_str(value).ok();
    let is_text = json.as_ref().is_none_or(Value::is_string);
    if args[name] == MARK && !is_text {
        let name = clean(name);
        return Err(format!(
            "`{name}` is hidden, so what type it has as well: write '{{\"{name}\": …}}' as JSON, without --set"
        ));
    }
    let is_json = json.is_some_and(|json| json.is_string() || json.is_null() || !args[name].is_string());
    let value = if is_json { value.to_owned() } else { Value::from(value).to_string() };
    let value = RawValue::from_string(value).map_err(|error| error.to_string())?;
    Ok((name.to_owned(), value))
}

pub(crate) async fn edit(
    admin: &Admin,
    screen: &Screen,
    id: JobId,
    given: Option<&str>,
    set: &[String],
) -> Result<(), Failure> {
    #[derive(Serialize)]
    struct Edited<'a> {
        args: &'a RawValue,
        id: JobId,
    }

    let wrong = |message: String| Failure::from(message).fix(format!("queue show {id}"));
    let not_json = |error| wrong(format!("this is not JSON ({error}): write '{{\"to\": \"ada@example.org\"}}'"));
    if let Some(given) = given {
        serde_json::from_str::<&RawValue>(given).map_err(not_json)?;
    }
    let detail = admin.job(id).await?.ok_or(Error::NotFound(id))?;
    let present: Value = serde_json::from_str(&detail.args).unwrap_or_default();
    let set = set.iter().map(|text| assignment(text, &present)).collect::<Result<BTreeMap<_, _>, _>>();
    let set = serde_json::to_string(&set.map_err(wrong)?).map_err(not_json)?;
    let new = given.unwrap_or(&set);
    screen.begin();
    let diff = diff(&detail.args, new, |name| detail.hides(name)).map_err(wrong)?;
    if diff.is_empty() {
        screen.say("Nothing to change: the job has these arguments.\n");
        return Ok(());
    }
    let edited = match fields(&detail.args) {
        Some(_) => admin.merge_args(id, new).await,
        None => match serde_json::from_str(new) {
            Ok(value) => admin.edit_args(id, &value).await.map(|()| new.to_owned()),
            Err(error) => return Err(not_json(error)),
        },
    };
    let args = edited.map_err(|error| match error {
        Error::Config(message) => wrong(clean(&message)),
        error => error.into(),
    })?;
    if screen.json {
        let args = serde_json::from_str(&args).map_err(not_json)?;
        return screen.object(&Edited { args, id });
    }
    let tone = |line: &str| if line.starts_with('-') { Tone::Bad } else { Tone::Good };
    let diff: String = diff.lines().map(|line| format!("  {}\n", screen.look.paint(tone(line), line))).collect();
    let next = match detail.job.state {
        JobState::Dead => format!("It stays a dead letter: queue send-back {id}"),
        _ => format!("Watch it: queue show {id}"),
    };
    screen.out(&format!("{diff}job {id} edited. {next}\n"))
}

/// Sets fields of all jobs that match.
pub(crate) async fn edit_all(
    admin: &Admin,
    screen: &Screen,
    search: &Search,
    how: How,
    set: &[String],
) -> Result<(), Failure> {
    screen.begin();
    let found = admin.plan(Action::Edit(Map::new()), &search.filter).await?;
    let Some(sample) = found.samples().first() else {
        screen.say("Nothing to do: no such job matches.\n");
        return Ok(());
    };
    let detail = admin.job(sample.id).await?.ok_or(Error::NotFound(sample.id))?;
    let present: Value = serde_json::from_str(&detail.args).unwrap_or_default();
    let fields = set.iter().map(|text| assignment(text, &present)).collect::<Result<BTreeMap<_, _>, _>>()?;
    let text = serde_json::to_string(&fields).map_err(|error| error.to_string())?;
    let patch = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let plan = admin.plan(Action::Edit(patch), &search.filter).await?;
    if how.ask {
        let shown =
            format!("Job {}, as an example:\n{}", sample.id, diff(&detail.args, &text, |name| detail.hides(name))?);
        if !act::agreed(admin, screen, &plan, search, how, ["edit", "", &shown]).await? {
            return Ok(());
        }
    }
    act::carry_out(admin, screen, plan, search, how, "edited").await
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_edit_tells_the_fields_that_it_changes() {
        let args = r#"{"to":"ada","n":340282366920938463463374607431768211455}"#;
        let differs = |new| diff(args, new, |_| false).expect("fits");
        assert_eq!(differs(r#"{"to": "grace"}"#), "- \"to\": \"ada\"\n+ \"to\": \"grace\"\n");
        assert_eq!(differs(r#"{"n": 340282366920938463463374607431768211455}"#), "");
        assert_eq!(
            differs(r#"{"n": 340282366920938463463374607431768211454}"#),
            "- \"n\": 340282366920938463463374607431768211455\n+ \"n\": 340282366920938463463374607431768211454\n"
        );
        assert_eq!(differs(r#"{"subject": null}"#), "+ \"subject\": null\n");
        assert!(diff(args, "[1]", |_| false).is_err_and(|why| why.contains("not a JSON object")));
        assert!(
            diff(r#"{"subject":1}"#, r#"{"subjct":2}"#, |_| false)
                .is_err_and(|why| why.contains("did you mean `subject`?"))
        );
        assert_eq!(diff("[1]", "[2]", |_| false).as_deref(), Ok("- [1]\n+ [2]\n"));
    }

    #[test]
    fn neither_an_old_nor_a_new_secret_is_told() {
        let args = format!("{{\"card\":{},\"order\":1}}", hidden());
        let told = |new| diff(&args, new, |name| name == "card").expect("fits");
        assert_eq!(
            told(r#"{"card":"4222","order":2}"#),
            "- \"card\": \"••••\"\n+ \"card\": \"••••\"\n- \"order\": 1\n+ \"order\": 2\n"
        );
        assert_eq!(told(&args), "", "unchanged");
        assert_eq!(diff(&hidden(), "[2]", |_| true), Ok(format!("- {0}\n+ {0}\n", hidden())));
        let args = serde_json::from_str(&args).expect("JSON");
        let value = |text| assignment(text, &args).map(|(_, value)| value.get().to_owned());
        assert_eq!(value("card=4111 a").as_deref(), Ok("\"4111 a\""));
        assert_eq!(value("card=\"4111\"").as_deref(), Ok("\"4111\""));
        assert!(value("card=4111").is_err_and(|why| why.contains("without --set")), "a text or a number?");
    }

    #[test]
    fn a_text_stays_a_text_and_a_number_its_digits() {
        let args = json!({"zip": "01234", "n": 1});
        let value = |text| assignment(text, &args).map(|(_, value)| value.get().to_owned());
        assert_eq!(value("zip=01239").as_deref(), Ok("\"01239\""));
        assert_eq!(value("zip=null").as_deref(), Ok("null"));
        assert_eq!(
            value("n=340282366920938463463374607431768211455").as_deref(),
            Ok("340282366920938463463374607431768211455")
        );
        assert_eq!(value("n=two=2").as_deref(), Ok("\"two=2\""));
        assert!(value("n").is_err());
    }
}
