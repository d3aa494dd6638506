-- How often failures of each group occurred in each hour, as the workers count them.
CREATE TABLE IF NOT EXISTS queue_failures (
    -- the group: a hash of the kind, and of the error without the parts that vary
    failure varchar(16) NOT NULL,
    began_at datetime(6) NOT NULL,
    attempts bigint NOT NULL,
    first_at datetime(6) NOT NULL,
    last_at datetime(6) NOT NULL,
    PRIMARY KEY (failure, began_at),
    KEY queue_failures_began (began_at)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

-- Who follows what ends reads the last entries. (MySQL has no `CREATE INDEX IF NOT EXISTS`, and an interrupted
-- migration continues.)
SET @queue_index = IF(
    EXISTS (SELECT 1 FROM information_schema.statistics
            WHERE table_schema = DATABASE() AND table_name = 'queue_attempts' AND index_name = 'queue_attempts_ended'),
    'DO 0', 'CREATE INDEX queue_attempts_ended ON queue_attempts (ended_at)');
PREPARE queue_index FROM @queue_index;
EXECUTE queue_index;
DEALLOCATE PREPARE queue_index;

-- How many jobs at a time a worker runs of each queue: a JSON object. NULL: a worker of an older version.
SET @queue_column = IF(
    EXISTS (SELECT 1 FROM information_schema.columns
            WHERE table_schema = DATABASE() AND table_name = 'queue_workers' AND column_name = 'limits'),
    'DO 0', 'ALTER TABLE queue_workers ADD COLUMN limits mediumtext');
PREPARE queue_column FROM @queue_column;
EXECUTE queue_column;
DEALLOCATE PREPARE queue_column;
