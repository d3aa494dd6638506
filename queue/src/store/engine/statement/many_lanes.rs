//! One statement for many lanes: the statement for one lane, repeated.

use crate::store::engine::driver::{Bind, question_marks};
use crate::store::values::Ask;

/// A statement for one lane, and its values.
pub(crate) type LanePart<'a> = (&'static str, Vec<Bind<'a>>);

/// The placeholder for the lanes in the statement around them.
pub(crate) const LANES: &str = "/* lanes */";

/// A statement for many lanes.
pub(crate) struct Union<'a> {
    pub(crate) sql: String,
    pub(crate) binds: Vec<Bind<'a>>,
    /// The number of the ask of each part.
    pub(crate) asks: Vec<usize>,
}

/// The number of the ask that a row belongs to, from the part that the row names.
pub(crate) fn ask_of(asks: &[usize], part: i64) -> Result<usize, sqlx::Error> {
    let ask = usize::try_from(part).ok().and_then(|part| asks.get(part));
    ask.copied().ok_or_else(|| sqlx::Error::Decode(format!("the statement has no part {part}").into()))
}

/// Puts the statements of all asks into the one around them. The last column of each part, `ask`, is the part's number.
/// So that few such statements must be kept prepared, newest-first lanes come last, and each group is padded to a power
/// of two. Padding asks for no rows (`part` gets `false`).
pub(crate) fn united<'a>(
    around: &'static str,
    outer: &[Bind<'a>],
    [open, close]: [&str; 2],
    asks: &'a [Ask],
    part: impl Fn(&'a Ask, bool) -> LanePart<'a>,
) -> Union<'a> {
    let (head, tail) = around.split_once(LANES).unwrap_or((around, ""));
    let ((head, before), (tail, after)) = (question_marks(head), question_marks(tail));
    let mut union = Union { sql: head, binds: before.iter().map(|place| outer[*place]).collect(), asks: Vec::new() };
    for newest_first in [false, true] {
        let group: Vec<_> = (0..asks.len()).filter(|number| asks[*number].newest_first == newest_first).collect();
        let Some(last) = group.last() else { continue };
        let (text, places) = question_marks(part(&asks[*last], false).0);
        let (columns, rest) = text.split_once("\nFROM ").unwrap_or((&text, ""));
        for n in 0..group.len().next_power_of_two() {
            let (number, wanted) = group.get(n).map_or((*last, false), |number| (*number, true));
            let values = part(&asks[number], wanted).1;
            union.binds.extend(places.iter().map(|place| values[*place]));
            let glue = if union.asks.is_empty() { "" } else { " UNION ALL " };
            let own = union.asks.len().to_string();
            for text in [glue, open, columns, ", ", &own, " AS ask\nFROM ", rest.trim_end(), close] {
                union.sql.push_str(text);
            }
            union.asks.push(number);
        }
    }
    union.sql.push_str(&tail);
    union.binds.extend(after.iter().map(|place| outer[*place]));
    union
}
