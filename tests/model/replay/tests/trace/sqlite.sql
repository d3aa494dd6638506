CREATE TABLE trace_log (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    tx TEXT NOT NULL DEFAULT '',
    at INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) * 1000),
    what TEXT NOT NULL, id INTEGER NOT NULL, worker INTEGER, fence INTEGER, attempt INTEGER,
    was_worker INTEGER, was_fence INTEGER, was_attempt INTEGER, cancel INTEGER, retries INTEGER, until INTEGER, note TEXT
);
CREATE TRIGGER trace_row_added AFTER INSERT ON queue_jobs BEGIN
    INSERT INTO trace_log (what, id, worker, fence, attempt, retries, until)
    VALUES ('added', NEW.id, NEW.worker_id, NEW.fence, NEW.attempt, NEW.max_retries, NEW.run_at * 1000);
END;
CREATE TRIGGER trace_row_changed AFTER UPDATE ON queue_jobs BEGIN
    INSERT INTO trace_log (what, id, worker, fence, attempt, was_worker, was_fence, was_attempt, cancel, retries, until)
    VALUES ('changed', NEW.id, NEW.worker_id, NEW.fence, NEW.attempt, OLD.worker_id, OLD.fence, OLD.attempt,
            NEW.cancel_requested_at IS NOT NULL, NEW.max_retries, NEW.run_at * 1000);
END;
CREATE TRIGGER trace_row_removed AFTER DELETE ON queue_jobs BEGIN
    INSERT INTO trace_log (what, id, was_worker, was_fence, was_attempt)
    VALUES ('removed', OLD.id, OLD.worker_id, OLD.fence, OLD.attempt);
END;
CREATE TRIGGER trace_history AFTER INSERT ON queue_history BEGIN
    INSERT INTO trace_log (what, id, worker, fence, attempt, note)
    VALUES ('over', NEW.id, NEW.worker_id, NEW.fence, NEW.attempt, NEW.state);
END;
CREATE TRIGGER trace_dead AFTER INSERT ON queue_dead BEGIN
    INSERT INTO trace_log (what, id, worker, fence, attempt, note)
    VALUES ('over', NEW.id, NEW.worker_id, NEW.fence, NEW.attempt, 'dead');
END;
CREATE TRIGGER trace_attempt AFTER INSERT ON queue_attempts BEGIN
    INSERT INTO trace_log (what, id, worker, fence, attempt, note)
    VALUES ('attempt', NEW.job_id, NEW.worker_id, NEW.fence, NEW.attempt, NEW.outcome);
END;
CREATE TRIGGER trace_worker_joins AFTER INSERT ON queue_heartbeats BEGIN
    INSERT INTO trace_log (what, id, until, note)
    SELECT 'joins', NEW.worker_id, NEW.expires_at * 1000, pid FROM queue_workers WHERE id = NEW.worker_id;
END;
CREATE TRIGGER trace_worker_beats AFTER UPDATE ON queue_heartbeats BEGIN
    INSERT INTO trace_log (what, id, until) VALUES ('beats', NEW.worker_id, NEW.expires_at * 1000);
END;
CREATE TRIGGER trace_worker_stops AFTER UPDATE ON queue_workers BEGIN
    INSERT INTO trace_log (what, id) VALUES ('stops', NEW.id);
END;
CREATE TABLE effects (job INTEGER NOT NULL, attempt INTEGER NOT NULL);
CREATE TRIGGER trace_effect AFTER INSERT ON effects BEGIN
    INSERT INTO trace_log (what, id, attempt) VALUES ('effect', NEW.job, NEW.attempt);
END;
