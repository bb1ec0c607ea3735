import { InternalServerError } from "openai";
import {
  type Availability,
  ExistsError,
  Limit,
  RateLimitExceeded,
  type RateLimiter,
  type Status,
} from "../../src/entry/index.ts";
import { usd } from "../../src/entry/llm.ts";
import { refusalOf } from "../../src/entry/openai.ts";
import { clientOf, type ModelClient } from "./model.ts";

export const MODEL = "gpt-4";
export const PROJECT = "project";
/** The key of whoever calls the proxy with one of their own. */
export const YOU = "you";
/** What the project may spend in a month over all models, in micro-dollars: calls of the proxy are charged in dollars, too. */
export const BUDGET = usd(5);

/** What a minute refills, and what a bucket holds at most: as much can be taken at once. */
export interface Terms {
  readonly perMinute: number;
  readonly burst: number;
}

export const KEY_TERMS = { rpm: { perMinute: 60, burst: 6 }, tpm: { perMinute: 18_000, burst: 2_500 } } as const;
export const PROJECT_TERMS = { rpm: { perMinute: 150, burst: 15 }, tpm: { perMinute: 30_000, burst: 4_500 } } as const;

/** One API key, and how its owner behaves. */
export interface Caller {
  readonly key: string;
  /** Calls sent at once, and the pause before the next ones. */
  readonly calls: number;
  readonly pauseMs: number;
  /** Tokens a call is expected to cost, and what it costs in the end. */
  readonly estimate: number;
  readonly actual: { readonly from: number; readonly to: number };
  /** How long a call may wait for its tokens before it is refused. */
  readonly waitMs?: number;
}

export const CALLERS: readonly Caller[] = [
  { key: "steady", calls: 1, pauseMs: 900, estimate: 300, actual: { from: 180, to: 340 }, waitMs: 1500 },
  { key: "bursty", calls: 8, pauseMs: 4500, estimate: 250, actual: { from: 150, to: 260 } },
  { key: "greedy", calls: 1, pauseMs: 600, estimate: 700, actual: { from: 400, to: 1200 } },
];

/** What became of one call. */
export type CallEvent =
  | {
      readonly kind: "answered";
      readonly key: string;
      readonly estimate: number;
      readonly actual: number;
      readonly waitedMs: number;
    }
  | { readonly kind: "refused"; readonly key: string; readonly primary: Status; readonly retryAfterMs: number }
  | { readonly kind: "failed" | "cut"; readonly key: string; readonly estimate: number };

export interface GatewayOptions {
  readonly random: () => number;
  /** Milliseconds, and waiting: the system's, or a simulated one in tests. */
  readonly clock: { now(): number; sleep(ms: number, signal: AbortSignal): Promise<void> };
  readonly onEvent: (event: CallEvent) => void;
  /** Ends the run: calls under way are cut short, and pay for the request and its input. */
  readonly signal: AbortSignal;
}

/** Stores the limits and the entities. Safe to repeat: a second run finds the entities there. */
export async function setUp(limiter: RateLimiter): Promise<void> {
  await limiter.setResourceDefaults(MODEL, limitsOf(KEY_TERMS));
  await unlessThere(limiter.createEntity({ id: PROJECT, name: "Acme" }));
  await limiter.setLimits(PROJECT, limitsOf(PROJECT_TERMS), { resource: MODEL });
  for (const key of [...CALLERS.map((caller) => caller.key), YOU]) {
    await unlessThere(limiter.createEntity({ id: key, parentId: PROJECT, cascade: true }));
  }
  await limiter.setTotals(PROJECT, [Limit.quota("usd", BUDGET, { reset: "monthly" })]);
}

/** Lets every caller call until the signal ends it. */
export async function runGateway(limiter: RateLimiter, options: GatewayOptions): Promise<void> {
  await Promise.all(CALLERS.map((caller) => keepCalling(limiter, caller, options)));
}

/** What every limit holds now: the project first, then the keys. */
export async function levelsOf(limiter: RateLimiter): Promise<readonly Availability[]> {
  const all = await Promise.all(CALLERS.map(({ key }) => limiter.available({ entityId: key, resource: MODEL })));
  const chains = all.map((chain) => chain.filter(({ resource }) => resource === MODEL));
  const ofProject = chains[0]?.filter(({ entityId }) => entityId === PROJECT) ?? [];
  return [...ofProject, ...chains.flatMap((chain) => chain.filter(({ entityId }) => entityId !== PROJECT))];
}

async function keepCalling(limiter: RateLimiter, caller: Caller, options: GatewayOptions): Promise<void> {
  const { random, signal, clock } = options;
  const client = clientOf(limiter, caller, options);
  const underWay = new Set<Promise<void>>();
  while (!signal.aborted) {
    for (let i = 0; i < caller.calls; i++) {
      const call = callOnce(client, caller, options).finally(() => underWay.delete(call));
      underWay.add(call);
    }
    // A caller who waits for tokens sends nothing else meanwhile.
    if (caller.waitMs !== undefined) await Promise.all(underWay);
    await clock.sleep(Math.round(caller.pauseMs * (0.8 + 0.4 * random())), signal).catch(() => {});
  }
  await Promise.all(underWay);
}

async function callOnce(client: ModelClient, caller: Caller, options: GatewayOptions): Promise<void> {
  const { clock, onEvent, signal } = options;
  const { key, estimate, waitMs } = caller;
  const askedAtMs = clock.now();
  let sentAtMs: number | undefined;
  try {
    const { totalTokens: actual } = await client.call(() => {
      sentAtMs = clock.now();
    });
    // Who does not queue for tokens waits for the store only.
    const waitedMs = waitMs === undefined ? 0 : (sentAtMs ?? askedAtMs) - askedAtMs;
    onEvent({ kind: "answered", key, estimate, actual, waitedMs });
  } catch (error) {
    const refusal = refusalOf(error);
    if (refusal instanceof RateLimitExceeded) {
      onEvent({ kind: "refused", key, primary: refusal.primary, retryAfterMs: refusal.retryAfterMs });
    } else if (refusal === undefined && error instanceof InternalServerError) {
      onEvent({ kind: "failed", key, estimate });
    } else if (!signal.aborted) {
      throw refusal ?? error;
    } else if (sentAtMs !== undefined) {
      onEvent({ kind: "cut", key, estimate });
    }
  }
}

function limitsOf(terms: Readonly<Record<string, Terms>>): Limit[] {
  return Object.entries(terms).map(([name, { perMinute, burst }]) => Limit.perMinute(name, perMinute, { burst }));
}

async function unlessThere(created: Promise<unknown>): Promise<void> {
  try {
    await created;
  } catch (error) {
    if (!(error instanceof ExistsError)) throw error;
  }
}
