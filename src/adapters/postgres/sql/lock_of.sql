-- The number of the lock of a namespace. With names in full and no settings of its own, it becomes part of the statement that calls it.
CREATE OR REPLACE FUNCTION @.lock_of(namespace text) RETURNS bigint LANGUAGE sql IMMUTABLE STRICT
AS $$ SELECT pg_catalog.hashtextextended('zae-limiter/@schema/' OPERATOR(pg_catalog.||) namespace, 0) $$;
