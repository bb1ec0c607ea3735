import { FUNCTION_HEAD } from "./schema-part.ts";

/**
 * The take: a batch of requests of one namespace, one after the other, in the transaction of its own statement. Only the straight
 * line of `bucket/take.ts` is worked out here; a row that is not straight for a request is answered `again`, and the client brings it.
 *
 * Order of locks, the same for everybody: the lane, the namespace (shared), idempotency keys, rows of buckets by key, then inserts by
 * key, then usage by key. Nobody who waits in one of these phases holds what an earlier phase waits for.
 *
 * Buckets and claims come as parallel arrays, their limits one behind the other (`f_` are the limits of rows, `a_` the amounts of
 * claims). The names of the arguments say which.
 */
export const TAKE_FUNCTION = `
CREATE OR REPLACE FUNCTION @.take_1(
  ns text, lane_id text, lane_seq bigint, durable text, lock_ms integer, ahead_max_ms bigint, counts boolean,
  entities text[], resources text[], brought jsonb,
  q_kind smallint[], q_now bigint[], q_gen bigint[], q_noted boolean[], q_claims integer[],
  c_bucket integer[], c_signature text[], c_changed bigint[], c_bypass boolean[], c_judged bigint[], c_amounts integer[],
  a_milli bigint[], a_resets bigint[], a_window bigint[], extras jsonb, drafts jsonb
) RETURNS text ${FUNCTION_HEAD} AS $take$
DECLARE
  safe_max CONSTANT bigint := 9007199254740991;
  debt_max CONSTANT bigint := 9000000000000000;
  n CONSTANT integer := cardinality(entities);
  no_time CONSTANT bigint[] := array_fill(NULL::bigint, ARRAY[n]);
  gen bigint; server_ms bigint; stamp bigint; seen record; r record; j jsonb; e jsonb;
  b_version bigint[] := no_time; b_signature text[] := array_fill(NULL::text, ARRAY[n]);
  b_limits text[] := array_fill(NULL::text, ARRAY[n]);
  b_epoch bigint[] := no_time; b_renew bigint[] := no_time; b_valid bigint[] := no_time; b_written bigint[] := no_time;
  b_as_of bigint[] := no_time; b_gen bigint[] := no_time; b_met bigint[] := no_time; b_hour bigint[] := no_time;
  b_requests bigint[] := no_time; b_offset integer[] := array_fill(0, ARRAY[n]); b_length integer[] := array_fill(0, ARRAY[n]);
  b_sessions boolean[] := array_fill(false, ARRAY[n]);
  -- 0: as it is stored. 1: levels have changed. 2: everything has changed. 3: it is new, and somebody has taken from it.
  b_changed smallint[] := array_fill(0::smallint, ARRAY[n]);
  b_new boolean[] := array_fill(false, ARRAY[n]); b_shown boolean[] := array_fill(false, ARRAY[n]);
  f_names text[] := '{}'; f_capacity bigint[] := '{}'; f_amount bigint[] := '{}'; f_period bigint[] := '{}';
  f_soft boolean[] := '{}'; f_reset_after bigint[] := '{}'; f_tokens bigint[] := '{}'; f_remainder bigint[] := '{}';
  f_counted bigint[] := '{}'; f_window bigint[] := '{}'; f_top_up bigint[] := '{}'; f_resets bigint[] := '{}';
  -- What this request has changed, to take it back.
  was_at integer[]; was_tokens bigint[]; was_counted bigint[]; was_window bigint[];
  was_bucket integer[]; was_valid bigint[]; was_renew bigint[]; was_written bigint[]; was_requests bigint[]; was_changed smallint[];
  u_hour bigint[] := '{}'; u_bucket integer[] := '{}'; u_counter text[] := '{}'; u_milli numeric[] := '{}'; u_kept integer; kept integer;
  first integer; last integer := 0; a0 integer; i integer; o integer; p integer; k integer; q integer; c integer;
  now_ms bigint; kind smallint; elapsed bigint; refilled bigint; asked bigint; remaining bigint; counted bigint;
  is_again boolean; is_gone boolean; is_deep boolean; is_any_short boolean; is_short boolean[]; is_written boolean := false;
  said text; told text := ''; shown text; first_amount integer[] := array_fill(0, ARRAY[cardinality(c_bucket)]);
  q_refused text[] := array_fill(NULL::text, ARRAY[cardinality(q_kind)]);
  ordered integer[]; made integer; rows text[] := '{}';
  -- By request: the place of its draft among \`drafts\`. Those whose key is no longer theirs, and what those that were applied left.
  d_at integer[] := array_fill(NULL::integer, ARRAY[cardinality(q_kind)]); d_lost integer[] := '{}';
  d_applied integer[] := '{}'; d_first integer[] := '{}'; d_said text[] := '{}'; c_said text[]; marked json;
BEGIN
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    RAISE EXCEPTION 'takes need the isolation level read committed, this transaction has %', current_setting('transaction_isolation')
      USING ERRCODE = 'ZA001';
  END IF;
  -- A lease that was answered must be there.
  IF durable = 'normal' AND drafts IS NULL THEN
    PERFORM set_config('synchronous_commit', 'off', true);
  ELSIF current_setting('synchronous_commit') = 'off' THEN
    PERFORM set_config('synchronous_commit', 'local', true);
  END IF;
  PERFORM set_config('lock_timeout', lock_ms::text, true);

  -- A copy of this batch that is still under way ends first.
  PERFORM pg_advisory_xact_lock(hashtextextended(lane_id, 1));
  SELECT lane.seq, lane.answer INTO seen FROM @.lane WHERE lane.lane = lane_id;
  IF seen.seq = lane_seq THEN RETURN '{"kind":"repeated",' || seen.answer; END IF;
  IF seen.seq > lane_seq THEN RETURN '{"kind":"superseded"}'; END IF;
  PERFORM pg_advisory_xact_lock_shared(@.lock_of(ns));
  SELECT value INTO gen FROM @.generation WHERE namespace = ns;
  gen := coalesce(gen, 0);
  -- A row that is made anew is of a later version than the one that was deleted: whoever remembers that one replaces nothing.
  stamp := @.stamp_after(0);
  server_ms := stamp / 1000;

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

  FOR r IN
    SELECT wanted.i AS at, b.* FROM unnest(entities, resources) WITH ORDINALITY AS wanted (entity, resource, i)
    JOIN @.bucket b ON b.namespace = ns AND b.entity = wanted.entity AND b.resource = wanted.resource
    ORDER BY b.entity, b.resource FOR UPDATE OF b
  LOOP
    i := r.at;
    b_version[i] := r.version; b_signature[i] := r.signature; b_limits[i] := r.limits; b_epoch[i] := r.epoch_ms;
    b_renew[i] := r.renew_at_ms; b_valid[i] := r.valid_until_ms; b_written[i] := r.written_ms; b_as_of[i] := r.as_of_ms;
    b_gen[i] := r.generation; b_met[i] := r.met_ms; b_hour[i] := r.hour_ms; b_requests[i] := r.requests;
    b_offset[i] := cardinality(f_tokens); b_length[i] := cardinality(r.tokens);
    f_names := f_names || r.names; f_capacity := f_capacity || r.capacity; f_amount := f_amount || r.amount;
    f_period := f_period || r.period; f_soft := f_soft || r.soft; f_reset_after := f_reset_after || r.reset_after;
    f_tokens := f_tokens || r.tokens; f_remainder := f_remainder || r.remainder; f_counted := f_counted || r.counted;
    f_window := f_window || r.window_start; f_top_up := f_top_up || r.top_up; f_resets := f_resets || r.resets;
    b_sessions[i] := 0 < ANY (r.reset_after);
  END LOOP;

  FOR q IN 1 .. cardinality(q_kind) LOOP
    q_refused[q] := CASE
      WHEN ahead_max_ms IS NOT NULL AND q_now[q] > server_ms + ahead_max_ms THEN '{"kind":"clock"}'
      WHEN q_gen[q] <> gen THEN '{"kind":"stale"}'
      WHEN q = ANY (d_lost) THEN '{"kind":"keyLost"}'
    END;
  END LOOP;

  -- What is brought replaces a row of exactly that version, unless the request that it was worked out for is refused: a reading that is
  -- ahead must not get into a row, nor limits that are no longer. Where there is none, it is worked with, and stored once it is taken from.
  FOR j IN SELECT value FROM jsonb_array_elements(brought) LOOP
    i := (j->>'i')::integer;
    CONTINUE WHEN coalesce(b_version[i], 0) <> (j->>'version')::bigint OR q_refused[(j->>'request')::integer] IS NOT NULL;
    b_new[i] := b_version[i] IS NULL;
    IF NOT b_new[i] THEN b_changed[i] := 2; END IF;
    b_version[i] := (j->>'version')::bigint;
    b_signature[i] := j->>'signature'; b_limits[i] := j->>'limits'; b_epoch[i] := (j->>'epoch')::bigint;
    b_renew[i] := (j->>'renew')::bigint; b_valid[i] := (j->>'valid')::bigint; b_written[i] := (j->>'written')::bigint;
    b_as_of[i] := (j->>'asOf')::bigint; b_gen[i] := (j->>'generation')::bigint; b_met[i] := (j->>'met')::bigint;
    b_hour[i] := (j->>'hour')::bigint; b_requests[i] := (j->>'requests')::bigint;
    b_offset[i] := cardinality(f_tokens); b_length[i] := jsonb_array_length(j->'names');
    f_names := f_names || ARRAY(SELECT jsonb_array_elements_text(j->'names'));
    f_capacity := f_capacity || (j->>'capacity')::bigint[]; f_amount := f_amount || (j->>'amount')::bigint[];
    f_period := f_period || (j->>'period')::bigint[]; f_soft := f_soft || (j->>'soft')::boolean[];
    f_reset_after := f_reset_after || (j->>'resetAfter')::bigint[]; f_tokens := f_tokens || (j->>'tokens')::bigint[];
    f_remainder := f_remainder || (j->>'remainder')::bigint[]; f_counted := f_counted || (j->>'counted')::bigint[];
    f_window := f_window || (j->>'window')::bigint[]; f_top_up := f_top_up || (j->>'topUp')::bigint[];
    f_resets := f_resets || (j->>'resets')::bigint[];
    b_sessions[i] := 0 < ANY ((j->>'resetAfter')::bigint[]);
    FOR e IN SELECT value FROM jsonb_array_elements(j->'left') LOOP
      u_hour := u_hour || (e->>0)::bigint; u_bucket := u_bucket || i; u_counter := u_counter || (e->>1); u_milli := u_milli || (e->>2)::numeric;
    END LOOP;
  END LOOP;

  a0 := 0;
  FOR c IN 1 .. cardinality(c_bucket) LOOP
    first_amount[c] := a0;
    a0 := a0 + c_amounts[c];
  END LOOP;

  FOR q IN 1 .. cardinality(q_kind) LOOP
    kind := q_kind[q]; now_ms := q_now[q]; first := last + 1; last := last + q_claims[q];
    IF q > 1 THEN told := told || ','; END IF;
    IF q_refused[q] IS NOT NULL THEN told := told || q_refused[q]; CONTINUE; END IF;
    c_said := '{}';
    was_at := '{}'; was_tokens := '{}'; was_counted := '{}'; was_window := '{}';
    was_bucket := '{}'; was_valid := '{}'; was_renew := '{}'; was_written := '{}'; was_requests := '{}'; was_changed := '{}';
    u_kept := cardinality(u_hour); is_again := false; is_gone := false; is_deep := false; is_any_short := false; is_short := '{}'; said := '';
    FOR c IN first .. last LOOP
      i := c_bucket[c]; o := b_offset[i]; a0 := first_amount[c]; is_short := is_short || false;
      IF b_version[i] IS NULL OR (kind = 3 AND b_new[i] AND b_changed[i] = 0) THEN
        IF kind = 3 THEN is_gone := true; ELSE is_again := true; END IF;
        CONTINUE;
      END IF;
      IF b_signature[i] <> c_signature[c] OR (counts AND now_ms >= b_hour[i] + 3600000)
        OR (kind < 3 AND (now_ms >= b_renew[i] OR c_changed[c] > b_met[i]))
        OR (kind = 3 AND NOT c_bypass[c] AND (now_ms >= b_valid[i] OR b_epoch[i] > c_judged[c])) THEN
        is_again := true; b_shown[i] := true;
        CONTINUE;
      END IF;
      IF extras IS NOT NULL AND extras ? ('o' || c) AND extras->('o' || c) <> jsonb_build_array(b_as_of[i], b_gen[i]) THEN
        is_again := true; b_shown[i] := true;
        CONTINUE;
      END IF;
      was_bucket := was_bucket || i; was_valid := was_valid || b_valid[i]; was_renew := was_renew || b_renew[i];
      was_written := was_written || b_written[i]; was_requests := was_requests || b_requests[i]; was_changed := was_changed || b_changed[i];
      elapsed := now_ms - b_epoch[i]; kept := cardinality(was_at);
      FOR k IN 1 .. b_length[i] LOOP
        asked := a_milli[a0 + k];
        CONTINUE WHEN asked IS NULL;
        p := o + k;
        was_at := was_at || p; was_tokens := was_tokens || f_tokens[p]; was_counted := was_counted || f_counted[p];
        was_window := was_window || f_window[p];
        IF counts AND asked <> 0 THEN
          counted := coalesce(f_counted[p], 0) + CASE WHEN kind = 3 THEN -asked ELSE asked END;
          -- Past 2^53 it would no longer be exact for the client: what was counted leaves the row first.
          IF abs(counted) > safe_max THEN is_again := true; b_shown[i] := true; CONTINUE; END IF;
          f_counted[p] := counted;
        END IF;
        CONTINUE WHEN c_bypass[c];
        IF kind = 3 THEN
          IF a_resets[a0 + k] IS NULL OR (a_resets[a0 + k] = f_resets[p] AND a_window[a0 + k] IS NOT DISTINCT FROM f_window[p]) THEN
            f_tokens[p] := least(safe_max, f_tokens[p] + asked);
          END IF;
          CONTINUE;
        END IF;
        IF elapsed <= 0 OR f_amount[p] = 0 THEN
          refilled := 0;
        ELSIF f_amount[p] < 2500000000000 THEN
          refilled := (elapsed * f_amount[p] + f_remainder[p]) / f_period[p];
        ELSE
          refilled := div(elapsed::numeric * f_amount[p] + f_remainder[p], f_period[p]::numeric)::bigint;
        END IF;
        remaining := least(f_tokens[p], f_capacity[p] - refilled) - asked;
        IF f_soft[p] THEN
          -- As deep as numbers stay exact; there it stops, for a soft limit is never a reason to fail.
          IF remaining + refilled < -debt_max THEN remaining := f_tokens[p]; END IF;
          IF counts AND kind = 1 AND remaining + refilled < 0 THEN
            u_hour := u_hour || b_hour[i]; u_bucket := u_bucket || i; u_counter := u_counter || (f_names[p] || '#od'); u_milli := u_milli || 1000::numeric;
          END IF;
        ELSIF kind = 1 THEN
          IF remaining + refilled < 0 THEN is_any_short := true; is_short[c - first + 1] := true; CONTINUE; END IF;
        ELSIF remaining + refilled < -debt_max THEN
          is_deep := true;
          CONTINUE;
        END IF;
        f_tokens[p] := remaining;
        IF f_reset_after[p] > 0 AND f_window[p] IS NULL AND asked > 0 THEN
          f_window[p] := greatest(now_ms, b_epoch[i]);
          b_valid[i] := least(b_valid[i], f_window[p] + f_reset_after[p]);
          b_renew[i] := least(b_renew[i], b_valid[i]);
        END IF;
      END LOOP;
      IF counts AND kind = 1 THEN b_requests[i] := b_requests[i] + 1; END IF;
      IF q_noted[q] THEN b_written[i] := greatest(b_written[i], now_ms); END IF;
      IF b_new[i] THEN b_changed[i] := 3; ELSIF b_changed[i] = 0 THEN b_changed[i] := 1; END IF;
      IF counts AND extras IS NOT NULL AND extras ? ('s' || c) THEN
        FOR e IN SELECT value FROM jsonb_array_elements(extras->('s' || c)) LOOP
          u_hour := u_hour || b_hour[i]; u_bucket := u_bucket || i; u_counter := u_counter || (e->>0); u_milli := u_milli || (e->>1)::numeric;
        END LOOP;
      END IF;
      shown := '[' || array_to_string(f_tokens[o + 1 : o + b_length[i]], ',', 'null') || ']';
      IF b_sessions[i] THEN
        shown := shown || ',[' || array_to_string(f_window[o + 1 : o + b_length[i]], ',', 'null') || '],' || coalesce(b_valid[i]::text, 'null');
      END IF;
      said := said || CASE WHEN said = '' THEN '[' ELSE ',[' END || shown || ']';
      IF d_at[q] IS NOT NULL THEN c_said := c_said || ('[' || shown || ']'); END IF;
      -- A claim that does not fit leaves the row as it found it: a further one on the same bucket goes by that.
      IF is_short[c - first + 1] THEN
        FOR k IN REVERSE cardinality(was_at) .. kept + 1 LOOP
          p := was_at[k]; f_tokens[p] := was_tokens[k]; f_counted[p] := was_counted[k]; f_window[p] := was_window[k];
        END LOOP;
      END IF;
    END LOOP;
    IF NOT (is_again OR is_gone OR is_deep OR is_any_short) THEN
      is_written := true;
      told := told || '{"kind":"applied","claims":[' || said || ']}';
      IF d_at[q] IS NOT NULL THEN
        d_applied := d_applied || q; d_first := d_first || cardinality(d_said); d_said := d_said || c_said;
      END IF;
      CONTINUE;
    END IF;
    FOR k IN REVERSE cardinality(was_at) .. 1 LOOP
      p := was_at[k]; f_tokens[p] := was_tokens[k]; f_counted[p] := was_counted[k]; f_window[p] := was_window[k];
    END LOOP;
    FOR k IN REVERSE cardinality(was_bucket) .. 1 LOOP
      i := was_bucket[k]; b_valid[i] := was_valid[k]; b_renew[i] := was_renew[k]; b_written[i] := was_written[k];
      b_requests[i] := was_requests[k]; b_changed[i] := was_changed[k];
    END LOOP;
    IF cardinality(u_hour) > u_kept THEN
      u_hour := u_hour[1 : u_kept]; u_bucket := u_bucket[1 : u_kept]; u_counter := u_counter[1 : u_kept]; u_milli := u_milli[1 : u_kept];
    END IF;
    IF is_again THEN
      told := told || '{"kind":"again"}';
    ELSIF is_gone THEN
      told := told || '{"kind":"gone"}';
      i := c_bucket[first];
      -- Usage of a bucket that is forgotten goes down all the same; one without any usage was deleted, and nothing brings it back.
      IF counts AND extras IS NOT NULL AND extras ? ('l' || first)
        AND EXISTS (SELECT FROM @.usage u WHERE u.namespace = ns AND u.entity = entities[i] AND u.resource = resources[i]) THEN
        is_written := true;
        FOR e IN SELECT value FROM jsonb_array_elements(extras->('l' || first)) LOOP
          u_hour := u_hour || (e->>0)::bigint; u_bucket := u_bucket || i; u_counter := u_counter || (e->>1); u_milli := u_milli || (e->>2)::numeric;
        END LOOP;
      END IF;
    ELSIF is_deep THEN
      told := told || '{"kind":"tooDeep"}';
    ELSE
      said := '';
      FOR c IN first .. last LOOP
        i := c_bucket[c]; o := b_offset[i];
        shown := '[' || array_to_string(f_tokens[o + 1 : o + b_length[i]], ',', 'null') || ']';
        IF b_sessions[i] THEN
          shown := shown || ',[' || array_to_string(f_window[o + 1 : o + b_length[i]], ',', 'null') || '],' || coalesce(b_valid[i]::text, 'null');
        END IF;
        said := said || CASE WHEN said = '' THEN '[' ELSE ',[' END || shown || ']';
      END LOOP;
      told := told || '{"kind":"short","short":' || to_jsonb(is_short)::text || ',"claims":[' || said || ']}';
    END IF;
  END LOOP;

  -- New rows first, by key: who waits for one here holds nothing that somebody in an earlier phase waits for who is waited for.
  IF 3 = ANY (b_changed) THEN
    SELECT array_agg(w.i ORDER BY w.entity COLLATE "C", w.resource COLLATE "C") INTO ordered
    FROM unnest(entities, resources, b_changed) WITH ORDINALITY AS w (entity, resource, changed, i) WHERE w.changed = 3;
    FOREACH i IN ARRAY ordered LOOP
      o := b_offset[i]; p := o + b_length[i];
      INSERT INTO @.bucket (namespace, entity, resource, version, signature, limits, names, epoch_ms, renew_at_ms, valid_until_ms,
        written_ms, as_of_ms, generation, met_ms, hour_ms, requests, capacity, amount, period, soft, reset_after, tokens, remainder,
        counted, window_start, top_up, resets)
      VALUES (ns, entities[i], resources[i], stamp, b_signature[i], b_limits[i], f_names[o + 1 : p], b_epoch[i], b_renew[i], b_valid[i],
        b_written[i], b_as_of[i], b_gen[i], b_met[i], b_hour[i], b_requests[i], f_capacity[o + 1 : p], f_amount[o + 1 : p],
        f_period[o + 1 : p], f_soft[o + 1 : p], f_reset_after[o + 1 : p], f_tokens[o + 1 : p], f_remainder[o + 1 : p],
        f_counted[o + 1 : p], f_window[o + 1 : p], f_top_up[o + 1 : p], f_resets[o + 1 : p])
      ON CONFLICT DO NOTHING;
      GET DIAGNOSTICS made = ROW_COUNT;
      IF made = 0 THEN RAISE EXCEPTION 'another one made this bucket meanwhile' USING ERRCODE = '40001'; END IF;
      b_version[i] := stamp;
    END LOOP;
  END IF;
  FOR i IN 1 .. n LOOP
    CONTINUE WHEN b_changed[i] NOT IN (1, 2);
    o := b_offset[i]; p := o + b_length[i];
    b_version[i] := greatest(b_version[i] + 1, stamp); is_written := true;
    IF b_changed[i] = 1 THEN
      UPDATE @.bucket b SET version = b_version[i], renew_at_ms = b_renew[i], valid_until_ms = b_valid[i], written_ms = b_written[i],
        requests = b_requests[i], tokens = f_tokens[o + 1 : p], counted = f_counted[o + 1 : p], window_start = f_window[o + 1 : p]
      WHERE b.namespace = ns AND b.entity = entities[i] AND b.resource = resources[i];
    ELSE
      UPDATE @.bucket b SET version = b_version[i], signature = b_signature[i], limits = b_limits[i], names = f_names[o + 1 : p],
        epoch_ms = b_epoch[i], renew_at_ms = b_renew[i], valid_until_ms = b_valid[i], written_ms = b_written[i], as_of_ms = b_as_of[i],
        generation = b_gen[i], met_ms = b_met[i], hour_ms = b_hour[i], requests = b_requests[i], capacity = f_capacity[o + 1 : p],
        amount = f_amount[o + 1 : p], period = f_period[o + 1 : p], soft = f_soft[o + 1 : p], reset_after = f_reset_after[o + 1 : p],
        tokens = f_tokens[o + 1 : p], remainder = f_remainder[o + 1 : p], counted = f_counted[o + 1 : p],
        window_start = f_window[o + 1 : p], top_up = f_top_up[o + 1 : p], resets = f_resets[o + 1 : p]
      WHERE b.namespace = ns AND b.entity = entities[i] AND b.resource = resources[i];
    END IF;
  END LOOP;
  IF cardinality(u_hour) > 0 THEN
    INSERT INTO @.usage AS u (namespace, hour_ms, entity, resource, counter, milli)
    SELECT ns, t.hour, t.entity, t.resource, t.counter, t.milli FROM (
      SELECT l.hour, entities[l.bucket] AS entity, resources[l.bucket] AS resource, l.counter, sum(l.milli) AS milli
      FROM unnest(u_hour, u_bucket, u_counter, u_milli) AS l (hour, bucket, counter, milli) GROUP BY 1, 2, 3, 4
    ) t ORDER BY t.entity COLLATE "C", t.resource COLLATE "C", t.hour, t.counter COLLATE "C"
    ON CONFLICT (namespace, hour_ms, entity, resource, counter) DO UPDATE SET milli = u.milli + excluded.milli;
  END IF;

  said := '';
  FOR i IN 1 .. n LOOP
    IF i > 1 THEN said := said || ','; END IF;
    IF b_version[i] IS NULL OR (b_new[i] AND b_changed[i] = 0) THEN said := said || 'null'; rows := rows || NULL::text; CONTINUE; END IF;
    o := b_offset[i]; p := o + b_length[i];
    shown := '"version":' || b_version[i] || ',"signature":"' || b_signature[i] || '","epoch":' || b_epoch[i]
      || ',"renew":' || b_renew[i] || ',"valid":' || coalesce(b_valid[i]::text, 'null')
      || ',"written":' || coalesce(b_written[i]::text, 'null') || ',"asOf":' || b_as_of[i]
      || ',"generation":' || coalesce(b_gen[i]::text, 'null') || ',"met":' || b_met[i] || ',"hour":' || b_hour[i] || ',"requests":' || b_requests[i]
      || ',"tokens":[' || array_to_string(f_tokens[o + 1 : p], ',') || '],"remainder":[' || array_to_string(f_remainder[o + 1 : p], ',')
      || '],"counted":[' || array_to_string(f_counted[o + 1 : p], ',', 'null') || '],"window":[' || array_to_string(f_window[o + 1 : p], ',', 'null')
      || '],"topUp":[' || array_to_string(f_top_up[o + 1 : p], ',') || '],"resets":[' || array_to_string(f_resets[o + 1 : p], ',') || ']}';
    said := said || '{' || CASE WHEN b_shown[i] THEN '"limits":' || to_jsonb(b_limits[i])::text || ',' ELSE '' END || shown;
    rows := rows || shown;
  END LOOP;
  FOR k IN 1 .. cardinality(d_applied) LOOP
    q := d_applied[k]; j := drafts->(d_at[q] - 1); first := 0; shown := '';
    FOR c IN 1 .. q - 1 LOOP first := first + q_claims[c]; END LOOP;
    FOR c IN 1 .. q_claims[q] LOOP
      i := c_bucket[first + c];
      shown := shown || CASE WHEN c = 1 THEN '' ELSE ',' END || '{"entity":' || to_json(entities[i])::text || ',"resource":' || to_json(resources[i])::text
        || ',"levels":' || d_said[d_first[k] + c] || ',"row":{"limits":' || to_json(b_limits[i])::text || ',' || rows[i] || '}';
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
  told := '"generation":' || gen || ',"serverMs":' || server_ms || ',"rows":[' || said || '],"replies":[' || told || ']}';
  -- A batch that has changed nothing may be done again: nothing is written for it.
  IF is_written THEN
    INSERT INTO @.lane AS l (lane, seq, answer, at_ms) VALUES (lane_id, lane_seq, told, server_ms)
    ON CONFLICT (lane) DO UPDATE SET seq = excluded.seq, answer = excluded.answer, at_ms = excluded.at_ms;
  END IF;
  RETURN '{"kind":"done",' || told;
END
$take$;
`;
