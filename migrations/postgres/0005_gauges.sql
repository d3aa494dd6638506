-- Counts of dead letters read this index alone.
CREATE INDEX queue_dead_lane ON queue_dead (kind, queue);
