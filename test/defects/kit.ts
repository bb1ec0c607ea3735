import { Limit, type OpenOptions, RateLimiter, ValidationError } from "../../src/entry/index.ts";
import type { Store } from "../../src/ports/store.ts";
import type { Clock } from "../../src/ports/system.ts";
import { type FaultOptions, FaultStore } from "../../src/testing/fault-store.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";

export const MINUTE_MS = 60_000;
export const HOUR_MS = 3_600_000;

/** Noon, in the middle of a month. */
export const T0 = Date.UTC(2026, 2, 15, 12);

export const rpm = (rate: number): Limit[] => [Limit.perMinute("rpm", rate)];

/** A namespace of its own in some store, for one test. */
export interface Ground {
  readonly namespace: string;
  /** Another process there. */
  store(clock: Clock): Promise<Store>;
  /** What every limiter there is opened with. */
  readonly options: Omit<OpenOptions, "clock" | "store" | "namespace">;
}

/** What is so on one store, and otherwise on another. */
export interface Nature {
  /** Another process hears of changed configuration at once; otherwise none is remembered by those of a test. */
  readonly tells: boolean;
  /** All levels of a request are one transaction, also for who does not ask for one. */
  readonly isWhole: boolean;
  /** So many entities are many. */
  readonly many: number;
}

/** Which store the symptoms are looked for on, and how a test gets a limiter there. */
export class Kit {
  readonly nature: Nature;
  readonly #newGround: () => Promise<Ground>;

  constructor(newGround: () => Promise<Ground>, nature: Nature) {
    this.#newGround = newGround;
    this.nature = nature;
  }

  async open(options: Opening = {}, atMs = T0): Promise<Opened> {
    const clock = new SimulatedClock(atMs);
    const ground = await this.#newGround();
    return { limiter: await limiterOn(ground, clock, options), clock };
  }

  /** With limits for everybody on `api`. */
  async openWith(instant: string, ...limits: readonly Limit[]): Promise<Opened> {
    const opened = await this.open({}, Date.parse(instant));
    await opened.limiter.setResourceDefaults("api", limits);
    return opened;
  }

  /** A limiter on a store behind a line that fails when told to, and another beside it whose line is good. */
  async openFaulty(
    options: Opening = {},
    faultOptions: FaultOptions = {},
  ): Promise<Opened & { readonly faults: FaultStore; readonly other: RateLimiter }> {
    const clock = new SimulatedClock(T0);
    const ground = await this.#newGround();
    const faults = new FaultStore(await ground.store(clock), faultOptions);
    const limiter = await limiterOn(ground, clock, options, faults);
    return { limiter, clock, faults, other: await limiterOn(ground, clock, {}) };
  }

  /** A limiter on a store that was changed in some way. */
  async openChanged(change: (store: Store) => Store, options: Opening = {}): Promise<Opened> {
    const clock = new SimulatedClock(T0);
    const ground = await this.#newGround();
    return { limiter: await limiterOn(ground, clock, options, change(await ground.store(clock))), clock };
  }

  /** Processes on one store, each with a clock that is so many ms ahead. */
  async processes(offsetsMs: readonly number[]): Promise<{
    readonly limiters: readonly RateLimiter[];
    readonly clock: SimulatedClock;
  }> {
    const clock = new SimulatedClock(T0);
    const ground = await this.#newGround();
    const options = this.nature.tells ? {} : { configTtlMs: 0 };
    const limiters = offsetsMs.map((offsetMs) => limiterOn(ground, clock.skewed(offsetMs), options));
    return { limiters: await Promise.all(limiters), clock };
  }
}

type Opening = Omit<OpenOptions, "clock" | "store">;

export interface Opened {
  readonly limiter: RateLimiter;
  readonly clock: SimulatedClock;
}

async function limiterOn(ground: Ground, clock: Clock, options: Opening, given?: Store): Promise<RateLimiter> {
  const { namespace } = ground;
  const store = given ?? (await ground.store(clock));
  return RateLimiter.open({ ...ground.options, namespace, ...options, store, clock });
}

/** A child that cascades to its parent, both with requests a minute. */
export async function family(limiter: RateLimiter, rates: { child: number; parent: number }): Promise<void> {
  await limiter.createEntity({ id: "parent" });
  await limiter.createEntity({ id: "child", parentId: "parent", cascade: true });
  await limiter.setLimits("parent", rpm(rates.parent));
  await limiter.setLimits("child", rpm(rates.child));
}

export function take(limiter: RateLimiter, entityId: string, consume: Record<string, number>) {
  return limiter.acquire({ entityId, resource: "api", consume });
}

export async function grants(limiter: RateLimiter, entityId: string, consume: Record<string, number>) {
  return (await limiter.tryAcquire({ entityId, resource: "api", consume })).ok;
}

/** What is available to an entity itself, without its parents. */
export async function held(limiter: RateLimiter, entityId: string): Promise<Record<string, number>> {
  const all = await limiter.available({ entityId, resource: "api" });
  return Object.fromEntries(
    all.filter((one) => one.entityId === entityId).map(({ limit, available }) => [limit, available]),
  );
}

export function isInvalid(code: string): (error: unknown) => boolean {
  return (error) => error instanceof ValidationError && error.code === code;
}

/** Lets everything go on until it is so. */
export async function until(isSo: () => boolean): Promise<void> {
  while (!isSo()) await new Promise((resolve) => setImmediate(resolve));
}
