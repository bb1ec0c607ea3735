import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "../../../test/properties.ts";
import { type LaterHold, LaterHolds } from "./later-holds.ts";

test("holds are looked at once, by themselves or with all others, unless they were removed", () => {
  const step = fc.record({
    dueMs: fc.nat(1_000),
    act: fc.constantFrom("add", "remove", "hurry", "add", "all"),
    index: fc.nat(),
  });
  let looks = 0;
  fc.assert(
    fc.property(fc.array(step, { minLength: 5, maxLength: 60 }), (steps) => {
      const later = new LaterHolds();
      const seen: number[] = [];
      /** Those that are not looked at yet, by id. */
      const open = new Map<number, { readonly dueMs: number; readonly hold: LaterHold }>();
      const pick = (index: number) => {
        const [id, { hold }] = [...open][index % open.size] as [number, { readonly hold: LaterHold }];
        open.delete(id);
        return { id, hold };
      };
      for (const [id, { dueMs, act, index }] of steps.entries()) {
        open.set(id, { dueMs, hold: later.add(dueMs, () => seen.push(id)) });
        const gone = act === "remove" ? pick(index) : undefined;
        gone?.hold.remove();
        const early = act === "hurry" ? pick(index) : undefined;
        early?.hold.now();
        assert.deepEqual(seen.splice(0), early === undefined ? [] : [early.id]);
        // What was removed or looked at is over.
        for (const one of [gone, early]) {
          one?.hold.remove();
          one?.hold.now();
        }
        assert.equal(later.nextMs, Math.min(...[...open.values()].map((one) => one.dueMs)));
        if (act !== "all") continue;
        later.lookAtAll();
        assert.deepEqual(new Set(seen), new Set(open.keys()));
        looks += seen.splice(0).length;
        open.clear();
        assert.equal(later.nextMs, Number.POSITIVE_INFINITY);
      }
    }),
    { numRuns: 300 },
  );
  assert.ok(looks > 500, `only ${looks} were looked at together`);
});
