-- Locks jobs that wait, so that they start after this transaction. A job that runs is not locked: its end would wait.
SELECT id, worker_id, fence FROM queue_jobs WHERE id = ANY ($1::bigint[]) AND worker_id = 0 ORDER BY id FOR UPDATE
