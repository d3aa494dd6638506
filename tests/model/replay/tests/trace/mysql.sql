CREATE TABLE trace_log (
    seq BIGINT AUTO_INCREMENT PRIMARY KEY,
    tx VARCHAR(20) NOT NULL DEFAULT '',
    at BIGINT NOT NULL,
    what VARCHAR(16) NOT NULL, id BIGINT NOT NULL, worker BIGINT, fence INT, attempt INT,
    was_worker BIGINT, was_fence INT, was_attempt INT, cancel INT, retries INT, until BIGINT, note VARCHAR(32)
);
CREATE TRIGGER trace_row_added AFTER INSERT ON queue_jobs FOR EACH ROW
    INSERT INTO trace_log (at, what, id, worker, fence, attempt, retries, until)
    VALUES (TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), 'added', NEW.id, NEW.worker_id, NEW.fence,
            NEW.attempt, NEW.max_retries, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', NEW.run_at));
CREATE TRIGGER trace_row_changed AFTER UPDATE ON queue_jobs FOR EACH ROW
    INSERT INTO trace_log (at, what, id, worker, fence, attempt, was_worker, was_fence, was_attempt, cancel, retries, until)
    VALUES (TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), 'changed', NEW.id, NEW.worker_id, NEW.fence,
            NEW.attempt, OLD.worker_id, OLD.fence, OLD.attempt, NEW.cancel_requested_at IS NOT NULL, NEW.max_retries,
            TIMESTAMPDIFF(MICROSECOND, '1970-01-01', NEW.run_at));
CREATE TRIGGER trace_row_removed AFTER DELETE ON queue_jobs FOR EACH ROW
    INSERT INTO trace_log (at, what, id, was_worker, was_fence, was_attempt)
    VALUES (TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), 'removed', OLD.id, OLD.worker_id, OLD.fence,
            OLD.attempt);
CREATE TRIGGER trace_history AFTER INSERT ON queue_history FOR EACH ROW
    INSERT INTO trace_log (at, what, id, worker, fence, attempt, note)
    VALUES (TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), 'over', NEW.id, NEW.worker_id, NEW.fence,
            NEW.attempt, NEW.state);
CREATE TRIGGER trace_dead AFTER INSERT ON queue_dead FOR EACH ROW
    INSERT INTO trace_log (at, what, id, worker, fence, attempt, note)
    VALUES (TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), 'over', NEW.id, NEW.worker_id, NEW.fence,
            NEW.attempt, 'dead');
CREATE TRIGGER trace_attempt AFTER INSERT ON queue_attempts FOR EACH ROW
    INSERT INTO trace_log (at, what, id, worker, fence, attempt, note)
    VALUES (TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), 'attempt', NEW.job_id, NEW.worker_id, NEW.fence,
            NEW.attempt, NEW.outcome);
CREATE TRIGGER trace_worker_joins AFTER INSERT ON queue_heartbeats FOR EACH ROW
    INSERT INTO trace_log (at, what, id, until, note)
    VALUES (TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), 'joins', NEW.worker_id,
            TIMESTAMPDIFF(MICROSECOND, '1970-01-01', NEW.expires_at), (SELECT pid FROM queue_workers WHERE id = NEW.worker_id));
CREATE TRIGGER trace_worker_beats AFTER UPDATE ON queue_heartbeats FOR EACH ROW
    INSERT INTO trace_log (at, what, id, until)
    VALUES (TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), 'beats', NEW.worker_id,
            TIMESTAMPDIFF(MICROSECOND, '1970-01-01', NEW.expires_at));
CREATE TRIGGER trace_worker_stops AFTER UPDATE ON queue_workers FOR EACH ROW
    INSERT INTO trace_log (at, what, id) VALUES (TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), 'stops', NEW.id);
CREATE TABLE effects (job bigint NOT NULL, attempt int NOT NULL);
CREATE TRIGGER trace_effect AFTER INSERT ON effects FOR EACH ROW
    INSERT INTO trace_log (at, what, id, attempt)
    VALUES (TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), 'effect', NEW.job, NEW.attempt);
