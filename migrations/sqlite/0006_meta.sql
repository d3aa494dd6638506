-- What was said of a job beside its arguments: a JSON object of text by name.
ALTER TABLE queue_jobs ADD COLUMN meta text CHECK (length(meta) <= 4096);
-- (no CHECK here: it would read all rows)
ALTER TABLE queue_history ADD COLUMN meta text;
ALTER TABLE queue_dead ADD COLUMN meta text;
