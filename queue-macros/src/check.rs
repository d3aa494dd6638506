//! Rules that concern the function and its options together.

use std::collections::HashSet;

use proc_macro2::Ident;
use quote::{ToTokens, format_ident, quote};
use syn::ext::IdentExt as _;
use syn::{Attribute, FnArg, GenericParam, Safety, Type};

use crate::entry;
use crate::errors::Errors;
use crate::model::{Function, Job, Parameter};
use crate::renames::{self, Rules};
use crate::{names, types};

/// Names in every module's scope, and `Job`, which must be in scope to enqueue. A struct would hide them.
const TAKEN: &str = "AsMut AsRef AsyncFn AsyncFnMut AsyncFnOnce Box Clone Copy Debug Default DoubleEndedIterator Drop \
                     Eq Err ExactSizeIterator Extend Fn FnMut FnOnce From FromIterator Future Into IntoFuture \
                     IntoIterator Iterator Job None Ok Option Ord PartialEq PartialOrd Result Send Sized Some String \
                     Sync ToOwned ToString TryFrom TryInto Vec";

/// Attributes that cannot be combined with `#[job]`, and why.
const RIVALS: [(&str, &str); 5] = [
    ("job", "one function is one job: remove the second `#[job]`"),
    ("main", "the worker calls the function, not the runtime: remove this, and start a `Worker` in `main`"),
    ("test", "a job is not a test: remove this, and write a test that calls the function, which stays as it is"),
    ("rstest", "a job is not a test: remove this, and write a test that calls the function, which stays as it is"),
    ("bench", "a job is not a benchmark: remove this, and write one that calls the function, which stays as it is"),
];

/// Checks what goes beyond one option or one parameter.
pub(crate) fn check(job: &mut Job, errors: &mut Errors) {
    let before = errors.len();
    qualifiers(job, errors);
    transactions(job, errors);
    generics(&job.function, errors);
    output(job, errors);
    rivals(&mut job.function, errors);
    struct_name(job, errors);
    if !job.function.has_body {
        let name = &job.function.sig.ident;
        errors.at(name, "a job has a body: put `#[job]` on a free function, not on what a trait declares");
    } else if job.function.sig.receiver().is_none() {
        errors.at_any(
            names_self(&job.function),
            "`#[job]` goes on a free function, where there is no `Self`: move the function out of the `impl`",
        );
    }
    if errors.len() > before || repeated(job) || has_unsized(job) {
        job.sound = false;
    }
    kinds(job, errors);
    secrets(job, errors);
    #[cfg(feature = "schedules")]
    schedules(job, errors);
    crate::unique_check::check(job, errors);
}

fn qualifiers(job: &Job, errors: &mut Errors) {
    let sig = &job.function.sig;
    errors.at_any(sig.constness, "a job runs in a worker, not in the compiler: remove `const`");
    if let Safety::Unsafe(unsafety) = &sig.safety {
        let cure = "remove `unsafe`, and check the arguments in the body";
        errors.at(unsafety, format!("a worker calls the job with whatever the row holds: {cure}"));
    }
    errors.at_any(&sig.abi, "a job is called from Rust: remove the `extern`");
    errors.at_any(&sig.variadic, "the arguments of a job are fields of a struct: write a `Vec<T>` instead of `...`");
    match (&sig.asyncness, &job.options.blocking) {
        (None, None) => {
            let rest = "or `#[job(blocking)]` for a function that blocks its thread";
            errors.at(sig.fn_token, format!("a job is async: write `async fn {}`, {rest}", sig.ident));
        }
        (Some(_), Some(blocking)) if blocking == "blocking" => {
            errors.at(blocking, "`blocking` is for a plain `fn`: remove it, or remove the `async`");
        }
        _ => {}
    }
}

/// A transaction is used by `await`, and there is one.
fn transactions(job: &Job, errors: &mut Errors) {
    let mut all = job.parameters.iter().filter_map(|parameter| match parameter {
        Parameter::Tx { ty } => Some(ty),
        _ => None,
    });
    let first = all.next();
    if job.function.sig.asyncness.is_none() && job.options.blocking.is_some() {
        errors.at_any(
            first,
            "a blocking job cannot use a transaction, which awaits: write an `async fn` without `blocking`, or take \
             `JobContext` and call `complete_in` in `tokio::runtime::Handle::current().block_on(…)`",
        );
    }
    for another in all {
        errors.at(another, "a job has one transaction, which the worker commits: remove this one");
    }
}

