-- A purchase or a reset: a row that was worked out by the client replaces the one of exactly its version (0: there is none), once for
-- its key, together with the audit event.
CREATE OR REPLACE FUNCTION @.operate_1(
  ns text, of_entity text, of_resource text, by_key text, now_ms bigint, forgotten_ms bigint, gained text, event json, j jsonb
) RETURNS text LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $operate$
DECLARE
  known text; found bigint; e jsonb; made integer;
BEGIN
  IF current_setting('synchronous_commit') = 'off' THEN
    PERFORM set_config('synchronous_commit', 'local', true);
  END IF;
  PERFORM pg_advisory_xact_lock_shared(@.lock_of(ns));
  -- Two of one key exclude each other, also where there is no row yet.
  PERFORM pg_advisory_xact_lock(hashtextextended(ns || chr(10) || of_entity || chr(10) || of_resource || chr(10) || by_key, 2));
  IF NOT EXISTS (SELECT FROM @.namespace n WHERE n.id = ns AND n.status = 'active') THEN RETURN '{"kind":"namespaceGone"}'; END IF;
  DELETE FROM @.operation o
  WHERE o.namespace = ns AND o.entity = of_entity AND o.resource = of_resource AND o.key = by_key AND o.at_ms <= forgotten_ms;
  SELECT o.amounts INTO known FROM @.operation o
  WHERE o.namespace = ns AND o.entity = of_entity AND o.resource = of_resource AND o.key = by_key;
  IF known IS NOT NULL THEN RETURN json_build_object('kind', 'known', 'amountsText', known); END IF;
  SELECT b.version INTO found FROM @.bucket b
  WHERE b.namespace = ns AND b.entity = of_entity AND b.resource = of_resource FOR UPDATE;
  IF coalesce(found, 0) <> (j->>'version')::bigint THEN RETURN '{"kind":"moved"}'; END IF;
  IF found IS NULL THEN
    INSERT INTO @.bucket (namespace, entity, resource, version, signature, limits, names, epoch_ms, renew_at_ms, valid_until_ms,
      written_ms, as_of_ms, generation, met_ms, hour_ms, requests, capacity, amount, period, soft, reset_after, tokens, remainder,
      counted, window_start, top_up, resets)
    VALUES (ns, of_entity, of_resource, @.stamp_after(0), j->>'signature', j->>'limits', ARRAY(SELECT jsonb_array_elements_text(j->'names')),
      (j->>'epoch')::bigint, (j->>'renew')::bigint, (j->>'valid')::bigint, (j->>'written')::bigint, (j->>'asOf')::bigint,
      (j->>'generation')::bigint, (j->>'met')::bigint, (j->>'hour')::bigint, (j->>'requests')::bigint, (j->>'capacity')::bigint[],
      (j->>'amount')::bigint[], (j->>'period')::bigint[], (j->>'soft')::boolean[], (j->>'resetAfter')::bigint[],
      (j->>'tokens')::bigint[], (j->>'remainder')::bigint[], (j->>'counted')::bigint[], (j->>'window')::bigint[],
      (j->>'topUp')::bigint[], (j->>'resets')::bigint[])
    ON CONFLICT DO NOTHING;
    GET DIAGNOSTICS made = ROW_COUNT;
    IF made = 0 THEN RETURN '{"kind":"moved"}'; END IF;
  ELSE
    UPDATE @.bucket b SET version = @.stamp_after(b.version), signature = j->>'signature', limits = j->>'limits',
      names = ARRAY(SELECT jsonb_array_elements_text(j->'names')), epoch_ms = (j->>'epoch')::bigint,
      renew_at_ms = (j->>'renew')::bigint, valid_until_ms = (j->>'valid')::bigint, written_ms = (j->>'written')::bigint,
      as_of_ms = (j->>'asOf')::bigint, generation = (j->>'generation')::bigint, met_ms = (j->>'met')::bigint,
      hour_ms = (j->>'hour')::bigint, requests = (j->>'requests')::bigint, capacity = (j->>'capacity')::bigint[],
      amount = (j->>'amount')::bigint[], period = (j->>'period')::bigint[], soft = (j->>'soft')::boolean[],
      reset_after = (j->>'resetAfter')::bigint[], tokens = (j->>'tokens')::bigint[], remainder = (j->>'remainder')::bigint[],
      counted = (j->>'counted')::bigint[], window_start = (j->>'window')::bigint[], top_up = (j->>'topUp')::bigint[],
      resets = (j->>'resets')::bigint[]
    WHERE b.namespace = ns AND b.entity = of_entity AND b.resource = of_resource;
  END IF;
  FOR e IN SELECT value FROM jsonb_array_elements(j->'left') LOOP
    INSERT INTO @.usage AS u (namespace, hour_ms, entity, resource, counter, milli)
    VALUES (ns, (e->>0)::bigint, of_entity, of_resource, e->>1, (e->>2)::numeric)
    ON CONFLICT ON CONSTRAINT usage_pkey DO UPDATE SET milli = u.milli + excluded.milli;
  END LOOP;
  INSERT INTO @.operation (namespace, entity, resource, key, at_ms, amounts)
  VALUES (ns, of_entity, of_resource, by_key, now_ms, gained);
  PERFORM @.audit_event_1(ns, event);
  RETURN '{"kind":"done"}';
END
$operate$;
