-- Commits what a process that only takes may write: leases, keys, its counts of refusals and of callers; no configuration.
CREATE OR REPLACE FUNCTION @.lease_1(p json) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $lease$
BEGIN
  IF p->'guard'->>'kind' <> 'versions' OR json_typeof(p->'event') = 'object' OR json_array_length(p->'bumps') > 0 OR EXISTS (
    SELECT FROM (SELECT value FROM json_array_elements(p->'puts') UNION ALL SELECT value FROM json_array_elements(p->'deletes')) w
    WHERE w.value->>'kind' NOT IN (/* kinds of takers */)
  ) THEN
    RAISE EXCEPTION 'lease_1 writes leases, keys and counts only' USING ERRCODE = '42501';
  END IF;
  RETURN @.write_1(p);
END
$lease$;
