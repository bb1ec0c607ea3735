import { createHash } from "node:crypto";
import { LimiterError } from "../../domain/names/errors.ts";
import { planAll, planCall } from "../../edge/plan-call.ts";
import { FRAME_BYTES } from "../../grpc/listen-grpc.ts";
import {
  OK,
  OVER_LIMIT,
  readCommitRequest,
  readRateLimitRequest,
  readReserveRequest,
  writeCommitResponse,
  writeRateLimitResponse,
  writeReserveResponse,
} from "../../grpc/messages.ts";
import { charge, type DecidingFor, decide, settleReservation, type TakingMethod, wouldFit } from "./decide.ts";
import { GRANTED } from "./decision.ts";
import { rateLimitResponse } from "./rate-limit-answer.ts";

/** Looks whether the hits would fit; takes nothing. */
const checkRateLimit: TakingMethod = (call) => {
  const asked = readRateLimitRequest(call.message);
  return call.on(asked, async (on) => {
    const decision = await wouldFit(planCall(on.domain, asked.descriptors, asked.hits || 1), on);
    return writeRateLimitResponse(rateLimitResponse(decision, asked.descriptors.length, termsOf(on)), FRAME_BYTES);
  });
};

/** Charges the hits, whatever the rules say. */
const report: TakingMethod = (call) => {
  const asked = readRateLimitRequest(call.message);
  return call.on(asked, async (on) => {
    await charge(planAll("charge", on.domain, asked.descriptors, asked.hits || 1).charges, on);
    return writeRateLimitResponse(rateLimitResponse(GRANTED, asked.descriptors.length, termsOf(on)), FRAME_BYTES);
  });
};

/** Takes an amount, and holds it until it is committed or its time is over; then it is given back. */
const reserve: TakingMethod = (call) => {
  const asked = readReserveRequest(call.message);
  return call.on(asked, async (on) => {
    const { holdMs, holdMaxMs } = on.service.settings;
    const heldMs = Math.min(holdMaxMs, Math.max(1_000, Math.ceil(asked.ttlMs ?? holdMs)));
    const plan = planAll("take", on.domain, asked.descriptors, asked.amount);
    const held = { holdMs: heldMs, onExpiry: "refund" } as const;
    const takes = [...plan.takes, ...plan.peeks].map((part) => ({ ...part, ...held }));
    const decision = await decide({ ...plan, peeks: [], takes }, on);
    const code = decision.refusal === undefined ? OK : OVER_LIMIT;
    return writeReserveResponse(code, decision.leaseId ?? "", FRAME_BYTES);
  });
};

/** Settles a reservation to what it came to; what has no open reservation is charged. */
const commit: TakingMethod = (call) => {
  const asked = readCommitRequest(call.message);
  return call.on(asked, async (on) => {
    const { charges } = planAll("charge", on.domain, asked.descriptors, asked.actualAmount);
    const leaseId = typeof asked.reservationId === "string" ? asked.reservationId : "";
    try {
      if (/^[\w-]{1,128}$/.test(leaseId)) {
        await settleReservation(leaseId, charges, on);
        return writeCommitResponse(true, FRAME_BYTES);
      }
    } catch (error) {
      if (!isGone(error)) throw error;
    }
    await charge(charges, on, asked.reservationId.length === 0 ? undefined : keyOf(asked.reservationId));
    return writeCommitResponse(false, FRAME_BYTES);
  });
};

/** The methods of Kuadrant, by their names. */
export const kuadrantMethods: readonly (readonly [name: string, method: TakingMethod])[] = [
  ["CheckRateLimit", checkRateLimit],
  ["Report", report],
  ["Reserve", reserve],
  ["Commit", commit],
];

function termsOf({ domain, tools, service }: DecidingFor) {
  return { domain, limiter: tools.limiter, units: service.settings.units };
}

/** Whether a reservation holds nothing any more: it has expired, or is not known. */
function isGone(error: unknown): boolean {
  if (!(error instanceof LimiterError)) return false;
  if (error.code === "lease_closed") return (error as { readonly leaseStatus?: string }).leaseStatus === "expired";
  return error.code === "lease_not_found";
}

/** The idempotency key of a commit without an open reservation: however often it is sent, it is charged once. */
function keyOf(reservationId: string | Uint8Array): string {
  return `commit:${createHash("sha256").update(reservationId).digest("hex")}`;
}
