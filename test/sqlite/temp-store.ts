import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";
import type { Connection } from "../../src/adapters/sqlite/connection.ts";
import { openConnection } from "../../src/adapters/sqlite/open-connection.ts";
import { storeOn } from "../../src/adapters/sqlite/store.ts";
import { createCalendar } from "../../src/adapters/system/calendar.ts";
import { steadyMs } from "../../src/adapters/system/clock.ts";
import { bucketKey } from "../../src/domain/bucket/bucket-key.ts";
import { type BucketState, findLimit } from "../../src/domain/bucket/bucket-state.ts";
import { PLAIN_TICKET } from "../../src/domain/bucket/give-back.ts";
import type { Amount } from "../../src/domain/charge/amounts.ts";
import type { AuditAction, AuditEvent } from "../../src/domain/config/audit.ts";
import { FILE_RETENTION, type Retention } from "../../src/domain/config/retention.ts";
import { Limit } from "../../src/domain/limits/limit.ts";
import { limitSet, type SetOrigin } from "../../src/domain/limits/limit-set.ts";
import type { Claim, Held, TakeContext, TakeReply, WriteReply } from "../../src/ports/bucket-store.ts";
import type { ScopedStore, Store } from "../../src/ports/store.ts";

/** 2024-06-15T12:00:00Z: the middle of a month, on the hour. */
export const NOON = Date.UTC(2024, 5, 15, 12);

/** One for all: what it has worked out is remembered. */
export const calendar = createCalendar();

export interface Opened extends ScopedStore {
  readonly store: Store;
  readonly connection: Connection;
}

/** The name of a file in a folder of its own, which is removed after the test. */
export function tempFile(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), "zae-limiter-sqlite-"));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  return join(folder, "limiter.db");
}

/** A store on a file, and the namespace `default` of it; closed after the test. */
export function openOn(
  t: TestContext,
  file: string,
  given: { readonly coalesce?: boolean; readonly steadyMs?: () => number; readonly retention?: Retention } = {},
): Opened {
  const options = { file, durability: "normal", random: Math.random, coalesce: true, steadyMs, ...given } as const;
  const connection = openConnection(options);
  const store = storeOn(connection, { retention: FILE_RETENTION, ...options, calendar });
  t.after(() => store.close());
  return { store, connection, ...store.scope("default") };
}

export function openTemp(t: TestContext): Opened {
  return openOn(t, tempFile(t));
}

export function context(nowMs: number, more: Partial<TakeContext> = {}): TakeContext {
  return { nowMs, timeoutMs: 1_000, generation: undefined, atomic: false, ...more };
}

/** The slowest limit there is: what was taken stays taken. */
export function oneTime(name: string, capacity: number): Limit {
  return Limit.custom(name, { capacity, refillAmount: 1, refillPeriodMs: 1_000_000_000_000 });
}

const FIRST: SetOrigin = { asOfMs: 0, generation: null };

/** A claim of whole tokens: `claim("key", [perMinute("rpm", 10)], { rpm: 1 })`. */
export function claim(
  entityId: string,
  limits: readonly Limit[],
  tokens: Readonly<Record<string, number>>,
  origin: SetOrigin = FIRST,
): Claim {
  return { bucket: bucketKey(entityId, "gpt-4"), set: limitSet(limits), origin, take: amounts(tokens), bypass: false };
}

export function held({ bucket, set, origin, bypass }: Claim): Held {
  return { bucket, set, origin, bypass, ticket: PLAIN_TICKET };
}

export function amounts(tokens: Readonly<Record<string, number>>): Amount[] {
  return Object.entries(tokens).map(([limit, count]) => ({ limit, milli: count * 1000 }));
}

export function kinds(reply: TakeReply): readonly string[] {
  return reply === "stale" ? ["stale"] : reply.map(({ kind }) => kind);
}

/** Millitokens of a limit as they are stored, not as they have dripped in since. */
export function tokensMilli(state: BucketState | undefined, limit: string): number | undefined {
  return state === undefined ? undefined : findLimit(state, limit)?.tokensMilli;
}

export function stateOf(reply: WriteReply): BucketState | undefined {
  return reply.kind === "applied" ? reply.state : undefined;
}

let events = 0;

export function event(action: AuditAction, entityId: string): AuditEvent {
  return { eventId: `event-${++events}`, atMs: NOON, action, entityId, details: { note: "test" } };
}
