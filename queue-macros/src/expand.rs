//! Generates the code for a valid function. Mistakes are handled elsewhere.
//!
//! A type that cannot be stored is reported once, at the type. So the generated code never derives on the user's types.
//! It uses the traits `Argument`, `StateParameter`, `TxParameter`, `ReturnValue` and `IntoJobError` of
//! `queue::__private`, in expressions with the span of the type from end to end: the compiler prints equal messages at
//! one span only once.

use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::ext::IdentExt as _;
use syn::{Attribute, LitStr};

use crate::model::{Argument, CFG, Job, Parameter, is_one_of};
use crate::names;
use crate::renames::Rules;
use crate::stored::{self, Layout};
use crate::tokens::{call, ends, on_argument, on_type, variable};
use crate::types::{self, Pass};
use crate::unique::Unique;

/// The function, its struct, and the implementations.
///
/// Not in a `const _: () = { … }`: for a `#[job]` misplaced in an `impl`, that would cause further messages. No scope
/// is needed, because all paths are absolute.
pub(crate) fn expand(job: &Job) -> TokenStream {
    let function = &job.function;
    let layout = Layout::of(job);
    let declaration = declaration(job, layout.is_none());
    let cfg = function.attrs.iter().filter(|attr| is_one_of(attr, &CFG));
    let cfg = quote!(#(#cfg)*);
    let mut implementations = vec![constructor(job)];
    implementations.extend(clone_and_debug(job, layout.is_none()));
    implementations.extend(layout.iter().flat_map(|layout| stored::serialize_and_deserialize(job, layout)));
    implementations.push(job_impl(job));
    quote! {
        #function
        #declaration
        #(
            #cfg
            #[allow(deprecated)]
            #[automatically_derived]
            #implementations
        )*
    }
}

