//! Arguments: does it fit the handler, and what exactly changes?

use std::fmt;

use askama::Template;
use axum::body::Bytes;
use axum::http::StatusCode;
use queue::admin::{JobDetail, MARK, Search};
use queue::{Error, JobId, JobState};
use serde::Deserializer as _;
use serde::de::{MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::access::Rights;
use crate::assets;
use crate::pages::jobs::sign;
use crate::site::{Answer, Ctx, Fields, Frame, Id, Problem, Screen};
use crate::text::{Sign, cut, is_one_plain_line, plain_json};

/// What is longer is edited by a program. A form would repeat it three times.
const LONGEST: usize = 64 * 1024;

/// The fields of an object in their order: their names, and their values as they are written.
pub(crate) fn fields(json: &str) -> Option<Vec<(String, &str)>> {
    struct Object;

    impl<'de> Visitor<'de> for Object {
        type Value = Vec<(String, &'de str)>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a JSON object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut fields = Vec::new();
            while let Some((name, value)) = map.next_entry::<String, &RawValue>()? {
                fields.push((name, value.get()));
            }
            Ok(fields)
        }
    }

    let mut reader = serde_json::Deserializer::from_str(json);
    let fields = reader.deserialize_map(Object).ok()?;
    reader.end().ok().map(|()| fields)
}

/// A value as a form shows it: the text of a string, if it comes back as it is, and JSON for everything else.
fn shown(value: &str) -> String {
    let text = serde_json::from_str::<String>(value).ok();
    let is_plain = |text: &String| is_one_plain_line(text) && text != "null" && !text.trim_start().starts_with('"');
    text.filter(is_plain).unwrap_or_else(|| plain_json(value))
}

/// What a form sends, as JSON. A text stays a text if there is one now, even if it looks like a number.
fn given(text: &str, present: &str) -> String {
    let is_json = serde_json::from_str::<&RawValue>(text).is_ok();
    let keeps = is_json && (text.trim() == "null" || text.trim().starts_with('"') || !present.starts_with('"'));
    if keeps { text.trim().to_owned() } else { serde_json::Value::from(text).to_string() }
}

/// A field of the form.
#[derive(Debug, PartialEq, Eq)]
struct Field {
    name: String,
    kind: &'static str,
    text: String,
    is_long: bool,
}

/// A line of what changes.
#[derive(Debug, PartialEq, Eq)]
struct Changed {
    name: String,
    is: String,
    becomes: String,
}

#[derive(Template)]
#[template(path = "edit.html")]
struct Page {
    frame: Frame,
    id: i64,
    kind: String,
    sign: Sign,
    is_dead: bool,
    as_json: bool,
    is_object: bool,
    fields: Vec<Field>,
    json: String,
    problem: String,
    is_checked: bool,
    changed: Vec<Changed>,
    stay: usize,
    seen: String,
    reason: String,
}

fn kind_of(value: &str) -> &'static str {
    match value.as_bytes().first() {
        Some(b'"') => "text",
        Some(b'{') => "object, as JSON",
        Some(b'[') => "list, as JSON",
        Some(b't' | b'f') => "true or false",
        Some(b'n') => "nothing yet; JSON, or a text",
        _ => "number",
    }
}

/// Whether a value is hidden. Its type is hidden with it.
fn is_hidden(value: &str) -> bool {
    serde_json::from_str::<String>(value).is_ok_and(|text| text == MARK)
}

/// What is asked for: the fields that differ, as they were and as they would be, in the order of the arguments.
fn differences(args: &str, form: &Fields) -> Result<Vec<Changed>, String> {
    let Some(old) = fields(args) else {
        let new = form.text("json");
        serde_json::from_str::<&RawValue>(new).map_err(|error| format!("This is not JSON: {error}."))?;
        let is_new = new.trim() != args.trim() && new.trim() != plain_json(args).trim();
        let changed = Changed { name: "all".to_owned(), is: args.to_owned(), becomes: new.trim().to_owned() };
        return Ok(is_new.then_some(changed).into_iter().collect());
    };
    let mut changed = Vec::new();
    let mut change = |name: &str, is: &str, becomes: String| {
        changed.push(Changed { name: name.to_owned(), is: is.to_owned(), becomes });
    };
    match form.get("json") {
        Some(json) => {
            let new = fields(json).ok_or("This is not a JSON object: give one field for each argument.")?;
            if let Some((name, _)) = old.iter().find(|(name, _)| !new.iter().any(|(is, _)| is == name)) {
                return Err(format!("The argument `{name}` is missing. Arguments stay here: write null for nothing."));
            }
            for (place, (name, value)) in new.iter().enumerate() {
                if new[..place].iter().any(|(is, _)| is == name) {
                    return Err(format!("The argument `{name}` is there twice."));
                }
                match old.iter().find(|(is, _)| is == name) {
                    Some((_, is)) if *is == *value || plain_json(is) == *value => {}
                    Some((_, is)) => change(name, is, (*value).to_owned()),
                    None => match Search::nearest(name, old.iter().map(|(is, _)| is.as_str())) {
                        Some(near) => return Err(format!("The job has no argument `{name}`. Did you mean `{near}`?")),
                        None => change(name, "", (*value).to_owned()),
                    },
                }
            }
        }
        None => {
            for (name, is) in &old {
                let sent = form.last(&format!("arg.{name}"));
                if let Some(text) = sent.filter(|text| *text != shown(is)) {
                    if is_hidden(is) && serde_json::from_str::<&RawValue>(text).is_ok() && !text.starts_with('"') {
                        return Err(format!(
                            "`{name}` is hidden. Put a text in quotes, or edit the arguments as JSON."
                        ));
                    }
                    change(name, is, given(text, is));
                }
            }
        }
    }
    Ok(changed)
}

