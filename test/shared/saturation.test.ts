import assert from "node:assert/strict";
import { test } from "node:test";
import { type Saturated, saturate } from "./saturation.ts";

function told(name: string, { due, ours, theirs, worstBurst }: Saturated): string {
  return `${name}: ${ours + theirs} of ${due} due (ours ${ours}, theirs ${theirs}), worst burst ${worstBurst.toFixed(3)}`;
}

test("nearly all due tokens are delivered on a saturated bucket that four clients of each side use", async (t) => {
  const both = await saturate({ ours: 4, theirs: 4 });
  const alone = await saturate({ ours: 0, theirs: 4 });
  t.diagnostic(told("both", both));
  t.diagnostic(told("the original alone", alone));
  assert.ok(both.ours + both.theirs >= 0.95 * both.due, told("both", both));
  assert.ok(both.ours + both.theirs <= both.due + 1, "more than was due");
  assert.ok(both.worstBurst <= 1.05, `the worst burst was ${both.worstBurst} of the capacity`);
  assert.ok(alone.theirs < both.ours + both.theirs, "the original alone loses what its round trips take");
});
