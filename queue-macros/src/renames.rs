//! What the arguments are called in the job's JSON, by the serde attributes of the function and its arguments.

use proc_macro2::Ident;
use syn::ext::IdentExt as _;
use syn::{Attribute, Expr, LitStr, Token};

use crate::model::Argument;
use crate::{entry, names};

/// What keeps an argument out of the JSON of some jobs, or takes away its name.
const ABSENT: [&str; 4] = ["skip", "skip_serializing", "skip_serializing_if", "flatten"];

/// What makes the JSON something else than an object with the arguments.
const OTHER_JSON: [&str; 2] = ["into", "transparent"];

/// What the function's attributes say about all arguments.
#[derive(Default)]
pub(crate) struct Rules {
    rename_all: Option<String>,
    /// The word because of which the JSON does not have the arguments as its keys.
    pub(crate) other_json: Option<&'static str>,
}

impl Rules {
    pub(crate) fn of(attrs: &[Attribute]) -> Self {
        let mut rules = Self::default();
        words(attrs, |word, text| match word {
            "rename_all" => rules.rename_all = text,
            _ => rules.other_json = rules.other_json.or_else(|| one_of(word, &OTHER_JSON)),
        });
        rules
    }

    /// The key in the JSON that a job is written as.
    pub(crate) fn key(&self, argument: &Argument) -> String {
        let mut renamed = None;
        words(&argument.attrs, |word, text| {
            if word == "rename" {
                renamed = text;
            }
        });
        renamed.unwrap_or_else(|| renamed_by(self.rename_all.as_deref(), &argument.ident.unraw().to_string()))
    }
}

/// The word because of which not every job has the argument under a key of its own.
pub(crate) fn absent(argument: &Argument) -> Option<&'static str> {
    let mut found = None;
    words(&argument.attrs, |word, _| found = found.or_else(|| one_of(word, &ABSENT)));
    found
}

fn one_of(word: &str, words: &[&'static str]) -> Option<&'static str> {
    words.iter().find(|known| **known == word).copied()
}

/// The words of all serde attributes, with the text that holds for writing: `a` for `rename = "a"` and
/// `rename(serialize = "a")`. What is no attribute of serde is skipped, because serde reports it.
fn words(attrs: &[Attribute], mut read: impl FnMut(&str, Option<String>)) {
    for attr in attrs.iter().filter(|attr| attr.path().is_ident("serde")) {
        attr.parse_nested_meta(|meta| {
            let word = meta.path.get_ident().map(Ident::to_string).unwrap_or_default();
            let mut text = None;
            if meta.input.peek(Token![=]) {
                text = entry::string(&meta.value()?.parse::<Expr>()?).map(LitStr::value);
            } else if meta.input.peek(syn::token::Paren) {
                meta.parse_nested_meta(|side| {
                    let value = side.value()?.parse::<Expr>()?;
                    if side.path.is_ident("serialize") {
                        text = entry::string(&value).map(LitStr::value);
                    }
                    Ok(())
                })?;
            }
            read(&word, text);
            Ok(())
        })
        .ok();
    }
}

/// A field's name by a rule of serde. serde reports an unknown rule.
fn renamed_by(rule: Option<&str>, field: &str) -> String {
    match rule {
        Some("UPPERCASE" | "SCREAMING_SNAKE_CASE") => field.to_ascii_uppercase(),
        Some("PascalCase") => pascal(field),
        Some("camelCase") => {
            let mut name = pascal(field);
            if let Some(first) = name.get_mut(..1) {
                first.make_ascii_lowercase();
            }
            name
        }
        Some("kebab-case") => field.replace('_', "-"),
        Some("SCREAMING-KEBAB-CASE") => field.to_ascii_uppercase().replace('_', "-"),
        _ => field.to_owned(),
    }
}

/// As serde does it: only the letters of ASCII change.
fn pascal(field: &str) -> String {
    names::camel(field, |letter| [letter.to_ascii_uppercase()])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Pass;

    fn key(rules: &Rules, attrs: Vec<Attribute>) -> String {
        let ident = Ident::new("first_name", proc_macro2::Span::call_site());
        rules.key(&Argument { ident, attrs, ty: syn::parse_quote!(u8), pass: Pass::Value })
    }

    #[test]
    fn a_rule_renames_as_serde_does() {
        let table = [
            ("lowercase", "first_name"),
            ("UPPERCASE", "FIRST_NAME"),
            ("PascalCase", "FirstName"),
            ("camelCase", "firstName"),
            ("snake_case", "first_name"),
            ("SCREAMING_SNAKE_CASE", "FIRST_NAME"),
            ("kebab-case", "first-name"),
            ("SCREAMING-KEBAB-CASE", "FIRST-NAME"),
            ("no rule", "first_name"),
        ];
        for (rule, expected) in table {
            let rules = Rules::of(&[syn::parse_quote!(#[serde(default, rename_all = #rule)])]);
            assert_eq!(key(&rules, Vec::new()), expected, "{rule}");
            assert_eq!(key(&rules, vec![syn::parse_quote!(#[serde(rename = "x", default)])]), "x", "{rule}");
            let rules = Rules::of(&[syn::parse_quote!(#[serde(rename_all(deserialize = "x", serialize = #rule))])]);
            assert_eq!(key(&rules, Vec::new()), expected, "{rule}");
        }
        for odd in ["__a__2b", "_", "", "ä_ö", "r"] {
            for (rule, _) in table {
                renamed_by(Some(rule), odd);
            }
        }
        assert_eq!(renamed_by(Some("camelCase"), "_a__b2_ä"), "aB2ä");
    }

    #[test]
    fn only_the_name_for_writing_counts() {
        let rules = Rules::of(&[syn::parse_quote!(#[serde(rename_all(deserialize = "UPPERCASE"))])]);
        assert_eq!(key(&rules, vec![syn::parse_quote!(#[serde(rename(deserialize = "x"))])]), "first_name");
        assert_eq!(key(&rules, vec![syn::parse_quote!(#[serde(rename(serialize = "x", deserialize = "y"))])]), "x");
        assert_eq!(key(&rules, vec![syn::parse_quote!(#[serde(nonsense nonsense)])]), "first_name");
    }
}
