-- The tokens of one bucket after each step of a summed take, one step behind the other, and then what is counted. A step is a reading and the
-- amount that is asked of each limit (-1: none), from nums[at] on: requests of the same reading take together what they take one by one, and
-- those of different readings each go by their own. NULL: a limit has not enough. Empty: a count would pass 2^53, and has to leave the row first.
--
-- The function has no settings of its own, for a setting costs more than all of its work: it goes by those of the take, its only caller.
CREATE OR REPLACE FUNCTION @.levels_after_1(
  tokens bigint[], counted bigint[], capacity bigint[], amount bigint[], period bigint[], remainder bigint[], epoch_ms bigint,
  nums bigint[], at integer, steps integer, counts boolean
) RETURNS bigint[] LANGUAGE plpgsql IMMUTABLE AS $levels$
DECLARE
  n CONSTANT integer := cardinality(tokens);
  levels bigint[]; elapsed bigint; refilled bigint; asked bigint; is_short boolean := false;
BEGIN
  FOR step IN 1 .. steps LOOP
    elapsed := nums[at] - epoch_ms;
    FOR k IN 1 .. n LOOP
      asked := nums[at + k];
      CONTINUE WHEN asked < 0;
      IF counts AND asked > 0 THEN
        counted[k] := coalesce(counted[k], 0) + asked;
        IF counted[k] > 9007199254740991 THEN RETURN '{}'; END IF;
      END IF;
      IF elapsed <= 0 OR amount[k] = 0 THEN
        refilled := 0;
      ELSIF amount[k] < 2500000000000 THEN
        refilled := (elapsed * amount[k] + remainder[k]) / period[k];
      ELSE
        refilled := div(elapsed::numeric * amount[k] + remainder[k], period[k]::numeric)::bigint;
      END IF;
      -- What stands over the brim is cut off in the same step in which tokens leave.
      asked := least(tokens[k], capacity[k] - refilled) - asked;
      IF asked + refilled < 0 THEN is_short := true; ELSE tokens[k] := asked; END IF;
    END LOOP;
    levels := levels || tokens;
    at := at + n + 1;
  END LOOP;
  RETURN CASE WHEN is_short THEN NULL ELSE levels || counted END;
END
$levels$;
