//! Whether the option `unique` fits its function, and what the arguments in `by` are called in the job's JSON.

use proc_macro2::Ident;
use quote::ToTokens as _;
use syn::FnArg;
use syn::ext::IdentExt as _;

use crate::errors::Errors;
use crate::model::{Argument, Job};
use crate::renames::{self, Rules};
use crate::unique::Unique;
use crate::{entry, names, types};

/// Checks the option together with its job, and drops it if it has a mistake.
pub(crate) fn check(job: &mut Job, errors: &mut Errors) {
    let Some(mut unique) = job.options.unique.take() else { return };
    let before = errors.len();
    unique.keys = keys(&unique, job, errors);
    without_secrets(&unique, job, errors);
    job.options.unique = Some(unique).filter(|unique| unique.sound && errors.len() == before);
}

/// A key is shown, and so are the arguments that it consists of.
fn without_secrets(unique: &Unique, job: &Job, errors: &mut Errors) {
    for secret in job.arguments().filter(|argument| argument.is_secret) {
        let name = secret.ident.unraw();
        if let Some(by) = unique.by.iter().find(|by| by.unraw() == name) {
            errors.at(by, format!("`{name}` is secret, and a key is shown: leave it out of `by`"));
        } else if unique.given.find("by").is_none() {
            let cure = match job.arguments().find(|argument| !argument.is_secret) {
                Some(open) => format!("write `unique(by = {})`", open.ident),
                None => "leave `unique` out, and give `.unique_key(…)` at the enqueue".to_owned(),
            };
            errors.at(&secret.ident, format!("this is secret, and a key of all arguments shows it: {cure}"));
        }
    }
}

/// What the arguments in `by` are called in the job's JSON.
fn keys(unique: &Unique, job: &Job, errors: &mut Errors) -> Vec<String> {
    let Some(option) = unique.given.find("by") else { return Vec::new() };
    let rules = Rules::of(&job.serde_attrs);
    let mut keys = Vec::new();
    if unique.by.is_empty() {
        // the mistake in it is known
    } else if job.argument_count == 0 {
        errors.at(option, "this job has no arguments: write `unique` without `by`");
    } else if let Some(word) = rules.other_json {
        errors.at(
            option,
            format!("with `#[serde({word})]`, the keys of the job's JSON are not its arguments: leave `by` out"),
        );
    } else {
        for (number, name) in unique.by.iter().enumerate() {
            let plain = name.unraw();
            if unique.by[..number].iter().any(|other| other.unraw() == plain) {
                errors.at(name, entry::given_twice(&plain.to_string()));
                continue;
            }
            match job.arguments().find(|argument| argument.ident.unraw() == plain) {
                Some(argument) => match renames::absent(argument) {
                    Some(word) => errors.at(
                        name,
                        format!(
                            "the key needs `{plain}` in every job: remove its `#[serde({word})]`, or leave `{plain}` \
                             out of `by`"
                        ),
                    ),
                    None => keys.push(rules.key(argument)),
                },
                // an argument with a mistake in its name is reported already
                None if job.arguments().count() < job.argument_count => {}
                None => errors.at(name, no_argument(&plain, job, &rules)),
            }
        }
    }
    keys
}

/// Why `name` is no argument, and what to write instead.
fn no_argument(name: &Ident, job: &Job, rules: &Rules) -> String {
    let text = name.to_string();
    let arguments: Vec<_> = job.arguments().map(|argument| argument.ident.to_string()).collect();
    let arguments = arguments.iter().map(String::as_str);
    let noun = if arguments.len() == 1 { "argument" } else { "arguments" };
    let all = format!("the {noun} {}", names::listed(arguments.clone()));
    let special = job.function.sig.inputs.iter().find_map(|input| match input {
        FnArg::Typed(typed) => {
            types::mentions(typed.pat.to_token_stream(), &|word| word.unraw() == *name).map(|_| &typed.ty)
        }
        FnArg::Receiver(_) => None,
    });
    if let Some(ty) = special {
        let is = |name: &str| types::mentions(ty.to_token_stream(), &|word| word == name).is_some();
        let what = match () {
            () if is("JobContext") => "the job's context",
            () if is("Tx") => "the attempt's transaction",
            () => "a state of the worker",
        };
        return format!("`{name}` is {what}, and not stored with the job: leave it out of `by`, which takes {all}");
    }
    let renamed = |argument: &&Argument| rules.key(argument) == text;
    if let Some(argument) = job.arguments().find(renamed) {
        return format!("`by` takes the names in the function: write `{}` for `{name}`", argument.ident);
    }
    match names::closest(&text, arguments) {
        Some(meant) => format!("this job has no argument `{name}`; did you mean `{meant}`?"),
        None => format!("this job has no argument `{name}`; it has {all}"),
    }
}

