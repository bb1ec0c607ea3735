import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { DEEP_FROM_FIRST } from "../depth.ts";

// Deliberate bugs of slots that are one line of the source, each with the test that must find it.

interface SpoiledSlots {
  readonly file: string;
  readonly from: string;
  readonly to: string;
  readonly found: readonly [file: string, test: string];
}

const SHADOWS = [
  "limiter/shadow-slots.test.ts",
  "slots that refuse nothing change no answer of any call on memory",
] as const;

const HOLDS = [
  "limiter/slots.test.ts",
  "the hold of a request holds for what its lease takes later, and for what further resources take of a total",
] as const;

const CHANGING = [
  "limiter/slot-worlds.test.ts",
  "in worlds on memory with limits that change, slots that bodies take later or again are held to the end",
] as const;

const BUGS: Readonly<Record<string, SpoiledSlots>> = {
  "shadow slots that bound a hold": {
    file: "src/domain/bucket/slot-time.ts",
    from: "slotLimits(limits, take).filter(isHard)",
    to: "slotLimits(limits, take)",
    found: SHADOWS,
  },
  "shadow slots that can be lost": {
    file: "src/engine/lease/lease-holds.ts",
    from: "shortestMs(({ limit }) => isHardIn(set.limits, limit))",
    to: "shortestMs(() => true)",
    found: SHADOWS,
  },
  "shadow slots that end a stored lease": {
    file: "src/leases/slots.ts",
    from: "return isHardIn(resources[at[0]]?.levels[at[1]]?.limits ?? [], name);",
    to: "return true;",
    found: SHADOWS,
  },
  "a stored lease that outlives its slots": {
    file: "src/leases/slots.ts",
    from: "Math.min(expiresAtMs, pin.endMs)",
    to: "expiresAtMs",
    found: [
      "stored-leases/slots.test.ts",
      "a lease that takes a slot later, or whose limit is changed, ends no later than its slots",
    ],
  },
  "a stored lease that outlives its slots, while limits change": {
    file: "src/leases/slots.ts",
    from: "Math.min(expiresAtMs, pin.endMs)",
    to: "expiresAtMs",
    found: [
      "lease-simulation/slot-leases.test.ts",
      "in worlds on memory stored leases end no later than their slots, and leave none held",
    ],
  },
  "one lost limit that loses the others": {
    file: "src/engine/lease/lease-holds.ts",
    from: "of slots(limits)) for",
    to: "of slots(undefined)) for",
    found: ["limiter/slots.test.ts", "slots of a .* limit that are lost lose no others"],
  },
  "one lost limit that loses the others, while limits change": {
    file: "src/engine/lease/lease-holds.ts",
    from: "of slots(limits)) for",
    to: "of slots(undefined)) for",
    found: CHANGING,
  },
  "a signal that does not hear of slots that come later": {
    file: "src/engine/lease/lease.ts",
    from: "const holds = this.#holds();\n    if",
    to: "const holds = this.#holdsOfSlots();\n    if",
    found: CHANGING,
  },
  "a hold of the request that later slots forget": {
    file: "src/engine/acquire/request.ts",
    from: "return demand.bypass || !hasSlotLimits(demand.set) ?",
    to: "return demand.bypass || hardSlotLimits(demand.set.limits, demand.take).length === 0 ?",
    found: HOLDS,
  },
  "a hold of the request that further resources forget": {
    file: "src/engine/acquire/plan.ts",
    from: "covering(askedAs(own, request), part.chain, sinceRead)",
    to: "covering(i > 0 ? own : askedAs(own, request), part.chain, sinceRead)",
    found: HOLDS,
  },
  "a settle that does not wait for the extension under way": {
    file: "src/leases/changing.ts",
    from: "return nowMs < renewingUntilMs;",
    to: "return nowMs < 0 && renewingUntilMs > 0;",
    found: ["stored-leases/slots.test.ts", "an extension beside settle leaves nothing held, and loses nothing"],
  },
};

for (const [bug, { found, ...spoiled }] of Object.entries(BUGS)) {
  test(`a test of slots finds ${bug}`, () => {
    const [file, name] = found;
    const { NODE_TEST_CONTEXT: _, ...env } = process.env;
    const { stdout, stderr } = spawnSync(
      process.execPath,
      [
        "--import",
        new URL("spoiled-source.ts", import.meta.url).href,
        "--test-reporter=tap",
        "--test-name-pattern",
        name,
        at(file),
      ],
      { encoding: "utf8", env: { ...env, ...DEEP_FROM_FIRST, SPOILED: JSON.stringify(spoiled) } },
    );
    assert.match(stdout, new RegExp(`not ok \\d+ - ${name}`), stderr);
  });
}

function at(file: string): string {
  return fileURLToPath(new URL(`../${file}`, import.meta.url));
}
