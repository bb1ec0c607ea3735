-- For other functions: an event of a change that they make. Its body is a text of JSON, as in a commit.
CREATE OR REPLACE FUNCTION @.audit_event_1(ns text, event json) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $event$
BEGIN
  INSERT INTO @.audit (namespace, entity, at_ms, event_id, body)
  VALUES (ns, event->>'entityId', (event->>'atMs')::bigint, event->>'eventId', (event->>'body')::json);
END
$event$;
