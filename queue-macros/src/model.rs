//! The model of a job: the function and its parameters.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, format_ident, quote};
use syn::ext::IdentExt as _;
use syn::parse::{Parse, ParseStream};
use syn::{Attribute, FnArg, Pat, PatType, ReturnType, Signature, Token, Type, Visibility};

use crate::attr::Options;
use crate::errors::Errors;
use crate::names;
use crate::types::{self, Pass};

/// The annotated function. The body stays unparsed: the compiler reports the mistakes in it.
pub(crate) struct Function {
    pub(crate) attrs: Vec<Attribute>,
    pub(crate) vis: Visibility,
    pub(crate) sig: Signature,
    /// `{ … }`, or `;` for a method that a trait declares.
    pub(crate) body: TokenStream,
    pub(crate) has_body: bool,
}

impl Parse for Function {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let attrs = input.call(Attribute::parse_outer)?;
        let vis: Visibility = input.parse()?;
        if let Some(error) = not_a_function(input) {
            return Err(error);
        }
        let sig: Signature = input.parse()?;
        let has_body = input.peek(syn::token::Brace);
        let body = input.parse()?;
        Ok(Self { attrs, vis, sig, body, has_body })
    }
}

impl ToTokens for Function {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        let Self { attrs, vis, sig, body, .. } = self;
        tokens.extend(quote!(#(#attrs)* #vis #sig #body));
    }
}

/// The item that `#[job]` was put on by mistake.
fn not_a_function(input: ParseStream<'_>) -> Option<syn::Error> {
    if input.fork().parse::<Signature>().is_ok() || input.peek(Token![fn]) || input.peek(Token![async]) {
        return None;
    }
    let cursor = input.fork();
    let word = cursor.call(Ident::parse_any).ok()?;
    let cure = "put it on a free function, `#[job] async fn send_email(…) { … }`, which makes the struct `SendEmail`";
    let message = match word.to_string().as_str() {
        "struct" | "enum" | "union" => {
            format!("`#[job]` does not go on the data of a job, but on the function that runs it: {cure}")
        }
        "impl" => format!("`#[job]` does not go on an `impl`: {cure}"),
        "trait" => format!("`#[job]` does not go on a `trait`: {cure}"),
        "mod" => format!("`#[job]` does not go on a module, but on each function in it: {cure}"),
        "const" | "unsafe" | "extern" if cursor.peek(Token![fn]) || cursor.peek(Token![async]) => return None,
        _ => format!("`#[job]` goes on functions only: {cure}"),
    };
    Some(syn::Error::new_spanned(word, message))
}

/// A parameter of the function.
pub(crate) enum Parameter {
    /// `ctx: JobContext` or `ctx: &JobContext`.
    Context { borrowed: bool },
    /// `State(x): State<T>`; the type is the whole `State<T>`.
    State { borrowed: bool, ty: Type },
    /// `tx: &mut Tx<DB>`; the type is `Tx<DB>`.
    Tx { ty: Type },
    /// Stored with the job.
    Argument(Argument),
}

/// A parameter that is stored with the job.
pub(crate) struct Argument {
    pub(crate) ident: Ident,
    /// For the field: `#[serde(…)]` and documentation.
    pub(crate) attrs: Vec<Attribute>,
    pub(crate) ty: TokenStream,
    pub(crate) pass: Pass,
}

impl Argument {
    pub(crate) fn is_documented(&self) -> bool {
        self.attrs.iter().any(|attr| attr.path().is_ident("doc"))
    }
}

/// An annotated function, parsed.
pub(crate) struct Job {
    pub(crate) options: Options,
    /// As emitted: without the attributes that belong to the struct.
    pub(crate) function: Function,
    /// Serde attributes of the function, for the struct.
    pub(crate) serde_attrs: Vec<Attribute>,
    pub(crate) struct_ident: Ident,
    pub(crate) parameters: Vec<Parameter>,
    pub(crate) output: Option<Type>,
    /// How many parameters are arguments, including invalid ones.
    pub(crate) argument_count: usize,
    /// Whether the code can be generated.
    pub(crate) sound: bool,
}

impl Job {
    /// Reads the function. Mistakes go to `errors`.
    pub(crate) fn new(options: Options, mut function: Function, errors: &mut Errors) -> Self {
        let found_before = errors.len();
        let mut parameters = Vec::new();
        let mut argument_count = 0;
        let generics = function.sig.generics.clone();
        for input in &mut function.sig.inputs {
            match input {
                FnArg::Receiver(receiver) => errors.at(
                    receiver.self_token,
                    "a job has no `self`, it runs later in another process: write a free function that takes what it needs \
                     as arguments, or as `State<T>`",
                ),
                FnArg::Typed(typed) => {
                    let attrs = std::mem::take(&mut typed.attrs);
                    let (for_field, for_function) = split_attrs(attrs, errors);
                    typed.attrs = for_function;
                    let parameter = special(typed, errors);
                    if parameter.is_some() {
                        for attr in for_field.iter().filter(|attr| attr.path().is_ident("serde")) {
                            errors.at(attr, "this parameter is not stored: remove the `#[serde(…)]`");
                        }
                        parameters.extend(parameter);
                        continue;
                    }
                    argument_count += 1;
                    let ident = argument_name(typed, errors);
                    let name = ident.clone().unwrap_or_else(|| format_ident!("value"));
                    let stored = types::stored(&name, &typed.ty, &generics, errors);
                    if let Some(ident) = ident {
                        let types::Stored { ty, pass } = stored;
                        parameters.push(Parameter::Argument(Argument { ident, attrs: for_field, ty, pass }));
                    }
                }
            }
        }
        let output = match &function.sig.output {
            ReturnType::Default => None,
            ReturnType::Type(_, ty) => Some((**ty).clone()),
        };
        let (serde_attrs, attrs) = function.attrs.into_iter().partition(|attr| attr.path().is_ident("serde"));
        function.attrs = attrs;
        let struct_ident = match &options.struct_name {
            Some(name) => name.clone(),
            None => struct_ident(&function.sig.ident),
        };
        let sound = errors.len() == found_before;
        Self { options, function, serde_attrs, struct_ident, parameters, output, argument_count, sound }
    }

