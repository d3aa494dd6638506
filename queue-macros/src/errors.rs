//! Collects all mistakes of one function, to report them together.

use std::fmt::Display;

use proc_macro2::TokenStream;
use quote::ToTokens;

/// The mistakes found so far.
#[derive(Default)]
pub(crate) struct Errors(Vec<syn::Error>);

impl Errors {
    /// Adds a mistake at `tokens`. The message says what to write instead.
    pub(crate) fn at(&mut self, tokens: impl ToTokens, message: impl Display) {
        self.push(syn::Error::new_spanned(tokens, message));
    }

    /// Adds a mistake at `tokens`, unless there are none.
    pub(crate) fn at_any(&mut self, tokens: impl ToTokens, message: impl Display) {
        if !tokens.to_token_stream().is_empty() {
            self.at(tokens, message);
        }
    }

    pub(crate) fn push(&mut self, error: syn::Error) {
        self.0.push(error);
    }

    /// The value, or nothing and a mistake more.
    pub(crate) fn take<T>(&mut self, result: syn::Result<T>) -> Option<T> {
        result.map_err(|error| self.push(error)).ok()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    #[cfg(test)]
    pub(crate) fn messages(&self) -> Vec<String> {
        self.0.iter().map(ToString::to_string).collect()
    }

    /// One `compile_error!` per mistake.
    pub(crate) fn to_compile_errors(&self) -> TokenStream {
        self.0.iter().map(syn::Error::to_compile_error).collect()
    }
}
