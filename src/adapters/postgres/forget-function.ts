import { FUNCTION_HEAD } from "./schema-part.ts";

export const FORGET_NAME = "forget_1(text, text[], text[], bigint[])";

/** Deletes buckets that are still of these versions; their open hour goes to the table of usage. A row that is in use is left for later. */
export const FORGET_FUNCTION = `
CREATE OR REPLACE FUNCTION @.forget_1(ns text, entities text[], resources text[], versions bigint[]) RETURNS integer
${FUNCTION_HEAD} AS $forget$
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
  ), moved AS (
    INSERT INTO @.usage AS u (namespace, hour_ms, entity, resource, counter, milli)
    SELECT ns, c.hour_ms, c.entity, c.resource, c.counter, c.milli FROM counted c
    ORDER BY c.entity COLLATE "C", c.resource COLLATE "C", c.hour_ms, c.counter COLLATE "C"
    ON CONFLICT ON CONSTRAINT usage_pkey DO UPDATE SET milli = u.milli + excluded.milli
    RETURNING 1
  )
  SELECT count(*) INTO forgotten FROM gone WHERE (SELECT count(*) FROM moved) >= 0;
  RETURN forgotten;
END
$forget$;
`;
