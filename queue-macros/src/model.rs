//! The model of a job: the function and its parameters.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, format_ident, quote};
use syn::ext::IdentExt as _;
use syn::parse::{Parse, ParseStream};
use syn::{Attribute, FnArg, LitStr, Pat, PatIdent, PatType, ReturnType, Signature, Token, Type, Visibility};

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
        refuse_other_items(input)?;
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

/// Refuses an item that `#[job]` was put on by mistake.
fn refuse_other_items(input: ParseStream<'_>) -> syn::Result<()> {
    if input.fork().parse::<Signature>().is_ok() || input.peek(Token![fn]) || input.peek(Token![async]) {
        return Ok(());
    }
    let cursor = input.fork();
    let Ok(word) = cursor.call(Ident::parse_any) else { return Ok(()) };
    let what = match word.to_string().as_str() {
        "struct" | "enum" | "union" => "does not go on the data of a job, but on the function that runs it",
        "impl" => "does not go on an `impl`",
        "trait" => "does not go on a `trait`",
        "mod" => "does not go on a module, but on each function in it",
        "const" | "unsafe" | "extern" if cursor.peek(Token![fn]) || cursor.peek(Token![async]) => return Ok(()),
        _ => "goes on functions only",
    };
    let cure = "put it on a free function, `#[job] async fn send_email(…) { … }`, which makes the struct `SendEmail`";
    Err(syn::Error::new_spanned(word, format!("`#[job]` {what}: {cure}")))
}

/// The attributes that depend on the build.
pub(crate) const CFG: [&str; 2] = ["cfg", "cfg_attr"];

/// Whether the attribute has one of the names.
pub(crate) fn is_one_of(attr: &Attribute, names: &[&str]) -> bool {
    names.iter().any(|name| attr.path().is_ident(name))
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
    pub(crate) ty: Type,
    pub(crate) pass: Pass,
    /// Its value is shown nowhere.
    pub(crate) is_secret: bool,
}

