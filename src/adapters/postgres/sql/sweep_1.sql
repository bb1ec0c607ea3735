-- Deletes what is older than it is kept, at most so many rows of a table at once. Rows that another process is deleting just now are left to it.
-- Lanes go by the time of the server, which wrote it. There are a few of each process of the last day: no index is worth what it costs each take.
CREATE OR REPLACE FUNCTION @.sweep_1(p json) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $sweep$
DECLARE
  most bigint := (p->>'limitMax')::bigint; made integer; deleted bigint := 0;
BEGIN
  /* delete hours of each table */
  /* delete what is older in each table */
  DELETE FROM @.operation WHERE ctid = ANY (ARRAY(
    SELECT o.at FROM @.namespace n, LATERAL (
      SELECT t.ctid AS at FROM @.operation t WHERE t.namespace = n.id AND t.at_ms <= (p->>'operationsUntilMs')::bigint
      LIMIT most FOR UPDATE SKIP LOCKED
    ) o LIMIT most));
  GET DIAGNOSTICS made = ROW_COUNT; deleted := deleted + made;
  RETURN deleted;
END
$sweep$;
