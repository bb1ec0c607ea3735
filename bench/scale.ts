import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { byUse, lookAt, readBuckets } from "../src/cli/watch-look.ts";
import { RateLimiter } from "../src/entry/index.ts";
import { concurrently } from "./callers.ts";
import { type BenchOptions, type BenchTable, type Contender, compare } from "./measure.ts";
import { roomyLimit } from "./roomy.ts";

const IDS_IN_USE = [900, 9_000, 100_000];
/** `--ids=1000000` for the longest lists that are meant; they take about a minute to make. */
const LISTED = 100_000;
const LISTED_BASE = 1_000;
const WATCHED = 30_000;

/** What more of everything costs: takes of more ids, the first page of a longer list, a look of `watch` at more buckets. */
export async function benchScale({ ids = LISTED, extent }: BenchOptions): Promise<BenchTable[]> {
  const folder = mkdtempSync(join(tmpdir(), "zae-limiter-bench-"));
  try {
    return [
      await idsInUse("memory", () => "memory", extent),
      await idsInUse("SQLite", (count) => `sqlite:${join(folder, `${count}.db`)}`, extent),
      await firstPage("entities", ids, extent),
      await firstPage("buckets", ids, extent),
      await oneLook(join(folder, "watched.db"), extent),
    ];
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Ids take turns, so that all of them are in use: whatever is remembered of an id is wanted again after all others. */
async function idsInUse(
  store: string,
  storeOf: (count: number) => string,
  extent: BenchOptions["extent"],
): Promise<BenchTable> {
  const limiters: RateLimiter[] = [];
  const contenders: Contender[] = [];
  for (const count of IDS_IN_USE) {
    const limiter = await openedWith(storeOf(count), count);
    limiters.push(limiter);
    let next = 0;
    const run = (calls: number) => concurrently(calls, () => taken(limiter, next++ % count));
    contenders.push({ name: `${thousands(count)} ids in use`, owner: "ours", run });
  }
  const [base, ...others] = contenders as [Contender, ...Contender[]];
  const measured = await compare(base, others, { by: ["process CPU"], rounds: 9, extent });
  for (const limiter of limiters) await limiter.close();
  return { title: `${store}, 64 callers, more ids in use (ratio 1: as cheap as ${base.name})`, ...measured };
}

/** A page of 100 costs what it shows if it costs the same however long the list is. */
async function firstPage(what: "entities" | "buckets", count: number, extent: BenchOptions["extent"]) {
  const limiters: RateLimiter[] = [];
  const contender = async (listed: number): Promise<Contender> => {
    const limiter = await openedWith("memory", what === "buckets" ? listed : 0);
    limiters.push(limiter);
    if (what === "entities") for (let i = 0; i < listed; i++) await limiter.createEntity({ id: `id-${i}` });
    const page = () =>
      what === "entities" ? limiter.listEntities({ limit: 100 }) : limiter.listBuckets({ resource: "two", limit: 100 });
    const run = async (calls: number) => {
      for (let i = 0; i < calls; i++) await page();
    };
    return { name: `first page of ${thousands(listed)} ${what}`, owner: "ours", run };
  };
  const [base, more] = [await contender(LISTED_BASE), await contender(count)];
  const measured = await compare(base, [more], { by: ["process CPU"], rounds: 9, extent });
  for (const limiter of limiters) await limiter.close();
  return { title: `memory, first page of a list (ratio 1: as cheap as of ${thousands(LISTED_BASE)})`, ...measured };
}

/** Limits that a screen has room for. */
const SHOWN = 40;

/** What `watch` reads at each look for a screen, against only listing the same buckets. */
async function oneLook(file: string, extent: BenchOptions["extent"]): Promise<BenchTable> {
  const limiter = await openedWith(`sqlite:${file}`, WATCHED);
  const listed = async (calls: number) => {
    for (let i = 0; i < calls; i++) for await (const _ of limiter.listBuckets({}));
  };
  const looked = async (calls: number) => {
    for (let i = 0; i < calls; i++) {
      const now = await readBuckets(limiter, {}, Date.now);
      const limits = [...now.limits.values()].sort(byUse);
      await lookAt(limiter, limits, { consume: {}, now, before: undefined, itemsMax: SHOWN });
    }
  };
  const measured = await compare(
    { name: `${thousands(WATCHED)} buckets listed`, owner: "ours", run: listed },
    [{ name: `a look of watch at ${thousands(WATCHED)} buckets`, owner: "ours", run: looked }],
    // A round is one look, of a second and more.
    { by: ["process CPU"], rounds: 3, extent },
  );
  await limiter.close();
  return { title: "SQLite, a look of watch (ratio 1: as cheap as a list of the same buckets)", ...measured };
}

async function openedWith(store: string, ids: number): Promise<RateLimiter> {
  const limiter = await RateLimiter.open({ store });
  await limiter.setResourceDefaults("two", [roomyLimit("rpm"), roomyLimit("tpm")]);
  await concurrently(ids, (i) => taken(limiter, i));
  return limiter;
}

function taken(limiter: RateLimiter, i: number): Promise<unknown> {
  return limiter.tryAcquire({ entityId: `id-${i}`, resource: "two", consume: { rpm: 1, tpm: 500 } });
}

function thousands(count: number): string {
  return count.toLocaleString("en");
}
