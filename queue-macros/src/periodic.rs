//! The method `schedules` of the generated implementation.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote};

use crate::model::Job;
use crate::schedule::{Missed, Schedule};
use crate::tokens;

/// Nothing for a job without schedules: the trait has a default.
pub(crate) fn schedules(job: &Job, krate: &TokenStream) -> Option<TokenStream> {
    let schedules: Vec<_> = job.options.schedules.iter().map(|schedule| periodic(job, schedule, krate)).collect();
    (!schedules.is_empty()).then(|| {
        quote! {
            fn schedules() -> ::std::result::Result<::std::vec::Vec<#krate::schedule::Periodic<Self>>, #krate::Error> {
                ::std::result::Result::Ok(::core::convert::From::from([#(#schedules),*]))
            }
        }
    })
}

fn periodic(job: &Job, schedule: &Schedule, krate: &TokenStream) -> TokenStream {
    let ident = &job.struct_ident;
    let value = Ident::new("job", Span::mixed_site());
    // A wrong type is reported at the user's expression, because the variable has a type of its own.
    let declaration = match &schedule.args {
        Some(args) => quote!(let #value: #ident = #args;),
        None => quote!(let #value = #ident;),
    };
    let with_options = match (&schedule.queue, schedule.priority) {
        (Some(queue), None) => quote!(#krate::Job::queue(#value, #queue)),
        (None, Some(priority)) => quote!(#krate::Job::priority(#value, #priority)),
        (Some(queue), Some(priority)) => quote!(#krate::Job::queue(#value, #queue).priority(#priority)),
        (None, None) => quote!(#value),
    };
    let name = schedule.name.as_ref().map_or_else(|| job.kind(), |name| name.value.clone());
    let when = when(schedule, krate);
    quote!({
        #declaration
        #krate::schedule::Periodic::<Self>::new(#name, #when, #with_options)
    })
}

/// A `queue::schedule::Schedule`.
fn when(schedule: &Schedule, krate: &TokenStream) -> TokenStream {
    let text = &schedule.text;
    let zone = schedule.zone.iter().map(|zone| &zone.value);
    let rule = |name: &str, word: Option<&'static str>| {
        let word = Ident::new(&crate::names::upper_camel(word?), Span::call_site());
        let (method, ty) = (format_ident!("{name}"), format_ident!("{}", crate::names::upper_camel(name)));
        Some(quote!(.#method(#krate::#ty::#word)))
    };
    let rules = [rule("gap", schedule.gap), rule("fold", schedule.fold), rule("overlap", schedule.overlap)];
    let rules = rules.into_iter().flatten();
    let missed = match &schedule.missed {
        Some(Missed::All(within)) => {
            let within = tokens::duration(*within);
            Some(quote!(.missed(#krate::schedule::Missed::All { within: #within })))
        }
        Some(Missed::Word(word)) => rule("missed", Some(word)),
        None => None,
    };
    let jitter = schedule.jitter.map(|jitter| {
        let jitter = tokens::duration(jitter);
        quote!(.jitter(#jitter))
    });
    quote!(#krate::schedule::Schedule::cron(#text)? #(.zone(#zone)?)* #(#rules)* #missed #jitter)
}
