import { RateLimiter } from "../src/entry/index.ts";
import { CALLERS, concurrently } from "./callers.ts";
import { type BenchOptions, type BenchTable, type Contender, compare } from "./measure.ts";

const IDS = 200;
const CHANGES_PER_SECOND = 30;
const AT_ONCE = 2_000;

/**
 * Ids that a process meets for the first time, and changes of others while it takes: beside 200 ids that it knows. `store` has limits for the
 * resource `two`.
 */
export async function idsTables(store: string, extent: BenchOptions["extent"]): Promise<BenchTable[]> {
  const limiter = await RateLimiter.open({ store, timeoutMs: 10_000 });
  const other = await RateLimiter.open({ store });
  const take = (entityId: string) => limiter.tryAcquire({ entityId, resource: "two", consume: { rpm: 1, tpm: 500 } });
  // Of every run other ids, in a store that is kept.
  const run = `${process.pid}-${process.hrtime.bigint()}`;
  let met = 0;
  const known: Contender = {
    name: "200 known ids",
    owner: "peer",
    run: (calls) => concurrently(calls, (i) => take(`known-${i % IDS}`)),
  };
  const fresh: Contender = {
    name: "new ids",
    owner: "ours",
    run: (calls) => concurrently(calls, () => take(`new-${run}-${met++}`)),
  };
  const changing: Contender = {
    name: `200 known ids, ${CHANGES_PER_SECOND} changes of others a second`,
    owner: "ours",
    run: (calls) => whileOthersChange(other, run, () => concurrently(calls, (i) => take(`known-${i % IDS}`))),
  };
  try {
    await known.run(IDS);
    const compared = await compare(known, [fresh, changing], { by: ["time"], rounds: 7, extent });
    const table = { title: `PostgreSQL, new ids and changes, ${CALLERS} callers`, ...compared };
    return extent === "followed" ? [table] : [table, await atOnce(store, run)];
  } finally {
    await last;
    await limiter.close();
    await other.close();
  }
}

let last: Promise<unknown> = Promise.resolve();
let changes = 0;

/** Entities are created at that pace by somebody else. */
async function whileOthersChange(other: RateLimiter, run: string, work: () => Promise<void>): Promise<void> {
  const timer = setInterval(() => {
    const id = `stranger-${run}-${changes++}`;
    last = last.then(() => other.createEntity({ id }));
  }, 1_000 / CHANGES_PER_SECOND);
  try {
    await work();
  } finally {
    clearInterval(timer);
  }
}

/** A process that begins with thousands of ids in the same moment, with the default `timeoutMs` of a second. */
async function atOnce(store: string, run: string): Promise<BenchTable> {
  const limiter = await RateLimiter.open({ store, onUnavailable: "block" });
  const began = process.hrtime.bigint();
  const outcomes = await Promise.allSettled(
    Array.from({ length: AT_ONCE }, (_, i) =>
      limiter.tryAcquire({ entityId: `burst-${run}-${i}`, resource: "two", consume: { rpm: 1, tpm: 500 } }),
    ),
  );
  const ms = Number((process.hrtime.bigint() - began) / 1_000_000n);
  await limiter.close();
  const unavailable = outcomes.filter(({ status }) => status === "rejected").length;
  return {
    title: `PostgreSQL, ${AT_ONCE} new ids at once, within 1 s each`,
    rows: [{ name: "a process that begins", ms, unavailable }],
  };
}
