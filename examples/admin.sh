#!/usr/bin/env bash
# Run it anywhere in the repository (needs sqlite3 or Python):
#
#   examples/admin.sh
#
# Tries every command of the operator's tool on a temporary SQLite file. It enqueues jobs, one of them with arguments
# that do not decode. That job becomes a dead letter, is inspected, sent back and cancelled. A queue is paused and
# resumed. Every answer is checked, and the exit code is 0 if all are as expected.
set -euo pipefail
cd "$(dirname "$0")/.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cargo build --quiet --package examples --example producers --example admin
bin=${CARGO_TARGET_DIR:-target}/debug/examples
db=$work/jobs.sqlite
export DATABASE_URL=sqlite://$db

fail() {
    printf 'FAILED: %s\n' "$*" >&2
    exit 1
}

sql() {
    if command -v sqlite3 >/dev/null; then
        sqlite3 -bail "$db" "$1"
    else
        python3 -c 'import sqlite3, sys; sqlite3.connect(sys.argv[1]).executescript(sys.argv[2])' "$db" "$1"
    fi
}

# Runs a worker until no job is left.
work() {
    timeout 60 "$bin/producers" work >"$work/log" 2>&1 || { cat "$work/log" >&2 && fail 'the worker did not end well'; }
}

# says <pattern> <command…>: the command succeeds, and a line of its output matches.
says() {
    local pattern=$1 answer
    shift
    printf '$ admin %s\n' "$*"
    answer=$("$bin/admin" "$@") || fail "admin $* ended with an error"
    [ -z "$answer" ] || printf '%s\n' "$answer"
    grep -qE -- "$pattern" <<<"$answer" || fail "no line like /$pattern/"
}

# refuses <pattern> <command…>: the command fails, and a line of its output matches.
refuses() {
    local pattern=$1 answer
    shift
    printf '$ admin %s\n' "$*"
    answer=$("$bin/admin" "$@" 2>&1) && fail 'it should have refused'
    printf '%s\n' "$answer"
    grep -qE -- "$pattern" <<<"$answer" || fail "no line like /$pattern/"
}

sql "$("$bin/producers" schema sqlite)" >/dev/null
# ids begin at 1
sql "INSERT INTO queue_jobs (kind, args) VALUES ('greet', '{\"name\": \"Ada\"}'), ('greet', '{\"nme\": \"Grace\"}')"
says '2 +ready +greet, queue default, since ' stats
says '^$' workers
refuses 'no job 3' job 3

echo '--- a worker has run'
work
says '1 +completed +greet' stats
says '1 +dead +greet' stats
says ' gone +.*, runs 0 of .*, all queues' workers
says '^$' running
says '1  greet, queue default, attempt 1: $' job 1
says '^completed, enqueued .*"name": "Ada"' job 1
says '2  greet, queue default, attempt 1: .*missing field `name`' dead
says '^$' dead another
says '  [-0-9]+ [:0-9]+  attempt 1 .*missing field `name`' job 2

echo '--- the dead letter is sent back, and is no better'
refuses '(completed|ended)' retry 1
says '^0 dead letters sent back' send-back another
says '^1 dead letters sent back' send-back greet 5
says '1 +ready +greet.*, 1 retrying' stats
says '2  greet, queue default, attempt 0: .*missing field `name`' retrying greet
says '^$' retrying another
work
says '2  greet' dead
says '^$' retry 2
says '1 +ready +greet' stats
says '^$' cancel 2
says '^cancelled, ' job 2

echo '--- a queue is paused'
says '^$' pause mail
sql "INSERT INTO queue_jobs (kind, queue, args) VALUES ('greet', 'mail', '{\"name\": \"Barbara\"}')"
says '^queue mail is paused since ' stats
says '1 +ready +greet, queue mail' stats
says '^$' resume mail
work
grep -q 'Hello, Barbara!' "$work/log" || fail 'the job of the resumed queue did not run'
says '2 +completed +greet|1 +completed +greet, queue mail' stats
refuses '^usage: ' nonsense
echo 'every command said what it should'
