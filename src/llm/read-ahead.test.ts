import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { readAhead } from "./read-ahead.ts";

/** Chunks that are handed out one by one, and what became of their source. */
function numbers(t: TestContext, last: number) {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const told = { read: 0, left: false };
  const source = new ReadableStream<number>(
    {
      pull(controller) {
        if (told.read === last) return controller.close();
        controller.enqueue(told.read++);
      },
      cancel: () => {
        told.left = true;
      },
    },
    { highWaterMark: 0 },
  );
  const after = async (ms: number) => {
    t.mock.timers.tick(ms);
    for (let turn = 0; turn < 50; turn++) await new Promise((resolve) => setImmediate(resolve));
  };
  return { source, told, after };
}

async function rest(stream: ReadableStream<number>): Promise<number[]> {
  const items: number[] = [];
  for await (const item of stream) items.push(item);
  return items;
}

test("an answer that nobody reads is read to its end after a second, and can still be read", async (t) => {
  const { source, told, after } = numbers(t, 5);
  const stream = readAhead(source, () => 1);
  await after(999);
  assert.equal(told.read, 0);
  await after(1);
  assert.equal(told.read, 5);
  assert.deepEqual(await rest(stream), [0, 1, 2, 3, 4]);
});

test("whoever reads gets each chunk when it is asked for, and a reader that stops is read ahead of", async (t) => {
  const { source, told, after } = numbers(t, 5);
  const reader = readAhead(source, () => 1).getReader();
  assert.equal((await reader.read()).value, 0);
  await after(0);
  await after(900);
  assert.equal((await reader.read()).value, 1);
  await after(0);
  await after(900);
  assert.equal(told.read, 2);
  await after(100);
  assert.equal(told.read, 5);
  assert.equal((await reader.read()).value, 2);
  await reader.cancel();
});

test("no more is read ahead than fits, and an answer that is left so for ten minutes ends", async (t) => {
  const { source, told, after } = numbers(t, 5);
  const stream = readAhead(source, () => 8_000_000);
  await after(1_000);
  assert.deepEqual(told, { read: 2, left: false });
  await after(600_000);
  assert.deepEqual(told, { read: 2, left: true });
  await assert.rejects(rest(stream), /not read for 10 minutes/);
});