fn generics(function: &Function, errors: &mut Errors) {
    let generics = &function.sig.generics;
    for param in &generics.params {
        const NAMED: &str = "a job is found by its name, so it has no generics";
        let message = match param {
            GenericParam::Lifetime(lifetime) => {
                let cure = format!("write `&str` instead of `&{} str`", lifetime.lifetime);
                format!("a job has no lifetimes: its arguments live as long as the call; {cure}")
            }
            GenericParam::Type(ty) => format!("{NAMED}: write a concrete type instead of `{}`", ty.ident),
            GenericParam::Const(number) => {
                format!("{NAMED}: write a number instead of `{}`, or make it an argument", number.ident)
            }
        };
        errors.at(param, message);
    }
    if generics.params.is_empty() {
        errors.at_any(&generics.where_clause, "a job has no generics that a `where` could limit: remove the clause");
    }
}

fn output(job: &Job, errors: &mut Errors) {
    let Some(ty) = &job.output else { return };
    if matches!(types::peel(ty), Type::Never(_)) {
        errors.at(ty, "a job ends: leave the return type out, or write a `Result`");
    } else if is_no_result(types::peel(ty)) {
        let cure = format!("write `Result<{}, E>`, with any error type for `E`", types::tidy(ty));
        errors.at(ty, format!("a job returns nothing, or a `Result`: {cure}"));
    } else {
        let elided = "the result outlives the arguments: write `'static`, or a type that owns its data";
        types::report(ty, &cannot_be_result, elided, errors);
    }
}

/// Whether the type can never be a `Result`, whatever is in scope. The compiler judges all other types.
fn is_no_result(ty: &Type) -> bool {
    match ty {
        Type::Array(_) => true,
        Type::Tuple(tuple) => !tuple.elems.is_empty(),
        ty => {
            let name = types::last_segment(ty).map(|(name, _)| name);
            types::is_primitive(ty) || name.is_some_and(|name| ["Option", "String", "Vec"].iter().any(|no| name == no))
        }
    }
}

/// A part of a result must outlive the call.
fn cannot_be_result(ty: &Type) -> Option<String> {
    let message = match ty {
        Type::ImplTrait(_) => {
            "the result is stored, so its type must be known: write a concrete type instead of `impl …`"
        }
        Type::Reference(reference) if reference.lifetime.as_ref().is_none_or(|lifetime| lifetime.ident == "_") => {
            "the result outlives the arguments: write an owned type, such as `String` for `&str`"
        }
        _ => return None,
    };
    Some(message.to_owned())
}

/// Rejects `#[test]` and the like, and removes them, so that they report no errors of their own.
fn rivals(function: &mut Function, errors: &mut Errors) {
    let rival = |attr: &Attribute| {
        let last = &attr.path().segments.last()?.ident;
        RIVALS.iter().find(|(name, _)| last == name).map(|(_, why)| *why)
    };
    for attr in function.attrs.extract_if(.., |attr| rival(attr).is_some()) {
        errors.at(&attr, rival(&attr).unwrap_or_default());
    }
}

fn struct_name(job: &mut Job, errors: &mut Errors) {
    let at = &job.function.sig.ident;
    let function = at.unraw();
    let option = |name: &str| format!("write `#[job(struct_name = \"{name}Job\")]`");
    let (at, name, message) = match &job.options.struct_name {
        Some(name) if name.unraw() == function => {
            let cure = "write `struct_name = \"SendEmailJob\"`, say";
            (name, function.to_string(), format!("the struct cannot have the name of the function: {cure}"))
        }
        Some(_) => return,
        None => {
            let name = names::upper_camel(&function.to_string());
            let message = if function == name {
                let snake = snake(&name);
                let cure = if snake == name { option("SendEmail") } else { format!("write `fn {snake}`") };
                format!("the struct would have the name of the function: {cure}")
            } else if syn::parse_str::<Ident>(&name).is_err() {
                format!("no name for the struct can be made of `{function}`: {}", option("SendEmail"))
            } else if TAKEN.split(' ').any(|taken| taken == name) {
                format!("the struct would be called `{name}` and hide the usual one: {}", option(&name))
            } else if is_in_signature(&job.function, &name) {
                // the struct would silently hide a type that is imported by `*`
                format!("the struct would be called `{name}`, as a type of the signature: {}", option(&name))
            } else {
                return;
            };
            (at, name, message)
        }
    };
    errors.at(at, message);
    // a distinct name: the module may have the same mistake twice
    job.struct_ident = format_ident!("QueueJob{name}");
}

