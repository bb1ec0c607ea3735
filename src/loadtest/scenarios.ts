import { type Limit, Limit as limits } from "../entry/index.ts";
import type { RateLimiter } from "../entry/rate-limiter.ts";

/** One request of a caller. */
export interface Step {
  /** The caller's wait before it, in ms. */
  readonly pauseMs: number;
  readonly entityId: string;
  readonly consume: Readonly<Record<string, number>>;
  /** The time that the taken tokens are held, in ms. */
  readonly holdMs: number;
  /** The use that turns out to have been more, or less. */
  readonly adjust?: Readonly<Record<string, number>>;
}

interface ScenarioEntity {
  readonly id: string;
  readonly parentId?: string;
  readonly limits: readonly Limit[];
}

/** The entities with their limits, and the requests of callers. */
export interface Scenario {
  readonly summary: string;
  readonly entities: readonly ScenarioEntity[];
  /** The most that one request adjusts a limit upwards, per limit. */
  readonly adjustMax: Readonly<Record<string, number>>;
  next(turn: Turn): Step;
}

interface Turn {
  /** The next number in [0, 1) of this caller. */
  readonly random: () => number;
  /** The number of requests that this caller has made. */
  readonly index: number;
  /** Since the test began. */
  readonly elapsedMs: number;
}

export const RESOURCE = "api";

const NONE = { holdMs: 0, pauseMs: 0 } as const;
const BURST_EVERY_MS = 500;
const BURST_LENGTH = 10;

/** Every demand is above what the limits let through: what is not refused somewhere shows nothing about limits. */
export const SCENARIOS = {
  steady: {
    summary: "many entities, each asked for slightly more than its limit",
    entities: named("user", 20, [limits.perSecond("rps", 20)]),
    adjustMax: {},
    next: ({ random }) => ({ ...NONE, entityId: one("user", 20, random), consume: { rps: 1 }, pauseMs: 40 * random() }),
  },
  bursts: {
    summary: "all callers at once, every half second",
    entities: named("user", 5, [limits.perSecond("rps", 20, { burst: 40 })]),
    adjustMax: {},
    next: ({ random, index, elapsedMs }) => ({
      ...NONE,
      entityId: one("user", 5, random),
      consume: { rps: 1 },
      pauseMs: index % BURST_LENGTH === 0 ? BURST_EVERY_MS - (elapsedMs % BURST_EVERY_MS) : 0,
    }),
  },
  "hot-key": {
    summary: "nine of ten requests to one entity, without a pause",
    entities: [
      { id: "hot", limits: [limits.perSecond("rps", 100)] },
      ...named("cold", 20, [limits.perSecond("rps", 100)]),
    ],
    adjustMax: {},
    next: ({ random }) => ({
      ...NONE,
      entityId: random() < 0.9 ? "hot" : one("cold", 20, random),
      consume: { rps: 1 },
    }),
  },
  cascade: {
    summary: "keys with parent projects; the projects' limits are tighter",
    entities: Array.from({ length: 4 }, (_, project) => [
      { id: `proj-${project}`, limits: [limits.perSecond("rps", 40)] },
      ...named(`key-${project}`, 5, [limits.perSecond("rps", 20)]).map((key) => ({
        ...key,
        parentId: `proj-${project}`,
      })),
    ]).flat(),
    adjustMax: {},
    next: ({ random }) => ({
      ...NONE,
      entityId: one(`key-${Math.floor(4 * random())}`, 5, random),
      consume: { rps: 1 },
      pauseMs: 10 * random(),
    }),
  },
  llm: {
    summary: "requests and tokens per minute; an estimate is taken, and corrected after the call",
    entities: Array.from({ length: 2 }, (_, team) => [
      { id: `team-${team}`, limits: [limits.perMinute("tpm", 120_000, { burst: 20_000 })] },
      ...named(`agent-${team}`, 4, [
        limits.perMinute("rpm", 1_200, { burst: 60 }),
        limits.perMinute("tpm", 90_000, { burst: 10_000 }),
      ]).map((agent) => ({ ...agent, parentId: `team-${team}` })),
    ]).flat(),
    adjustMax: { tpm: 1_000 },
    next: ({ random }) => {
      // Most calls are short, few are long.
      const estimate = 100 + Math.floor(1_900 * random() ** 3);
      return {
        pauseMs: 20 * random(),
        entityId: one(`agent-${Math.floor(2 * random())}`, 4, random),
        consume: { rpm: 1, tpm: estimate },
        holdMs: 5 + 45 * random(),
        adjust: { tpm: Math.floor(estimate * (random() - 0.5)) },
      };
    },
  },
} as const satisfies Readonly<Record<string, Scenario>>;

