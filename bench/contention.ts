import { createCalendar } from "../src/adapters/system/calendar.ts";
import { Limit, RateLimiter } from "../src/entry/index.ts";
import { SeededRandom } from "../src/testing/random.ts";
import { conditionalWorld, openConditional } from "../test/kit/conditional-store.ts";
import { VirtualTime } from "./virtual-time.ts";

/** An entity with one drip limit; its parents are charged too. */
export interface Node {
  readonly id: string;
  readonly parentId: string | undefined;
  readonly capacity: number;
  readonly perSecond: number;
}

/** One request: `amount` tokens of an entity and of everything above it, by one of the processes. */
export interface Request {
  readonly process: number;
  readonly entityId: string;
  readonly amount: number;
}

/** What became of a request. Times are true times in ms. */
export interface RequestRecord extends Request {
  readonly askedMs: number;
  readonly doneMs: number;
  readonly granted: boolean;
}

/** Asks for tokens once. `retryAfterMs` is what a refused request was told. */
export type Ask = (request: Request) => Promise<{ readonly ok: boolean; readonly retryAfterMs: number }>;

/** Sends requests over a stretch of virtual time, whoever answers them. */
export type Load = (time: VirtualTime, ask: Ask, random: SeededRandom) => void;

export interface Contention {
  readonly tree: readonly Node[];
  readonly processes: number;
  readonly atomic: boolean;
  /** Without the tolerance at the brim. */
  readonly exact: boolean;
  readonly seed: number;
  readonly load: Load;
}

export interface Outcome {
  readonly records: readonly RequestRecord[];
  /** Tokens. */
  readonly granted: number;
  /** What a central limiter grants under the same load. */
  readonly due: number;
  /** Refusals of requests for which every level had enough all the time, with everything that was granted taken off. */
  readonly needless: number;
  readonly writes: number;
  readonly transactions: number;
}

export const WAY_MS = 2.5;
export const START_MS = Date.UTC(2026, 0, 1);

/** Runs a load against several processes on one simulated table, and against a central, exact limiter. */
export async function contend(contention: Contention): Promise<Outcome> {
  const time = new VirtualTime(START_MS);
  const random = new SeededRandom(contention.seed);
  const table = { now: () => time.now(), random: random.fork(), writesPerSecond: Number.POSITIVE_INFINITY, staleMs: 0 };
  const world = conditionalWorld(table, createCalendar());
  const limiters = await opened(contention, world, time, random);
  const records: RequestRecord[] = [];
  const before = { ...world.table.counts };
  contention.load(time, recorded(records, time, askOf(limiters, contention.atomic)), new SeededRandom(contention.seed));
  await time.run();
  const { writes, transactions } = world.table.counts;
  return {
    records,
    granted: grantedIn(records),
    due: grantedIn(await centrally(contention)),
    needless: needlessIn(records, contention.tree),
    writes: writes - before.writes,
    transactions: transactions - before.transactions,
  };
}

async function opened(
  { tree, processes, exact }: Contention,
  world: ReturnType<typeof conditionalWorld>,
  time: VirtualTime,
  random: SeededRandom,
): Promise<RateLimiter[]> {
  const limiters: RateLimiter[] = [];
  for (let i = 0; i < processes; i++) {
    const [ways, chance] = [random.fork(), random.fork()];
    // A tenth of the way is left to chance: messages overtake each other.
    const pause = () => time.sleep(WAY_MS * (0.95 + ways.next() / 10));
    const options = { clock: time, random: () => chance.next(), denyMemoryMs: 1_000, exact, line: { pause } };
    limiters.push(await RateLimiter.open({ store: openConditional(world, options), clock: time }));
  }
  const [founder] = limiters as [RateLimiter];
  for (const { id, parentId, capacity, perSecond } of tree) {
    await founder.createEntity(parentId === undefined ? { id } : { id, parentId, cascade: true });
    await founder.setLimits(id, [Limit.perSecond("tps", perSecond, { burst: capacity })]);
  }
  return limiters;
}

function askOf(limiters: readonly RateLimiter[], atomic: boolean): Ask {
  return async ({ process, entityId, amount }) => {
    const limiter = limiters[process] as RateLimiter;
    const outcome = await limiter.tryAcquire({ entityId, resource: "api", consume: { tps: amount }, atomic });
    return { ok: outcome.ok, retryAfterMs: outcome.ok ? 0 : outcome.retryAfterMs };
  };
}

