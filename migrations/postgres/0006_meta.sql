-- What was said of a job beside its arguments: a JSON object of text by name.
ALTER TABLE queue_jobs ADD COLUMN meta varchar(4096);
ALTER TABLE queue_history ADD COLUMN meta varchar(4096);
ALTER TABLE queue_dead ADD COLUMN meta varchar(4096);
