-- The tick that a job stands for. $1: job
SELECT s.name, t.tick_at * 1000, t.outcome FROM queue_ticks AS t JOIN queue_schedules AS s ON s.id = t.schedule_id
WHERE t.job_id = $1
