import type { Tokens } from "../domain/charge/amounts.ts";
import type { OnExpiry } from "../domain/lease/lease-record.ts";
import { ValidationError } from "../domain/names/errors.ts";
import { KnownNames } from "../domain/names/known-names.ts";
import { shown } from "../domain/names/names.ts";
import { type AcquireRequest, HELD_AT_MOST } from "../engine/acquire/request.ts";
import type { HoldDefaults } from "./stored-leases-deps.ts";

/** What to take, and for how long to hold it. */
export interface LeaseRequest extends AcquireRequest {
  /**
   * How long the lease may stay open, and its slots are held, in ms; 0 charges at once and makes none. Absent: the default of
   * `StoredLeases`, or the shortest hold of its slots, if that is shorter.
   */
  readonly holdMs?: number;
  /** What becomes of it when nobody ends it in time. Absent: the default of `StoredLeases`. */
  readonly onExpiry?: OnExpiry;
  /** The same key within a day gets the first answer, and charges nothing. */
  readonly idempotencyKey?: string;
  /** Whose key it is: the keys of two callers are never the same. */
  readonly keyOwner?: string;
}

/** What a lease came to in the end, in total by measure; what is not named stays as it is. */
export interface SettleRequest {
  readonly consumed?: Tokens;
  readonly also?: Readonly<Record<string, Tokens>>;
}

/** A difference, which may go into debt or give back. */
export interface AdjustRequest {
  readonly delta: Tokens;
  readonly also?: Readonly<Record<string, Tokens>>;
  readonly idempotencyKey?: string;
  readonly keyOwner?: string;
}

/** What is to be taken further, or given back. */
export interface AmountsRequest {
  readonly amounts: Tokens;
  readonly also?: Readonly<Record<string, Tokens>>;
  readonly idempotencyKey?: string;
  readonly keyOwner?: string;
}

/** What is to be taken further, and what it must leave. */
export interface ConsumeRequest extends AmountsRequest {
  /** How many percent must be left at least. Default: what the lease itself has to leave, which is always left. */
  readonly leavePercent?: number;
}

/** How long to go on holding, from now. */
export interface ExtendRequest {
  readonly holdMs: number;
}

const LEASE = new KnownNames<LeaseRequest>({
  ...{ entityId: true, resource: true, consume: true, limits: true, also: true, wait: true, atomic: true },
  ...{ leavePercent: true, requestId: true, signal: true, holdMs: true, onExpiry: true, idempotencyKey: true },
  keyOwner: true,
});
export const SETTLE = new KnownNames<SettleRequest>({ consumed: true, also: true });
export const ADJUST = new KnownNames<AdjustRequest>({
  ...{ delta: true, also: true, idempotencyKey: true, keyOwner: true },
});
const AMOUNTS_NAMES = { amounts: true, also: true, idempotencyKey: true, keyOwner: true } as const;
export const AMOUNTS = new KnownNames<AmountsRequest>(AMOUNTS_NAMES);
export const CONSUME = new KnownNames<ConsumeRequest>({ ...AMOUNTS_NAMES, leavePercent: true });
export const EXTEND = new KnownNames<ExtendRequest>({ holdMs: true });

/**
 * The request without what only a lease knows of, and for how long it is held. The hold of a lease is that of its slots: one that the
 * request names is checked against their limits, another is cut to theirs.
 */
export function checkLeaseRequest(
  request: LeaseRequest,
  defaults: HoldDefaults,
): { readonly asked: AcquireRequest; readonly holdMs: number; readonly onExpiry: OnExpiry } {
  const known = LEASE.check(request, "The request");
  const { holdMs, onExpiry = defaults.onExpiry, idempotencyKey: _, keyOwner: __, ...rest } = known;
  if (onExpiry !== "charge" && onExpiry !== "refund") {
    throw new ValidationError("on_expiry_invalid", `onExpiry is ${shown(onExpiry)}; give "charge" or "refund".`);
  }
  const heldMs =
    holdMs === undefined ? defaults.holdMs : holdMs === 0 ? 0 : checkHold(holdMs, defaults.holdMaxMs, "0 or ");
  const asked = holdMs ? { ...rest, holdMs } : { ...rest, [HELD_AT_MOST]: heldMs };
  return { asked, holdMs: heldMs, onExpiry };
}

const HOLD_MIN_MS = 1_000;

export function checkHold(holdMs: unknown, holdMaxMs: number, or: string): number {
  if (typeof holdMs === "number" && Number.isSafeInteger(holdMs) && holdMs >= HOLD_MIN_MS && holdMs <= holdMaxMs) {
    return holdMs;
  }
  throw new ValidationError(
    "hold_invalid",
    `holdMs is ${shown(holdMs)}; give ${or}whole milliseconds from ${HOLD_MIN_MS} to ${holdMaxMs}.`,
  );
}
