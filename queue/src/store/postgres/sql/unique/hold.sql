-- Locks jobs, so that they start after this transaction.
SELECT id, worker_id, fence FROM queue_jobs WHERE id = ANY ($1::bigint[]) ORDER BY id FOR UPDATE
