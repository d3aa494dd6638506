//! Writes and reads the arguments of a job for the code that `#[job]` generates.
//!
//! serde's derives would give each job some hundred lines of code of its own. Here all jobs share one reader and one
//! writer, and a job adds only its names and places. So a crate with many jobs compiles sooner. Jobs with other serde
//! attributes than names and defaults still have serde's derives.

use std::borrow::Cow;
use std::fmt;

use erased_serde::Deserializer as ErasedDeserializer;
use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::ser::{SerializeStruct as _, Serializer};

/// What is known of a job's arguments when it is compiled.
#[derive(Debug, Clone, Copy)]
pub struct Layout {
    /// The struct.
    pub name: &'static str,
    /// What an error says was expected.
    pub about: &'static str,
    /// The names as stored, in the order of the arguments; then the further names.
    pub names: &'static [&'static str],
    /// The place of the argument of each further name.
    pub aliases: &'static [usize],
    /// Whether a name that is none of these is an error.
    pub deny_unknown: bool,
}

impl Layout {
    /// Writes the values, which are in the order of the names.
    pub fn write<S: Serializer>(
        &self,
        serializer: S,
        values: &[&dyn erased_serde::Serialize],
    ) -> Result<S::Ok, S::Error> {
        let mut all = serializer.serialize_struct(self.name, values.len())?;
        for (name, value) in self.names.iter().zip(values) {
            all.serialize_field(name, value)?;
        }
        all.end()
    }

    /// Fills the slots, which are in the order of the names.
    pub fn read<'de, D: Deserializer<'de>>(
        &self,
        deserializer: D,
        slots: &mut [&mut dyn AnySlot],
    ) -> Result<(), D::Error> {
        deserializer.deserialize_struct(self.name, self.names, Arguments { layout: self, slots })
    }

    fn place(&self, name: &str) -> Option<usize> {
        let place = self.names.iter().position(|it| *it == name)?;
        let arguments = self.names.len() - self.aliases.len();
        Some(if place < arguments { place } else { self.aliases[place - arguments] })
    }
}

/// Where an argument is kept until all are read.
#[derive(Debug)]
pub struct Slot<T> {
    value: Option<T>,
    default: Option<fn() -> T>,
}

impl<T> Slot<T> {
    /// A slot that must be filled, unless the type is an option.
    pub const fn empty() -> Self {
        Self { value: None, default: None }
    }

    /// A slot that takes the type's default when the argument is absent.
    pub fn or_default(self) -> Self
    where
        T: Default,
    {
        Self { default: Some(T::default), ..self }
    }

    /// The value that was read.
    pub fn take(self) -> T {
        self.value.unwrap_or_else(|| unreachable!("`Layout::read` fills every slot, or returns an error"))
    }
}

/// A slot of any type.
pub trait AnySlot {
    /// Whether it has a value.
    fn is_filled(&self) -> bool;
    /// Takes the type's default, if it may.
    fn fill_with_default(&mut self) -> bool;
    /// Reads the value.
    fn read(&mut self, from: &mut dyn ErasedDeserializer<'_>) -> Result<(), erased_serde::Error>;
}

impl<T: DeserializeOwned> AnySlot for Slot<T> {
    fn is_filled(&self) -> bool {
        self.value.is_some()
    }

    fn fill_with_default(&mut self) -> bool {
        self.value = self.default.map(|default| default());
        self.value.is_some()
    }

    fn read(&mut self, from: &mut dyn ErasedDeserializer<'_>) -> Result<(), erased_serde::Error> {
        self.value = Some(erased_serde::deserialize(from)?);
        Ok(())
    }
}

/// Reads all arguments.
struct Arguments<'a, 's> {
    layout: &'a Layout,
    slots: &'a mut [&'s mut dyn AnySlot],
}

impl Arguments<'_, '_> {
    /// What was not given has a default, is an option, or is missing.
    fn complete<E: Error>(self) -> Result<(), E> {
        for (name, slot) in self.layout.names.iter().zip(self.slots) {
            if !slot.is_filled() && !slot.fill_with_default() {
                let mut absent = <dyn ErasedDeserializer<'_>>::erase(Absent(name));
                slot.read(&mut absent).map_err(|_| E::missing_field(name))?;
            }
        }
        Ok(())
    }
}

impl<'de> Visitor<'de> for Arguments<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.layout.about)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key::<Cow<'_, str>>()? {
            match self.layout.place(&name) {
                None if self.layout.deny_unknown => return Err(A::Error::unknown_field(&name, self.layout.names)),
                None => drop(map.next_value::<IgnoredAny>()?),
                Some(place) if self.slots[place].is_filled() => {
                    return Err(A::Error::duplicate_field(self.layout.names[place]));
                }
                Some(place) => map.next_value_seed(Value(self.slots[place]))?,
            }
        }
        self.complete()
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        for (place, slot) in self.slots.iter_mut().enumerate() {
            if list.next_element_seed(Value(*slot))?.is_none() && !slot.fill_with_default() {
                return Err(A::Error::invalid_length(place, &self.layout.about));
            }
        }
        Ok(())
    }
}

/// Reads a value into its slot.
struct Value<'a>(&'a mut dyn AnySlot);

impl<'de> DeserializeSeed<'de> for Value<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        self.0.read(&mut <dyn ErasedDeserializer<'_>>::erase(deserializer)).map_err(D::Error::custom)
    }
}

