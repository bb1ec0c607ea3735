// A part of the take; it goes by its variables (take-function.ts).

/**
 * One level gets back what was taken of it: of slots out of their slice (-2, and -3 where they were used), of a quota into the period that
 * they were taken in. A renewal (-5) moves slots that are held on to a later slice. The numbers are those of `batch-text.ts`.
 */
export const GIVEN_BACK = `IF a_resets[a + k] IN (-2, -3) THEN
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
          END IF;`;
