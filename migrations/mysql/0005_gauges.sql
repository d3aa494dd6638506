-- Counts of dead letters read this index alone. (MySQL has no `CREATE INDEX IF NOT EXISTS`, and an interrupted
-- migration continues.)
SET @queue_index = IF(
    EXISTS (SELECT 1 FROM information_schema.statistics
            WHERE table_schema = DATABASE() AND table_name = 'queue_dead' AND index_name = 'queue_dead_lane'),
    'DO 0', 'CREATE INDEX queue_dead_lane ON queue_dead (kind, queue)');
PREPARE queue_index FROM @queue_index;
EXECUTE queue_index;
DEALLOCATE PREPARE queue_index;
