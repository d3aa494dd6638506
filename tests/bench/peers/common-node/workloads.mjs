// The workloads for peers that run in node: what common/src does for those in Rust.
//
// A peer gives { left, open }: `left` is SQL for the number of jobs that are not done; `open(url, best,
// workload)` installs the tables and returns { slots, enqueue(job), enqueueAll(jobs), work(slots, handle) }.
import pg from 'pg'

const SPELL = 3000
const PICKUPS = 100
const PAUSE = 50
const REST = 2000
const WATCH = 10_000
const CHUNK = 5000
const BACKLOG = 5000
const BATCH = 1000
const BODY = 1
const PRODUCERS = 2
const PATIENCE = 300_000
const TRAFFIC =
  'SELECT (xact_commit + xact_rollback)::bigint AS n FROM pg_stat_database WHERE datname = current_database()'

const now = () => performance.now()
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms))
const jobs = (from, to) => Array.from({ length: to - from }, (_, k) => job(from + k))
const job = (n) => ({ n, s: '0123456789abcdef0123456789abcdef' })
const rate = (count, start) => ({ jobs_per_second: count / ((now() - start) / 1000) })
const variable = (name, otherwise) => Number(process.env[name] ?? otherwise)

// What the handlers have seen: `batch` jobs are enqueued by one call, which began at calls[n / batch].
const seen = { body: 0, batch: 1, calls: [], ended: new Set(), ms: [] }

async function handle ({ n }) {
  if (seen.body > 0) await sleep(seen.body)
  if (seen.ended.has(n)) return
  seen.ended.add(n)
  const call = seen.calls[Math.floor(n / seen.batch)]
  if (call !== undefined) seen.ms.push(now() - call)
}

function quantiles () {
  const ms = seen.ms.sort((a, b) => a - b)
  const at = (share) => ms[Math.min(ms.length - 1, Math.floor(ms.length * share))] ?? null
  return { p50_ms: at(0.5), p99_ms: at(0.99) }
}

async function handled (count) {
  const start = now()
  while (seen.ended.size < count) {
    if (now() - start > PATIENCE) throw new Error(`${seen.ended.size} of ${count} jobs were handled`)
    await sleep(1)
  }
}

async function fill (peer, count) {
  for (let first = 0; first < count; first += CHUNK) {
    await peer.enqueueAll(jobs(first, Math.min(count, first + CHUNK)))
  }
}

async function enqueue (peer, tasks) {
  const start = now()
  let total = 0
  const one = async (_, task) => {
    for (let n = 0; now() - start < SPELL; n++, total++) await peer.enqueue(job(task * 10_000_000 + n))
  }
  await Promise.all(Array.from({ length: tasks }, one))
  return rate(total, start)
}

async function bulk (peer) {
  const count = variable('BENCH_JOBS', 50_000)
  const start = now()
  await fill(peer, count)
  return rate(count, start)
}

async function drain (peer, number, left) {
  const count = variable('BENCH_JOBS', 50_000)
  await fill(peer, count)
  await number('ANALYZE')
  const start = now()
  await peer.work(peer.slots, handle)
  await handled(count)
  while (await number(left) > 0) {
    if (now() - start > 2 * PATIENCE) throw new Error('not all jobs are done')
    await sleep(1)
  }
  return rate(count, start)
}

async function pickup (peer) {
  await peer.work(peer.slots, handle)
  await sleep(REST)
  const start = now()
  for (let n = 0; n < PICKUPS; n++) {
    await sleep(Math.max(0, start + n * PAUSE - now()))
    seen.calls.push(now())
    await peer.enqueue(job(n))
  }
  await handled(PICKUPS)
  return quantiles()
}

async function idle (peer, number) {
  await number(TRAFFIC)
  await peer.work(peer.slots, handle)
  await sleep(REST)
  const before = await number(TRAFFIC)
  await sleep(WATCH)
  return { idle_per_second: Math.max(0, await number(TRAFFIC) - before - 1) / (WATCH / 1000) }
}

async function closed (peer, slots, number, left) {
  const length = variable('BENCH_SECONDS', 60) * 1000
  Object.assign(seen, { body: BODY, batch: BATCH })
  await peer.work(slots, handle)
  await sleep(REST)
  const start = now()
  let sent = 0
  const one = async () => {
    while (now() - start < length) {
      const first = seen.calls.length * BATCH
      if (first + BATCH - seen.ended.size > BACKLOG) {
        await sleep(1)
        continue
      }
      seen.calls.push(now())
      await peer.enqueueAll(jobs(first, first + BATCH))
      sent += BATCH
    }
  }
  await Promise.all(Array.from({ length: PRODUCERS }, one))
  const done = sent - await number(left)
  return { ...rate(done, start), ...quantiles() }
}

const WORKLOADS = {
  'enqueue-1': (peer) => enqueue(peer, 1),
  'enqueue-16': (peer) => enqueue(peer, 16),
  bulk,
  drain,
  pickup,
  idle,
  'closed-64': (peer, number, left) => closed(peer, 64, number, left),
  'closed-256': (peer, number, left) => closed(peer, 256, number, left)
}

// `node main.mjs VARIANT WORKLOAD`
export async function run ({ open, left }) {
  const [variant, workload] = process.argv.slice(2)
  if (!['default', 'best'].includes(variant) || !(workload in WORKLOADS)) {
    throw new Error('usage: node main.mjs default|best WORKLOAD')
  }
  const url = process.env.BENCH_URL
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  const number = async (sql) => Number((await client.query(sql)).rows[0]?.n)
  const peer = await open(url, variant === 'best', workload)
  const figures = await WORKLOADS[workload](peer, number, left)
  process.stdout.write(JSON.stringify(figures) + '\n', () => process.exit(0))
}
