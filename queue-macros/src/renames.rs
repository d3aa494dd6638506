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
    rename_all: Sides,
    /// The word because of which the JSON does not have the arguments as its keys.
    pub(crate) other_json: Option<&'static str>,
}

impl Rules {
    pub(crate) fn of(attrs: &[Attribute]) -> Self {
        let mut rules = Self::default();
        words(attrs, |word, sides| match word {
            "rename_all" => rules.rename_all = sides,
            _ => rules.other_json = rules.other_json.or_else(|| one_of(word, &OTHER_JSON)),
        });
        rules
    }

    /// The key in the JSON that a job is written as.
    pub(crate) fn key(&self, argument: &Argument) -> String {
        let mut renamed = None;
        words(&argument.attrs, |word, sides| {
            if word == "rename" {
                renamed = sides.written;
            }
        });
        renamed.unwrap_or_else(|| renamed_by(self.rename_all.written.as_deref(), &argument.ident.unraw().to_string()))
    }

    /// All keys under which a JSON may have the argument: the one above, and those that are read.
    pub(crate) fn keys(&self, argument: &Argument) -> Vec<String> {
        let mut keys = vec![self.key(argument)];
        let mut read = Some(renamed_by(self.rename_all.read.as_deref(), &argument.ident.unraw().to_string()));
        words(&argument.attrs, |word, sides| match word {
            "rename" => read = sides.read.or(read.take()),
            "alias" => keys.extend(sides.read),
            _ => {}
        });
        keys.extend(read);
        keys.sort();
        keys.dedup();
        keys
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

/// The texts of a word that hold for writing and for reading. They may differ: `rename(serialize = "a")`.
#[derive(Default)]
struct Sides {
    written: Option<String>,
    read: Option<String>,
}

/// The words of all serde attributes, with their texts. What is no attribute of serde is skipped, because serde reports
/// it.
fn words(attrs: &[Attribute], mut read: impl FnMut(&str, Sides)) {
    for attr in attrs.iter().filter(|attr| attr.path().is_ident("serde")) {
        attr.parse_nested_meta(|meta| {
            let word = meta.path.get_ident().map(Ident::to_string).unwrap_or_default();
            let mut sides = Sides::default();
            if meta.input.peek(Token![=]) {
                let text = entry::string(&meta.value()?.parse::<Expr>()?).map(LitStr::value);
                sides = Sides { written: text.clone(), read: text };
            } else if meta.input.peek(syn::token::Paren) {
                meta.parse_nested_meta(|side| {
                    let value = side.value()?.parse::<Expr>()?;
                    let text = entry::string(&value).map(LitStr::value);
                    if side.path.is_ident("serialize") {
                        sides.written = text;
                    } else {
                        sides.read = text;
                    }
                    Ok(())
                })?;
            }
            read(&word, sides);
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
        rules.key(&argument(ident, attrs))
    }

    fn argument(ident: Ident, attrs: Vec<Attribute>) -> Argument {
        Argument { ident, attrs, ty: syn::parse_quote!(u8), pass: Pass::Value, is_secret: false }
    }

    #[test]
    fn all_names_are_known_under_which_an_argument_is_read() {
        let rules = Rules::of(&[syn::parse_quote!(#[serde(rename_all(deserialize = "UPPERCASE"))])]);
        let keys = |attrs| rules.keys(&argument(Ident::new("a_b", proc_macro2::Span::call_site()), attrs));
        assert_eq!(keys(Vec::new()), ["A_B", "a_b"]);
        assert_eq!(
            keys(vec![syn::parse_quote!(#[serde(alias = "x", default, alias = "y")])]),
            ["A_B", "a_b", "x", "y"]
        );
        assert_eq!(keys(vec![syn::parse_quote!(#[serde(rename = "z")])]), ["z"]);
        assert_eq!(keys(vec![syn::parse_quote!(#[serde(rename(serialize = "w", deserialize = "r"))])]), ["r", "w"]);
        assert_eq!(keys(vec![syn::parse_quote!(#[serde(rename(serialize = "w"))])]), ["A_B", "w"]);
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
