#!/usr/bin/env bash
# How to run it, anywhere in the repository:
#
#   examples/producers/run.sh
#
# Jobs are enqueued by sqlite3 and by Python into a temporary SQLite file, and a worker runs them. The same with psql when
# QUEUE_TEST_POSTGRES_URL names a server, and with the mariadb client when QUEUE_TEST_MARIADB_URL does: each in a database
# of its own that is dropped at the end. A client that is not installed is skipped. Ends by itself; its exit code tells.
set -euo pipefail
cd "$(dirname "$0")/../.."
here=examples/producers

work=$(mktemp -d)
name=queue_producers_$$
dropping=()
clean_up() {
    local code=$?
    for drop in "${dropping[@]}"; do "$drop" >/dev/null 2>&1 || true; done
    rm -rf "$work"
    exit $code
}
trap clean_up EXIT

installed() {
    command -v "$1" >/dev/null || { printf 'skipped: %s is not installed\n' "$1" && false; }
}

features=()
[ -z "${QUEUE_TEST_POSTGRES_URL:-}" ] || features+=(--features postgres)
[ -z "${QUEUE_TEST_MARIADB_URL:-}" ] || features+=(--features mysql)
cargo build --quiet --package examples --example producers "${features[@]}"
cargo build --quiet --package queue-cli
producers=${CARGO_TARGET_DIR:-target}/debug/examples/producers
queue=${CARGO_TARGET_DIR:-target}/debug/queue

# Runs the worker, looks for one greeting of each name, and lets the command line say what it sees.
work() {
    local url=$1
    DATABASE_URL=$url timeout 60 "$producers" work | tee "$work/output"
    shift
    for who in "$@"; do
        times=$(grep -c "Hello, $who!" "$work/output" || true)
        [ "$times" = 1 ] || { printf 'FAILED: %s jobs greeted %s\n' "$times" "$who" >&2 && exit 1; }
    done
    DATABASE_URL=$url "$queue" list state:completed >"$work/output"
    [ -s "$work/output" ] || { printf 'FAILED: nothing is completed\n' >&2 && exit 1; }
}

echo '=== SQLite: sqlite3 and Python'
db=$work/jobs.sqlite
expected=()
"$producers" schema sqlite >"$work/schema.sql"
if installed sqlite3; then
    sqlite3 -bail "$db" <"$work/schema.sql" >/dev/null
    sqlite3 -bail "$db" <$here/enqueue.sqlite.sql
    for _ in 1 2; do sqlite3 -bail "$db" <$here/unique.sqlite.sql >/dev/null; done
    expected+=(Ada Grace Barbara Katherine)
fi
if installed python3; then
    if [ ! -e "$db" ]; then
        python3 -c 'import sqlite3, sys; sqlite3.connect(sys.argv[1]).executescript(sys.stdin.read())' "$db" <"$work/schema.sql"
    fi
    python3 $here/enqueue.py "$db"
    expected+=(Guido Radia Margaret)
fi
[ ${#expected[@]} -eq 0 ] || work "sqlite://$db" "${expected[@]}"

if [ -n "${QUEUE_TEST_POSTGRES_URL:-}" ] && installed psql; then
    echo '=== PostgreSQL: psql'
    server=${QUEUE_TEST_POSTGRES_URL%/*}
    run() { psql --no-psqlrc --quiet --set ON_ERROR_STOP=1 "$@"; }
    drop_postgres() { run "$QUEUE_TEST_POSTGRES_URL" -c "DROP DATABASE IF EXISTS $name WITH (FORCE)"; }
    dropping+=(drop_postgres)
    run "$QUEUE_TEST_POSTGRES_URL" -c "CREATE DATABASE $name"
    "$producers" schema postgres | run --single-transaction "$server/$name"
    run "$server/$name" -f $here/enqueue.postgres.sql
    for _ in 1 2; do run "$server/$name" -o /dev/null -f $here/unique.postgres.sql; done
    work "$server/$name" Ada Grace Barbara Katherine
fi

if [ -n "${QUEUE_TEST_MARIADB_URL:-}" ] && installed mariadb; then
    echo '=== MariaDB: mariadb'
    server=${QUEUE_TEST_MARIADB_URL%/*}
    # mysql://user:password@host:port
    [[ $server =~ ^[a-z]+://([^:@]*)(:([^@]*))?@([^:]*)(:([0-9]+))?$ ]]
    export MYSQL_PWD=${BASH_REMATCH[3]}
    client=(mariadb --no-defaults --protocol=tcp "--user=${BASH_REMATCH[1]}" "--host=${BASH_REMATCH[4]}" "--port=${BASH_REMATCH[6]:-3306}")
    drop_mariadb() { "${client[@]}" -e "DROP DATABASE IF EXISTS $name"; }
    dropping+=(drop_mariadb)
    "${client[@]}" -e "CREATE DATABASE $name"
    "$producers" schema mysql | "${client[@]}" "$name"
    "${client[@]}" --table "$name" <$here/enqueue.mysql.sql
    for _ in 1 2; do "${client[@]}" --default-character-set=utf8mb4 "$name" <$here/unique.mysql.sql >/dev/null; done
    work "$server/$name" Ada Grace Barbara Katherine
fi