/// The attributes that the struct has from the function and its options.
pub(crate) fn carried(job: &Job) -> TokenStream {
    let is_carried = |attr: &&Attribute| is_one_of(attr, &CFG) || is_one_of(attr, &["doc", "deprecated", "allow"]);
    let attrs = job.function.attrs.iter().filter(is_carried);
    let derive = &job.options.derive;
    let derive = (!derive.is_empty()).then(|| quote!(#[derive(#(#derive),*)]));
    quote!(#(#attrs)* #derive)
}

/// The struct. `plain` is it if serde's derives read and write it, because of what its serde attributes say.
fn declaration(job: &Job, plain: bool) -> TokenStream {
    let Job { function, struct_ident: ident, .. } = job;
    let vis = &function.vis;
    let attrs = carried(job);
    let is_documented = |attrs: &[Attribute]| attrs.iter().any(|attr| is_one_of(attr, &["doc"]));
    let paragraph = is_documented(&function.attrs).then(|| quote!(#[doc = ""]));
    let about =
        format!("The job that runs `{}`; enqueue it, and a worker calls the function.", function.sig.ident.unraw());
    let must_use = "a job does nothing until it is enqueued";
    let derives = plain.then(|| stored::derives(job));
    let fields = job.arguments().map(|argument| {
        let Argument { ident, attrs, ty, .. } = argument;
        let about = (!is_documented(attrs)).then(|| {
            let about = format!("The argument `{}`.", ident.unraw());
            quote!(#[doc = #about])
        });
        let attrs = attrs.iter().filter(|attr| plain || !is_one_of(attr, &["serde"]));
        quote!(#about #(#attrs)* #vis #ident: #ty)
    });
    // The span of the function's name, so that a clash with another type is reported there.
    let at = ident.span();
    let body = if job.argument_count > 0 { quote_spanned!(at=> { #(#fields,)* }) } else { quote_spanned!(at=> ;) };
    let keyword = quote_spanned!(at=> struct);
    quote! {
        #attrs
        #paragraph
        #[doc = #about]
        #[must_use = #must_use]
        #derives
        #vis #keyword #ident #body
    }
}

fn constructor(job: &Job) -> TokenStream {
    let (vis, ident) = (&job.function.vis, &job.struct_ident);
    let about = format!("The job `{}` with these arguments.", job.kind);
    let (parameters, fields): (Vec<_>, Vec<_>) = job
        .arguments()
        .map(|Argument { ident, ty, .. }| match types::is_primitive(ty) {
            true => (quote!(#ident: #ty), quote!(#ident: #ident)),
            false => {
                (quote!(#ident: impl ::core::convert::Into<#ty>), quote!(#ident: ::core::convert::Into::into(#ident)))
            }
        })
        .unzip();
    quote! {
        impl #ident {
            #[doc = #about]
            #[allow(dead_code, clippy::too_many_arguments, clippy::new_without_default)]
            #vis fn new(#(#parameters),*) -> Self { Self { #(#fields,)* } }
        }
    }
}

fn clone_and_debug(job: &Job, plain: bool) -> [TokenStream; 2] {
    let Job { struct_ident: ident, private, .. } = job;
    let text = ident.unraw().to_string();
    let (f, debug) = (variable("f"), variable("debug"));
    let names: Vec<_> = job.arguments().map(|argument| &argument.ident).collect();
    let keys = names.iter().map(|name| name.unraw().to_string());
    let clones = job.arguments().zip(&names).map(|(argument, name)| match plain {
        true => quote!(::core::clone::Clone::clone(&self.#name)),
        false => on_argument(argument, private, "clone", quote!(&self.#name)),
    });
    let shown = job.arguments().zip(&names).map(|(argument, name)| match plain {
        _ if argument.is_secret => quote!(&#private::Hidden),
        true => quote!(&self.#name),
        false => on_argument(argument, private, "debug", quote!(&self.#name)),
    });
    [
        quote! {
            impl ::core::clone::Clone for #ident {
                fn clone(&self) -> Self { Self { #(#names: #clones,)* } }
            }
        },
        quote! {
            impl ::core::fmt::Debug for #ident {
                fn fmt(&self, #f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                    let mut #debug = ::core::fmt::Formatter::debug_struct(#f, #text);
                    #(::core::fmt::DebugStruct::field(&mut #debug, #keys, #shown);)*
                    ::core::fmt::DebugStruct::finish(&mut #debug)
                }
            }
        },
    ]
}

fn job_impl(job: &Job) -> TokenStream {
    let Job { struct_ident: ident, krate, private, .. } = job;
    let constants = constants(job);
    let output = match &job.output {
        None => quote!(()),
        // not through the whole type: its error type may be private although the job is public
        Some(ty) => match types::ok_of_result(ty) {
            Some(ok) => ok.to_token_stream(),
            None => on_type(ty, quote!(#private::ReturnValue), "Output"),
        },
    };
    let context = variable("context");
    let body = body(job, &context);
    let requires = requires(job);
    #[cfg(feature = "schedules")]
    let schedules = crate::periodic::schedules(job);
    #[cfg(not(feature = "schedules"))]
    let schedules = TokenStream::new();
    let ident_span = job.function.sig.ident.span();
    // A problem with the future (a guard held across an await) is reported at the function's name. But a type that is
    // no outcome is reported wherever the future's type occurs. There, the type has the span of the first report.
    let (first, last) = match &job.output {
        Some(ty) if types::last_segment(ty).is_none_or(|(name, _)| name != "Result") => ends(ty),
        _ => (ident_span, ident_span),
    };
    let open = quote_spanned!(first=> impl);
    let future = quote_spanned! {last=>
        #open ::core::future::Future<Output = ::core::result::Result<#output, #krate::JobError>> + ::core::marker::Send
    };
    quote! {
        impl #krate::Job for #ident {
            #constants
            type Output = #output;
            fn run(self, #context: #krate::JobContext) -> #future {
                #private::inventory::submit! { #private::Registration::of::<#ident>() }
                async move { #body }
            }
            #requires
            #schedules
        }
    }
}

/// The body of `run`.
fn body(job: &Job, context: &Ident) -> TokenStream {
    let (private, sig) = (&job.private, &job.function.sig);
    let [this, tx, result, error] = ["this", "tx", "result", "error"].map(variable);
    let (mut passed, mut states) = (Vec::new(), Vec::new());
    for parameter in &job.parameters {
        passed.push(match parameter {
            Parameter::Context { borrowed: true } => quote!(&#context),
            Parameter::Context { borrowed: false } => quote!(::core::clone::Clone::clone(&#context)),
            Parameter::State { borrowed, ty } => {
                let state = variable(&format!("state_{}", states.len()));
                let get = call(ty, quote!(#private::StateParameter), "get", quote!(&#context));
                states.push(quote!(let #state = #get;));
                if *borrowed { quote!(&#state) } else { quote!(#state) }
            }
            Parameter::Tx { .. } => quote!(&mut #tx),
            Parameter::Argument(Argument { ident, pass, .. }) => match pass {
                Pass::Value => quote!(#this.#ident),
                Pass::Borrowed => quote!(&#this.#ident),
                Pass::AsRef => quote!(::core::option::Option::as_ref(&#this.#ident)),
                Pass::AsDeref => quote!(::core::option::Option::as_deref(&#this.#ident)),
                Pass::CowOwned => quote!(::std::borrow::Cow::Owned(#this.#ident)),
            },
        });
    }
    let function = &sig.ident;
    let called = quote!(#function(#(#passed),*));
    let value = match sig.asyncness {
        Some(_) => quote!(#called.await),
        None => quote!(#private::blocking(move || #called).await),
    };
    // nothing if the function takes no transaction
    let on_tx = |function: &str, arguments: TokenStream| {
        job.tx().map(|ty| call(ty, quote!(#private::TxParameter), function, arguments))
    };
    let begin = on_tx("begin", quote!(&#context)).map(|begin| quote!(let mut #tx = #begin.await?;));
    let commit =
        |output: TokenStream| on_tx("commit", quote!(#tx, &#context, &#output)).map(|commit| quote!(#commit.await?;));
    let end = match &job.output {
        None => {
            let commit = commit(quote!(()));
            quote!({ let () = #value; #commit ::core::result::Result::Ok(()) })
        }
        Some(ty) => {
            let returned = quote!(#private::ReturnValue);
            let split = call(ty, returned.clone(), "into_result", quote!(#result));
            let failed = quote!(#private::IntoJobError);
            let failed = call(&on_type(ty, returned, "Error"), failed, "into_job_error", quote!(#error));
            let commit = commit(quote!(#result));
            let roll_back = on_tx("roll_back", quote!(#tx)).map(|roll_back| quote!(#roll_back.await;));
            quote! {{
                let #result = #value;
                match #split {
                    ::core::result::Result::Ok(#result) => { #commit ::core::result::Result::Ok(#result) }
                    ::core::result::Result::Err(#error) => {
                        let #error = #failed;
                        #roll_back
                        ::core::result::Result::Err(#error)
                    }
                }
            }}
        }
    };
    quote! {
        let #this = self;
        let _ = (&#this, &#context);
        #(#states)*
        #begin
        #end
    }
}

fn requires(job: &Job) -> Option<TokenStream> {
    let private = &job.private;
    let described = job.parameters.iter().filter_map(|parameter| match parameter {
        Parameter::State { ty, .. } => Some((ty, quote!(#private::StateParameter))),
        Parameter::Tx { ty } => Some((ty, quote!(#private::TxParameter))),
        _ => None,
    });
    let described: Vec<_> = described.map(|(ty, bound)| call(ty, bound, "describe", TokenStream::new())).collect();
    (!described.is_empty()).then(|| {
        quote! {
            fn requires() -> ::std::vec::Vec<#private::StateType> {
                ::core::convert::From::from([#(#described),*])
            }
        }
    })
}

/// Constants for the given options. The others keep the trait's defaults.
fn constants(job: &Job) -> TokenStream {
    let Job { options, kind, krate, .. } = job;
    let (queue, priority, retries) = (options.queue.iter(), options.priority.iter(), options.max_retries.iter());
    let (timeout, backoff) = (options.timeout.iter(), options.backoff.iter());
    let start_within = options.start_within.iter();
    let aliases = options.aliases.iter().map(LitStr::value);
    let aliases = (!options.aliases.is_empty())
        .then(|| quote!(const ALIASES: &'static [&'static ::core::primitive::str] = &[#(#aliases),*];));
    let unique = options.unique.as_ref().map(|unique| unique_constant(unique, krate));
    let rules = Rules::of(&job.serde_attrs);
    let secrets: Vec<_> = job.arguments().filter(|it| it.is_secret).flat_map(|it| rules.keys(it)).collect();
    let secrets = (!secrets.is_empty())
        .then(|| quote!(const SECRETS: &'static [&'static ::core::primitive::str] = &[#(#secrets),*];));
    quote! {
        const KIND: &'static ::core::primitive::str = #kind;
        #aliases
        #secrets
        #(const QUEUE: &'static ::core::primitive::str = #queue;)*
        #(const PRIORITY: ::core::primitive::i16 = #priority;)*
        #(const MAX_RETRIES: ::core::primitive::u32 = #retries;)*
        #(const TIMEOUT: ::core::option::Option<::core::time::Duration> = ::core::option::Option::Some(#timeout);)*
        #(const START_WITHIN: ::core::option::Option<::core::time::Duration> =
            ::core::option::Option::Some(#start_within);)*
        #(const BACKOFF: #krate::Backoff = #krate::Backoff::#backoff;)*
        #unique
    }
}

/// The constant `UNIQUE`.
pub(crate) fn unique_constant(unique: &Unique, krate: &TokenStream) -> TokenStream {
    let keys = &unique.keys;
    let by = if keys.is_empty() { quote!(ALL_ARGS) } else { quote!(by(&[#(#keys),*])) };
    let until = unique.until.map(names::variant).into_iter();
    let at_least = unique.at_least.iter();
    let on_conflict = unique.on_conflict.iter().map(|(word, _)| names::variant(word));
    quote! {
        const UNIQUE: ::core::option::Option<#krate::unique::Unique> = ::core::option::Option::Some(
            #krate::unique::Unique::#by
                #(.until(#krate::unique::UniqueUntil::#until))*
                #(.at_least(#at_least))*
                #(.on_conflict(#krate::unique::OnConflict::#on_conflict))*
        );
    }
}
