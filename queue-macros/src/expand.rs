//! Generates the code for a valid function. Mistakes are handled elsewhere.
//!
//! A type that cannot be stored is reported once, at the type. So the generated code never derives on the user's types.
//! It uses the traits `Argument`, `StateParameter`, `TxParameter`, `ReturnValue` and `ReturnedError` of
//! `queue::__private`, in expressions with the span of the type from end to end: the compiler prints equal messages at
//! one span only once.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::ext::IdentExt as _;
use syn::{Attribute, LitStr};

use crate::model::{Argument, Job, Parameter};
use crate::names;
use crate::stored::{self, Layout};
use crate::tokens::{call, ends, on_argument, on_type};
use crate::types::{self, Pass};
use crate::unique::Unique;

/// The function, its struct, and the implementations.
///
/// Not in a `const _: () = { … }`: for a `#[job]` misplaced in an `impl`, that would cause further messages. No scope
/// is needed, because all paths are absolute.
pub(crate) fn expand(job: &Job) -> TokenStream {
    let function = &job.function;
    let layout = Layout::of(job);
    let declaration = declaration(job, layout.as_ref());
    let cfg: Vec<_> = function.attrs.iter().filter(|attr| is_cfg(attr)).collect();
    let implementations = implementations(job, layout.as_ref()).into_iter().map(|implementation| {
        quote! {
            #(#cfg)*
            #[allow(deprecated)]
            #[automatically_derived]
            #implementation
        }
    });
    quote! {
        #function
        #declaration
        #(#implementations)*
    }
}

fn is_cfg(attr: &Attribute) -> bool {
    attr.path().is_ident("cfg") || attr.path().is_ident("cfg_attr")
}

/// The function's attributes that are copied to the struct.
pub(crate) fn carried(job: &Job) -> impl Iterator<Item = &Attribute> {
    job.function
        .attrs
        .iter()
        .filter(|attr| is_cfg(attr) || ["doc", "deprecated", "allow"].iter().any(|name| attr.path().is_ident(name)))
}

