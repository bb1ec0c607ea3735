-- Deletes what is older than it is kept, so many rows of a table at once: hours that are over namespace by namespace along the keys. Rows
-- that another process is deleting just now are left to it.
CREATE OR REPLACE FUNCTION @.sweep_1(p json) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $sweep$
DECLARE
  most bigint := (p->>'limitMax')::bigint; made integer; deleted bigint := 0;
BEGIN
  IF p->>'usageUntilMs' IS NOT NULL THEN
    DELETE FROM @.usage WHERE ctid = ANY (ARRAY(
      SELECT o.at FROM @.namespace n, LATERAL (
        SELECT t.ctid AS at FROM @.usage t WHERE t.namespace = n.id AND t.hour_ms <= (p->>'usageUntilMs')::bigint
        LIMIT most FOR UPDATE SKIP LOCKED
      ) o LIMIT most));
    GET DIAGNOSTICS made = ROW_COUNT; deleted := deleted + made;
  END IF;
  IF p->>'usageUntilMs' IS NOT NULL THEN
    DELETE FROM @.refusal WHERE ctid = ANY (ARRAY(
      SELECT o.at FROM @.namespace n, LATERAL (
        SELECT t.ctid AS at FROM @.refusal t WHERE t.namespace = n.id AND t.hour_ms <= (p->>'usageUntilMs')::bigint
        LIMIT most FOR UPDATE SKIP LOCKED
      ) o LIMIT most));
    GET DIAGNOSTICS made = ROW_COUNT; deleted := deleted + made;
  END IF;
  IF p->>'usageUntilMs' IS NOT NULL THEN
    DELETE FROM @.caller_usage WHERE ctid = ANY (ARRAY(
      SELECT o.at FROM @.namespace n, LATERAL (
        SELECT t.ctid AS at FROM @.caller_usage t WHERE t.namespace = n.id AND t.hour_ms <= (p->>'usageUntilMs')::bigint
        LIMIT most FOR UPDATE SKIP LOCKED
      ) o LIMIT most));
    GET DIAGNOSTICS made = ROW_COUNT; deleted := deleted + made;
  END IF;
  IF p->>'logUntilMs' IS NOT NULL THEN
    DELETE FROM @.refusal_log WHERE ctid = ANY (ARRAY(
      SELECT o.at FROM @.namespace n, LATERAL (
        SELECT t.ctid AS at FROM @.refusal_log t WHERE t.namespace = n.id AND t.hour_ms <= (p->>'logUntilMs')::bigint
        LIMIT most FOR UPDATE SKIP LOCKED
      ) o LIMIT most));
    GET DIAGNOSTICS made = ROW_COUNT; deleted := deleted + made;
  END IF;
  DELETE FROM @.audit WHERE ctid = ANY (ARRAY(
    SELECT t.ctid FROM @.audit t WHERE t.at_ms <= (p->>'auditUntilMs')::bigint - 1 LIMIT most FOR UPDATE SKIP LOCKED));
  GET DIAGNOSTICS made = ROW_COUNT; deleted := deleted + made;
  DELETE FROM @.lease WHERE ctid = ANY (ARRAY(
    SELECT t.ctid FROM @.lease t WHERE t.forget_at_ms <= (p->>'nowMs')::bigint LIMIT most FOR UPDATE SKIP LOCKED));
  GET DIAGNOSTICS made = ROW_COUNT; deleted := deleted + made;
  DELETE FROM @.lease_key WHERE ctid = ANY (ARRAY(
    SELECT t.ctid FROM @.lease_key t WHERE t.forget_at_ms <= (p->>'nowMs')::bigint LIMIT most FOR UPDATE SKIP LOCKED));
  GET DIAGNOSTICS made = ROW_COUNT; deleted := deleted + made;
  -- Lanes go by the time of the server, which wrote it. There are a few of each process of the last day: no index is worth what it costs each take.
  DELETE FROM @.lane WHERE ctid = ANY (ARRAY(
    SELECT t.ctid FROM @.lane t WHERE t.at_ms <= floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint - 86400000 LIMIT most FOR UPDATE SKIP LOCKED));
  GET DIAGNOSTICS made = ROW_COUNT; deleted := deleted + made;
  DELETE FROM @.operation WHERE ctid = ANY (ARRAY(
    SELECT o.at FROM @.namespace n, LATERAL (
      SELECT t.ctid AS at FROM @.operation t WHERE t.namespace = n.id AND t.at_ms <= (p->>'operationsUntilMs')::bigint
      LIMIT most FOR UPDATE SKIP LOCKED
    ) o LIMIT most));
  GET DIAGNOSTICS made = ROW_COUNT; deleted := deleted + made;
  RETURN deleted;
END
$sweep$;
