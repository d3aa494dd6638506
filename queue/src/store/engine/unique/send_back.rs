//! Dead letters that are sent back take their keys again.

use std::collections::HashMap;

use crate::store::engine::dialect::Dialect;
use crate::store::engine::driver::{Cells, rows};
use crate::store::engine::statement::read::number;
use crate::store::engine::unique::CHUNK;
use crate::store::engine::unique::dialect::{Given, Key};
use crate::store::values::Refusal;

/// Gives sent-back jobs their keys again. Returns those whose key is taken. They must not stay sent back.
pub(crate) async fn take_again<DB: Dialect>(
    conn: &mut DB::Connection,
    sent_back: &[i64],
) -> Result<Vec<Refusal>, sqlx::Error> {
    let mut found = Vec::new();
    for chunk in sent_back.chunks(CHUNK) {
        for row in rows::<DB>(conn, DB::UNIQUE.noted, &[chunk.into()]).await? {
            let until = if row.text(3)? == "start" { "start" } else { "end" };
            found.push((row.int(0)?, row.text(1)?, row.text(2)?, until, number(row.int(4)?)?));
        }
    }
    // of several dead letters with one key, the newest goes back
    found.sort_unstable_by(|a, b| (&a.1, &a.2, b.0).cmp(&(&b.1, &b.2, a.0)));
    let mut refusals = Vec::new();
    found.dedup_by(|it, kept| {
        let same = (&it.1, &it.2) == (&kept.1, &kept.2);
        if same {
            refusals.push(Refusal { id: it.0, key: it.2.clone(), holder: kept.0 });
        }
        same
    });
    if found.is_empty() {
        return Ok(Vec::new());
    }
    let keys = found.iter().enumerate().map(|(place, (_, kind, key, ..))| Key { place, kind, key });
    let keys: Vec<Key<'_>> = keys.collect();
    DB::lock(conn, &keys).await?;
    for holder in DB::holders(conn, &keys).await? {
        let (id, _, key, ..) = &found[holder.place];
        if holder.id != *id {
            refusals.push(Refusal { id: *id, key: key.clone(), holder: holder.id });
        }
    }
    if refusals.is_empty() {
        let given = found.iter().map(|(id, kind, key, until, fence)| Given {
            kind,
            key,
            job_id: *id,
            until,
            fence: *fence,
            at_least_us: None,
        });
        DB::give(conn, &given.collect::<Vec<_>>()).await?;
    }
    // of two dead letters, the newest may be refused as well: then its holder is that of both
    let holders: HashMap<i64, i64> = refusals.iter().map(|refusal| (refusal.id, refusal.holder)).collect();
    for refusal in &mut refusals {
        refusal.holder = holders.get(&refusal.holder).copied().unwrap_or(refusal.holder);
    }
    Ok(refusals)
}