/// Whether the name stands in the types of a function or is one of its arguments.
fn is_in_signature(function: &Function, name: &str) -> bool {
    let (inputs, output) = (&function.sig.inputs, &function.sig.output);
    types::mentions_alone(quote!(#inputs #output), name)
}

/// `SendEmail` gives `send_email`.
fn snake(name: &str) -> String {
    let mut snake = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.extend(letter.to_lowercase());
    }
    snake
}

/// Whether two parameters have the same name. The compiler reports that itself (E0415).
fn repeated(job: &Job) -> bool {
    let mut names = HashSet::new();
    !job.arguments().all(|argument| names.insert(argument.ident.unraw()))
}

/// Whether an argument is a `str` or a `[T]`. The compiler reports that itself (E0277), with a fix. A type named `Path`
/// may be the user's own, and sized.
fn has_unsized(job: &Job) -> bool {
    job.arguments().any(|argument| types::is_never_sized(&argument.ty))
}

/// Checks kind and aliases: a kind made from the function's name must fit into the column, and no name may occur twice.
fn kinds(job: &Job, errors: &mut Errors) {
    let kind = &job.kind;
    if let (None, Some(fault)) = (&job.options.name, entry::name_fault(kind)) {
        let name = &job.function.sig.ident;
        errors.at(name, format!("the function's name is the job's name, and {fault}; write `name = \"…\"`"));
    }
    let mut seen = Vec::new();
    for alias in &job.options.aliases {
        let name = alias.value();
        if name == *kind {
            errors.at(alias, "this is the job's name already: remove it from the aliases");
        } else if seen.contains(&name) {
            errors.at(alias, "this alias is given twice: remove one of the two");
        }
        seen.push(name);
    }
}

/// A secret argument is found by its name in the JSON.
fn secrets(job: &Job, errors: &mut Errors) {
    let of_all = Rules::of(&job.serde_attrs).other_json;
    for argument in job.arguments().filter(|argument| argument.is_secret) {
        if let Some(word) = of_all.or_else(|| renames::absent(argument).filter(|word| *word == "flatten")) {
            let (ident, cure) = (&argument.ident, "remove that, or the `#[secret]`");
            errors.at(ident, format!("with `#[serde({word})]`, the job's JSON has no key for this secret: {cure}"));
        }
    }
}

/// Checks the schedules together with their job, and drops those with mistakes.
#[cfg(feature = "schedules")]
fn schedules(job: &mut Job, errors: &mut Errors) {
    if let (Some(schedule), true) = (job.options.schedules.first(), job.options.unique.is_some()) {
        errors.at(
            &schedule.key,
            "a schedule takes no unique key: remove `unique`, or schedule a job without it that enqueues this one",
        );
    }
    let (schedules, has_arguments) = (&mut job.options.schedules, job.argument_count > 0);
    let several = schedules.len() > 1;
    let mut names = Vec::new();
    for schedule in schedules.iter() {
        let key = &schedule.key;
        if let Some(name) = &schedule.name {
            let text = name.value();
            if names.contains(&text) {
                errors.at(name, format!("another schedule is called `{text}`, too: give each a name of its own"));
            }
            names.push(text);
        } else if several && !schedule.has("name") {
            let cure = schedule.with(&format!("name = \"{}-…\"", job.kind));
            errors.at(key, format!("of several schedules, each has a name: {cure}"));
        }
        if has_arguments && !schedule.has("args") {
            let cure = schedule.with(&format!("args = {} {{ … }}", job.struct_ident));
            errors.at(key, format!("this job has arguments, and its schedule does not give them: {cure}"));
        }
    }
    schedules.retain(|schedule| schedule.sound && (schedule.args.is_some() || !has_arguments));
}

/// Whether the function is a method: it has `self`, names `Self`, or has no body.
pub(crate) fn is_method(function: &Function) -> bool {
    let has_self = function.sig.inputs.iter().any(|input| matches!(input, FnArg::Receiver(_)));
    has_self || !function.has_body || names_self(function).is_some()
}

/// The first `Self` in the signature.
fn names_self(function: &Function) -> Option<Ident> {
    types::mentions(function.sig.to_token_stream(), &|word| word == "Self")
}
