//! From the annotated function to the generated code.

use proc_macro2::TokenStream;
use quote::quote;

use crate::{attr, check, errors, expand, fallback, model};

/// The code for an annotated function, with a `compile_error!` for each mistake.
pub(crate) fn generate(args: TokenStream, item: TokenStream) -> TokenStream {
    let function = match syn::parse2::<model::Function>(item.clone()) {
        Ok(function) => function,
        Err(error) => {
            let error = error.to_compile_error();
            return quote!(#error #item);
        }
    };
    let mut errors = errors::Errors::default();
    let options = attr::Options::parse(args, &mut errors);
    let mut job = model::Job::new(options, function, &mut errors);
    check::check(&mut job, &mut errors);
    let code = if job.sound { expand::expand(&job) } else { fallback::fallback(&job) };
    let errors = errors.to_compile_errors();
    quote!(#errors #code)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Parts of options, and common mistakes.
    const WORDS: &[&str] = &[
        "name",
        "queue",
        "aliases",
        "priority",
        "max_retries",
        "timeout",
        "start_within",
        "backoff",
        "blocking",
        "struct_name",
        "crate",
        "schedule",
        "schedule = \"every 15m\"",
        "schedule(cron = \"0 9 * * *\", zone = \"UTC\", args = SendEmail { to })",
        "unique",
        "unique(by = (to, x), until = \"start\", on_conflict = \"replace\")",
        "by",
        "for",
        "cron",
        "every",
        "args",
        "missed = all(\"6h\")",
        "gap = skip",
        "\"0 9 * * MON Europe/Berlin\"",
        "exponential",
        "linear",
        "fixed",
        "custom",
        "max",
        "retries",
        "r#type",
        "self",
        "_",
        "=",
        ",",
        ",",
        ";",
        "::",
        ":",
        "-",
        "!",
        "#",
        "()",
        "(by = to)",
        "(\"2s\")",
        "(\"2s\", max = \"10m\")",
        "(path::to)",
        "[]",
        "[\"a\", \"b\"]",
        "{}",
        "\"30s\"",
        "\"\"",
        "\"1h30m\"",
        "\"mail\"",
        "\"\\0\"",
        "\"\\u{202e}\"",
        "b\"bytes\"",
        "c\"text\"",
        "'c'",
        "'lifetime",
        "0",
        "-1",
        "3",
        "3u8",
        "1.5",
        "32768",
        "0xff",
        "99999999999999999999999999999999999999999999999",
        "true",
        "|x| x",
        "&",
        "move",
    ];

    /// Valid and invalid parameters.
    const PARAMETERS: &[&str] = &[
        "to: String",
        "ctx: JobContext",
        "ctx: &queue::JobContext",
        "State(pool): State<Pool>",
        "state: State<(A, B)>",
        "tx: &mut Tx<Postgres>",
        "tx: &queue::Tx<Sqlite>",
        "&self",
        "self: Box<Self>",
        "_: u8",
        "(a, b): (u8, u8)",
        "mut n: i64",
        "x: &str",
        "x: &'static [u8]",
        "x: &mut T",
        "x: impl Into<String>",
        "x: dyn Error",
        "r#type: Vec<Option<Box<str>>>",
        "x: [u8; 4]",
        "x: fn(u8) -> u8",
        "x: !",
        "#[serde(default)] x: bool",
        "#[serde(rename = \"y\")] x: Cow<'_, str>",
        "x: <T as Trait>::Type",
        "x: _",
        "...",
    ];

    fn options() -> impl Strategy<Value = String> {
        prop::collection::vec(prop::sample::select(WORDS), 0..12).prop_map(|words| words.join(" "))
    }

    fn function() -> impl Strategy<Value = String> {
        let before = ["", "pub ", "pub(crate) ", "/// Text.\n", "#[test] ", "#[job] "];
        let kind =
            ["async fn", "async fn", "async fn", "fn", "const fn", "unsafe fn", "extern \"C\" fn", "async unsafe fn"];
        let name = ["send_email", "r#match", "_", "__", "SendEmail", "a", "string", "ä"];
        let generics = ["", "", "", "<T>", "<'a>", "<const N: usize>"];
        let output =
            ["", "-> ()", "-> Result<(), E>", "-> Result<u8, Box<dyn Error>>", "-> Option<u8>", "-> &str", "-> !"];
        let body = ["{}", "{ work().await }", ";", "{ loop {} }", "where T: Copy {}"];
        let select = |list: &[&'static str]| prop::sample::select(list.to_vec());
        let parameters = prop::collection::vec(prop::sample::select(PARAMETERS), 0..4);
        (select(&before), select(&kind), select(&name), select(&generics), parameters, select(&output), select(&body))
            .prop_map(|(before, kind, name, generics, parameters, output, body)| {
                format!("{before}{kind} {name}{generics}({}) {output} {body}", parameters.join(", "))
            })
    }

    /// The generated code, or errors. Never panics. None if the text is not tokens.
    fn takes(options: &str, item: &str) -> Option<String> {
        let (Ok(options), Ok(item)) = (options.parse(), item.parse()) else { return None };
        Some(generate(options, item).to_string())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn any_options_are_read_or_refused(options in options()) {
            takes(&options, "async fn send_email(to: String) {}");
        }

        #[test]
        fn any_function_is_expanded_or_refused(options in options(), function in function()) {
            let code = takes(&options, &function);
            // what is not rejected must parse
            if let Some(code) = code.filter(|code| !code.contains("compile_error")) {
                prop_assert!(syn::parse_str::<syn::File>(&code).is_ok(), "{}", code);
            }
        }

        #[test]
        fn any_text_is_refused_in_words(options in "\\PC{0,40}", item in "\\PC{0,40}") {
            takes(&options, &item);
            takes(&options, "async fn send_email(to: String) {}");
            takes("", &item);
        }
    }

    #[test]
    fn most_of_what_is_tried_can_be_tried() {
        assert!(
            takes("queue = \"mail\", timeout = \"30s\"", "async fn f(to: String) {}")
                .is_some_and(|it| !it.contains("compile_error"))
        );
        assert!(takes("queue = 5", "async fn f(to: String) {}").is_some_and(|it| it.contains("compile_error")));
    }
}
