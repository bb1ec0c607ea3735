import assert from "node:assert/strict";
import { test } from "node:test";
import type { ItemAnswer } from "../../ports/item-store.ts";
import type { Ambiguous, Later } from "../decide/take-phase.ts";
import { blankIntent, NO_SIDES } from "./intent.ts";
import type { Sent } from "./job.ts";
import { LateWatch } from "./shard-take.ts";

const NONCE = { name: "n3", value: 77 };

function sending(): Sent {
  const intent = { ...blankIntent(0), nonce: NONCE };
  return { why: "take", jobs: [], intent, leaves: {} as Sent["leaves"], sides: NO_SIDES };
}

const applied: ItemAnswer = { kind: "applied", item: { n3: 77 } };
const shows: ItemAnswer = { kind: "failed", item: { n3: 77 } };
const hides: ItemAnswer = { kind: "failed", item: { n3: 78 } };
const lost: ItemAnswer = { kind: "unknown", cause: "lost for good" };

test("a sending that will never be answered is known to have landed by the nonce that the other shows", () => {
  const [first, second] = [sending(), sending()];
  const later: Later = { sent: first, answer: Promise.resolve(lost) };
  const phase: Ambiguous = {
    ...{ at: "ambiguous", sent: first, lost: [first, second], cause: "lost", laters: [later], seen: undefined },
  };
  const landed: Sent[] = [];
  new LateWatch(phase, (sent) => landed.push(sent)).on(later, shows);
  assert.equal(landed.length, 1);
  assert.equal(landed[0], second, "each sending of a create has a beginning of its own");
});

test("of two late answers, each landing is told once, in whichever order they come", async (t) => {
  const table: readonly (readonly [first: ItemAnswer, second: ItemAnswer, told: readonly string[]])[] = [
    // the first sending  the second          what landed
    [applied, shows, ["first"]],
    [shows, applied, ["second"]],
    [applied, hides, ["first"]],
    // Another process took the nonce's slot in between: it landed twice, and is given back twice.
    [applied, applied, ["first", "second"]],
    [lost, shows, ["first"]],
    [shows, lost, ["second"]],
    [hides, hides, []],
    [lost, lost, []],
  ];
  for (const [first, second, told] of table) {
    for (const order of [
      [0, 1],
      [1, 0],
    ]) {
      await t.test(`${first.kind}, ${second.kind}, in the order ${order}: ${told.join(" and ") || "nothing"}`, () => {
        const sends = [sending(), sending()] as [Sent, Sent];
        const laters = sends.map((sent): Later => ({ sent, answer: Promise.resolve(lost) }));
        const phase: Ambiguous = {
          at: "ambiguous",
          sent: sends[0],
          lost: sends,
          cause: "lost",
          laters,
          seen: undefined,
        };
        const landed: string[] = [];
        const watch = new LateWatch(phase, (sent) => landed.push(sent === sends[0] ? "first" : "second"));
        for (const i of order) watch.on(laters[i] as Later, i === 0 ? first : second);
        assert.deepEqual(landed.toSorted(), told);
      });
    }
  }
});
