#!/usr/bin/env python3
"""Enqueues from Python, with nothing but the standard library:

    python3 examples/producers/enqueue.py jobs.sqlite
"""

import contextlib
import json
import sqlite3
import sys
import time


def enqueue(db, kind, args, **options):
    """Writes one job; options are columns: queue, priority, run_at (milliseconds since 1970), max_retries."""
    row = {"kind": kind, "args": json.dumps(args), **options}
    columns, places = ", ".join(row), ", ".join("?" * len(row))
    return db.execute(f"INSERT INTO queue_jobs ({columns}) VALUES ({places})", list(row.values())).lastrowid


def enqueue_unique(db, kind, key, args):
    """Writes one job, unless one with its key waits or runs. Returns the job that stands for it. See docs/sql.md."""
    this = "kind = ? AND unique_key = ?"
    free = """(free_at IS NULL OR free_at <= unixepoch() * 1000) AND NOT EXISTS (SELECT 1 FROM queue_jobs AS j
        WHERE j.id = k.job_id AND j.kind = k.kind AND (k.held_until = 'end' OR j.fence = k.fence))"""
    db.execute("INSERT INTO queue_unique_keys (kind, unique_key, job_id) VALUES (?, ?, 0) ON CONFLICT DO NOTHING", [kind, key])
    new = db.execute(
        f"INSERT INTO queue_jobs (kind, args, features) SELECT kind, ?, 1 FROM queue_unique_keys AS k WHERE {this} AND {free}",
        [json.dumps(args), kind, key],
    )
    if new.rowcount == 1:
        set_holder = "SET job_id = ?, held_until = 'end', fence = 0, free_at = NULL"
        db.execute(f"UPDATE queue_unique_keys {set_holder} WHERE {this}", [new.lastrowid, kind, key])
        db.execute("INSERT INTO queue_unique_jobs (job_id, kind, unique_key) VALUES (?, ?, ?)", [new.lastrowid, kind, key])
    return db.execute(f"SELECT job_id FROM queue_unique_keys WHERE {this}", [kind, key]).fetchone()[0]


with contextlib.closing(sqlite3.connect(sys.argv[1], timeout=5)) as db:
    with db:  # one transaction: committed at the end, rolled back by an exception
        # … your own INSERT …
        enqueue(db, "greet", {"name": "Guido"})
        enqueue(db, "greet", {"name": "Radia"}, priority=-10, run_at=int(time.time() * 1000) + 500)
        first = enqueue_unique(db, "greet", "margaret", {"name": "Margaret"})
        assert enqueue_unique(db, "greet", "margaret", {"name": "Margaret"}) == first
    try:
        with db:
            enqueue(db, "greet", {"name": "Nobody"})
            raise RuntimeError("something else went wrong")
    except RuntimeError as error:
        print(f"rolled back, and the job with it: {error}")
