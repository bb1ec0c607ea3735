import assert from "node:assert/strict";
import { test } from "node:test";
import { seeds } from "../../test/depth.ts";
import { playSlots, type SpoiledBatch } from "../../test/straight/slot-world.ts";
import type { Batch, BatchClaim, LevelPin } from "../ports/batch-store.ts";

test("worlds of slots by batches: never more than N, no slot of another freed, none lost for good", async () => {
  for (const seed of seeds(25, 400)) assert.equal(await playSlots(seed), undefined, `seed ${seed}`);
});

const claimsOf = (batch: Batch, change: (claim: BatchClaim, kind: string) => BatchClaim): Batch => ({
  ...batch,
  requests: batch.requests.map((request) => ({
    ...request,
    claims: request.claims.map((claim) => change(claim, request.kind)),
  })),
});

const pinsOf = (batch: Batch, change: (pin: LevelPin, pins: readonly LevelPin[]) => LevelPin): Batch =>
  claimsOf(batch, (claim) => ({ ...claim, pins: claim.pins?.map((pin) => change(pin, claim.pins ?? [])) }));

const is = <Key extends string>(pin: LevelPin, key: Key): pin is Extract<LevelPin, Record<Key, unknown>> =>
  typeof pin === "object" && key in pin;

const MUTANTS: readonly (readonly [name: string, spoiled: SpoiledBatch])[] = [
  [
    "takes slots and holds none",
    (batch) =>
      claimsOf(batch, (claim) => ({
        ...claim,
        amounts: claim.amounts.map((amount) => (amount !== null && amount < 0 ? null : amount)),
      })),
  ],
  ["gives slots back and leaves them held", (batch) => pinsOf(batch, (pin) => (is(pin, "from") ? undefined : pin))],
  ["gives back what is over", (batch) => pinsOf(batch, (pin) => (typeof pin === "string" ? undefined : pin))],
  [
    "gives back out of the slice beside its own",
    (batch) =>
      pinsOf(batch, (pin, { length }) =>
        is(pin, "from") ? { ...pin, from: Math.min(pin.from + 1, length - 1) } : pin,
      ),
  ],
  [
    "renews into the slice before the one it is told of",
    (batch) => pinsOf(batch, (pin) => (is(pin, "into") ? { into: pin.into - 1 } : pin)),
  ],
  [
    "does not compare which slices there are",
    (batch, rows) =>
      claimsOf(batch, (claim) => {
        const { key, brought } = batch.buckets[claim.bucket] as Batch["buckets"][0];
        const signature = rows.get(`${batch.namespaceId}\n${key.id}`)?.signature;
        return brought !== undefined || signature === undefined ? claim : { ...claim, signature };
      }),
  ],
  [
    "tells renewals that were not made",
    (batch) =>
      claimsOf(batch, (claim, kind) =>
        kind === "renew" ? { ...claim, amounts: claim.amounts.map(() => null) } : claim,
      ),
  ],
];

for (const [name, spoiled] of MUTANTS) {
  test(`a process that ${name} is found`, async () => {
    let found: string | undefined;
    for (let seed = 1; seed <= 60 && found === undefined; seed++) found = await playSlots(seed, spoiled).catch(String);
    assert.match(found ?? "", /held|stored|holds|damaged/);
  });
}
