import assert from "node:assert/strict";
import { test } from "node:test";
import { CronPattern } from "croner";
import { runs } from "../../../test/depth.ts";
import { fc } from "../../../test/properties.ts";
import { FIELDS, type FieldSets, fieldSets } from "./calendar-pattern.ts";

/** What a library that others rely on makes of the same fields. It refuses `5/15`, which is 5-59/15 to the original. */
function setsOfLibrary(fields: readonly string[]): FieldSets | undefined {
  const strict = fields.map((field, i) => field.replace(/(^|,)(\d+)\//g, `$1$2-${FIELDS[i]?.most}/`));
  try {
    const { minute, hour, day, month, dayOfWeek } = new CronPattern(strict.join(" "), undefined, { mode: "5-part" });
    const [minutes, hours, days, months, weekdays] = [minute, hour, day, month, dayOfWeek].map((set) =>
      set.map(Boolean),
    );
    if (!minutes || !hours || !days || !months || !weekdays) return undefined;
    return { minutes, hours, days, months, weekdays };
  } catch {
    return undefined;
  }
}

test("fields mean what a library for crons says they mean, and what it refuses is refused", () => {
  const value = fc.integer({ min: 0, max: 70 }).map(String);
  const step = fc.oneof(
    { weight: 2, arbitrary: fc.constant("") },
    fc.integer({ min: 0, max: 70 }).map((n) => `/${n}`),
  );
  const part = fc
    .tuple(
      fc.oneof(
        fc.constant("*"),
        value,
        fc.tuple(value, value).map((ends) => ends.join("-")),
      ),
      step,
    )
    .map((texts) => texts.join(""));
  const field = fc.array(part, { minLength: 1, maxLength: 3 }).map((parts) => parts.join(","));
  let taken = 0;
  fc.assert(
    fc.property(field, fc.integer({ min: 0, max: 4 }), (text, at) => {
      const fields = FIELDS.map((_, i) => (i === at ? text : "*"));
      const ours = fieldSets(fields);
      if (ours !== undefined) taken += 1;
      assert.deepEqual(ours, setsOfLibrary(fields), text);
    }),
    { numRuns: runs(20_000), seed: 25 },
  );
  assert.ok(taken > runs(1_500), `only ${taken} were valid`);
});

test("what is not a number, a range, a list or a step is refused", () => {
  for (const text of [
    "",
    "a",
    "-",
    "1-",
    "-1",
    "1--2",
    "/5",
    "*/",
    "5,",
    ",5",
    "1.5",
    "0x5",
    "15W",
    "L",
    "5#2",
    "?",
    "1 2",
    "*5",
  ]) {
    assert.equal(fieldSets([text, "*", "*", "*", "*"]), undefined, text);
  }
});
