-- A commit (ports/record-store.ts), in this order: locks, the guard, deletions, puts, generations, the event. A generation is compared
-- under the lock that every take holds shared: no take lands after a change that it has not seen. Bodies come as texts of JSON within
-- the JSON: the server reads no more of them than that they are JSON, for what they hold may be such as it refuses (\u0000).
-- A comment between slashes stands for what is made of the tables of records (schema-records.ts).
CREATE OR REPLACE FUNCTION @.write_1(p json) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $write$
DECLARE
  ns text := p->>'scope'; g json := p->'guard'; e json := p->'event'; r json; k json; v bigint; made integer;
  one text; left_over bigint; deleted bigint := 0; generations jsonb := '{}';
BEGIN
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    RAISE EXCEPTION 'isolation_wrong: the transaction is %, this store needs read committed; set default_transaction_isolation of the role.',
      current_setting('transaction_isolation') USING ERRCODE = '0A000';
  END IF;
  IF current_setting('synchronous_commit') = 'off' THEN PERFORM set_config('synchronous_commit', 'local', true); END IF;
  PERFORM set_config('lock_timeout', p->>'waitMs', true);
  IF g->>'kind' = 'generation' THEN
    FOR one IN SELECT ns COLLATE "C" UNION SELECT json_array_elements_text(p->'bumps') ORDER BY 1 LOOP
      PERFORM pg_advisory_xact_lock(@.lock_of(one));
    END LOOP;
  ELSE
    PERFORM pg_advisory_xact_lock_shared(@.lock_of(ns));
  END IF;
  IF p->>'sent' = 'again' AND json_typeof(e) = 'object' THEN
    IF EXISTS (SELECT FROM @.audit a WHERE a.namespace = e->>'auditIn' AND a.event_id = e->>'eventId') THEN
      SELECT coalesce(jsonb_object_agg(n.namespace, n.value), '{}') INTO generations FROM @.generation n
      WHERE n.namespace IN (SELECT json_array_elements_text(p->'bumps'));
      RETURN jsonb_build_object('kind', 'done', 'generations', generations, 'deleted', 0);
    END IF;
  END IF;
  IF g->>'kind' = 'generation' THEN
    IF coalesce((SELECT n.value FROM @.generation n WHERE n.namespace = ns), 0) <> (g->>'generation')::bigint THEN
      RETURN '{"kind":"moved"}';
    END IF;
  ELSE
    FOR r IN SELECT value FROM json_array_elements(g->'versions') LOOP
    k := r->'key'; v := NULL;
    /* lock the record of k */
    IF coalesce(v, 0) <> (r->>'version')::bigint THEN RETURN '{"kind":"moved"}'; END IF;
    END LOOP;
  END IF;
  FOR r IN SELECT value FROM json_array_elements(p->'deletes') LOOP
    k := r->'key';
    IF r->>'kind' = 'everythingOf' THEN
      one := r->>'entityId';
      DELETE FROM @.entity t WHERE t.namespace = ns AND t.id = one;
      DELETE FROM @.config t WHERE t.namespace = ns AND t.of = 'entity' AND t.owner = one;
      DELETE FROM @.limit_history t WHERE t.namespace = ns AND t.of IN ('entity', 'stints') AND t.owner = one;
      DELETE FROM @.bucket t WHERE t.namespace = ns AND t.entity = one;
      DELETE FROM @.operation t WHERE t.namespace = ns AND t.entity = one;
      DELETE FROM @.usage t WHERE t.namespace = ns AND t.entity = one;
      DELETE FROM @.refusal t WHERE t.namespace = ns AND t.entity = one;
      DELETE FROM @.refusal_log t WHERE t.namespace = ns AND t.entity = one;
      DELETE FROM @.caller_usage t WHERE t.namespace = ns AND t.entity = one;
      CONTINUE;
    ELSIF r->>'kind' = 'someIn' THEN
      one := r->>'namespaceId';
      left_over := (r->>'limitMax')::bigint;
      DELETE FROM @.change t WHERE t.namespace = one;
      /* delete some of each table */
      CONTINUE;
    END IF;
    /* delete the record of k */
  END LOOP;
  FOR r IN SELECT value FROM json_array_elements(p->'puts') LOOP
    k := r->'key';
    /* put the record of k */
    GET DIAGNOSTICS made = ROW_COUNT;
    -- Another has made it since its absence was seen: to be read and decided again.
    IF made = 0 THEN RAISE EXCEPTION 'the record has another version by now' USING ERRCODE = '40001'; END IF;
  END LOOP;
  FOR one IN SELECT json_array_elements_text(p->'bumps') LOOP
    INSERT INTO @.generation AS n (namespace, value) VALUES (one, 1)
    ON CONFLICT (namespace) DO UPDATE SET value = n.value + 1 RETURNING n.value INTO v;
    generations := generations || jsonb_build_object(one, v);
    -- Packages that do not say what they touch leave none: everything.
    IF json_typeof(p->'touched') = 'array' THEN
      INSERT INTO @.change (namespace, generation, touched) VALUES (one, v, ARRAY(SELECT json_array_elements_text(p->'touched')));
    END IF;
    DELETE FROM @.change WHERE namespace = one AND generation <= v - /* changes kept */;
  END LOOP;
  IF json_typeof(e) = 'object' THEN
    INSERT INTO @.audit (namespace, entity, at_ms, event_id, body)
    VALUES (e->>'auditIn', e->>'entityId', (e->>'atMs')::bigint, e->>'eventId', (e->>'body')::json);
  END IF;
  RETURN jsonb_build_object('kind', 'done', 'generations', generations, 'deleted', deleted);
END
$write$;
