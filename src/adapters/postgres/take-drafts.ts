// Parts of the take that only leases and idempotency keys need; they go by its variables (take-function.ts).

/** Locks the keys of drafts, in one order for everybody, and notes which of them are no longer those of whoever sends this. */
export const DRAFTS_LOCKED = `
  IF drafts IS NOT NULL THEN
    FOR j, k IN
      SELECT d.value, d.i FROM jsonb_array_elements(drafts) WITH ORDINALITY AS d (value, i) ORDER BY d.value->>'key' COLLATE "C"
    LOOP
      q := (j->>'q')::integer; d_at[q] := k;
      CONTINUE WHEN j->>'key' IS NULL;
      SELECT t.body INTO marked FROM @.lease_key t WHERE t.namespace = ns AND t.key = j->>'key' FOR UPDATE;
      -- Under way, and by whoever sends this.
      IF marked->>'mark' IS DISTINCT FROM j->>'mark' OR marked->'answer' IS NOT NULL OR marked->'drafted' IS NOT NULL THEN
        d_lost := d_lost || q;
      END IF;
    END LOOP;
  END IF;
`;

/** Writes each draft down whose request was applied, together with the function's own answer: whoever reads it works out the same lease. */
export const DRAFTS_WRITTEN = `
  FOR k IN 1 .. coalesce(cardinality(d_applied), 0) LOOP
    q := d_applied[k]; j := drafts->(d_at[q] - 1); first := 0; shown := '';
    FOR c IN 1 .. q - 1 LOOP first := first + q_claims[c]; END LOOP;
    FOR c IN 1 .. q_claims[q] LOOP
      i := c_bucket[first + c];
      shown := shown || CASE WHEN c = 1 THEN '' ELSE ',' END || '{"entity":' || to_json(entities[i])::text || ',"resource":' || to_json(resources[i])::text
        || ',"levels":' || (d_said[k]::json->(c - 1))::text || ',"row":{"limits":' || to_json(b_limits[i])::text || ',' || b_said[i] || '}';
    END LOOP;
    shown := '{"leaseId":' || coalesce(to_json(j->>'leaseId')::text, 'null') || ',"draft":' || to_json(j->>'text')::text
      || ',"nowMs":' || q_now[q] || ',"buckets":[' || shown || ']}';
    IF j->>'leaseId' IS NOT NULL THEN
      INSERT INTO @.lease (namespace, id, entity, resource, due_at_ms, version, body)
      VALUES (ns, j->>'leaseId', j->>'entity', j->>'resource', q_now[q] + (j->>'hold')::bigint, nextval('"@schema".stamp'), shown::json);
    END IF;
    IF j->>'key' IS NOT NULL THEN
      UPDATE @.lease_key t SET version = nextval('"@schema".stamp'), forget_at_ms = q_now[q] + 86400000,
        body = json_build_object('mark', t.body->'mark', 'fingerprint', t.body->'fingerprint', 'untilMs', t.body->'untilMs',
          'forgottenAtMs', q_now[q] + 86400000, 'drafted', shown::json)
      WHERE t.namespace = ns AND t.key = j->>'key';
    END IF;
  END LOOP;
`;