function recorded(records: RequestRecord[], time: VirtualTime, ask: Ask): Ask {
  return async (request) => {
    const askedMs = time.now();
    const answer = await ask(request);
    records.push({ ...request, askedMs, doneMs: time.now(), granted: answer.ok });
    return answer;
  };
}

/** The same load on exact buckets in one place, which answer at once. */
async function centrally({ tree, seed, load }: Contention): Promise<readonly RequestRecord[]> {
  const time = new VirtualTime(START_MS);
  const buckets = new ExactBuckets(tree);
  const records: RequestRecord[] = [];
  const ask: Ask = async ({ entityId, amount }) => {
    const waitMs = buckets.waitMs(entityId, amount, time.now());
    if (waitMs === 0) buckets.take(entityId, amount, time.now());
    return { ok: waitMs === 0, retryAfterMs: Math.max(1, waitMs) };
  };
  load(time, recorded(records, time, ask), new SeededRandom(seed));
  await time.run();
  return records;
}

/** Drip buckets as the textbook has them, in millitokens; time only goes forward. */
class ExactBuckets {
  readonly #nodes: ReadonlyMap<string, Node>;
  readonly #levels = new Map<string, { milli: number; atMs: number }>();

  constructor(tree: readonly Node[]) {
    this.#nodes = new Map(tree.map((node) => [node.id, node]));
    for (const { id, capacity } of tree) this.#levels.set(id, { milli: capacity * 1_000, atMs: START_MS });
  }

  /** How long until every level of the chain has the amount; 0: now. */
  waitMs(entityId: string, amount: number, nowMs: number): number {
    const waits = this.#chain(entityId).map(({ id, capacity, perSecond }) => {
      const { milli, atMs } = this.#levels.get(id) as { milli: number; atMs: number };
      // A millitoken a millisecond is a token a second.
      const level = Math.min(capacity * 1_000, milli + (nowMs - atMs) * perSecond);
      return Math.ceil(Math.max(0, amount * 1_000 - level) / perSecond);
    });
    return Math.max(...waits);
  }

  take(entityId: string, amount: number, nowMs: number): void {
    for (const { id, capacity, perSecond } of this.#chain(entityId)) {
      const { milli, atMs } = this.#levels.get(id) as { milli: number; atMs: number };
      const level = Math.min(capacity * 1_000, milli + (nowMs - atMs) * perSecond);
      this.#levels.set(id, { milli: level - amount * 1_000, atMs: nowMs });
    }
  }

  #chain(entityId: string): readonly Node[] {
    const chain: Node[] = [];
    for (let id: string | undefined = entityId; id !== undefined; id = chain.at(-1)?.parentId) {
      chain.push(this.#nodes.get(id) as Node);
    }
    return chain;
  }
}

/**
 * Counts what was refused although it fitted at its own instant beside everything that was granted until it heard. Grants are
 * taken off at the instant they were asked for, so a level is never thought higher than it was.
 */
function needlessIn(records: readonly RequestRecord[], tree: readonly Node[]): number {
  const grants = records.filter(({ granted }) => granted).sort((a, b) => a.askedMs - b.askedMs);
  let needless = 0;
  const buckets = new ExactBuckets(tree);
  let taken = 0;
  const refusals = records.filter(({ granted }) => !granted).sort((a, b) => a.doneMs - b.doneMs);
  for (const { entityId, amount, doneMs } of refusals) {
    for (let grant = grants[taken]; grant !== undefined && grant.askedMs <= doneMs; grant = grants[++taken]) {
      buckets.take(grant.entityId, grant.amount, grant.askedMs);
    }
    // What dripped in since it asked is not counted for it: that is what it was told to wait for.
    if (buckets.waitMs(entityId, amount, Math.max(grants[taken - 1]?.askedMs ?? START_MS, START_MS)) === 0) needless++;
  }
  return needless;
}

function grantedIn(records: readonly RequestRecord[]): number {
  let sum = 0;
  for (const { granted, amount } of records) if (granted) sum += amount;
  return sum;
}
