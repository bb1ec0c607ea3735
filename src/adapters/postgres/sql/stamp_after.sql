-- The version that follows one: microseconds of the server's clock, and always more than before. Exact in JavaScript until 2255.
CREATE OR REPLACE FUNCTION @.stamp_after(version bigint) RETURNS bigint LANGUAGE sql VOLATILE STRICT SET search_path = pg_catalog, pg_temp
AS $$ SELECT greatest(version + 1, floor(extract(epoch FROM clock_timestamp()) * 1000000)::bigint) $$;
