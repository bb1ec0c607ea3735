import assert from "node:assert/strict";
import { test } from "node:test";
import { ConnectionPermits } from "./connection-permits.ts";

const turn = () => new Promise((resolve) => setImmediate(resolve));

/** A pool of so many; `opening` has what opens each further connection, once it is wanted. */
function poolOf(max: number) {
  const opening: { readonly opened: () => void; readonly ended: () => void; readonly failed: () => void }[] = [];
  const permits = new ConnectionPermits(
    max,
    (opened) =>
      new Promise((resolve, reject) => {
        opening.push({ opened, ended: resolve, failed: () => reject(new Error("no room")) });
      }),
  );
  const granted: string[] = [];
  const ask = (side: "takes" | "others", name: string) => {
    const permit = permits.ask(side);
    permit.granted.then(() => granted.push(name));
    return permit;
  };
  return { permits, opening, granted, ask };
}

test("a statement waits for a connection that is open while another is opened and prepared beside it", async () => {
  const { permits, opening, granted, ask } = poolOf(4);
  ask("takes", "a");
  ask("takes", "b");
  await turn();
  assert.deepEqual(granted, ["a"]);
  assert.equal(opening.length, 1);
  opening[0]?.opened();
  await turn();
  assert.deepEqual(granted, ["a"], "nobody uses it before it is prepared");
  permits.release("takes");
  await turn();
  assert.deepEqual(granted, ["a", "b"]);
  ask("takes", "c");
  await turn();
  assert.equal(opening.length, 1, "one for each who waits");
  opening[0]?.ended();
  await turn();
  assert.deepEqual(granted, ["a", "b", "c"]);
});

test("neither takes nor everything else can have all connections", async () => {
  const { opening, granted, ask } = poolOf(4);
  for (let i = 0; i < 5; i++) ask("others", `o${i}`);
  for (let i = 0; i < 3; i++) {
    await turn();
    opening[i]?.opened();
    opening[i]?.ended();
  }
  await turn();
  assert.deepEqual(granted, ["o0", "o1"]);
  assert.equal(opening.length, 1, "nobody opens what he may not use");
  for (let i = 0; i < 5; i++) ask("takes", `t${i}`);
  for (let i = 1; i < 4; i++) {
    await turn();
    opening[i]?.opened();
    opening[i]?.ended();
  }
  await turn();
  assert.deepEqual(granted, ["o0", "o1", "t0", "t1"]);
  assert.equal(opening.length, 3);
});

test("who no longer waits gets nothing, and what was granted to him meanwhile goes to the next", async () => {
  const { permits, granted, ask } = poolOf(1);
  ask("takes", "a");
  const given = ask("takes", "b");
  const left = ask("takes", "c");
  ask("takes", "d");
  left.cancel();
  permits.release("takes");
  await turn();
  given.cancel();
  await turn();
  assert.deepEqual(granted, ["a", "b", "d"]);
});

test("where no further connection can be opened, those that there are serve everybody, and it is not tried at once again", async () => {
  const { permits, opening, granted, ask } = poolOf(3);
  ask("takes", "a");
  ask("takes", "b");
  opening[0]?.failed();
  await turn();
  ask("takes", "c");
  await turn();
  assert.equal(opening.length, 1);
  permits.release("takes");
  await turn();
  permits.release("takes");
  await turn();
  assert.deepEqual(granted, ["a", "b", "c"]);
});

test("after all connections were closed, the next statement opens one itself, and the rest grow again", async () => {
  const { permits, opening, granted, ask } = poolOf(3);
  ask("takes", "a");
  ask("takes", "b");
  opening[0]?.opened();
  opening[0]?.ended();
  await turn();
  permits.release("takes");
  permits.release("takes");
  permits.closed();
  permits.closed();
  ask("takes", "c");
  ask("takes", "d");
  await turn();
  assert.deepEqual(granted, ["a", "b", "c"]);
  assert.equal(opening.length, 2);
});
