-- A commit of whoever may change everything.
CREATE OR REPLACE FUNCTION @.commit_1(p json) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $commit$
BEGIN
  RETURN @.write_1(p);
END
$commit$;
