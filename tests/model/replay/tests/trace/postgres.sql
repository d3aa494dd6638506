CREATE TABLE trace_log (
    seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tx text NOT NULL DEFAULT txid_current()::text,
    at bigint NOT NULL DEFAULT (extract(epoch FROM now()) * 1000000)::bigint,
    what text NOT NULL, id bigint NOT NULL, worker bigint, fence integer, attempt integer,
    was_worker bigint, was_fence integer, was_attempt integer, cancel integer, retries integer, until bigint, note text
);
CREATE FUNCTION trace_row() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO trace_log (what, id, worker, fence, attempt, retries, until)
        VALUES ('added', NEW.id, NEW.worker_id, NEW.fence, NEW.attempt, NEW.max_retries,
                (extract(epoch FROM NEW.run_at) * 1000000)::bigint);
    ELSIF TG_OP = 'UPDATE' THEN
        INSERT INTO trace_log (what, id, worker, fence, attempt, was_worker, was_fence, was_attempt, cancel, retries, until)
        VALUES ('changed', NEW.id, NEW.worker_id, NEW.fence, NEW.attempt, OLD.worker_id, OLD.fence, OLD.attempt,
                (NEW.cancel_requested_at IS NOT NULL)::integer, NEW.max_retries,
                (extract(epoch FROM NEW.run_at) * 1000000)::bigint);
    ELSE
        INSERT INTO trace_log (what, id, was_worker, was_fence, was_attempt)
        VALUES ('removed', OLD.id, OLD.worker_id, OLD.fence, OLD.attempt);
    END IF;
    RETURN NULL;
END $$;
CREATE FUNCTION trace_history() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO trace_log (what, id, worker, fence, attempt, note)
    VALUES ('over', NEW.id, NEW.worker_id, NEW.fence, NEW.attempt, NEW.state);
    RETURN NULL;
END $$;
CREATE FUNCTION trace_dead() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO trace_log (what, id, worker, fence, attempt, note)
    VALUES ('over', NEW.id, NEW.worker_id, NEW.fence, NEW.attempt, 'dead');
    RETURN NULL;
END $$;
CREATE FUNCTION trace_attempt() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO trace_log (what, id, worker, fence, attempt, note)
    VALUES ('attempt', NEW.job_id, NEW.worker_id, NEW.fence, NEW.attempt, NEW.outcome);
    RETURN NULL;
END $$;
CREATE FUNCTION trace_heartbeat() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO trace_log (what, id, until, note)
    VALUES (CASE WHEN TG_OP = 'INSERT' THEN 'joins' ELSE 'beats' END, NEW.worker_id,
            (extract(epoch FROM NEW.expires_at) * 1000000)::bigint,
            (SELECT pid::text FROM queue_workers WHERE id = NEW.worker_id));
    RETURN NULL;
END $$;
CREATE FUNCTION trace_worker() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO trace_log (what, id) VALUES ('stops', NEW.id);
    RETURN NULL;
END $$;
CREATE TRIGGER trace_row AFTER INSERT OR UPDATE OR DELETE ON queue_jobs FOR EACH ROW EXECUTE FUNCTION trace_row();
CREATE TRIGGER trace_history AFTER INSERT ON queue_history FOR EACH ROW EXECUTE FUNCTION trace_history();
CREATE TRIGGER trace_dead AFTER INSERT ON queue_dead FOR EACH ROW EXECUTE FUNCTION trace_dead();
CREATE TRIGGER trace_attempt AFTER INSERT ON queue_attempts FOR EACH ROW EXECUTE FUNCTION trace_attempt();
CREATE TRIGGER trace_heartbeat AFTER INSERT OR UPDATE ON queue_heartbeats FOR EACH ROW EXECUTE FUNCTION trace_heartbeat();
CREATE TRIGGER trace_worker AFTER UPDATE ON queue_workers FOR EACH ROW EXECUTE FUNCTION trace_worker();
CREATE TABLE effects (job bigint NOT NULL, attempt integer NOT NULL);
CREATE FUNCTION trace_effect() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO trace_log (what, id, attempt) VALUES ('effect', NEW.job, NEW.attempt);
    RETURN NULL;
END $$;
CREATE TRIGGER trace_effect AFTER INSERT ON effects FOR EACH ROW EXECUTE FUNCTION trace_effect();
