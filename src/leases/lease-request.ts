import type { Also, Tokens } from "../domain/charge/amounts.ts";
import type { OnExpiry } from "../domain/lease/lease-record.ts";
import { ValidationError } from "../domain/names/errors.ts";
import { KnownNames } from "../domain/names/known-names.ts";
import { shown } from "../domain/names/names.ts";
import { type AcquireRequest, HELD_AT_MOST } from "../engine/acquire/request.ts";
import type { HoldDefaults } from "./change-plan.ts";

/** A request for a stored lease. */
export interface LeaseRequest extends AcquireRequest {
  /**
   * How long the lease may stay open, and its slots are held, in ms; 0 charges at once and makes none. Absent: the default of
   * `StoredLeases`, or the shortest hold of its slots, if that is shorter.
   */
  readonly holdMs?: number;
  /** In place of the default of `StoredLeases`, and cut to the shortest hold of its slots as that is. */
  readonly [HELD_AT_MOST]?: number;
  /** The end of a lease that is not closed in time. Absent: the default of `StoredLeases`. */
  readonly onExpiry?: OnExpiry;
  /** The same key within a day gets the first answer, and charges nothing. */
  readonly idempotencyKey?: string;
  /** The owner of the key: keys of two owners never collide. */
  readonly keyOwner?: string;
}

/** The totals of a lease by measure; measures that are not named stay. */
export interface SettleRequest {
  readonly consumed?: Tokens;
  readonly also?: Also;
}

/** A change that is made once for each key. */
interface KeyedChange {
  readonly also?: Also;
  readonly idempotencyKey?: string;
  readonly keyOwner?: string;
}

/** A difference by measure: positive charges, negative gives back. */
export interface AdjustRequest extends KeyedChange {
  readonly delta: Tokens;
}

/** Amounts to take or to give back. */
export interface AmountsRequest extends KeyedChange {
  readonly amounts: Tokens;
}

/** Amounts to take, and the share to leave. */
export interface ConsumeRequest extends AmountsRequest {
  /** How many percent must be left at least. Default: what the lease itself has to leave, which is always left. */
  readonly leavePercent?: number;
}

/** The new hold, from now. */
export interface ExtendRequest {
  readonly holdMs: number;
}

const LEASE = new KnownNames<Omit<LeaseRequest, typeof HELD_AT_MOST>>({
  ...{ entityId: true, resource: true, consume: true, limits: true, also: true, wait: true, atomic: true },
  ...{ leavePercent: true, requestId: true, signal: true, holdMs: true, onExpiry: true, idempotencyKey: true },
  keyOwner: true,
});
export const SETTLE = new KnownNames<SettleRequest>({ consumed: true, also: true });
const KEYED = { also: true, idempotencyKey: true, keyOwner: true } as const;
export const ADJUST = new KnownNames<AdjustRequest>({ ...KEYED, delta: true });
export const AMOUNTS = new KnownNames<AmountsRequest>({ ...KEYED, amounts: true });
export const CONSUME = new KnownNames<ConsumeRequest>({ ...KEYED, amounts: true, leavePercent: true });
export const EXTEND = new KnownNames<ExtendRequest>({ holdMs: true });

/**
 * Splits a request into the acquire and the terms of the lease. The hold of a lease is that of its slots: a hold that the request names
 * is checked against their limits, the default is cut to theirs.
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
    holdMs === undefined
      ? (request[HELD_AT_MOST] ?? defaults.holdMs)
      : holdMs === 0
        ? 0
        : checkHold(holdMs, defaults.holdMaxMs, "0 or ");
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
