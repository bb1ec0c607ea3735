import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Limit, RateLimiter } from "../src/entry/index.ts";
import { concurrently, sequentially } from "./callers.ts";
import { type BenchTable, type Contender, compare } from "./measure.ts";
import { roomyLimit } from "./roomy.ts";

const KEYS = Array.from({ length: 100 }, (_, i) => `key-${i}`);

/** One request by the limiter, of one of the resources. */
type Ask = (limiter: RateLimiter, request: Parameters<RateLimiter["acquire"]>[0]) => unknown;

/** What a request does, and how many of them at a time. */
interface Way {
  readonly name: string;
  readonly ask: Ask;
  readonly callers: "none" | "one" | "64";
}

const takes: Ask = (limiter, request) => limiter.tryAcquire(request);
const settles: Ask = async (limiter, request) => (await limiter.acquire(request)).settle();

const ON_MEMORY: readonly Way[] = [
  { name: "take", ask: (limiter, request) => limiter.tryAcquireSync(request), callers: "none" },
  { name: "take and settle", ask: settles, callers: "one" },
  { name: "withLease", ask: (limiter, request) => limiter.withLease(request, () => 1), callers: "one" },
];

const ON_SQLITE: readonly Way[] = [
  { name: "take, one caller", ask: takes, callers: "one" },
  { name: "take, 64 callers", ask: takes, callers: "64" },
  { name: "take and settle, one caller", ask: settles, callers: "one" },
  { name: "take and settle, 64 callers", ask: settles, callers: "64" },
];

/** What slots cost: a limit on how many are at once beside a rate, against a second rate in its place. */
export async function benchSlots(): Promise<BenchTable[]> {
  const folder = mkdtempSync(join(tmpdir(), "zae-limiter-bench-"));
  try {
    const memory = await tableOf("memory", "memory", ON_MEMORY);
    return [memory, await tableOf("SQLite", `sqlite:${join(folder, "slots.db")}`, ON_SQLITE)];
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

async function tableOf(name: string, store: string, ways: readonly Way[]): Promise<BenchTable> {
  const limiter = await RateLimiter.open({ store });
  await limiter.setResourceDefaults("rates", [roomyLimit("a"), roomyLimit("b")]);
  await limiter.setResourceDefaults("slots", [roomyLimit("a"), Limit.concurrent("b", 1_000_000)]);
  const rows: object[] = [];
  for (const way of ways) {
    const of = contenders(limiter, way);
    const { rows: both } = await compare(of("rates"), [of("slots")], { by: ["process CPU"], rounds: 9, extent: "all" });
    rows.push(...both);
  }
  await limiter.close();
  return { title: `${name}, slots in place of a rate (ratio below 1: slower than the rate)`, rows };
}

function contenders(limiter: RateLimiter, { name, ask, callers }: Way): (resource: string) => Contender {
  return (resource) => {
    const one = (i: number) =>
      ask(limiter, { entityId: KEYS[i % KEYS.length] as string, resource, consume: { a: 1, b: 1 } });
    const run = async (calls: number): Promise<void> => {
      if (callers === "none") for (let i = 0; i < calls; i++) one(i);
      else await (callers === "one" ? sequentially : concurrently)(calls, async (i) => one(i));
    };
    return { name: `${name}: ${resource}`, owner: "ours", run };
  };
}
