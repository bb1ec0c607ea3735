-- Reads records by key, with the generation and the changes after one that was known, all as of one instant: it is STABLE. As a statement
-- by itself, planning it would cost more than running it. `asked`: a kind, then an array for each part of its keys, as a text; then the next
-- kind. It has the rights of its caller.
CREATE OR REPLACE FUNCTION @.read_2(ns text, since bigint, asked text[]) RETURNS text LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $read$
DECLARE
  found text := ''; part text; generation bigint; changes text; at integer := 1;
BEGIN
  SELECT g.value INTO generation FROM @.generation g WHERE g.namespace = ns;
  SELECT string_agg(json_build_array(c.generation, c.touched)::text, ',' ORDER BY c.generation) INTO changes
  FROM @.change c WHERE c.namespace = ns AND c.generation > since;
  WHILE at <= cardinality(asked) LOOP
    CASE asked[at]
    /* find records of each kind */
    END CASE;
    found := found || coalesce(part, '');
  END LOOP;
  RETURN '{"generation":' || coalesce(generation, 0) || ',"changes":[' || coalesce(changes, '') || '],"found":[' || substr(found, 2) || ']}';
END
$read$;
