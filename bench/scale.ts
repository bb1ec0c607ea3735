import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { byUse, lookAt, readBuckets } from "../src/cli/watch-look.ts";
import { type OpenOptions, RateLimiter } from "../src/entry/index.ts";
import { CALLERS, concurrently } from "./callers.ts";
import { type BenchOptions, type BenchTable, type Contender, compare, compareInTurns } from "./measure.ts";
import { roomyLimit } from "./roomy.ts";

const IDS_IN_USE = [900, 9_000, 100_000];
/** `--ids=1000000` for the longest lists that are meant; they take about a minute to make. */
const LISTED = 100_000;
const LISTED_BASE = 1_000;
const WATCHED = 30_000;

/** What more of everything costs: takes of more ids and of ids that come seldom, the first page of a longer list, a look of `watch` at more buckets. */
export async function benchScale({ ids = LISTED, extent }: BenchOptions): Promise<BenchTable[]> {
  const folder = mkdtempSync(join(tmpdir(), "zae-limiter-bench-"));
  try {
    const inUse = { extent, folder };
    return [
      await idsInUse("memory", "in turn", inUse),
      await idsInUse("memory", "at random", inUse),
      await idsInUse("SQLite", "in turn", inUse),
      await idsInUse("SQLite", "at random", inUse),
      await seldomIds("memory", inUse),
      await seldomIds("SQLite", inUse),
      await firstPage("entities", ids, extent),
      await firstPage("buckets", ids, extent),
      await oneLook(join(folder, "watched.db"), extent),
    ];
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

type Store = "memory" | "SQLite";
type Order = "in turn" | "at random";

interface InUse {
  readonly extent: BenchOptions["extent"];
  /** For files. */
  readonly folder: string;
}

/**
 * All ids are in use: whatever is remembered of one is wanted again after the others. The floor does with as many ids, in the same order and by
 * turns with ours, the least that a store can do: it shows what the machine and SQLite take for more ids.
 */
async function idsInUse(store: Store, order: Order, { extent, folder }: InUse): Promise<BenchTable> {
  const limiters: RateLimiter[] = [];
  const ours: Contender[] = [];
  const floors: Contender[] = [];
  for (const count of IDS_IN_USE) {
    const name = `${thousands(count)} ids in use`;
    const limiter = await openedWith(storeOf(store, join(folder, `${order}-${count}.db`)), count);
    limiters.push(limiter);
    const next = picked(order, count);
    ours.push({ name, owner: "ours", run: (calls) => concurrently(calls, () => taken(limiter, next())) });
    if (extent === "followed") continue;
    const floor =
      store === "memory" ? bareMap(count, picked(order, count)) : bareRows(folder, order, count, picked(order, count));
    floors.push({ name: `the floor, ${name}`, owner: "peer", run: floor });
  }
  const groups = (floors.length === 0 ? [ours] : [ours, floors]).map(([base, ...others]) => ({
    base: base as Contender,
    others,
  }));
  const [own, floor] = await compareInTurns(groups, { by: ["process CPU"], rounds: 9, extent });
  for (const limiter of limiters) await limiter.close();
  const rows = (own?.rows ?? []).map((row, i) => {
    const least = floor?.rows[i];
    // By how much more the cost of ours has grown than that of the floor.
    return least === undefined ? row : { ...row, growthOverFloor: least.ratio / row.ratio };
  });
  const title = `${store}, 64 callers, more ids in use${order === "in turn" ? "" : `, ${order}`}`;
  return {
    title: `${title} (ratio 1: as cheap as ${groups[0]?.base.name})`,
    rows: [...rows, ...(floor?.rows ?? [])],
    followed: own?.followed ?? [],
  };
}

function storeOf(store: Store, file: string): string {
  return store === "memory" ? "memory" : `sqlite:${file}`;
}

/** Which id is next; at random always the same ones, one after the other. */
function picked(order: Order, count: number): () => number {
  let next = 0;
  if (order === "in turn") return () => next++ % count;
  let seed = 12_345;
  return () => {
    seed ^= seed << 13;
    seed ^= seed >>> 17;
    seed ^= seed << 5;
    return (seed >>> 0) % count;
  };
}

/** A map from ids to two counters, asked by as many callers. */
function bareMap(count: number, next: () => number): (calls: number) => Promise<void> {
  const counters = new Map<string, { rpm: number; tpm: number }>();
  for (let i = 0; i < count; i++) counters.set(`id-${i}`, { rpm: 1e12, tpm: 1e12 });
  const take = async (id: string): Promise<boolean> => {
    const counter = counters.get(id);
    if (counter === undefined || counter.rpm < 1 || counter.tpm < 500) return false;
    counter.rpm -= 1;
    counter.tpm -= 500;
    return true;
  };
  return (calls) => concurrently(calls, () => take(`id-${next()}`));
}

/** One statement for each take, as many in a transaction as there are callers, on rows of the size that ours have. */
function bareRows(folder: string, order: Order, count: number, next: () => number): (calls: number) => void {
  const database = new DatabaseSync(join(folder, `floor-${order}-${count}.db`));
  database.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL");
  database.exec(
    "CREATE TABLE counter (id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, limits TEXT, level BLOB) STRICT",
  );
  const insert = database.prepare("INSERT INTO counter (key, limits, level) VALUES (?, ?, ?)");
  const level = new Uint8Array(ROW_LEVEL_BYTES);
  database.exec("BEGIN");
  for (let i = 0; i < count; i++) insert.run(`id-${i}`, "x".repeat(ROW_LIMITS_BYTES), level);
  database.exec("COMMIT");
  const update = database.prepare("UPDATE counter SET level = ? WHERE key = ?");
  return (calls) => {
    for (let left = calls; left > 0; left -= CALLERS) {
      database.exec("BEGIN IMMEDIATE");
      for (let i = 0; i < Math.min(left, CALLERS); i++) {
        level[0] = left % 256;
        update.run(level, `id-${next()}`);
      }
      database.exec("COMMIT");
    }
  };
}

/** Of a bucket with two limits, in the file: its limits with all other columns but the key, and its level. */
const ROW_LIMITS_BYTES = 100;
const ROW_LEVEL_BYTES = 88;

/** As many ids; each comes again before its limits have been remembered for a minute, or after. The clock is simulated. */
async function seldomIds(store: Store, { extent, folder }: InUse): Promise<BenchTable> {
  const limiters: RateLimiter[] = [];
  const contender = async (everyMs: number): Promise<Contender> => {
    const clock = { nowMs: Date.UTC(2026, 5, 15), now: () => clock.nowMs };
    const limiter = await openedWith(storeOf(store, join(folder, `seldom-${everyMs}.db`)), SELDOM_IDS, clock);
    limiters.push(limiter);
    const startMs = clock.nowMs;
    let next = 0;
    const run = (calls: number) =>
      concurrently(calls, () => {
        clock.nowMs = startMs + Math.floor((next * everyMs) / SELDOM_IDS);
        return taken(limiter, next++ % SELDOM_IDS);
      });
    return { name: `${thousands(SELDOM_IDS)} ids, each once in ${everyMs / 1000} s`, owner: "ours", run };
  };
  const [base, seldom] = [await contender(10_000), await contender(70_000)];
  const measured = await compare(base, [seldom], { by: ["process CPU"], rounds: 9, extent });
  for (const limiter of limiters) await limiter.close();
  return { title: `${store}, 64 callers, ids that come seldom (ratio 1: as cheap as often)`, ...measured };
}

const SELDOM_IDS = 20_000;

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

async function openedWith(store: string, ids: number, clock?: OpenOptions["clock"]): Promise<RateLimiter> {
  // A busy machine is no outage.
  const limiter = await RateLimiter.open({ store, timeoutMs: 60_000, ...(clock === undefined ? {} : { clock }) });
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