/// In the place of an argument that was not given: only an option can be read from it.
struct Absent(&'static str);

impl<'de> Deserializer<'de> for Absent {
    type Error = serde::de::value::Error;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Self::Error> {
        Err(Error::missing_field(self.0))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        visitor.visit_none()
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

/// Writes the arguments of a job that has none: `{}`.
pub fn write_nothing<S: Serializer>(serializer: S) -> Result<S::Ok, S::Error> {
    serde::ser::SerializeMap::end(serializer.serialize_map(Some(0))?)
}

/// Reads the arguments of a job that has none: `{}`, `null`, or an object whose fields are ignored.
pub fn read_nothing<'de, D: Deserializer<'de>>(deserializer: D) -> Result<(), D::Error> {
    struct Nothing;

    impl<'de> Visitor<'de> for Nothing {
        type Value = ();

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object, or null: the job has no arguments")
        }

        fn visit_unit<E>(self) -> Result<(), E> {
            Ok(())
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
            while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            Ok(())
        }
    }

    deserializer.deserialize_any(Nothing)
}

#[cfg(test)]
mod tests {
    use serde::{Deserialize, Serialize};

    use super::*;

    /// As `#[job]` generates it.
    #[derive(Debug, PartialEq)]
    struct Ours {
        to: String,
        n: i64,
        note: Option<String>,
        big: u128,
        list: Vec<u8>,
    }

    const LAYOUT: Layout = Layout {
        name: "Ours",
        about: "the arguments of `ours`",
        names: &["to", "n", "note", "big", "list", "address", "remark"],
        aliases: &[0, 2],
        deny_unknown: false,
    };

    impl Serialize for Ours {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            LAYOUT.write(serializer, &[&self.to, &self.n, &self.note, &self.big, &self.list])
        }
    }

    impl<'de> Deserialize<'de> for Ours {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            let (mut to, mut n, mut note, mut big) = (Slot::empty(), Slot::empty(), Slot::empty(), Slot::empty());
            let mut list = Slot::empty().or_default();
            LAYOUT.read(deserializer, &mut [&mut to, &mut n, &mut note, &mut big, &mut list])?;
            Ok(Self { to: to.take(), n: n.take(), note: note.take(), big: big.take(), list: list.take() })
        }
    }

    /// The same by serde's derives.
    #[derive(Debug, Serialize, Deserialize)]
    #[serde(expecting = "the arguments of `ours`")]
    struct Derived {
        #[serde(alias = "address")]
        to: String,
        n: i64,
        #[serde(alias = "remark")]
        note: Option<String>,
        big: u128,
        #[serde(default)]
        list: Vec<u8>,
    }

    impl From<Derived> for Ours {
        fn from(Derived { to, n, note, big, list }: Derived) -> Self {
            Self { to, n, note, big, list }
        }
    }

    /// Read by both, with the same value or in the same words.
    fn read(json: &str) -> Result<Ours, String> {
        let [ours, derived] = [
            serde_json::from_str::<Ours>(json).map_err(|error| error.to_string()),
            serde_json::from_str::<Derived>(json).map(Ours::from).map_err(|error| error.to_string()),
        ];
        assert_eq!(ours, derived, "{json}");
        ours
    }

    #[test]
    fn is_read_like_by_the_derives() {
        let whole = r#"{"to":"a","n":-1,"note":"b","big":340282366920938463463374607431768211455,"list":[1,2]}"#;
        let ours = read(whole).expect("whole");
        assert_eq!(serde_json::to_string(&ours).expect("written"), whole);
        assert_eq!((ours.n, ours.big), (-1, u128::MAX));
        let least = read(r#"{"address":"a","n":0,"big":1,"more":{"x":[1]}}"#).expect("an alias, an option, a default");
        assert_eq!((least.note, least.list), (None, Vec::new()));
        let other = read(r#"{"to":"a","n":0,"big":1,"remark":"c"}"#).expect("another alias");
        assert_eq!(other.note.as_deref(), Some("c"));
        read(r#"["a",1,null,1,[]]"#).expect("a list");
        read(r#"["a",1,null,1]"#).expect("a list, and a default");
        for wrong in [
            "{}",
            "[]",
            r#"["a",1,null]"#,
            "7",
            "null",
            "",
            "{",
            r#"{"to":7,"n":0,"big":1}"#,
            r#"{"to":"a","n":"x","big":1}"#,
            r#"{"to":"a","to":"b","n":1,"big":1}"#,
            r#"{"to":"a","address":"b","n":1,"big":1}"#,
            r#"{"to":"a","n":1,"big":1,"list":[1,300]}"#,
            r#"{"to":"a","n":1,"big":1,"list":[1,"#,
            "{\n  \"to\": \"a\",\n  \"n\": 9223372036854775808,\n  \"big\": 1\n}",
            r#"{"to":"a","n":1,"big":1} {}"#,
        ] {
            read(wrong).expect_err(wrong);
        }
    }

    #[test]
    fn unknown_names_are_refused_where_asked() {
        let layout = Layout { deny_unknown: true, names: &["to"], aliases: &[], ..LAYOUT };
        let mut to = Slot::<String>::empty();
        let mut json = serde_json::Deserializer::from_str(r#"{"too":"a"}"#);
        let error = layout.read(&mut json, &mut [&mut to]).expect_err("unknown");
        assert_eq!(error.to_string(), "unknown field `too`, expected `to` at line 1 column 6");
    }
}
