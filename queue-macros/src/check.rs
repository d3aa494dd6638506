//! Rules that concern the function and its options together.

use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, format_ident, quote};
use syn::ext::IdentExt as _;
use syn::{Attribute, FnArg, GenericArgument, PathArguments, ReturnType, Safety, Type};

use crate::attr::Options;
use crate::entry;
use crate::errors::Errors;
use crate::model::{Function, Job, Parameter};
use crate::types;

/// Names in every module's scope, and `Job`, which must be in scope to enqueue. A struct would hide them.
const TAKEN: [&str; 44] = [
    "AsMut",
    "AsRef",
    "AsyncFn",
    "AsyncFnMut",
    "AsyncFnOnce",
    "Box",
    "Clone",
    "Copy",
    "Debug",
    "Default",
    "DoubleEndedIterator",
    "Drop",
    "Eq",
    "Err",
    "ExactSizeIterator",
    "Extend",
    "Fn",
    "FnMut",
    "FnOnce",
    "From",
    "FromIterator",
    "Future",
    "Into",
    "IntoFuture",
    "IntoIterator",
    "Iterator",
    "Job",
    "None",
    "Ok",
    "Option",
    "Ord",
    "PartialEq",
    "PartialOrd",
    "Result",
    "Send",
    "Sized",
    "Some",
    "String",
    "Sync",
    "ToOwned",
    "ToString",
    "TryFrom",
    "TryInto",
    "Vec",
];

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
    qualifiers(&job.function, errors);
    asyncness(&job.function, &job.options, errors);
    transactions(job, errors);
    generics(&job.function, errors);
    output(&job.function, errors);
    rivals(&mut job.function, errors);
    struct_name(job, errors);
    if !job.function.has_body {
        let name = &job.function.sig.ident;
        errors.at(name, "a job has a body: put `#[job]` on a free function, not on what a trait declares");
    } else if job.function.sig.receiver().is_none()
        && let Some(word) = types::mentions(job.function.sig.to_token_stream(), &|ident| ident == "Self")
    {
        errors.at(
            word,
            "`#[job]` goes on a free function, where there is no `Self`: move the function out of the `impl`",
        );
    }
    if errors.len() > before || repeated(job) || has_unsized(job) {
        job.sound = false;
    }
    kinds(job, errors);
    #[cfg(feature = "schedules")]
    schedules(job, errors);
    crate::unique_check::check(job, errors);
}

fn qualifiers(function: &Function, errors: &mut Errors) {
    let sig = &function.sig;
    if let Some(constness) = &sig.constness {
        errors.at(constness, "a job runs in a worker, not in the compiler: remove `const`");
    }
    if let Safety::Unsafe(unsafety) = &sig.safety {
        errors.at(
            unsafety,
            "a worker calls the job with whatever the row holds: remove `unsafe`, and check the arguments in the body",
        );
    }
    if let Some(abi) = &sig.abi {
        errors.at(abi, "a job is called from Rust: remove the `extern`");
    }
    if let Some(variadic) = &sig.variadic {
        errors.at(variadic, "the arguments of a job are fields of a struct: write a `Vec<T>` instead of `...`");
    }
}

