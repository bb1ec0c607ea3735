import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { openMemory } from "../../src/entry/memory.ts";
import { openSqlite } from "../../src/entry/sqlite.ts";
import { ENGINE_MUTANTS, STORE_MUTANTS } from "./slot-mutants.ts";
import { type OpenStore, playSlotWorld, type Spoiled } from "./slot-world.ts";

const folder = mkdtempSync(join(tmpdir(), "zae-limiter-slots-"));
after(() => rmSync(folder, { recursive: true, force: true }));

const STORES: readonly (readonly [string, (seed: number) => OpenStore])[] = [
  [
    "memory",
    () => {
      const store = openMemory();
      return () => store;
    },
  ],
  ["SQLite", (seed) => () => openSqlite({ file: join(folder, `${seed}.db`) })],
];

for (const [name, open] of STORES) {
  test(`in sixty worlds on ${name} no slot is held twice, and none is lost`, async () => {
    for (let seed = 1; seed <= 60; seed++)
      assert.equal(await playSlotWorld(seed, open(seed)), undefined, `seed ${seed}`);
  });
}

/** One of so many worlds has to find each bug. */
const WORLDS = 60;

async function isFound(spoiled?: Spoiled): Promise<boolean> {
  for (let seed = 1; seed <= WORLDS; seed++) {
    const store = openMemory();
    if ((await playSlotWorld(seed, () => store, spoiled)) !== undefined) return true;
  }
  return false;
}

for (const [bug, spoiled] of Object.entries(STORE_MUTANTS)) {
  test(`the judge of slots finds ${bug}`, async () => assert.ok(await isFound(spoiled)));
}

for (const [bug, spoil] of Object.entries(ENGINE_MUTANTS)) {
  test(`the judge of slots finds ${bug}`, async () => {
    const mended = spoil();
    try {
      assert.ok(await isFound());
    } finally {
      mended();
    }
  });
}
