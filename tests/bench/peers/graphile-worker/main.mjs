// graphile-worker, the original in node.
import { Logger, makeWorkerUtils, run as startWorker } from 'graphile-worker'
import pg from 'pg'
import { run } from './workloads.mjs'

const logger = new Logger(() => () => {})
// The "local queue" of its performance guide; completions are batched without waiting for more of them.
const BEST = {
  maxPoolSize: 33,
  localQueue: { size: 500, refetchDelay: { durationMs: 10 } },
  completeJobBatchDelay: 0,
  failJobBatchDelay: 0
}

async function open (url, best) {
  const pgPool = new pg.Pool({ connectionString: url, max: 16 })
  pgPool.on('error', console.error).on('connect', (client) => client.on('error', console.error))
  const utils = await makeWorkerUtils({ pgPool, logger })
  await utils.migrate()
  return {
    slots: 32,
    enqueue: (job) => utils.addJob('bench', job),
    enqueueAll: (jobs) => utils.addJobs(jobs.map((payload) => ({ identifier: 'bench', payload }))),
    work: (slots, handle) => startWorker({
      taskList: { bench: handle },
      preset: { worker: { connectionString: url, logger, concurrentJobs: slots, ...(best ? BEST : {}) } },
      noHandleSignals: true
    })
  }
}

await run({ open, left: 'SELECT count(*) AS n FROM graphile_worker._private_jobs' })
