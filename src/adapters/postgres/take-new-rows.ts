/** The part of the take that stores buckets which it has made; it goes by its variables (take-function.ts). */
export const NEW_ROWS_WRITTEN = `
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
`;
