-- Deletes buckets that are still of these versions; their open hour goes to the table of usage, and so does what `lefts` has for each:
-- [[hourMs, "rpm", "1000"], ...]. A row that is in use is left for later.
CREATE OR REPLACE FUNCTION @.forget_1(ns text, entities text[], resources text[], versions bigint[], lefts json) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $forget$
DECLARE
  forgotten integer;
BEGIN
  PERFORM pg_advisory_xact_lock_shared(@.lock_of(ns));
  WITH idle AS MATERIALIZED (
    SELECT b.entity, b.resource FROM unnest(entities, resources, versions) AS w (entity, resource, version)
    JOIN @.bucket b ON b.namespace = ns AND b.entity = w.entity AND b.resource = w.resource AND b.version = w.version
    FOR UPDATE OF b SKIP LOCKED
  ), gone AS (
    DELETE FROM @.bucket b USING idle WHERE b.namespace = ns AND b.entity = idle.entity AND b.resource = idle.resource
    RETURNING b.entity, b.resource, b.hour_ms, b.requests, b.names, b.counted
  ), counted AS (
    SELECT g.entity, g.resource, g.hour_ms, c.name AS counter, c.milli::numeric AS milli
    FROM gone g, LATERAL unnest(g.names, g.counted) AS c (name, milli) WHERE c.milli IS NOT NULL
    UNION ALL SELECT g.entity, g.resource, g.hour_ms, '#requests', g.requests FROM gone g WHERE g.requests <> 0
    UNION ALL SELECT g.entity, g.resource, (l.value->>0)::bigint, l.value->>1, (l.value->>2)::numeric
    FROM unnest(entities, resources) WITH ORDINALITY AS w (entity, resource, i)
    JOIN gone g ON g.entity = w.entity AND g.resource = w.resource, LATERAL json_array_elements(lefts->(w.i::int - 1)) AS l
  ), moved AS (
    INSERT INTO @.usage AS u (namespace, hour_ms, entity, resource, counter, milli)
    SELECT ns, c.hour_ms, c.entity, c.resource, c.counter, sum(c.milli) FROM counted c GROUP BY 2, 3, 4, 5
    ORDER BY c.entity COLLATE "C", c.resource COLLATE "C", c.hour_ms, c.counter COLLATE "C"
    ON CONFLICT ON CONSTRAINT usage_pkey DO UPDATE SET milli = u.milli + excluded.milli
    RETURNING 1
  )
  SELECT count(*) INTO forgotten FROM gone WHERE (SELECT count(*) FROM moved) >= 0;
  RETURN forgotten;
END
$forget$;