fn declaration(job: &Job, layout: Option<&Layout>) -> TokenStream {
    let (vis, ident) = (&job.function.vis, &job.struct_ident);
    let attrs = carried(job);
    let documented = job.function.attrs.iter().any(|attr| attr.path().is_ident("doc"));
    let paragraph = documented.then(|| quote!(#[doc = ""]));
    let about =
        format!("The job that runs `{}`; enqueue it, and a worker calls the function.", job.function.sig.ident.unraw());
    let must_use = "a job does nothing until it is enqueued";
    let derives = layout.is_none().then(|| stored::derives(job));
    let further = &job.options.derive;
    let further = (!further.is_empty()).then(|| quote!(#[derive(#(#further),*)]));
    let fields = job.arguments().map(|argument| {
        let Argument { ident, attrs, ty, .. } = argument;
        let about = (!argument.is_documented()).then(|| {
            let about = format!("The argument `{}`.", ident.unraw());
            quote!(#[doc = #about])
        });
        let attrs = attrs.iter().filter(|attr| layout.is_none() || !attr.path().is_ident("serde"));
        quote!(#about #(#attrs)* #vis #ident: #ty)
    });
    // The span of the function's name, so that a clash with another type is reported there.
    let at = ident.span();
    let body =
        if job.arguments().next().is_some() { quote_spanned!(at=> { #(#fields,)* }) } else { quote_spanned!(at=> ;) };
    let keyword = quote_spanned!(at=> struct);
    quote! {
        #(#attrs)*
        #paragraph
        #[doc = #about]
        #[must_use = #must_use]
        #derives
        #further
        #vis #keyword #ident #body
    }
}

fn implementations(job: &Job, layout: Option<&Layout>) -> Vec<TokenStream> {
    let krate = job.krate();
    let private = quote!(#krate::__private);
    let mut implementations = vec![constructor(job)];
    implementations.extend(clone_and_debug(job, layout.is_none(), &private));
    implementations.extend(layout.into_iter().flat_map(|it| stored::serialize_and_deserialize(job, it, &private)));
    implementations.push(job_impl(job, &krate, &private));
    implementations
}

fn constructor(job: &Job) -> TokenStream {
    let (vis, ident) = (&job.function.vis, &job.struct_ident);
    let fields: Vec<_> = job.arguments().map(|argument| &argument.ident).collect();
    let parameters = job.arguments().map(|Argument { ident, ty, .. }| {
        if types::is_primitive(ty) { quote!(#ident: #ty) } else { quote!(#ident: impl ::core::convert::Into<#ty>) }
    });
    let values = job.arguments().map(|Argument { ident, ty, .. }| {
        if types::is_primitive(ty) { quote!(#ident) } else { quote!(::core::convert::Into::into(#ident)) }
    });
    let about = format!("The job `{}` with these arguments.", job.kind());
    let body = if fields.is_empty() { quote!(Self) } else { quote!(Self { #(#fields: #values,)* }) };
    quote! {
        impl #ident {
            #[doc = #about]
            #[allow(dead_code, clippy::too_many_arguments, clippy::new_without_default)]
            #vis fn new(#(#parameters),*) -> Self { #body }
        }
    }
}

fn clone_and_debug(job: &Job, plain: bool, private: &TokenStream) -> [TokenStream; 2] {
    let ident = &job.struct_ident;
    let text = ident.unraw().to_string();
    let clones = job.arguments().map(|argument| {
        let name = &argument.ident;
        let value = if plain {
            quote!(::core::clone::Clone::clone(&self.#name))
        } else {
            on_argument(argument, private, "clone", quote!(&self.#name))
        };
        quote!(#name: #value)
    });
    let cloned = if job.arguments().next().is_some() { quote!(Self { #(#clones,)* }) } else { quote!(Self) };
    let f = Ident::new("f", Span::mixed_site());
    let debug = Ident::new("debug", Span::mixed_site());
    let shown = job.arguments().map(|argument| {
        let name = &argument.ident;
        let key = name.unraw().to_string();
        let value =
            if plain { quote!(&self.#name) } else { on_argument(argument, private, "debug", quote!(&self.#name)) };
        quote!(::core::fmt::DebugStruct::field(&mut #debug, #key, #value);)
    });
    let shown = if job.arguments().next().is_some() {
        quote! {
            let mut #debug = ::core::fmt::Formatter::debug_struct(#f, #text);
            #(#shown)*
            ::core::fmt::DebugStruct::finish(&mut #debug)
        }
    } else {
        quote!(::core::fmt::Formatter::write_str(#f, #text))
    };
    [
        quote! {
            impl ::core::clone::Clone for #ident {
                fn clone(&self) -> Self { #cloned }
            }
        },
        quote! {
            impl ::core::fmt::Debug for #ident {
                fn fmt(&self, #f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result { #shown }
            }
        },
    ]
}

fn job_impl(job: &Job, krate: &TokenStream, private: &TokenStream) -> TokenStream {
    let ident = &job.struct_ident;
    let constants = constants(job, krate);
    let output = match &job.output {
        None => quote!(()),
        // not through the whole type: its error type may be private although the job is public
        Some(ty) => match types::ok_of_result(ty) {
            Some(ok) => ok.to_token_stream(),
            None => on_type(&ty.to_token_stream(), quote!(#private::ReturnValue), "Output"),
        },
    };
    let context = Ident::new("context", Span::mixed_site());
    let body = Body::new(job, private, &context).tokens();
    let requires = requires(job, private);
    #[cfg(feature = "schedules")]
    let schedules = crate::periodic::schedules(job, krate);
    #[cfg(not(feature = "schedules"))]
    let schedules = TokenStream::new();
    let ident_span = job.function.sig.ident.span();
    // A problem with the future (a guard held across an await) is reported at the function's name. But a type that is
    // no outcome is reported wherever the future's type occurs. There, the type has the span of the first report.
    let (first, last) = match &job.output {
        Some(ty) if types::last_segment(ty).is_none_or(|(name, _)| name != "Result") => ends(&ty.to_token_stream()),
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

/// The body of `run`, and the names of its variables.
struct Body<'a> {
    job: &'a Job,
    private: &'a TokenStream,
    context: &'a Ident,
    this: Ident,
    tx: Ident,
}

impl<'a> Body<'a> {
    fn new(job: &'a Job, private: &'a TokenStream, context: &'a Ident) -> Self {
        let name = |name: &str| Ident::new(name, Span::mixed_site());
        Self { job, private, context, this: name("this"), tx: name("tx") }
    }

    fn tokens(&self) -> TokenStream {
        let Self { context, this, tx, .. } = self;
        let (passed, states) = self.passed_and_states();
        let begin = self.on_tx("begin", quote!(&#context)).map(|begin| quote!(let mut #tx = #begin?;));
        let value = self.value(&passed);
        let end = match &self.job.output {
            None => self.end_of_nothing(&value),
            Some(ty) => self.end_of_result(&value, &ty.to_token_stream()),
        };
        quote! {
            let #this = self;
            let _ = (&#this, &#context);
            #(#states)*
            #begin
            #end
        }
    }

    /// What the function is called with, and the statements that fetch the states among that.
    fn passed_and_states(&self) -> (Vec<TokenStream>, Vec<TokenStream>) {
        let Self { job, private, context, this, tx } = self;
        let (mut passed, mut states) = (Vec::new(), Vec::new());
        for parameter in &job.parameters {
            passed.push(match parameter {
                Parameter::Context { borrowed: true } => quote!(&#context),
                Parameter::Context { borrowed: false } => quote!(::core::clone::Clone::clone(&#context)),
                Parameter::State { borrowed, ty } => {
                    let state = Ident::new(&format!("state_{}", states.len()), Span::mixed_site());
                    let ty = ty.to_token_stream();
                    let get = on_type(&ty, quote!(#private::StateParameter<_>), "get");
                    let call = call(&ty, quote!(&#context));
                    states.push(quote!(let #state = #get #call;));
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
        (passed, states)
    }

    /// The call of the function, up to its value.
    fn value(&self, passed: &[TokenStream]) -> TokenStream {
        let (private, sig) = (self.private, &self.job.function.sig);
        let function = &sig.ident;
        let called = quote!(#function(#(#passed),*));
        if sig.asyncness.is_some() { quote!(#called.await) } else { quote!(#private::blocking(move || #called).await) }
    }

    /// A call on the transaction, if the function takes one.
    fn on_tx(&self, method: &str, arguments: TokenStream) -> Option<TokenStream> {
        let private = self.private;
        self.job.tx().map(|ty| {
            let ty = ty.to_token_stream();
            let (path, call) = (on_type(&ty, quote!(#private::TxParameter), method), call(&ty, arguments));
            quote!(#path #call.await)
        })
    }

    /// Calls a function that returns nothing.
    fn end_of_nothing(&self, value: &TokenStream) -> TokenStream {
        let Self { context, tx, .. } = self;
        let commit = self.on_tx("commit", quote!(#tx, &#context, &())).map(|commit| quote!(#commit?;));
        quote!({ let () = #value; #commit ::core::result::Result::Ok(()) })
    }

    /// Calls a function that returns a `Result`, with the type `ty`.
    fn end_of_result(&self, value: &TokenStream, ty: &TokenStream) -> TokenStream {
        let Self { private, context, tx, .. } = self;
        let result = Ident::new("result", Span::mixed_site());
        let error = Ident::new("error", Span::mixed_site());
        let split = on_type(ty, quote!(#private::ReturnValue), "into_result");
        let split_call = call(ty, quote!(#result));
        let error_type = on_type(ty, quote!(#private::ReturnValue), "Error");
        let failed = on_type(&error_type, quote!(#private::ReturnedError<_>), "into_job_error");
        let failed_call = call(ty, quote!(#error));
        let commit = self.on_tx("commit", quote!(#tx, &#context, &#result)).map(|commit| quote!(#commit?;));
        let roll_back = self.on_tx("roll_back", quote!(#tx)).map(|roll_back| quote!(#roll_back;));
        quote! {{
            let #result = #value;
            match #split #split_call {
                ::core::result::Result::Ok(#result) => { #commit ::core::result::Result::Ok(#result) }
                ::core::result::Result::Err(#error) => {
                    let #error = #failed #failed_call;
                    #roll_back
                    ::core::result::Result::Err(#error)
                }
            }
        }}
    }
}

fn requires(job: &Job, private: &TokenStream) -> Option<TokenStream> {
    let described: Vec<_> = job
        .parameters
        .iter()
        .filter_map(|parameter| match parameter {
            Parameter::State { ty, .. } => {
                let ty = ty.to_token_stream();
                let describe = on_type(&ty, quote!(#private::StateParameter<_>), "describe");
                let call = call(&ty, TokenStream::new());
                Some(quote!(#describe #call))
            }
            Parameter::Tx { ty } => {
                let ty = ty.to_token_stream();
                let describe = on_type(&ty, quote!(#private::TxParameter), "describe");
                let call = call(&ty, TokenStream::new());
                Some(quote!(#describe #call))
            }
            _ => None,
        })
        .collect();
    (!described.is_empty()).then(|| {
        quote! {
            fn requires() -> ::std::vec::Vec<#private::StateType> {
                ::core::convert::From::from([#(#described),*])
            }
        }
    })
}

/// Constants for the given options. The others keep the trait's defaults.
pub(crate) fn constants(job: &Job, krate: &TokenStream) -> TokenStream {
    let (options, kind) = (&job.options, job.kind());
    let (queue, priority, retries) = (options.queue.iter(), options.priority.iter(), options.max_retries.iter());
    let (timeout, backoff) = (options.timeout.iter(), options.backoff.iter());
    let aliases = options.aliases.iter().map(LitStr::value);
    let aliases = (!options.aliases.is_empty())
        .then(|| quote!(const ALIASES: &'static [&'static ::core::primitive::str] = &[#(#aliases),*];));
    let unique = options.unique.as_ref().map(|unique| unique_constant(unique, krate));
    quote! {
        const KIND: &'static ::core::primitive::str = #kind;
        #aliases
        #(const QUEUE: &'static ::core::primitive::str = #queue;)*
        #(const PRIORITY: ::core::primitive::i16 = #priority;)*
        #(const MAX_RETRIES: ::core::primitive::u32 = #retries;)*
        #(const TIMEOUT: ::core::option::Option<::core::time::Duration> = ::core::option::Option::Some(#timeout);)*
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
        const UNIQUE: ::core::option::Option<#krate::Unique> = ::core::option::Option::Some(
            #krate::Unique::#by
                #(.until(#krate::UniqueUntil::#until))*
                #(.at_least(#at_least))*
                #(.on_conflict(#krate::OnConflict::#on_conflict))*
        );
    }
}