#[cfg(test)]
mod tests {
    use quote::quote;

    use super::*;
    use crate::attr::Options;

    /// The generated constant, or the messages.
    fn with(options: &str, function: &str) -> Result<String, Vec<String>> {
        let mut errors = Errors::default();
        let options = Options::parse(options.parse().expect("tokens"), &mut errors);
        let function = syn::parse_str(function).expect("a function");
        let mut job = Job::new(options, function, &mut errors);
        crate::check::check(&mut job, &mut errors);
        match errors.len() {
            0 => {
                let unique = job.options.unique.expect("an option without mistakes");
                Ok(crate::expand::unique_constant(&unique, &quote!(queue)).to_string().replace(' ', ""))
            }
            _ => Err(errors.messages()),
        }
    }

    const FUNCTION: &str = "#[serde(rename_all = \"camelCase\")] async fn refresh(user_id: i64, ctx: &JobContext, \
         State(pool): State<Pool>, #[serde(rename = \"on\")] day: &str, r#type: u8, #[serde(skip)] skipped: u8, \
         #[serde(default, skip_serializing_if = \"Option::is_none\")] maybe: Option<u8>) {}";

    #[test]
    fn reads_all_options() {
        let value = |options: &str| {
            let constant = with(options, FUNCTION).expect(options);
            constant.split_once("Some(queue::unique::Unique::").expect("a value").1.trim_end_matches(";").to_owned()
        };
        assert_eq!(value("unique"), "ALL_ARGS)");
        assert_eq!(value("unique(until = \"end\")"), "ALL_ARGS.until(queue::unique::UniqueUntil::End))");
        for one in ["user_id", "(user_id)", "(user_id,)", "((user_id))"] {
            assert_eq!(value(&format!("unique(by = {one},)")), "by(&[\"userId\"]))");
        }
        assert_eq!(
            value("unique(on_conflict = \"replace\", for = \"1m\", by = (r#type, day, user_id), until = \"start\")"),
            "by(&[\"type\",\"on\",\"userId\"]).until(queue::unique::UniqueUntil::Start)\
             .at_least(::core::time::Duration::from_millis(60000u64)).on_conflict(queue::unique::OnConflict::Replace))"
        );
    }

