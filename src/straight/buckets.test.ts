import { test } from "node:test";
import { seeds } from "../../test/depth.ts";
import { StraightStore } from "../../test/kit/straight-store.ts";
import { madeAnew } from "../../test/straight/made-anew.ts";
import { bucketsOn, sameAsMemory } from "../../test/straight/same-as-memory.ts";
import { unseenEnd } from "../../test/straight/unseen-end.ts";
import { SeededRandom } from "../testing/random.ts";

for (const seed of seeds(6, 40)) {
  test(`random calls are answered as by memory, seed ${seed}`, async () => {
    const store = new StraightStore(() => 0);
    store.generations.set("default", 1);
    const random = new SeededRandom(seed);
    const processes = [1, 2].map(() => bucketsOn(store, random, { coalesce: true }));
    await sameAsMemory(random, 300, processes, seed % 2 === 0 ? "one" : "several");
  });
}

test("what a process remembers of a forgotten bucket does not fill the one that was made after it", async () => {
  const store = new StraightStore(() => 0);
  store.generations.set("default", 1);
  const random = new SeededRandom(1);
  const open = () => bucketsOn(store, random, { coalesce: true });
  await madeAnew(store, [open(), open()]);
});

test("a lease finds the end of an override that another process has brought to its bucket", async () => {
  const store = new StraightStore(() => 0);
  store.generations.set("default", 1);
  const random = new SeededRandom(1);
  await unseenEnd((onRead) => bucketsOn(store, random, { coalesce: true, onRead }));
});
