-- The general take: a batch of requests of one namespace, one after the other, in the transaction of its own statement. Only the straight
-- line of bucket/take.ts is worked out here; a row that is not straight for a request is answered `again`, and the client brings it.
--
-- Order of locks, the same for everybody: the lane, the namespace (shared), idempotency keys, rows of buckets by key, then inserts by
-- key, then usage by key. Nobody who waits in one of these phases holds what an earlier phase waits for.
--
-- Buckets and claims come as parallel arrays, their limits one behind the other (`f_` are the limits of rows, `a_` the amounts of
-- claims). The names of the arguments say which. Plans are kept for a connection: made anew for the values of each take they would cost a
-- third of it, and be the same.
CREATE OR REPLACE FUNCTION @.take_2(
  ns text, lane_id text, lane_seq bigint, is_repeat boolean, durable text, lock_ms integer, ahead_max_ms bigint, counts boolean,
  entities text[], resources text[], brought jsonb,
  q_kind smallint[], q_now bigint[], q_gen bigint[], q_noted boolean[], q_claims integer[],
  c_bucket integer[], c_signature text[], c_changed bigint[], c_bypass boolean[], c_judged bigint[], c_amounts integer[],
  a_milli bigint[], a_resets bigint[], a_window bigint[], extras jsonb, drafts jsonb, goes_by text[]
) RETURNS text LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $take$
DECLARE
  safe_max CONSTANT bigint := 9007199254740991;
  debt_max CONSTANT bigint := 9000000000000000;
  n CONSTANT integer := cardinality(entities);
  gen bigint; since bigint; changes text; is_unchanged boolean; server_ms bigint; stamp bigint; seen record; r record; j jsonb; e jsonb;
  -- By bucket; what is not set is NULL.
  b_version bigint[]; b_signature text[]; b_limits text[]; b_epoch bigint[]; b_renew bigint[]; b_valid bigint[]; b_written bigint[];
  b_as_of bigint[]; b_gen bigint[]; b_met bigint[]; b_hour bigint[]; b_requests bigint[]; b_offset integer[]; b_length integer[];
  b_sessions boolean[]; b_new boolean[]; b_shown boolean[]; b_marks text[];
  -- 0: as it is stored. 1: levels have changed. 2: everything has changed. 3: it is new, and somebody has taken from it.
  b_changed smallint[] := array_fill(0::smallint, ARRAY[n]);
  -- The reading that f_refilled is for.
  b_refilled bigint[];
  f_names text[]; f_capacity bigint[]; f_amount bigint[]; f_period bigint[]; f_soft boolean[]; f_reset_after bigint[];
  f_tokens bigint[] := '{}'; f_remainder bigint[]; f_counted bigint[]; f_window bigint[]; f_top_up bigint[]; f_resets bigint[];
  f_refilled bigint[];
  -- What the buckets of this request were before, one behind the other, to take it back, and which of them it was the first to change; of
  -- sessions more can change.
  was_bucket integer[]; was_first integer[]; was_epoch bigint[]; was_tokens bigint[]; was_counted bigint[]; was_written bigint[];
  was_session integer[]; was_window bigint[]; was_valid bigint[]; was_renew bigint[];
  u_hour bigint[] := '{}'; u_bucket integer[] := '{}'; u_counter text[] := '{}'; u_milli numeric[] := '{}'; u_kept integer;
  first integer; last integer := 0; a integer; a0 integer := 0; i integer; o integer; p integer; k integer; q integer; c integer; h integer;
  now_ms bigint; kind smallint; mode smallint; elapsed bigint; refilled bigint; asked bigint; remaining bigint; leave bigint;
  -- Of a claim: the places of its shadows, and of those that would have refused it; counters of slots that it gives back too late.
  shades jsonb; passed integer[]; skipped integer[]; prior bigint; late text[];
  -- Of a request: 0 applied, 1 short, 2 too deep, 3 gone, 4 again. The greatest of its claims counts.
  outcome smallint; is_claim_short boolean := false; is_short boolean[]; is_written boolean := false;
  said text; told text := ''; shown text; ordered integer[]; made integer;
  -- By request: the place of its draft among `drafts`. Those whose key is no longer theirs; those that were applied, and what they left.
  d_at integer[]; d_lost integer[]; d_applied integer[]; d_said text[]; b_said text[]; marked json;
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

  -- A copy of this batch that is still under way ends first, be it a plain one.
  PERFORM pg_advisory_xact_lock(hashtextextended(lane_id, 1));
  SELECT lane.seq, lane.answer INTO seen FROM @.lane WHERE lane.lane = lane_id;
  IF seen.seq = lane_seq THEN RETURN '{"kind":"repeated",' || seen.answer; END IF;
  IF seen.seq > lane_seq THEN RETURN '{"kind":"superseded"}'; END IF;
  PERFORM pg_advisory_xact_lock_shared(@.lock_of(ns));
  SELECT value INTO gen FROM @.generation WHERE namespace = ns;
  gen := coalesce(gen, 0);
  -- Requests of an older generation go on if nothing that any of the batch goes by was touched since.
  IF gen <> ANY (q_gen) THEN
    SELECT min(g) INTO since FROM unnest(q_gen) g;
    SELECT '[' || coalesce(string_agg('[' || t.generation || ',' || to_jsonb(t.touched) || ']', ',' ORDER BY t.generation), '') || ']',
      count(*) = gen - since AND NOT coalesce(bool_or(t.touched && entities OR t.touched && resources OR t.touched && goes_by), false)
    INTO changes, is_unchanged
    FROM @.change t WHERE t.namespace = ns AND t.generation > greatest(since, gen - 128);
    IF is_unchanged THEN q_gen := ARRAY(SELECT greatest(g, CASE WHEN g IS NOT NULL THEN gen END) FROM unnest(q_gen) g); END IF;
  END IF;
  -- A row that is made anew is of a later version than the one that was deleted: whoever remembers that one replaces nothing.
  stamp := floor(extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
  server_ms := stamp / 1000;

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
  -- Bucket by bucket, in one order for everybody. The inner query is not merged with the outer one: each bucket is looked up by its
  -- key, whatever the planner knows of a table that was empty when it planned.
  FOR r IN
    SELECT wanted.i AS at, b.*
    FROM (
      SELECT w.i, w.entity, w.resource FROM unnest(entities, resources) WITH ORDINALITY AS w (entity, resource, i)
      ORDER BY w.entity COLLATE "C", w.resource COLLATE "C"
    ) wanted
    CROSS JOIN LATERAL (
      SELECT * FROM @.bucket WHERE namespace = ns AND entity = wanted.entity AND resource = wanted.resource FOR UPDATE
    ) b
  LOOP
    i := r.at;
    b_version[i] := r.version; b_signature[i] := r.signature; b_limits[i] := r.limits; b_epoch[i] := r.epoch_ms;
    b_renew[i] := r.renew_at_ms; b_valid[i] := r.valid_until_ms; b_written[i] := r.written_ms; b_as_of[i] := r.as_of_ms;
    b_gen[i] := r.generation; b_met[i] := r.met_ms; b_hour[i] := r.hour_ms; b_requests[i] := r.requests; b_marks[i] := r.marks;
    b_offset[i] := cardinality(f_tokens); b_length[i] := cardinality(r.tokens);
    f_names := f_names || r.names; f_capacity := f_capacity || r.capacity; f_amount := f_amount || r.amount;
    f_period := f_period || r.period; f_soft := f_soft || r.soft; f_reset_after := f_reset_after || r.reset_after;
    f_tokens := f_tokens || r.tokens; f_remainder := f_remainder || r.remainder; f_counted := f_counted || r.counted;
    f_window := f_window || r.window_start; f_top_up := f_top_up || r.top_up; f_resets := f_resets || r.resets;
    b_sessions[i] := 0 < ANY (r.reset_after);
  END LOOP;

  -- What is brought replaces a row of exactly that version, unless the request that it was worked out for is refused: a reading that is
  -- ahead must not get into a row, nor limits that are no longer. Where there is none, it is worked with, and stored once it is taken from.
  FOR j IN SELECT value FROM jsonb_array_elements(brought) LOOP
    i := (j->>'i')::integer; q := (j->>'request')::integer;
    CONTINUE WHEN coalesce(b_version[i], 0) <> (j->>'version')::bigint
      OR q_now[q] > server_ms + ahead_max_ms OR q_gen[q] <> gen OR q = ANY (d_lost);
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

  FOR q IN 1 .. cardinality(q_kind) LOOP
    kind := q_kind[q]; now_ms := q_now[q]; first := last + 1; last := last + q_claims[q];
    IF now_ms > server_ms + ahead_max_ms OR q_gen[q] <> gen OR q = ANY (d_lost) THEN
      told := told || CASE WHEN now_ms > server_ms + ahead_max_ms THEN ',{"kind":"clock"}' WHEN q_gen[q] <> gen THEN ',{"kind":"stale"}'
        ELSE ',{"kind":"keyLost"}' END;
      FOR c IN first .. last LOOP a0 := a0 + c_amounts[c]; END LOOP;
      CONTINUE;
    END IF;
    was_bucket := NULL; was_first := NULL; was_tokens := NULL; was_counted := NULL; was_session := NULL;
    u_kept := cardinality(u_hour); outcome := 0; said := '';
    FOR c IN first .. last LOOP
      i := c_bucket[c]; o := b_offset[i]; p := o + b_length[i]; a := a0 - o; a0 := a0 + c_amounts[c];
      IF b_signature[i] IS DISTINCT FROM c_signature[c] OR (counts AND now_ms >= b_hour[i] + 3600000)
        OR (kind < 3 AND (now_ms >= b_renew[i] OR c_changed[c] > b_met[i]))
        OR (kind = 3 AND c_bypass[c] IS NOT TRUE AND now_ms >= b_valid[i]) OR b_epoch[i] > c_judged[c]
        OR (b_new[i] AND b_changed[i] = 0 AND (kind = 3 OR now_ms < b_epoch[i]))
        OR (extras IS NOT NULL AND extras ? ('o' || c) AND extras->('o' || c) <> jsonb_build_array(b_as_of[i], b_gen[i])) THEN
        IF b_version[i] IS NULL OR (kind = 3 AND b_new[i] AND b_changed[i] = 0) THEN
          outcome := greatest(outcome, CASE WHEN kind = 3 THEN 3 ELSE 4 END);
        ELSE
          outcome := 4; b_shown[i] := true;
        END IF;
        CONTINUE;
      END IF;
      was_bucket := was_bucket || i; was_tokens := was_tokens || f_tokens[o + 1 : p]; was_counted := was_counted || f_counted[o + 1 : p];
      IF b_changed[i] = 0 THEN
        IF was_first IS NULL THEN was_epoch := NULL; END IF;
        was_first := was_first || i; was_epoch := was_epoch || b_epoch[i]; b_changed[i] := CASE WHEN b_new[i] THEN 3 ELSE 1 END;
        -- A bucket begins with who first takes from it, not with somebody before him in the batch who was refused.
        IF b_new[i] THEN b_epoch[i] := now_ms; b_refilled[i] := NULL; END IF;
      END IF;
      IF b_sessions[i] THEN
        IF was_session IS NULL THEN was_window := NULL; was_valid := NULL; was_renew := NULL; END IF;
        was_session := was_session || i; was_valid := was_valid || b_valid[i]; was_renew := was_renew || b_renew[i];
        was_window := was_window || f_window[o + 1 : p];
      END IF;
      mode := CASE WHEN c_bypass[c] THEN 0 ELSE kind END;
      IF extras IS NULL THEN
        leave := 0;
      ELSE
        leave := coalesce((extras->>('f' || c))::bigint, 0); shades := extras->('h' || c); passed := NULL; skipped := NULL; late := NULL;
      END IF;
      IF mode IN (1, 2) AND b_refilled[i] IS DISTINCT FROM now_ms THEN
        b_refilled[i] := now_ms; elapsed := now_ms - b_epoch[i];
        FOR k IN o + 1 .. p LOOP
          IF elapsed <= 0 OR f_amount[k] = 0 THEN
            f_refilled[k] := 0;
          ELSIF f_amount[k] < 2500000000000 THEN
            f_refilled[k] := (elapsed * f_amount[k] + f_remainder[k]) / f_period[k];
          ELSE
            f_refilled[k] := div(elapsed::numeric * f_amount[k] + f_remainder[k], f_period[k]::numeric)::bigint;
          END IF;
        END LOOP;
      END IF;
      FOR k IN o + 1 .. p LOOP
        asked := a_milli[a + k];
        CONTINUE WHEN asked IS NULL OR k - o = ANY (skipped);
        -- What is held in a slice is no usage: that is the limit's. Slots that come back after they were used stay counted.
        IF counts AND asked <> 0 AND f_reset_after[k] >= 0 AND (kind < 3 OR a_resets[a + k] IS NULL OR a_resets[a + k] NOT IN (-3, -4)) THEN
          prior := f_counted[k];
          f_counted[k] := coalesce(f_counted[k], 0) + CASE WHEN kind = 3 THEN -asked ELSE asked END;
          -- Past 2^53 it would no longer be exact for the client: what was counted leaves the row first.
          IF abs(f_counted[k]) > safe_max THEN outcome := 4; b_shown[i] := true; CONTINUE; END IF;
        END IF;
        IF mode = 3 THEN
          IF a_resets[a + k] IN (-2, -3) THEN
            -- Slots that were held: they come out of their slice, if it still has them. If not, how long they were held is not counted.
            h := o + a_window[a + k]::integer;
            IF f_tokens[h] >= asked THEN f_tokens[h] := f_tokens[h] - asked; f_tokens[k] := f_tokens[k] + asked;
            ELSE late := late || (f_names[k] || '#hu'); END IF;
          ELSIF a_resets[a + k] = -5 THEN
            -- Slots that are held on, in a later slice.
            h := o + a_window[a + k]::integer;
            IF f_tokens[k] >= asked THEN f_tokens[k] := f_tokens[k] - asked; f_tokens[h] := f_tokens[h] + asked;
            ELSE outcome := greatest(outcome, 3); END IF;
          ELSIF a_resets[a + k] IS NULL OR (a_resets[a + k] = f_resets[k] AND a_window[a + k] IS NOT DISTINCT FROM f_window[k]) THEN
            f_tokens[k] := least(safe_max, f_tokens[k] + asked);
          END IF;
        ELSIF mode > 0 THEN
          refilled := f_refilled[k];
          remaining := least(f_tokens[k], f_capacity[k] - refilled) - asked;
          IF kind = 1 AND NOT f_soft[k] AND remaining + refilled < (CASE WHEN leave > 0 THEN (f_capacity[k] * leave + 99) / 100 ELSE 0 END) THEN
            -- The floor is rounded up, as in domain/limits/limit-numbers.ts.
            IF shades ? (k - o)::text THEN
              -- What would be taken of it is not held in its slice either, which stands behind it.
              passed := passed || (k - o); skipped := skipped || (shades->>((k - o)::text))::integer;
              IF counts AND asked <> 0 THEN f_counted[k] := prior; END IF;
            ELSE
              is_claim_short := true;
            END IF;
            CONTINUE;
          ELSIF remaining + refilled < 0 THEN
            IF f_soft[k] THEN
              -- As deep as numbers stay exact; there it stops, for a soft limit is never a reason to fail.
              IF remaining + refilled < -debt_max THEN remaining := f_tokens[k]; END IF;
              IF counts AND kind = 1 AND remaining + refilled < 0 THEN
                u_hour := u_hour || b_hour[i]; u_bucket := u_bucket || i; u_counter := u_counter || (f_names[k] || '#od');
                u_milli := u_milli || 1000::numeric;
              END IF;
            ELSIF remaining + refilled < -debt_max THEN
              outcome := greatest(outcome, 2);
              CONTINUE;
            END IF;
          END IF;
          f_tokens[k] := remaining;
          IF f_reset_after[k] > 0 AND f_window[k] IS NULL AND asked > 0 THEN
            f_window[k] := greatest(now_ms, b_epoch[i]);
            b_valid[i] := least(b_valid[i], f_window[k] + f_reset_after[k]);
            b_renew[i] := least(b_renew[i], b_valid[i]);
          END IF;
        END IF;
      END LOOP;
      IF counts AND kind = 1 THEN b_requests[i] := b_requests[i] + 1; END IF;
      IF q_noted[q] THEN
        IF cardinality(was_bucket) = 1 THEN was_written := NULL; END IF;
        was_written := was_written || b_written[i]; b_written[i] := greatest(b_written[i], now_ms);
      END IF;
      IF counts AND passed IS NOT NULL THEN
        FOREACH k IN ARRAY passed LOOP
          u_hour := u_hour || b_hour[i]; u_bucket := u_bucket || i; u_counter := u_counter || (f_names[o + k] || '#wr');
          u_milli := u_milli || 1000::numeric;
        END LOOP;
      END IF;
      IF counts AND extras IS NOT NULL AND extras ? ('s' || c) THEN
        FOR e IN SELECT value FROM jsonb_array_elements(extras->('s' || c)) LOOP
          CONTINUE WHEN e->>0 = ANY (late);
          u_hour := u_hour || b_hour[i]; u_bucket := u_bucket || i; u_counter := u_counter || (e->>0); u_milli := u_milli || (e->>1)::numeric;
        END LOOP;
      END IF;
      IF is_claim_short THEN
        is_claim_short := false; outcome := greatest(outcome, 1);
        IF is_short IS NULL THEN is_short := array_fill(false, ARRAY[last - first + 1]); END IF;
        is_short[c - first + 1] := true;
        -- A claim that does not fit leaves the row as it found it: a further one on the same bucket goes by that.
        k := cardinality(was_tokens);
        f_tokens[o + 1 : p] := was_tokens[k - p + o + 1 : k]; f_counted[o + 1 : p] := was_counted[k - p + o + 1 : k];
        IF b_sessions[i] THEN
          k := cardinality(was_window);
          f_window[o + 1 : p] := was_window[k - p + o + 1 : k];
        END IF;
      ELSIF outcome = 0 THEN
        said := said || ',[[' || array_to_string(f_tokens[o + 1 : p], ',', 'null') || ']' || CASE WHEN b_sessions[i]
          THEN ',[' || array_to_string(f_window[o + 1 : p], ',', 'null') || '],' || coalesce(b_valid[i]::text, 'null')
          WHEN passed IS NOT NULL THEN ',null,null' ELSE '' END
          || CASE WHEN passed IS NULL THEN ']' ELSE ',[' || array_to_string(passed, ',') || ']]' END;
      END IF;
    END LOOP;
    IF outcome = 0 THEN
      is_written := true;
      told := told || ',{"kind":"applied","claims":[' || substr(said, 2) || ']}';
      IF d_at[q] IS NOT NULL THEN d_applied := d_applied || q; d_said := d_said || ('[' || substr(said, 2) || ']'); END IF;
      CONTINUE;
    END IF;
    IF was_bucket IS NOT NULL THEN
      a := cardinality(was_tokens);
      FOR k IN REVERSE cardinality(was_bucket) .. 1 LOOP
        i := was_bucket[k]; o := b_offset[i]; p := o + b_length[i];
        IF p > o THEN
          f_tokens[o + 1 : p] := was_tokens[a - p + o + 1 : a]; f_counted[o + 1 : p] := was_counted[a - p + o + 1 : a]; a := a - p + o;
        END IF;
        IF q_noted[q] THEN b_written[i] := was_written[k]; END IF;
        IF counts AND kind = 1 THEN b_requests[i] := b_requests[i] - 1; END IF;
      END LOOP;
    END IF;
    IF was_first IS NOT NULL THEN
      FOR k IN 1 .. cardinality(was_first) LOOP
        i := was_first[k]; b_changed[i] := 0; b_epoch[i] := was_epoch[k];
      END LOOP;
    END IF;
    IF was_session IS NOT NULL THEN
      a := cardinality(was_window);
      FOR k IN REVERSE cardinality(was_session) .. 1 LOOP
        i := was_session[k]; o := b_offset[i]; p := o + b_length[i];
        f_window[o + 1 : p] := was_window[a - p + o + 1 : a]; a := a - p + o;
        b_valid[i] := was_valid[k]; b_renew[i] := was_renew[k];
      END LOOP;
    END IF;
    IF cardinality(u_hour) > u_kept THEN
      u_hour := u_hour[1 : u_kept]; u_bucket := u_bucket[1 : u_kept]; u_counter := u_counter[1 : u_kept]; u_milli := u_milli[1 : u_kept];
    END IF;
    IF outcome = 4 THEN
      told := told || ',{"kind":"again"}';
    ELSIF outcome = 3 THEN
      told := told || ',{"kind":"gone"}';
      i := c_bucket[first];
      -- Usage of a bucket that is forgotten goes down all the same; one without any usage was deleted, and nothing brings it back.
      IF counts AND extras IS NOT NULL AND extras ? ('l' || first)
        AND EXISTS (SELECT FROM @.usage u WHERE u.namespace = ns AND u.entity = entities[i] AND u.resource = resources[i]) THEN
        is_written := true;
        FOR e IN SELECT value FROM jsonb_array_elements(extras->('l' || first)) LOOP
          u_hour := u_hour || (e->>0)::bigint; u_bucket := u_bucket || i; u_counter := u_counter || (e->>1); u_milli := u_milli || (e->>2)::numeric;
        END LOOP;
      END IF;
    ELSIF outcome = 2 THEN
      told := told || ',{"kind":"tooDeep"}';
    ELSE
      said := '';
      FOR c IN first .. last LOOP
        i := c_bucket[c]; o := b_offset[i]; p := o + b_length[i];
        said := said || ',[[' || array_to_string(f_tokens[o + 1 : p], ',', 'null') || ']' || CASE WHEN b_sessions[i]
          THEN ',[' || array_to_string(f_window[o + 1 : p], ',', 'null') || '],' || coalesce(b_valid[i]::text, 'null') || ']' ELSE ']' END;
      END LOOP;
      told := told || ',{"kind":"short","short":' || to_jsonb(is_short)::text || ',"claims":[' || substr(said, 2) || ']}';
    END IF;
    is_short := NULL;
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
  END IF;  FOR i IN 1 .. n LOOP
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
    IF b_version[i] IS NULL OR (b_new[i] AND b_changed[i] = 0) THEN said := said || 'null'; CONTINUE; END IF;
    o := b_offset[i]; p := o + b_length[i];
    shown := '"version":' || b_version[i] || ',"signature":"' || b_signature[i] || '","epoch":' || b_epoch[i]
      || ',"renew":' || b_renew[i] || ',"valid":' || coalesce(b_valid[i]::text, 'null')
      || ',"written":' || coalesce(b_written[i]::text, 'null') || ',"asOf":' || b_as_of[i]
      || ',"generation":' || coalesce(b_gen[i]::text, 'null') || ',"met":' || b_met[i] || ',"hour":' || b_hour[i] || ',"requests":' || b_requests[i]
      || ',"tokens":[' || array_to_string(f_tokens[o + 1 : p], ',') || '],"remainder":[' || array_to_string(f_remainder[o + 1 : p], ',')
      || '],"counted":[' || array_to_string(f_counted[o + 1 : p], ',', 'null') || '],"window":[' || array_to_string(f_window[o + 1 : p], ',', 'null')
      || '],"topUp":[' || array_to_string(f_top_up[o + 1 : p], ',') || '],"resets":[' || array_to_string(f_resets[o + 1 : p], ',')
      || '],"marks":' || coalesce(to_jsonb(b_marks[i])::text, 'null') || '}';
    said := said || CASE WHEN b_shown[i] THEN '{"limits":' || to_jsonb(b_limits[i])::text || ',' ELSE '{' END || shown;
    IF d_applied IS NOT NULL THEN b_said[i] := shown; END IF;
  END LOOP;
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
  told := '"generation":' || gen || coalesce(',"changes":' || changes, '') || ',"serverMs":' || server_ms || ',"rows":[' || said || '],"replies":[' || substr(told, 2) || ']}';
  -- A batch that has changed nothing may be done again, so nothing is written for it. A repeat is remembered all the same: the batch that it
  -- repeats may still be under way, and must not be done once this answer has been heard.
  IF is_written OR is_repeat THEN
    INSERT INTO @.lane AS l (lane, seq, answer, at_ms) VALUES (lane_id, lane_seq, told, server_ms)
    ON CONFLICT (lane) DO UPDATE SET seq = excluded.seq, answer = excluded.answer, at_ms = excluded.at_ms;
  END IF;
  RETURN '{"kind":"done",' || told;
END
$take$;