/// An annotated function, parsed.
pub(crate) struct Job {
    pub(crate) options: Options,
    /// As emitted: without the attributes that belong to the struct.
    pub(crate) function: Function,
    /// Serde attributes of the function, for the struct.
    pub(crate) serde_attrs: Vec<Attribute>,
    pub(crate) struct_ident: Ident,
    /// The name in the `kind` column.
    pub(crate) kind: String,
    /// The path of the `queue` crate, and of what it has for the generated code only.
    pub(crate) krate: TokenStream,
    pub(crate) private: TokenStream,
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
        let (mut parameters, mut argument_count) = (Vec::new(), 0);
        for input in &mut function.sig.inputs {
            let typed = match input {
                FnArg::Typed(typed) => typed,
                FnArg::Receiver(receiver) => {
                    errors.at(
                        receiver.self_token,
                        "a job has no `self`, it runs later in another process: write a free function that takes what \
                         it needs as arguments, or as `State<T>`",
                    );
                    continue;
                }
            };
            let mut attrs = split_attrs(typed, errors);
            let secrets: Vec<_> = attrs.extract_if(.., |attr| attr.path().is_ident("secret")).collect();
            if let Some(parameter) = special(typed, errors) {
                for attr in &secrets {
                    errors.at(attr, "this parameter is not stored: remove the `#[secret]`");
                }
                for attr in attrs.iter().filter(|attr| attr.path().is_ident("serde")) {
                    errors.at(attr, "this parameter is not stored: remove the `#[serde(…)]`");
                }
                parameters.push(parameter);
                continue;
            }
            argument_count += 1;
            let ident = argument_name(typed, errors);
            let name = ident.clone().unwrap_or_else(|| format_ident!("value"));
            let (ty, pass) = types::stored(&name, &typed.ty, errors);
            let is_secret = is_secret(&secrets, errors);
            parameters.extend(ident.map(|ident| Parameter::Argument(Argument { ident, attrs, ty, pass, is_secret })));
        }
        let output = match &function.sig.output {
            ReturnType::Default => None,
            ReturnType::Type(_, ty) => Some((**ty).clone()),
        };
        let (serde_attrs, attrs) = function.attrs.into_iter().partition(|attr| attr.path().is_ident("serde"));
        function.attrs = attrs;
        let struct_ident = options.struct_name.clone().unwrap_or_else(|| struct_ident(&function.sig.ident));
        let kind = options.name.as_ref().map_or_else(|| function.sig.ident.unraw().to_string(), LitStr::value);
        let krate = options.krate.as_ref().map_or_else(|| quote!(::queue), ToTokens::to_token_stream);
        let private = quote!(#krate::__private);
        let sound = errors.len() == found_before;
        Self {
            options,
            function,
            serde_attrs,
            struct_ident,
            kind,
            krate,
            private,
            parameters,
            output,
            argument_count,
            sound,
        }
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
}

/// The default name of the struct, with the span of the function's name: a clash is reported there.
fn struct_ident(function: &Ident) -> Ident {
    let name = names::upper_camel(&function.unraw().to_string());
    match syn::parse_str::<Ident>(&name) {
        Ok(_) => Ident::new(&name, function.span()),
        Err(_) => Ident::new("QueueJob", Span::call_site()),
    }
}

/// Takes the parameter's attributes for the field. What remains is for the function.
fn split_attrs(typed: &mut PatType, errors: &mut Errors) -> Vec<Attribute> {
    const LINTS: [&str; 5] = ["allow", "warn", "deny", "forbid", "expect"];
    let attrs = std::mem::take(&mut typed.attrs).into_iter();
    let (for_function, mut for_field): (Vec<_>, Vec<_>) = attrs.partition(|attr| is_one_of(attr, &LINTS));
    typed.attrs = for_function;
    for attr in for_field.extract_if(.., |attr| is_one_of(attr, &CFG)) {
        let cure = "write `#[cfg(…)]` on two functions instead";
        errors.at(attr, format!("an argument cannot depend on the build, rows would no longer fit: {cure}"));
    }
    for_field
}

/// Whether an argument has the attribute `#[secret]`.
fn is_secret(attrs: &[Attribute], errors: &mut Errors) -> bool {
    for (number, attr) in attrs.iter().enumerate() {
        if attr.meta.require_path_only().is_err() {
            errors.at(attr, "`secret` has no options: write `#[secret]`");
        } else if number > 0 {
            errors.at(attr, "this argument is secret already: remove the second `#[secret]`");
        }
    }
    !attrs.is_empty()
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
            let state = types::tidy(state);
            errors.at(ty, format!("the state is shared: write `State<{state}>`, and a `Mutex` in it if it changes"));
        } else if let Some(message) = cannot_be_state(types::peel(state)) {
            errors.at(state, message);
        }
        return Some(Parameter::State { borrowed, ty: inner.clone() });
    }
    if let Some(database) = types::only_argument(inner, "Tx") {
        const POOLS: [(&str, &str); 3] = [("PgPool", "Postgres"), ("MySqlPool", "MySql"), ("SqlitePool", "Sqlite")];
        let pool = types::last_segment(database).and_then(|(name, _)| POOLS.iter().find(|(pool, _)| name == pool));
        if let Some((_, name)) = pool {
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

fn cannot_be_state(ty: &Type) -> Option<String> {
    Some(match ty {
        Type::Reference(reference) if reference.lifetime.as_ref().is_none_or(|lifetime| lifetime.ident != "static") => {
            format!("the worker owns its state: write `State<Arc<{}>>`", types::tidy(&reference.elem))
        }
        Type::TraitObject(_) => format!("write `State<Arc<{}>>`", types::tidy(ty)),
        Type::ImplTrait(_) => "a state is found by its type: write a concrete type instead of `impl …`".to_owned(),
        Type::Infer(_) => "a state is found by its type: write it instead of `_`".to_owned(),
        _ => return None,
    })
}

/// The name of the field.
fn argument_name(typed: &PatType, errors: &mut Errors) -> Option<Ident> {
    let ty = types::tidy(&*typed.ty);
    let mut pattern = &*typed.pat;
    while let Pat::Paren(paren) = pattern {
        pattern = &paren.pat;
    }
    let cure = match pattern {
        Pat::Ident(PatIdent { ident, subpat, .. }) => {
            if let Some((at, _)) = subpat {
                let cure = format!("write `{ident}: {ty}` and take it apart in the body");
                errors.at(at, format!("an argument has a plain name: {cure}"));
            }
            return Some(ident.clone());
        }
        Pat::Wild(_) => format!("write `_unused: {ty}`"),
        _ => {
            let (name, written) = (sample_name(&typed.ty), types::tidy(pattern));
            format!("write `{name}: {ty}`, and `let {written} = {name};` in the body")
        }
    };
    errors.at(pattern, format!("an argument is stored under its name: {cure}"));
    None
}

/// A name for an argument of type `ty`: `point` for `Point`.
fn sample_name(ty: &Type) -> String {
    let name = types::last_segment(ty).map(|(ident, _)| ident.to_string().to_lowercase());
    name.filter(|name| syn::parse_str::<Ident>(name).is_ok()).unwrap_or_else(|| "value".to_owned())
}