export type ScenarioName = keyof typeof SCENARIOS;

export function scenarioOf(name: ScenarioName): Scenario {
  return SCENARIOS[name];
}

function named(name: string, count: number, own: readonly Limit[]): ScenarioEntity[] {
  return Array.from({ length: count }, (_, i) => ({ id: `${name}-${i}`, limits: own }));
}

function one(name: string, count: number, random: () => number): string {
  return `${name}-${Math.floor(count * random())}`;
}

/** Numbers in [0, 1) that are the same for the same seed and caller (mulberry32). */
export function seededRandom(seed: number, caller: number): () => number {
  let state = (seed ^ Math.imul(caller + 1, 0x9e3779b1)) >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

const PRINCIPAL = "loadtest";

/** Makes the entities of a scenario, parents first. */
export async function setUp(limiter: RateLimiter, { entities }: Scenario): Promise<void> {
  for (const { id, parentId, limits } of entities) {
    const child = parentId === undefined ? {} : { parentId, cascade: true };
    await limiter.createEntity({ id, ...child }, { principal: PRINCIPAL });
    await limiter.setLimits(id, limits, { resource: RESOURCE, principal: PRINCIPAL });
  }
}

/** Tokens granted per entity and limit, net of what was given back. */
export type GrantedTokens = Readonly<Record<string, Readonly<Record<string, number>>>>;

/** One limit of one entity, held against arithmetic. */
export interface AdmissionCheck {
  readonly entityId: string;
  readonly limit: string;
  readonly grantedTokens: number;
  /** The most that may have been granted. */
  readonly boundTokens: number;
  readonly excessTokens: number;
}

interface LoadTotals {
  readonly scenario: Scenario;
  readonly granted: GrantedTokens;
  /** The part of it that was charged after the fact. */
  readonly corrected: GrantedTokens;
  /** From before the first request to after the last answer, by the clocks of the limiters: the earliest and the latest. */
  readonly elapsedMs: number;
  /** Requests that were under way at once, at most. */
  readonly callers: number;
  /** Stores that counted on their own, each from a full bucket. */
  readonly stores: number;
}

/**
 * Capacity plus refill for the time, per limit and level. Where work is corrected afterwards, requests that were let in before the
 * bucket went into debt may still charge it: at most one correction for each that was under way, and no more than all of them.
 */
export function checkAdmission(totals: LoadTotals): readonly AdmissionCheck[] {
  const { scenario, granted, corrected, elapsedMs, callers, stores } = totals;
  return scenario.entities.flatMap(({ id: entityId, limits }) =>
    limits.map(({ name: limit, capacity, refillAmount, refillPeriodMs }) => {
      // The clocks tell whole milliseconds: the first reading may be one too late.
      const refill = Math.floor((refillAmount * (elapsedMs + 1)) / refillPeriodMs);
      const late = Math.min(corrected[entityId]?.[limit] ?? 0, callers * (scenario.adjustMax[limit] ?? 0));
      const boundTokens = stores * (capacity + refill) + late;
      const grantedTokens = granted[entityId]?.[limit] ?? 0;
      const excessTokens = Math.max(0, grantedTokens - boundTokens);
      return { entityId, limit, grantedTokens, boundTokens, excessTokens };
    }),
  );
}
