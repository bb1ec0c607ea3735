-- The summed take: a batch of takes from limits that are neither soft nor shadows nor sessions nor slots, its amounts summed by bucket. It locks
-- the rows by key, judges them, and takes everything or nothing, in one statement with one plan: an expression is set up once for all levels,
-- where take_2 sets up each statement and each expression of its own. NULL: nothing was done, and take_2 judges the requests one by one
-- under the same number. Order of locks: that of take_2.
--
-- What stands between "new" and "end" is for buckets that are new; take_summed_2 is the same function without it, for each part of a plan costs
-- every take. `made`: rows as they are before the batch, those that differ by more than their keys, and `places`: for each bucket which of them is its
-- own, 0 where the bucket is not new: a thousand new ids mostly go by the same limits. Where a row is there by now, that counts; where somebody would be
-- refused, none is made.
--
-- The answer, which the lane keeps too, has the rows as they were before, by bucket: their numbers, their marks, and what levels_after_1 says of
-- them; null there: the bucket has not enough.
--
-- nums: durable (1) or not (0), lock_ms, ahead_max_ms, generation, counts (1) or not (0), the latest reading, the place of the bucket that is the
-- uppermost of every request (0: there is none); then of each bucket: its requests, the change that it must have met, the place of its first step,
-- the number of its steps; then the steps.
CREATE OR REPLACE FUNCTION @.take_made_2(
  ns text, lane_id text, lane_seq bigint, entities_text text, resources_text text, signatures_text text, nums_text text/* new */, made json, places_text text/* end */
) RETURNS text LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $take$
DECLARE
  entities CONSTANT text[] := entities_text; resources CONSTANT text[] := resources_text;
  signatures CONSTANT text[] := signatures_text; nums CONSTANT bigint[] := nums_text;
  counts CONSTANT boolean := nums[5] = 1; latest CONSTANT bigint := nums[6];
  stamp bigint; answer text;
  /* new */
  places CONSTANT integer[] := places_text;
  fresh CONSTANT @.bucket[] := ARRAY(SELECT m FROM json_populate_recordset(NULL::@.bucket, made) m);
  is_whole boolean;
  /* end */
