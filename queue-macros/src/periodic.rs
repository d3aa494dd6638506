//! The method `schedules` of the generated implementation.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::LitStr;

use crate::model::Job;
use crate::schedule::Schedule;
use crate::tokens::variable;

/// Nothing for a job without schedules: the trait has a default.
pub(crate) fn schedules(job: &Job) -> Option<TokenStream> {
    let krate = &job.krate;
    let schedules: Vec<_> = job.options.schedules.iter().map(|schedule| periodic(job, schedule)).collect();
    (!schedules.is_empty()).then(|| {
        quote! {
            fn schedules() -> ::std::result::Result<::std::vec::Vec<#krate::schedule::Periodic<Self>>, #krate::Error> {
                ::std::result::Result::Ok(::core::convert::From::from([#(#schedules),*]))
            }
        }
    })
}

fn periodic(job: &Job, schedule: &Schedule) -> TokenStream {
    let Job { struct_ident: ident, krate, kind, .. } = job;
    let value = variable("job");
    // A wrong type is reported at the user's expression, because the variable has a type of its own.
    let args = schedule.args.as_ref().map_or_else(|| quote!(#ident), ToTokens::to_token_stream);
    let with_options = match (&schedule.queue, schedule.priority) {
        (Some(queue), None) => quote!(#krate::Job::queue(#value, #queue)),
        (None, Some(priority)) => quote!(#krate::Job::priority(#value, #priority)),
        (Some(queue), Some(priority)) => quote!(#krate::Job::queue(#value, #queue).priority(#priority)),
        (None, None) => quote!(#value),
    };
    let name = schedule.name.as_ref().map_or_else(|| kind.clone(), LitStr::value);
    let Schedule { text, rules, .. } = schedule;
    let (methods, arguments): (Vec<_>, Vec<_>) = rules.iter().map(|(method, argument)| (method, argument)).unzip();
    let (zone, jitter) = (schedule.zone.iter().map(LitStr::value), schedule.jitter.iter());
    quote!({
        let #value: #ident = #args;
        #krate::schedule::Periodic::<Self>::new(
            #name,
            #krate::schedule::Schedule::cron(#text)?
                #(.zone(#zone)?)*
                #(.#methods(#krate::schedule::#arguments))*
                #(.jitter(#jitter))*,
            #with_options
        )
    })
}
