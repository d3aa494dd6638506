-- What was said of a job beside its arguments: a JSON object of text by name. (MySQL has no `ADD COLUMN IF NOT EXISTS`,
-- and an interrupted migration continues.)
SET @queue_column = IF(
    EXISTS (SELECT 1 FROM information_schema.columns
            WHERE table_schema = DATABASE() AND table_name = 'queue_jobs' AND column_name = 'meta'),
    'DO 0', 'ALTER TABLE queue_jobs ADD COLUMN meta varchar(4096)');
PREPARE queue_column FROM @queue_column;
EXECUTE queue_column;
DEALLOCATE PREPARE queue_column;
SET @queue_column = IF(
    EXISTS (SELECT 1 FROM information_schema.columns
            WHERE table_schema = DATABASE() AND table_name = 'queue_history' AND column_name = 'meta'),
    'DO 0', 'ALTER TABLE queue_history ADD COLUMN meta varchar(4096)');
PREPARE queue_column FROM @queue_column;
EXECUTE queue_column;
DEALLOCATE PREPARE queue_column;
SET @queue_column = IF(
    EXISTS (SELECT 1 FROM information_schema.columns
            WHERE table_schema = DATABASE() AND table_name = 'queue_dead' AND column_name = 'meta'),
    'DO 0', 'ALTER TABLE queue_dead ADD COLUMN meta varchar(4096)');
PREPARE queue_column FROM @queue_column;
EXECUTE queue_column;
DEALLOCATE PREPARE queue_column;