BEGIN
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    RAISE EXCEPTION 'takes need the isolation level read committed, this transaction has %', current_setting('transaction_isolation')
      USING ERRCODE = 'ZA001';
  END IF;
  -- An assignment evaluates an expression, where PERFORM would run a statement.
  IF nums[1] = 0 THEN
    answer := set_config('synchronous_commit', 'off', true);
  ELSIF current_setting('synchronous_commit') = 'off' THEN
    answer := set_config('synchronous_commit', 'local', true);
  END IF;
  answer := set_config('lock_timeout', nums[2]::text, true);
  -- A copy of this batch that is still under way ends first.
  answer := pg_advisory_xact_lock(hashtextextended(lane_id, 1))::text;
  answer := pg_advisory_xact_lock_shared(@.lock_of(ns))::text;
  -- Who would wait for the row of a bucket that many share waits here, before the statement below has its snapshot: there it would wait with the
  -- row as it was, and set the whole plan up once more for the row as it is then. Whoever waits here holds nothing that others wait for.
  IF nums[7] > 0 THEN
    answer := pg_advisory_xact_lock(hashtextextended('@schema/' || ns || '/' || entities[nums[7]] || '/' || resources[nums[7]], 2))::text;
  END IF;
  stamp := floor(extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
  IF latest > stamp / 1000 + nums[3] THEN RETURN NULL; END IF;

  -- The limit makes the planner expect one bucket: it looks each up by its key, in the order of the arrays.
  WITH wanted AS (
    SELECT w.of_entity, w.of_resource, w.i, 4 * w.i + 4 AS o
    FROM unnest(entities, resources) WITH ORDINALITY w (of_entity, of_resource, i) LIMIT cardinality(entities)
  ), found AS MATERIALIZED (
    SELECT b.i, b.o, b.namespace, b.of_entity, b.of_resource, b.version, b.requests, cardinality(b.tokens) AS n, b.marks,
      /* new */
      b.is_new, b.signature, b.limits, b.names, b.epoch_ms, b.renew_at_ms, b.valid_until_ms, b.written_ms, b.as_of_ms, b.generation,
      b.met_ms, b.hour_ms, b.capacity, b.amount, b.period, b.soft, b.reset_after, b.remainder, b.window_start, b.top_up, b.resets,
      /* end */
      array_to_string(ARRAY[b.i, b.version, b.epoch_ms, b.renew_at_ms, b.valid_until_ms, b.written_ms, b.as_of_ms, b.generation, b.met_ms,
        b.hour_ms, b.requests] || b.tokens || b.remainder || b.counted || b.window_start || b.top_up || b.resets, ',', 'null') AS row,
      -- Empty also where the row is not straight for the batch.
      CASE WHEN b.signature = signatures[b.i] AND latest < b.renew_at_ms AND nums[b.o + 1] <= b.met_ms
        AND NOT (counts AND latest >= b.hour_ms + 3600000)
        THEN @.levels_after_1(b.tokens, b.counted, b.capacity, b.amount, b.period, b.remainder, b.epoch_ms,
          nums, nums[b.o + 2]::integer, nums[b.o + 3]::integer, counts)
        ELSE '{}' END AS levels
    FROM (
      SELECT w.*, /* new */false AS is_new, /* end */b.* FROM wanted w CROSS JOIN LATERAL (
        SELECT * FROM @.bucket c WHERE c.namespace = ns AND c.entity = w.of_entity AND c.resource = w.of_resource FOR UPDATE
      ) b
      /* new */
      UNION ALL
      -- Without these offsets the element would be taken out of the array once for each of its columns, and a plan that is made while there are
      -- few buckets would read all of them.
      SELECT w.*, true, (m.made).* FROM wanted w CROSS JOIN LATERAL (SELECT fresh[places[w.i]] AS made OFFSET 0) m
      WHERE places[w.i] > 0
        AND NOT EXISTS (SELECT FROM @.bucket c WHERE c.namespace = ns AND c.entity = w.of_entity AND c.resource = w.of_resource OFFSET 0)
      /* end */
    ) b
  ), judged AS MATERIALIZED (
    SELECT
      CASE WHEN count(*) = cardinality(entities) AND bool_or(f.levels = '{}') IS NOT TRUE
        AND (SELECT l.seq FROM @.lane l WHERE l.lane = lane_id) < lane_seq
        AND coalesce((SELECT g.value FROM @.generation g WHERE g.namespace = ns), 0) = nums[4]
        /* new */AND (bool_and(f.levels IS NOT NULL) OR NOT bool_or(f.is_new))/* end */
        THEN bool_and(f.levels IS NOT NULL) END AS fits,
      /* new */count(*) FILTER (WHERE f.is_new) AS made,/* end */
      '"summed":[' || string_agg('[[' || f.row || '],' || coalesce(to_json(f.marks)::text, 'null') || ','
        || coalesce('[' || array_to_string(f.levels, ',', 'null') || ']', 'null') || ']', ',')
        || '],"stamp":' || stamp || ',"generation":' || nums[4] || '}' AS told
    FROM found f
  ), updated AS (
    UPDATE @.bucket b SET version = greatest(f.version + 1, stamp), requests = CASE WHEN counts THEN f.requests + nums[f.o] ELSE f.requests END,
      tokens = f.levels[cardinality(f.levels) - 2 * f.n + 1 : cardinality(f.levels) - f.n],
      counted = f.levels[cardinality(f.levels) - f.n + 1 : cardinality(f.levels)]
    FROM found f, judged j
    -- By the whole key of a row that was found: with the namespace as it was given, a plan that is made while the table is empty reads all of it.
    WHERE j.fits AND b.namespace = f.namespace AND b.entity = f.of_entity AND b.resource = f.of_resource
  /* new */
  ), inserted AS (
    INSERT INTO @.bucket (namespace, entity, resource, version, signature, limits, names, epoch_ms, renew_at_ms, valid_until_ms, written_ms,
      as_of_ms, generation, met_ms, hour_ms, requests, capacity, amount, period, soft, reset_after, tokens, remainder, counted, window_start,
      top_up, resets)
    SELECT ns, f.of_entity, f.of_resource, stamp, f.signature, f.limits, f.names, f.epoch_ms, f.renew_at_ms, f.valid_until_ms, f.written_ms,
      f.as_of_ms, f.generation, f.met_ms, f.hour_ms, CASE WHEN counts THEN f.requests + nums[f.o] ELSE f.requests END, f.capacity, f.amount,
      f.period, f.soft, f.reset_after, f.levels[cardinality(f.levels) - 2 * f.n + 1 : cardinality(f.levels) - f.n], f.remainder,
      f.levels[cardinality(f.levels) - f.n + 1 : cardinality(f.levels)], f.window_start, f.top_up, f.resets
    FROM found f, judged j WHERE j.fits AND f.is_new ORDER BY f.of_entity COLLATE "C", f.of_resource COLLATE "C"
    ON CONFLICT DO NOTHING RETURNING 1
  /* end */
  ), kept AS (
    UPDATE @.lane l SET seq = lane_seq, answer = j.told, at_ms = stamp / 1000 FROM judged j WHERE j.fits AND l.lane = lane_id
  )
  SELECT CASE j.fits WHEN true THEN '{"kind":"applied",' WHEN false THEN '{"kind":"short",' END || j.told
    /* new */, j.fits IS NOT TRUE OR j.made = (SELECT count(*) FROM inserted)/* end */
  INTO answer/* new */, is_whole/* end */ FROM judged j;
  /* new */
  IF NOT is_whole THEN RAISE EXCEPTION 'another one made this bucket meanwhile' USING ERRCODE = '40001'; END IF;
  /* end */
  RETURN answer;
END
$take$;
