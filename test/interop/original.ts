import assert from "node:assert/strict";
import type { Limit } from "../../src/domain/limits/limit.ts";
import type { ScheduleEntry } from "../../src/domain/limits/schedule.ts";
import { type OriginalCall, OriginalError, type OriginalProcess } from "./original-process.ts";

/** What to take, in our words. */
export interface Ask {
  readonly entityId: string;
  readonly resource: string;
  readonly consume: Readonly<Record<string, number>>;
  readonly limits?: readonly Limit[];
  readonly also?: Readonly<Record<string, Readonly<Record<string, number>>>>;
}

/** A client of the original, with caches of its own: what one process of it is to the table. */
export class Original {
  readonly #process: OriginalProcess;
  readonly name: string;

  constructor(process: OriginalProcess, name: string) {
    this.#process = process;
    this.name = name;
  }

  /** A method of its repository, such as `set_limits`; limits are put in its words. */
  call<Answer = unknown>(method: string, args: readonly unknown[] = [], named: Readonly<Record<string, unknown>> = {}) {
    return this.#call<Answer>("repository", method, args, named);
  }

  /** A method of its limiter. */
  limiter<Answer = unknown>(method: string, args: readonly unknown[], named: Readonly<Record<string, unknown>> = {}) {
    return this.#call<Answer>("limiter", method, args, named);
  }

  async acquire(ask: Ask): Promise<OriginalLease> {
    const answer = await this.#process.ask<LeaseAnswer>("acquire", { client: this.name, request: requestOf(ask) });
    assert.equal(answer.degraded, false, "admitted because the store did not answer");
    return new OriginalLease(this.#process, answer);
  }

  /** Whether it is admitted; what was taken stays taken. */
  async grants(ask: Ask): Promise<boolean> {
    return (await this.admits(ask, 1)) === 1;
  }

  /** How many of so many requests are admitted, one after the other. */
  admits(ask: Ask, times: number): Promise<number> {
    return this.#process.ask("admits", { client: this.name, request: requestOf(ask), times });
  }

  /** The name of the exception that answers a request; undefined where it is admitted. */
  async refuses(ask: Ask): Promise<string | undefined> {
    try {
      await (await this.acquire(ask)).end();
      return undefined;
    } catch (error) {
      if (error instanceof OriginalError) return error.type;
      throw error;
    }
  }

  /** Does the work with every call of this client held up by the gate. */
  async between<Answer>(gate: (call: OriginalCall) => Promise<void>, work: () => Promise<Answer>): Promise<Answer> {
    await this.#process.gate(this.name, gate);
    try {
      return await work();
    } finally {
      await this.#process.gate(this.name, undefined);
    }
  }

  /** The same client in another namespace. */
  async scope(namespace: string): Promise<Original> {
    return new Original(this.#process, await this.#process.ask("scope", { client: this.name, namespace }));
  }

  close(): Promise<void> {
    return this.#process.ask("close", { client: this.name });
  }

  #call<Answer>(on: string, method: string, args: readonly unknown[], named: Readonly<Record<string, unknown>>) {
    const details = { client: this.name, on, method, arguments: args.map(worded), named: worded(named) };
    return this.#process.ask<Answer>("call", details);
  }
}

interface LeaseAnswer {
  readonly lease: string;
  readonly degraded: boolean;
  readonly bypassed: boolean;
  readonly overdrawn: readonly string[];
}

export class OriginalLease {
  readonly #process: OriginalProcess;
  readonly #lease: string;
  readonly bypassed: boolean;
  readonly overdrawn: readonly string[];

  constructor(process: OriginalProcess, { lease, bypassed, overdrawn }: LeaseAnswer) {
    this.#process = process;
    this.#lease = lease;
    this.bypassed = bypassed;
    this.overdrawn = overdrawn;
  }

  /** Noted by the lease, and written when it ends. */
  async adjust(amounts: Readonly<Record<string, number>>): Promise<void> {
    await this.#process.ask("lease", { lease: this.#lease, method: "adjust", amounts });
  }

  async release(amounts: Readonly<Record<string, number>>): Promise<void> {
    await this.#process.ask("lease", { lease: this.#lease, method: "release", amounts });
  }

  /** The body was left as it should: adjustments are written. */
  async end(): Promise<void> {
    await this.#process.ask("end", { lease: this.#lease });
  }

  /** The body threw: what was taken is given back. */
  async fail(): Promise<void> {
    await this.#process.ask("fail", { lease: this.#lease });
  }
}

export function requestOf({ entityId, resource, consume, limits, also }: Ask): Readonly<Record<string, unknown>> {
  return {
    ...{ entity_id: entityId, resource, consume },
    ...(limits === undefined ? {} : { limits: worded(limits) }),
    ...(also === undefined ? {} : { also }),
  };
}

/** Limits, wherever they stand in it, in the original's words. */
function worded(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(worded);
  if (typeof value !== "object" || value === null) return value;
  if ("refillPeriodMs" in value && "capacity" in value) return { $limit: termsOf(value as Limit) };
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, worded(one)]));
}

function termsOf({ name, capacity, refillAmount, refillPeriodMs, soft, schedule, reset, resetAfterMs }: Limit) {
  return {
    ...{
      name,
      capacity,
      refill_amount: refillAmount,
      refill_period_seconds: refillPeriodMs / 1000,
      soft: soft === true,
    },
    ...(schedule === undefined ? {} : { schedule: schedule.map(entryOf) }),
    ...(reset === undefined ? {} : { resets: [reset] }),
    ...(resetAfterMs === undefined ? {} : { reset_after_seconds: resetAfterMs / 1000 }),
  };
}

function entryOf({ refillAmount, refillPeriodMs, ...same }: ScheduleEntry) {
  return {
    ...same,
    ...(refillAmount === undefined ? {} : { refill_amount: refillAmount }),
    ...(refillPeriodMs === undefined ? {} : { refill_period_seconds: refillPeriodMs / 1000 }),
  };
}