/// The change as it is shown: the new value of a secret is one.
fn without_secrets(changed: Changed, detail: &JobDetail) -> Changed {
    let hides = is_hidden(&changed.is) || detail.hides(&changed.name);
    let becomes = if hides { MARK.to_owned() } else { changed.becomes };
    Changed { becomes, ..changed }
}

/// Tells what somebody has seen from what has become of it since.
fn seen(args: &str, changed: &[Changed]) -> String {
    let text = changed.iter().flat_map(|it| [&it.name, "\0", &it.becomes, "\0"].map(String::from)).collect::<String>();
    format!("{:016x}", assets::hash(args.bytes().chain([0]).chain(text.bytes())))
}

async fn read(ctx: &Ctx, id: i64) -> Result<JobDetail, Problem> {
    ctx.must(Rights::EDIT)?;
    let detail = ctx.admin().job(id.into()).await?.ok_or(Error::NotFound(id.into()))?;
    let (state, id) = (detail.job.state, detail.job.id);
    if !matches!(state, JobState::Scheduled | JobState::Ready | JobState::Dead) {
        let cure = "only waiting jobs and dead letters can be edited";
        return Err(Error::Conflict { id, operation: "edit", state, cure }.into());
    }
    if detail.args.len() > LONGEST {
        let why = "The arguments of this job are too long for a form. Edit them on the command line:";
        return Err(Problem::unclear(format!("{why} queue edit {id} --set NAME=VALUE")));
    }
    Ok(detail)
}

/// The form, with what was sent if something was.
async fn form(ctx: &Ctx, detail: &JobDetail, sent: Option<&Fields>, problem: String) -> Answer {
    let world = ctx.world(false).await?;
    let present = fields(&detail.args);
    let is_object = present.is_some();
    let json = sent.and_then(|sent| sent.get("json"));
    let as_json = !is_object || json.is_some() || ctx.asked("as").as_deref() == Some("json");
    let field = |(name, value): &(String, &str)| {
        let text = sent.and_then(|sent| sent.last(&format!("arg.{name}")).map(str::to_owned));
        let text = text.unwrap_or_else(|| shown(value));
        Field { name: name.clone(), kind: kind_of(value), is_long: text.len() > 80 || text.contains('\n'), text }
    };
    let (changed, problem) = match sent.map(|sent| differences(&detail.args, sent)) {
        Some(Ok(changed)) => (changed, problem),
        Some(Err(why)) => (Vec::new(), why),
        None => (Vec::new(), problem),
    };
    let id = detail.job.id.get();
    let failed = !problem.is_empty();
    let page = Page {
        frame: ctx.frame(Some(&world), Screen::None, format!("Edit arguments of job {id}")),
        id,
        kind: cut(&detail.job.kind, 120),
        sign: sign(&detail.job),
        is_dead: detail.job.state == JobState::Dead,
        as_json,
        is_object,
        fields: present.iter().flatten().map(field).collect(),
        json: json.map_or_else(|| plain_json(&detail.args), str::to_owned),
        is_checked: sent.is_some() && problem.is_empty(),
        problem,
        stay: present.map_or(0, |it| it.len()).saturating_sub(changed.len()),
        seen: seen(&detail.args, &changed),
        changed: changed.into_iter().map(|it| without_secrets(it, detail)).collect(),
        reason: sent.map_or("", |sent| sent.text("reason")).to_owned(),
    };
    let mut answer = ctx.page(&page)?;
    if failed {
        *answer.status_mut() = StatusCode::UNPROCESSABLE_ENTITY;
    }
    Ok(answer)
}

pub(crate) async fn show(ctx: Ctx, Id(id): Id) -> Answer {
    form(&ctx, &read(&ctx, id).await?, None, String::new()).await
}