    /// The parameters that are stored.
    pub(crate) fn arguments(&self) -> impl Iterator<Item = &Argument> {
        self.parameters.iter().filter_map(|parameter| match parameter {
            Parameter::Argument(argument) => Some(argument),
            _ => None,
        })
    }

    /// The type of the transaction that the function takes.
    pub(crate) fn tx(&self) -> Option<&Type> {
        self.parameters.iter().find_map(|parameter| match parameter {
            Parameter::Tx { ty } => Some(ty),
            _ => None,
        })
    }

    /// The name in the `kind` column.
    pub(crate) fn kind(&self) -> String {
        match &self.options.name {
            Some(name) => name.value(),
            None => self.function.sig.ident.unraw().to_string(),
        }
    }

    /// The path of the `queue` crate.
    pub(crate) fn krate(&self) -> TokenStream {
        match &self.options.krate {
            Some(path) => path.to_token_stream(),
            None => quote!(::queue),
        }
    }
}

/// The default name of the struct, with the span of the function's name: a clash is reported there.
fn struct_ident(function: &Ident) -> Ident {
    let name = names::upper_camel(&function.unraw().to_string());
    syn::parse_str::<Ident>(&name)
        .map_or_else(|_| Ident::new("QueueJob", Span::call_site()), |_| Ident::new(&name, function.span()))
}

/// Splits a parameter's attributes: for the field, and for the function.
fn split_attrs(attrs: Vec<Attribute>, errors: &mut Errors) -> (Vec<Attribute>, Vec<Attribute>) {
    let (mut for_field, mut for_function) = (Vec::new(), Vec::new());
    for attr in attrs {
        let path = attr.path();
        if path.is_ident("cfg") || path.is_ident("cfg_attr") {
            errors.at(
                &attr,
                "an argument cannot depend on the build, rows would no longer fit: write `#[cfg(…)]` on two functions instead",
            );
        } else if ["allow", "warn", "deny", "forbid", "expect"].iter().any(|lint| path.is_ident(lint)) {
            for_function.push(attr);
        } else {
            for_field.push(attr);
        }
    }
    (for_field, for_function)
}

/// Recognises `JobContext`, `State<T>` and `Tx<DB>`.
fn special(typed: &mut PatType, errors: &mut Errors) -> Option<Parameter> {
    let ty = types::peel(&typed.ty);
    let (borrowed, mutable, inner) = match ty {
        Type::Reference(reference) => (true, reference.mutability.is_some(), types::peel(&reference.elem)),
        other => (false, false, other),
    };
    let (ident, generics) = types::last_segment(inner)?;
    if ident == "JobContext" && generics.is_none() {
        if mutable {
            errors.at(ty, "a context has nothing to change: write `JobContext` or `&JobContext`");
        }
        return Some(Parameter::Context { borrowed });
    }
    if let Some(state) = types::only_argument(inner, "State") {
        if mutable {
            errors.at(
                ty,
                format!(
                    "the state is shared: write `State<{}>`, and a `Mutex` in it if it changes",
                    types::tidy(state)
                ),
            );
        } else {
            check_state(state, errors);
        }
        return Some(Parameter::State { borrowed, ty: inner.clone() });
    }
    if let Some(database) = types::only_argument(inner, "Tx") {
        let pool = types::last_segment(database).and_then(|(name, _)| match name.to_string().as_str() {
            "PgPool" => Some("Postgres"),
            "MySqlPool" => Some("MySql"),
            "SqlitePool" => Some("Sqlite"),
            _ => None,
        });
        if let Some(name) = pool {
            errors.at(database, format!("a transaction is of a database, not of a pool: write `&mut Tx<{name}>`"));
        } else if matches!(types::peel(database), Type::Infer(_)) {
            errors.at(database, "the worker's database is part of the type: write `Postgres`, `MySql` or `Sqlite`");
        } else if !(borrowed && mutable) {
            let cure = format!("write `&mut {}`", types::tidy(inner));
            errors.at(ty, format!("the worker commits the transaction after the handler has returned: {cure}"));
        }
        return Some(Parameter::Tx { ty: inner.clone() });
    }
    let Pat::TupleStruct(pattern) = &*typed.pat else { return None };
    if pattern.path.segments.last()?.ident != "State" {
        return None;
    }
    let (path, written) = (&pattern.path, &typed.ty);
    errors.at(written, format!("write `{}: {}<{}>`", types::tidy(pattern), types::tidy(path), types::tidy(written)));
    // So that the compiler does not report it again.
    let meant: Type = syn::parse2(quote!(#path<#written>)).ok()?;
    *typed.ty = meant.clone();
    Some(Parameter::State { borrowed, ty: meant })
}

fn check_state(state: &Type, errors: &mut Errors) {
    match types::peel(state) {
        Type::Reference(reference) if reference.lifetime.as_ref().is_none_or(|lifetime| lifetime.ident != "static") => {
            errors.at(state, format!("the worker owns its state: write `State<Arc<{}>>`", types::tidy(&reference.elem)))
        }
        Type::ImplTrait(_) => {
            errors.at(state, "a state is found by its type: write a concrete type instead of `impl …`")
        }
        Type::TraitObject(_) => errors.at(state, format!("write `State<Arc<{}>>`", types::tidy(state))),
        Type::Infer(_) => errors.at(state, "a state is found by its type: write it instead of `_`"),
        _ => {}
    }
}

/// The name of the field.
fn argument_name(typed: &PatType, errors: &mut Errors) -> Option<Ident> {
    let ty = types::tidy(&*typed.ty);
    let mut pattern = &*typed.pat;
    while let Pat::Paren(paren) = pattern {
        pattern = &paren.pat;
    }
    match pattern {
        Pat::Ident(ident) => {
            if let Some((at, _)) = &ident.subpat {
                let name = &ident.ident;
                errors.at(
                    at,
                    format!("an argument has a plain name: write `{name}: {ty}` and take it apart in the body"),
                );
            }
            Some(ident.ident.clone())
        }
        Pat::Wild(_) => {
            errors.at(pattern, format!("an argument is stored under its name: write `_unused: {ty}`"));
            None
        }
        _ => {
            let name = sample_name(&typed.ty);
            let written = types::tidy(pattern);
            errors.at(
                pattern,
                format!("an argument is stored under its name: write `{name}: {ty}`, and `let {written} = {name};` in the body"),
            );
            None
        }
    }
}

/// A name for an argument of type `ty`: `point` for `Point`.
fn sample_name(ty: &Type) -> String {
    let name = types::last_segment(ty).map(|(ident, _)| ident.to_string().to_lowercase());
    match name {
        Some(name) if syn::parse_str::<Ident>(&name).is_ok() => name,
        _ => "value".to_owned(),
    }
}
