import assert from "node:assert/strict";
import { test } from "node:test";
import { meter, type TokenUsage } from "./meter.ts";
import { type StreamedUsage, trackUsage } from "./track-usage.ts";

interface Chunk {
  readonly text?: string;
  readonly usage?: TokenUsage;
  readonly error?: true;
}

const ESTIMATED: TokenUsage = { requests: 1, input: 100, output: 1_024 };

function openLease() {
  const closes: unknown[] = [];
  return {
    closes,
    lease: {
      signal: new AbortController().signal,
      settle: async (totals?: object) => void closes.push(totals ?? "as charged"),
      rollback: async () => void closes.push("rolled back"),
    },
  };
}

async function streamed(chunks: readonly Chunk[], max: number, fails?: Error) {
  const { lease, closes } = openLease();
  const told: StreamedUsage[] = [];
  async function* source() {
    yield* chunks;
    if (fails !== undefined) throw fails;
  }
  const tracked = trackUsage(lease, source(), {
    estimated: ESTIMATED,
    usageOf: ({ usage }) => usage,
    outputOf: ({ text }) => text,
    isError: ({ error }) => error === true,
    amountsOf: meter({ tpm: { input: 1, cachedInput: 1, output: 1, reasoning: 1 } }),
    closed: (one) => void told.push(one),
  });
  let count = 0;
  try {
    if (max > 0) for await (const _ of tracked) if (++count === max) break;
    if (max === 0) await tracked.return?.();
  } catch (error) {
    assert.equal(error, fails);
  }
  assert.equal(told.length, 1);
  assert.equal(closes.length, 1);
  return { settled: closes[0], by: told[0]?.by, usage: told[0]?.usage };
}

const TEXTS: readonly Chunk[] = [{ text: "four" }, { text: "and five" }];

test("a call is settled by the usage that its stream reports", async () => {
  const { settled, by } = await streamed(
    [...TEXTS, { usage: { input: 90, cachedInput: 20, output: 5, reasoning: 2 } }],
    9,
  );
  assert.deepEqual([settled, by], [{ tpm: 117 }, "reported"]);
});

test("a call that is left early is settled by the estimated input and the text that came, less than a token once", async () => {
  assert.deepEqual((await streamed([{ text: "a" }, { text: "b" }, { text: "c" }], 2)).settled, { tpm: 101 });
  assert.deepEqual(await streamed(TEXTS, 2), {
    settled: { tpm: 103 },
    by: "counted",
    usage: { requests: 1, input: 100, cachedInput: undefined, cacheWrite: undefined, output: 3 },
  });
  // Nothing came: the provider has read the input all the same.
  assert.deepEqual((await streamed(TEXTS, 0)).settled, { tpm: 100 });
});

test("a call that is left early is settled by the usage that was reported so far", async () => {
  const chunks = [{ usage: { input: 90, cachedInput: 20, output: 1 } }, ...TEXTS];
  assert.deepEqual((await streamed(chunks, 2)).settled, { tpm: 111 });
  // Kinds that are not reported yet are counted by what came.
  const onlyInput = [{ usage: { input: 90 } }, ...TEXTS];
  const { settled, by } = await streamed(onlyInput, 3);
  assert.deepEqual([settled, by], [{ tpm: 93 }, "counted"]);
});

test("a call that fails is settled as one that is left, also before anything came: it was sent", async () => {
  const cut = new Error("cut");
  assert.deepEqual((await streamed(TEXTS, 9, cut)).settled, { tpm: 103 });
  assert.deepEqual((await streamed([], 9, cut)).settled, { tpm: 100 });
});

test("a stream that has nothing but an error of the provider is given back; one that had begun is not", async () => {
  assert.equal((await streamed([{ error: true }], 9)).settled, "rolled back");
  assert.deepEqual((await streamed([{ text: "four" }, { error: true }], 2)).settled, { tpm: 101 });
});

test("a call whose stream ends without a usage is settled as it was estimated, and that is told", async () => {
  const { settled, by, usage } = await streamed(TEXTS, 9);
  assert.deepEqual([settled, by, usage], ["as charged", "estimated", ESTIMATED]);
});

test("the last number of each kind counts, and one that is not told leaves the one before", async () => {
  const told = (usage: object) => ({ usage: usage as TokenUsage });
  const chunks = [
    told({ input: 9, output: 4 }),
    told({ input: null, output: undefined, reasoning: 2 }),
    told({ output: 7 }),
  ];
  assert.deepEqual((await streamed(chunks, 9)).settled, { tpm: 18 });
});