/// First shows what changes. Writes it if that is what was seen.
pub(crate) async fn save(ctx: Ctx, Id(id): Id, body: Bytes) -> Answer {
    let (detail, sent) = (read(&ctx, id).await?, Fields::read(&body));
    let changed = differences(&detail.args, &sent);
    let Ok(changed) = changed else { return form(&ctx, &detail, Some(&sent), String::new()).await };
    if changed.is_empty() || sent.get("do").is_none() || sent.get("seen") != Some(&seen(&detail.args, &changed)) {
        return form(&ctx, &detail, Some(&sent), String::new()).await;
    }
    let (sends, id) = (sent.text("do") == "send_back", JobId::from(id));
    let rights = if sends { Rights::EDIT | Rights::ACT } else { Rights::EDIT };
    let admin = ctx.acting(rights, sent.text("reason")).await?;
    let written = match fields(&detail.args) {
        Some(_) => {
            let one = |it: &Changed| format!("{}:{}", serde_json::Value::from(it.name.as_str()), it.becomes);
            let patch = changed.iter().map(one).collect::<Vec<_>>().join(",");
            admin.merge_args(id, &format!("{{{patch}}}")).await.map(drop)
        }
        None => match serde_json::from_str(&changed[0].becomes) {
            Ok(value) => admin.edit_args(id, &value).await,
            Err(error) => return form(&ctx, &detail, Some(&sent), error.to_string()).await,
        },
    };
    match written {
        Ok(()) if sends => admin.send_back(id).await?,
        Ok(()) => {}
        Err(Error::Config(why)) => return form(&ctx, &detail, Some(&sent), why).await,
        Err(error) => return Err(error.into()),
    }
    Ok(ctx.done(&format!("jobs/{id}"), if sends { "send_back" } else { "edit" }, 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(args: &str, form: &str) -> Result<Vec<[String; 3]>, String> {
        let found = differences(args, &Fields::read(form.as_bytes()))?;
        Ok(found.into_iter().map(|it| [it.name, it.is, it.becomes]).collect())
    }

    #[test]
    fn a_form_that_comes_back_as_it_was_changes_nothing() {
        let values = [
            "\"a b\"",
            "\"01234\"",
            "\"null\"",
            "\"\\\"x\"",
            "\"a\\nb\"",
            "\"\u{202e}\"",
            "1.10",
            "{\"a\": [1]}",
            "null",
            "{\"a\":\r\n\t[1,\n2]}",
        ];
        for value in values {
            let args = format!("{{\"x\":{value}}}");
            // as a browser sends it
            let sent = |text: String| crate::text::encoded(&text.replace('\n', "\r\n"));
            let form = format!("arg.x={}", sent(shown(value)));
            assert_eq!(changed(&args, &form), Ok(Vec::new()), "{value}");
            let form = format!("json={}", sent(plain_json(&args)));
            assert_eq!(changed(&args, &form), Ok(Vec::new()), "{value}");
        }
    }

    #[test]
    fn a_text_stays_a_text_and_a_number_its_digits() {
        let one = |args: &str, form: &str| changed(args, form).expect("it fits").pop().map(|[_, _, becomes]| becomes);
        assert_eq!(one(r#"{"zip":"01234"}"#, "arg.zip=01239").as_deref(), Some("\"01239\""));
        assert_eq!(one(r#"{"zip":"01234"}"#, "arg.zip=null").as_deref(), Some("null"));
        let large = "340282366920938463463374607431768211455";
        assert_eq!(one(r#"{"n":1}"#, &format!("arg.n={large}")).as_deref(), Some(large));
        assert_eq!(one(r#"{"n":1}"#, "arg.n=").as_deref(), Some("\"\""));
        assert_eq!(one(r#"{"n":1}"#, "arg.m=2"), None, "only what the job has");
        let hidden = r#"{"card":"••••"}"#;
        assert_eq!(changed(hidden, "arg.card=%E2%80%A2%E2%80%A2%E2%80%A2%E2%80%A2"), Ok(Vec::new()));
        assert_eq!(one(hidden, "arg.card=41a").as_deref(), Some("\"41a\""));
        assert_eq!(one(hidden, "arg.card=\"41\"").as_deref(), Some("\"41\""));
        assert!(changed(hidden, "arg.card=41").is_err_and(|why| why.contains("in quotes")), "a text or a number?");
    }

    #[test]
    fn json_must_keep_every_argument() {
        let args = r#"{"subject":1,"to":2}"#;
        assert!(changed(args, "json={\"to\":2}").is_err_and(|why| why.contains("`subject` is missing")));
        assert!(changed(args, "json=[1]").is_err_and(|why| why.contains("not a JSON object")));
        let slip = "json={\"subject\":1,\"to\":2,\"subjct\":3}";
        assert!(changed(args, slip).is_err_and(|why| why.contains("Did you mean `subject`?")));
        let twice = "json={\"subject\":1,\"to\":2,\"to\":3}";
        assert!(changed(args, twice).is_err_and(|why| why.contains("twice")));
        let new = changed(args, "json={\"subject\":1,\"to\":3,\"cc\":[4]}").expect("it fits");
        assert_eq!(new, [["to", "2", "3"], ["cc", "", "[4]"]].map(|it| it.map(str::to_owned)));
        assert_eq!(changed("[1]", "json=[2]").expect("it fits").len(), 1);
    }
}
