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


with contextlib.closing(sqlite3.connect(sys.argv[1], timeout=5)) as db:
    with db:  # one transaction: committed at the end, rolled back by an exception
        # … your own INSERT …
        enqueue(db, "greet", {"name": "Guido"})
        enqueue(db, "greet", {"name": "Radia"}, priority=-10, run_at=int(time.time() * 1000) + 500)
    try:
        with db:
            enqueue(db, "greet", {"name": "Nobody"})
            raise RuntimeError("something else went wrong")
    except RuntimeError as error:
        print(f"rolled back, and the job with it: {error}")