    #[test]
    fn one_mistake_gives_one_message() {
        let table = [
            ("unique = true", "write `unique`"),
            ("unique = false", "leave `unique` out"),
            ("unique = \"user_id\"", "write `unique`"),
            ("unique = \"1h\"", "`unique(for = \"1h\")`"),
            ("unique()", "write `unique`"),
            ("unique(true)", "write `by = (user, day)`"),
            ("unique(user_id)", "write `by = user_id`"),
            ("unique(user_id, day)", "write `by = (user_id, day)`"),
            ("unique(\"user_id\", day)", "write `by = (user_id, day)`"),
            ("unique(\"1h\")", "write `for = \"1h\"`"),
            ("unique(start)", "write `until = \"start\"`"),
            ("unique(\"replace\")", "write `on_conflict = \"replace\"`"),
            ("unique(by)", "write `by = (user, day)`"),
            ("unique(by = )", "write `by = (user, day)`"),
            ("unique(by = ())", "leave it out"),
            ("unique(by(user_id, day))", "write `by = (user_id, day)`"),
            ("unique(by = [user_id])", "write `by = user_id`"),
            ("unique(by = [\"user_id\", \"day\"])", "write `by = (user_id, day)`"),
            ("unique(by = \"user_id\")", "write `by = user_id`, without quotes"),
            ("unique(by = \"user_id, day\")", "write `by = (user_id, day)`, without quotes"),
            ("unique(by = \"user_id, (\")", "write `by = (user, day)`"),
            ("unique(\"user(id\")", "write `by = (user, day)`"),
            ("unique(by = user_id.0)", "write `by = (user, day)`"),
            ("unique(by = (user_id, \"day\"))", "write `day`, without quotes"),
            ("unique(by = (user_id, day + 1))", "write `by = (user, day)`"),
            ("unique(by = type)", "write `r#type`"),
            ("unique(by = (user_id, type))", "write `r#type`"),
            ("unique(by = (user_id, user_id))", "`user_id` is given twice"),
            ("unique(by = (r#type, user_id, r#type))", "`type` is given twice"),
            ("unique(by = user_di)", "did you mean `user_id`?"),
            ("unique(by = (day, letter))", "it has the arguments `user_id`, `day`, `r#type`"),
            ("unique(by = on)", "write `day` for `on`"),
            ("unique(by = userId)", "write `user_id` for `userId`"),
            ("unique(by = pool)", "`pool` is a state"),
            ("unique(by = (day, ctx))", "`ctx` is the job's context"),
            ("unique(by = skipped)", "remove its `#[serde(skip)]`"),
            ("unique(by = (day, maybe))", "remove its `#[serde(skip_serializing_if)]`"),
            ("unique(by = day, by = user_id)", "`by` is given twice"),
            ("unique(keys = day)", "did you mean `by`?"),
            ("unique(ttl = \"1h\", colour = \"red\")", "did you mean `for`?"),
            ("unique(colour = \"red\")", "its options are `by`, `until`, `for`, `on_conflict`"),
            ("unique(until)", "write `until = \"start\"`"),
            ("unique(until = start)", "write `until = \"start\"`, with quotes"),
            ("unique(until = UniqueUntil::Start)", "did you mean `until = \"start\"`?"),
            ("unique(until = \"completed\")", "did you mean `until = \"end\"`?"),
            ("unique(until = \"1h\")", "write `for = \"1h\"`"),
            ("unique(until = 5)", "write `until = \"end\"` or `until = \"start\"`"),
            ("unique(for = 60)", "write `for = \"60s\"`"),
            ("unique(for = \"0s\")", "`0s` is no time at all"),
            ("unique(on_conflict = keep)", "write `on_conflict = \"keep\"`, with quotes"),
            ("unique(on_conflict = \"ignore\")", "did you mean `on_conflict = \"keep\"`?"),
            ("unique(on_conflict = \"relpace\")", "did you mean `on_conflict = \"replace\"`?"),
            ("unique(on_conflict = \"jump\")", "write `on_conflict = \"keep\"` or"),
            ("unique(on_conflict = \"replace\")", "add `until = \"start\"`"),
            ("unique(on_conflict = \"replace\", until = \"end\")", "write `until = \"start\"`"),
            ("unique(on_conflict = \"replace\", until = start)", "with quotes"),
            ("unique(on_conflict = \"replace\", scope = \"start\")", "did you mean `until`?"),
            ("unique, unique", "`unique` is given twice"),
            ("unique_for = \"1h\"", "write `unique(for = \"1h\")`"),
        ];
        for (options, part) in table {
            let messages = with(options, FUNCTION).expect_err(options);
            let expected = 1 + usize::from(options.contains("ttl"));
            assert_eq!(messages.len(), expected, "{options}: {messages:#?}");
            assert!(messages[0].contains(part), "{options}: {messages:#?}");
        }
        assert_eq!(with("unique(by = (user_di, ctx), ttl = 5, until = x)", FUNCTION).unwrap_err().len(), 4);
    }

    #[test]
    fn a_function_may_leave_nothing_to_choose() {
        let refused = |options: &str, function: &str| with(options, function).expect_err(function);
        for function in ["async fn f() {}", "async fn f(ctx: JobContext, user: State<u8>) {}"] {
            assert!(with("unique", function).is_ok());
            assert_eq!(
                refused("unique(by = user)", function),
                ["this job has no arguments: write `unique` without `by`"]
            );
        }
        for word in ["transparent", "into = \"String\""] {
            let messages = refused("unique(by = user)", &format!("#[serde({word})] async fn f(user: u8) {{}}"));
            assert!(messages[0].contains("leave `by` out"), "{messages:#?}");
        }
        for function in ["async fn f((user, day): (u8, u8)) {}", "async fn f(_: u8, day: u8) {}"] {
            assert_eq!(refused("unique(by = user)", function).len(), 1);
        }
    }
}