fn asyncness(function: &Function, options: &Options, errors: &mut Errors) {
    let sig = &function.sig;
    match (&sig.asyncness, &options.blocking) {
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
    let Some(first) = all.next() else { return };
    if job.function.sig.asyncness.is_none() && job.options.blocking.is_some() {
        errors.at(
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
        let message = match param {
            syn::GenericParam::Lifetime(lifetime) => {
                let name = &lifetime.lifetime;
                format!(
                    "a job has no lifetimes: its arguments live as long as the call; write `&str` instead of `&{name} str`"
                )
            }
            syn::GenericParam::Type(ty) => {
                let name = &ty.ident;
                format!("a job is found by its name, so it has no generics: write a concrete type instead of `{name}`")
            }
            syn::GenericParam::Const(param) => {
                let name = &param.ident;
                format!(
                    "a job is found by its name, so it has no generics: write a number instead of `{name}`, or make it an argument"
                )
            }
        };
        errors.at(param, message);
    }
    if let (Some(clause), true) = (&generics.where_clause, generics.params.is_empty()) {
        errors.at(clause, "a job has no generics that a `where` could limit: remove the clause");
    }
}

fn output(function: &Function, errors: &mut Errors) {
    if let ReturnType::Type(_, ty) = &function.sig.output {
        if matches!(types::peel(ty), Type::Never(_)) {
            return errors.at(ty, "a job ends: leave the return type out, or write a `Result`");
        }
        if is_no_result(ty) {
            let written = types::tidy(ty);
            let cure = format!("write `Result<{written}, E>`, with any error type for `E`");
            return errors.at(ty, format!("a job returns nothing, or a `Result`: {cure}"));
        }
        borrows(ty, errors);
    }
}

/// Whether the type can never be a `Result`, whatever is in scope. The compiler judges all other types.
fn is_no_result(ty: &Type) -> bool {
    match types::peel(ty) {
        Type::Array(_) => true,
        Type::Tuple(tuple) => !tuple.elems.is_empty(),
        ty => {
            let known = types::last_segment(ty)
                .is_some_and(|(name, _)| ["Option", "String", "Vec"].iter().any(|no| name == no));
            known || types::is_primitive(&ty.to_token_stream())
        }
    }
}

/// Rejects types that cannot outlive the call, as a result does.
fn borrows(ty: &Type, errors: &mut Errors) {
    match ty {
        Type::Array(array) => borrows(&array.elem, errors),
        Type::Group(group) => borrows(&group.elem, errors),
        Type::Paren(paren) => borrows(&paren.elem, errors),
        Type::Tuple(tuple) => tuple.elems.iter().for_each(|elem| borrows(elem, errors)),
        Type::ImplTrait(_) => {
            errors.at(ty, "the result is stored, so its type must be known: write a concrete type instead of `impl …`")
        }
        Type::Reference(reference) if reference.lifetime.as_ref().is_none_or(|lifetime| lifetime.ident == "_") => {
            errors.at(ty, "the result outlives the arguments: write an owned type, such as `String` for `&str`");
        }
        Type::Path(path) => {
            for segment in &path.path.segments {
                let PathArguments::AngleBracketed(arguments) = &segment.arguments else { continue };
                for argument in &arguments.args {
                    match argument {
                        GenericArgument::Type(ty) => borrows(ty, errors),
                        GenericArgument::Lifetime(lifetime) if lifetime.ident == "_" => {
                            errors.at(
                                lifetime,
                                "the result outlives the arguments: write `'static`, or a type that owns its data",
                            );
                        }
                        _ => {}
                    }
                }
            }
        }
        _ => {}
    }
}

/// Rejects `#[test]` and the like, and removes them, so that they report no errors of their own.
fn rivals(function: &mut Function, errors: &mut Errors) {
    function.attrs.retain(|attr| match rival(attr) {
        Some(why) => {
            errors.at(attr, why);
            false
        }
        None => true,
    });
}

fn rival(attr: &Attribute) -> Option<&'static str> {
    let last = &attr.path().segments.last()?.ident;
    RIVALS.iter().find(|(name, _)| last == name).map(|(_, why)| *why)
}

fn struct_name(job: &mut Job, errors: &mut Errors) {
    let function = job.function.sig.ident.unraw();
    let at = &job.function.sig.ident;
    if let Some(name) = &job.options.struct_name {
        if name.unraw() == function {
            errors.at(
                name,
                "the struct cannot have the name of the function: write `struct_name = \"SendEmailJob\"`, say",
            );
            job.struct_ident = format_ident!("QueueJob{name}");
        }
        return;
    }
    let name = crate::names::upper_camel(&function.to_string());
    let option = |sample: &str| format!("write `#[job(struct_name = \"{sample}\")]`");
    let message = if function == name {
        let cure = match snake(&name) {
            snake if snake == name => option("SendEmailJob"),
            snake => format!("write `fn {snake}`"),
        };
        format!("the struct would have the name of the function: {cure}")
    } else if syn::parse_str::<Ident>(&name).is_err() {
        format!("no name for the struct can be made of `{function}`: {}", option("SendEmailJob"))
    } else if TAKEN.contains(&name.as_str()) {
        format!("the struct would be called `{name}` and hide the usual one: {}", option(&format!("{name}Job")))
    } else if types::mentions_alone(signature(&job.function), &name) {
        // the struct would silently hide a type that is imported by `*`
        format!("the struct would be called `{name}`, as a type of the signature: {}", option(&format!("{name}Job")))
    } else {
        return;
    };
    errors.at(at, message);
    // a distinct name: the module may have the same mistake twice
    job.struct_ident = format_ident!("QueueJob{name}");
}

/// The types of a function and the names of its arguments.
fn signature(function: &Function) -> TokenStream {
    let (inputs, output) = (&function.sig.inputs, &function.sig.output);
    quote!(#inputs #output)
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
    let names: Vec<_> = job.arguments().map(|argument| argument.ident.unraw()).collect();
    names.iter().enumerate().any(|(i, name)| names[..i].contains(name))
}

/// Whether an argument is a `str` or a `[T]`. The compiler reports that itself (E0277), with a fix. A type named `Path`
/// may be the user's own, and sized.
fn has_unsized(job: &Job) -> bool {
    job.arguments().any(|argument| syn::parse2(argument.ty.clone()).is_ok_and(|ty: Type| types::is_never_sized(&ty)))
}

/// Checks kind and aliases: a kind made from the function's name must fit into the column, and no name may occur twice.
fn kinds(job: &Job, errors: &mut Errors) {
    let kind = job.kind();
    if job.options.name.is_none()
        && let Some(fault) = entry::name_fault(&kind)
    {
        errors.at(
            &job.function.sig.ident,
            format!("the function's name is the job's name, and {fault}; write `name = \"…\"`"),
        );
    }
    let mut seen = Vec::new();
    for alias in &job.options.aliases {
        let name = alias.value();
        if name == kind {
            errors.at(alias, "this is the job's name already: remove it from the aliases");
        } else if seen.contains(&name) {
            errors.at(alias, "this alias is given twice: remove one of the two");
        }
        seen.push(name);
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
    let kind = job.kind();
    let (schedules, has_arguments) = (&mut job.options.schedules, job.argument_count > 0);
    let several = schedules.len() > 1;
    let mut names = Vec::new();
    for schedule in schedules.iter() {
        let key = &schedule.key;
        match &schedule.name {
            Some(name) if names.contains(&name.value()) => errors
                .at(name, format!("another schedule is called `{}`, too: give each a name of its own", name.value())),
            Some(name) => names.push(name.value()),
            None if several && !schedule.has("name") => errors.at(
                key,
                format!("of several schedules, each has a name: {}", schedule.with(&format!("name = \"{kind}-…\""))),
            ),
            None => {}
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
    function.sig.inputs.iter().any(|input| matches!(input, FnArg::Receiver(_)))
        || !function.has_body
        || types::mentions(function.sig.to_token_stream(), &|ident| ident == "Self").is_some()
}
