-- Swaps what was told of the limits of a bucket for something else, if it is as it was seen. The row gets another version: who has
-- seen it full without the mark must not forget it.
CREATE OR REPLACE FUNCTION @.mark_1(ns text, of_entity text, of_resource text, seen text, next text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $mark$
BEGIN
  PERFORM pg_advisory_xact_lock_shared(@.lock_of(ns));
  UPDATE @.bucket b SET marks = next, version = @.stamp_after(b.version)
  WHERE b.namespace = ns AND b.entity = of_entity AND b.resource = of_resource AND b.marks IS NOT DISTINCT FROM seen;
  RETURN FOUND;
END
$mark$;
