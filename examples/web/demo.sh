#!/usr/bin/env bash
# How to run it, anywhere in the repository (needs curl; DATABASE_URL chooses the engine, a temporary SQLite file by default):
#
#   examples/web/demo.sh
#
# The shop's web application and two workers. 40 orders are placed; one worker is killed with -9 in the middle of its jobs.
# All 40 orders must end as confirmed, each exactly once. Ends by itself and leaves nothing running; its exit code tells.
# (A database given by DATABASE_URL keeps the tables; a temporary file is removed.)
set -euo pipefail
cd "$(dirname "$0")/../.."

orders=40
work=$(mktemp -d)
pids=()
clean_up() {
    local code=$?
    if [ $code -ne 0 ]; then
        for log in "$work"/*.log; do printf -- '--- %s\n' "${log##*/}"; tail -n 20 "$log"; done >&2
    fi
    for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
    wait 2>/dev/null || true
    rm -rf "$work"
    exit $code
}
trap clean_up EXIT

fail() {
    printf 'FAILED: %s\n' "$*" >&2
    exit 1
}

# Repeats a command until it succeeds, at most so many seconds.
within() {
    local until=$((SECONDS + $1))
    shift
    until "$@"; do
        [ $SECONDS -lt $until ] || return 1
        sleep 0.1
    done
}

# Reads one number out of a flat JSON object: field <name> <json>
field() {
    sed -E 's/.*"'"$1"'":([0-9]+).*/\1/' <<<"$2"
}

cargo build --quiet --package queue-example-web --bins
bin=${CARGO_TARGET_DIR:-target}/debug
export DATABASE_URL=${DATABASE_URL:-sqlite://$work/shop.sqlite}
export NO_COLOR=1 STAFF_PASSWORD=correct-horse RUST_LOG=${RUST_LOG:-info}
printf 'database: %s\n' "${DATABASE_URL%%:*}"

# The address is free: port 0 lets the system choose one, and the application says which.
ADDRESS=127.0.0.1:0 "$bin/shop" >"$work/shop.log" 2>&1 &
pids+=($!)
within 20 grep -qs '^listening on ' "$work/shop.log" || fail 'the web application did not start'
shop=$(sed -n 's/^listening on //p' "$work/shop.log")

"$bin/shop-worker" >"$work/first.log" 2>&1 &
first=$!
ADDRESS=127.0.0.1:0 "$bin/shop-worker" >"$work/second.log" 2>&1 &
second=$!
pids+=("$first" "$second")
disown "$first" # so that the shell does not comment on its death
within 20 grep -qs 'worker.started' "$work/first.log" || fail 'the first worker did not start'
within 20 grep -qs 'worker.started' "$work/second.log" || fail 'the second worker did not start'

for n in $(seq $orders); do
    curl -fsS -o "$work/answer" -H 'content-type: application/json' -H "x-request-id: request-$n" \
        -d "{\"item\":\"lamp $n\"}" "$shop/orders"
done
grep -q "request-$orders" <<<"$(curl -fsS "$shop/jobs/$(field job "$(cat "$work/answer")")")" \
    || fail 'the last job does not say which request it is from'
grep -q traceparent <<<"$(curl -fsS "$shop/jobs/1")" || fail 'a job carries no trace'
printf 'placed %d orders; the answer to the last: %s\n' $orders "$(cat "$work/answer")"

# In the middle: it has confirmed some, and has others in hand.
in_the_middle() {
    local started confirmed
    started=$(grep -c '^confirming ' "$work/first.log" || true)
    confirmed=$(grep -c '^confirmed ' "$work/first.log" || true)
    [ "$confirmed" -ge 2 ] && [ "$started" -gt "$confirmed" ]
}
within 20 in_the_middle || fail 'the first worker does nothing'
kill -KILL "$first"
killed=$SECONDS
started=$(grep -c '^confirming ' "$work/first.log")
confirmed=$(grep -c '^confirmed ' "$work/first.log")
printf 'killed the first worker: it had confirmed %d orders and was busy with %d more\n' \
    "$confirmed" $((started - confirmed))

all_confirmed() {
    answer=$(curl -fsS "$shop/orders")
    [ "$(field confirmed "$answer")" -eq "$(field placed "$answer")" ]
}
within 40 all_confirmed || fail "not all orders were confirmed: $answer"
again=$(grep -c 'attempt 2' "$work/second.log" || true)
printf 'all %d are confirmed, %d s later; the second worker took over %d jobs of the first\n' \
    $orders $((SECONDS - killed)) "$again"
[ "$again" -ge 1 ] || fail 'no job of the killed worker was run again'
[ "$(field confirmed_twice "$answer")" -eq 0 ] || fail "an order was confirmed twice: $answer"

none_open() {
    jobs=$(curl -fsS "$shop/jobs")
    ! grep -qE '"state":"(ready|running|scheduled|dead)"' <<<"$jobs"
}
within 10 none_open || fail "jobs are left: $jobs"
printf 'orders: %s\njobs:   %s\n' "$answer" "$jobs"
one_worker() {
    [ "$(grep -o '"alive":true' <<<"$(curl -fsS "$shop/workers")" | wc -l)" -eq 1 ]
}
within 20 one_worker || fail 'not one worker is alive'

# The dashboard is behind the shop's login.
seen() { curl -s -o "$work/page" -w '%{http_code}' "$@"; }
[ "$(seen "$shop/admin/jobs")" = 303 ] || fail 'the dashboard is open to strangers'
[ "$(seen -d 'name=ada&password=guessed' "$shop/login")" = 403 ] || fail 'any password is good enough'
[ "$(seen -c "$work/cookies" -d "name=ada&password=$STAFF_PASSWORD" "$shop/login")" = 303 ] || fail 'no login'
[ "$(seen -b "$work/cookies" "$shop/admin/jobs")" = 200 ] || fail 'the staff does not see the dashboard'
grep -q ada "$work/page" || fail 'the dashboard does not say who looks'
echo 'the dashboard is there for the staff, and for nobody else'

watch=$(sed -n 's/^listening on //p' "$work/second.log")
grep -qx ready <<<"$(curl -fsS "$watch/readyz")" || fail 'the worker is not ready'
confirmed=$(curl -fsS "$watch/metrics" | sed -n 's/^queue_run_seconds_count{.*outcome="completed"} //p')
[ "$confirmed" -gt 0 ] || fail 'the worker counts no completed jobs'

# The second worker is asked to end, and does.
kill -TERM "$second"
within 20 grep -qs 'worker.stopped' "$work/second.log" || fail 'the second worker did not stop'
echo 'each order was confirmed exactly once'
