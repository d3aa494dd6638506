// pg-boss.
import { PgBoss } from 'pg-boss'
import { run } from './workloads.mjs'

const QUEUE = 'bench'

async function start (url, options) {
  const boss = new PgBoss({ connectionString: url, ...options })
  boss.on('error', (error) => console.error(error.message))
  await boss.start()
  return boss
}

// Its notifications shorten the pick-up, and cost nothing else only while the queue is idle.
async function open (url, best, workload) {
  const notify = best && ['pickup', 'idle'].includes(workload)
  const boss = await start(url, { max: 16, useListenNotify: notify })
  await boss.createQueue(QUEUE, notify ? { notify } : {})
  return {
    slots: best && !notify ? 2000 : 32,
    enqueue: (job) => boss.send(QUEUE, job),
    enqueueAll: (jobs) => boss.insert(QUEUE, jobs.map((data) => ({ data }))),
    work: async (slots, handle) => {
      const options = best && !notify
        ? { batchSize: slots / 2, localConcurrency: 2, burstWhenBatchFull: true, pollingIntervalSeconds: 0.5 }
        : { localConcurrency: slots }
      await boss.work(QUEUE, options, (jobs) => Promise.all(jobs.map((job) => handle(job.data))))
    }
  }
}

await run({ open, left: `SELECT count(*) AS n FROM pgboss.job WHERE name = '${QUEUE}' AND state < 'completed'` })
