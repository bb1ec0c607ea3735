import { leavingOut } from "../../domain/charge/amounts.ts";
import { LimiterError, ResourceDisabled, ValidationError } from "../../domain/names/errors.ts";
import { given } from "../../domain/names/given.ts";
import type { EdgeDomain } from "../../edge/edge-file.ts";
import { type CallPart, type CallPlan, type Descriptor, holdOf, type SettledPart } from "../../edge/plan-call.ts";
import type { EntryText } from "../../edge/template.ts";
import { HELD_AT_MOST } from "../../engine/acquire/request.ts";
import { partsOfLease, settledAtOnce } from "../../engine/lease/lease.ts";
import type { Refusal } from "../../engine/refusal/refusal.ts";
import { exceededBy, standingsIn } from "../../engine/refusal/refused.ts";
import { standingsOfParts } from "../../engine/refusal/standing.ts";
import { GrpcError } from "../../grpc/status.ts";
import type { LeaseView } from "../../leases/lease-view.ts";
import { type Caller, leaveOf } from "../caller.ts";
import { Problem } from "../problem.ts";
import type { ServiceParts } from "../route.ts";
import type { TenantTools } from "../tenants.ts";
import { type CallRefusal, type Decision, GRANTED } from "./decision.ts";
import { chargeable, isDecision, lookAt, partsOnLimits, reaches } from "./parts-on-limits.ts";

/** Whom a call is decided for, and on what. */
export interface DecidingFor {
  readonly service: ServiceParts;
  readonly domain: EdgeDomain;
  readonly tools: TenantTools;
  readonly caller: Caller;
}

/** A call as a method sees it: its message, and what is needed to decide about it. */
export interface TakingCall {
  readonly message: Buffer;
  /**
   * Begins to decide for a domain: from here on the call counts as under way. Throws if the caller may not, there is no such domain, or the
   * time of the call is over.
   */
  on<Answer>(asked: AskedOfDomain, work: (on: DecidingFor) => Promise<Answer>): Promise<Answer>;
}

/** The part that every message of a method has. */
export interface AskedOfDomain {
  readonly domain: EntryText;
  readonly descriptors: readonly Descriptor[];
  readonly limitsGiven: number;
}

/** Answers with a message that has `FRAME_BYTES` free in front. */
export type TakingMethod = (call: TakingCall) => Promise<Buffer>;

/** Decides about a call, and does what it asks for. Whatever a client can choose leads to a decision; errors are the operator's, and outages. */
export async function decide(plan: CallPlan, on: DecidingFor): Promise<Decision> {
  const refused = refusedUnseen(plan, on.domain);
  if (refused !== undefined) return refused;
  for (const lease of leasesOf(plan.settles)) await settle(lease, on);
  const looked = plan.peeks.length === 0 ? undefined : await peek(plan.peeks, on);
  if (looked?.refusal !== undefined) return looked;
  const taken = plan.takes.length === 0 ? GRANTED : await take(plan.takes, on);
  if (taken.refusal !== undefined) return taken;
  if (plan.charges.length > 0) await charge(plan.charges, on);
  if (plan.refunds.length > 0) await giveBack(plan.refunds, on);
  if (looked === undefined) return taken;
  return {
    ...taken,
    parts: [...looked.parts, ...taken.parts],
    standings: [...looked.standings, ...taken.standings],
  };
}

/** The refusal of a call that no limit has to be asked about. */
function refusedUnseen(plan: CallPlan, { unmatched }: EdgeDomain): Decision | undefined {
  if (plan.unmatched.length > 0 && unmatched === "refuse") {
    const error = new Problem(
      "descriptor_unmatched",
      "No rule of the domain matches what was asked, and the domain refuses what no rule matches.",
    );
    return refusedBy(error, plan.takes, new Set(plan.unmatched));
  }
  const [first] = plan.tooMuch;
  if (first === undefined) return undefined;
  const error = new ValidationError(
    "amount_above_capacity",
    `The hits for ${first.entityId} on ${first.resource} are more than any limit can hold; ask for less.`,
    { publicDetail: "The hits are more than any limit can hold; ask for less." },
  );
  return refusedBy(error, plan.takes, new Set(plan.tooMuch.flatMap(({ descriptors }) => descriptors)));
}

function refusedBy(error: LimiterError | Problem, parts: readonly CallPart[], over: ReadonlySet<number>): Decision {
  return { ...GRANTED, parts, over, refusal: { code: error.code, retryAfterMs: undefined, limits: undefined, error } };
}

/** Takes all parts, or none. */
async function take(parts: readonly CallPart[], on: DecidingFor): Promise<Decision> {
  try {
    return await takeAll(parts, on);
  } catch (error) {
    if (!isDecision(error)) throw error;
    const isUnlimited = error.code === "limits_missing" || error.code === "consume_empty";
    if (!isUnlimited) return refusedBy(error, parts, await blamed(error, parts, on));
    // A part without a limit is not limited, and the others are.
    const limited = await partsOnLimits(parts, on.tools.limiter);
    if (limited.length === parts.length) return refusedBy(error, parts, allOf(parts));
    return limited.length === 0 ? GRANTED : take(limited, on);
  }
}

async function takeAll(parts: readonly CallPart[], on: DecidingFor): Promise<Decision> {
  const [first, ...others] = parts as readonly [CallPart, ...CallPart[]];
  const { entityId, resource, consume } = first;
  const also = others.map((part) => ({ entityId: part.entityId, resource: part.resource, consume: part.consume }));
  const leavePercent = leaveOf(on.caller, undefined);
  const hold = holdOf(parts);
  const asked = { entityId, resource, consume };
  const named = also.length === 0 && leavePercent === undefined ? asked : withMore(asked, also, leavePercent);
  const request = leavingOut(named, "ignore");
  return hold === undefined ? takeAtOnce(parts, request, on) : takeHeld(parts, request, hold, on);
}

type Asked = Pick<CallPart, "entityId" | "resource" | "consume">;

function withMore(asked: Asked, also: readonly Asked[], leavePercent: number | undefined) {
  return { ...asked, ...given({ leavePercent }), ...(also.length === 0 ? {} : { also }) };
}

async function takeAtOnce(parts: readonly CallPart[], request: Asked, { tools, service }: DecidingFor) {
  // Nothing is held afterwards: slots need a rule with hold, and are refused here.
  const outcome = await tools.limiter.tryAcquire({ ...request, [HELD_AT_MOST]: 0 } as Asked);
  if (!outcome.ok) return refusedByLimits(outcome, parts, tools);
  const { lease } = outcome;
  if (!settledAtOnce(lease)) await lease.settle();
  const standings =
    lease.degraded === false ? standingsOfParts(partsOfLease(lease), service.calendar) : GRANTED.standings;
  return { ...GRANTED, parts, standings, degraded: lease.degraded || undefined };
}

async function takeHeld(
  parts: readonly CallPart[],
  request: Asked,
  { holdMs, onExpiry }: NonNullable<ReturnType<typeof holdOf>>,
  { tools, service }: DecidingFor,
): Promise<Decision> {
  const { settings } = service;
  const terms = { [HELD_AT_MOST]: Math.min(holdMs, settings.holdMaxMs), onExpiry: onExpiry ?? settings.onExpiry };
  const answer = await tools.storedLeases.tryAcquire({ ...request, ...terms });
  if (!answer.ok) return refusedByLimits(answer, parts, tools);
  const { lease, standings } = answer;
  return { ...GRANTED, parts, standings, leaseId: lease.leaseId ?? undefined, degraded: lease.degraded || undefined };
}

function refusedByLimits(refusal: Refusal, parts: readonly CallPart[], { limiter }: TenantTools): Decision {
  const over = parts.filter((part) => refusal.statuses.some((one) => one.exceeded && reaches(part, one, limiter)));
  const error = exceededBy(refusal);
  const { code } = error;
  return {
    ...GRANTED,
    parts,
    over: allOf(over.length === 0 ? parts : over),
    standings: standingsIn(refusal),
    refusal: { code, retryAfterMs: refusal.retryAfterMs, limits: refusal, error },
  };
}

/** The descriptors of the parts that an error is about; all, where it does not say. */
async function blamed(error: LimiterError, parts: readonly CallPart[], on: DecidingFor): Promise<ReadonlySet<number>> {
  if (parts.length === 1) return allOf(parts);
  const { limiter } = on.tools;
  if (error instanceof ResourceDisabled) {
    const off = parts.filter((part) => reaches(part, error, limiter));
    return allOf(off.length === 0 ? parts : off);
  }
  const looks = await Promise.all(parts.map((part) => lookAt([part], limiter)));
  const wrong = parts.filter((_, i) => looks[i]?.refusal?.code === error.code);
  return allOf(wrong.length === 0 ? parts : wrong);
}

function allOf(parts: readonly CallPart[]): ReadonlySet<number> {
  return new Set(parts.flatMap(({ descriptors }) => descriptors));
}

/** Looks whether at least one token is left of every limit that each of the parts counts. */
async function peek(parts: readonly CallPart[], on: DecidingFor): Promise<Decision> {
  const looks = await Promise.all(
    parts.map((part) => lookAt([{ ...part, consume: oneOfEach(part) }], on.tools.limiter)),
  );
  // The one with the longest wait; what never ends is the longest.
  const waitOf = ({ retryAfterMs = Number.POSITIVE_INFINITY }: CallRefusal) => retryAfterMs;
  const [refusal] = looks.flatMap((one) => one.refusal ?? []).toSorted((a, b) => waitOf(b) - waitOf(a));
  const over = allOf(parts.filter((_, i) => looks[i]?.refusal !== undefined));
  return { ...GRANTED, parts, over, standings: looks.flatMap((one) => one.standings), refusal };
}

function oneOfEach({ consume }: CallPart): CallPart["consume"] {
  return Object.fromEntries(Object.keys(consume).map((measure) => [measure, 1]));
}

/** Whether the parts would be granted together; takes nothing. */
export async function wouldFit(plan: CallPlan, on: DecidingFor): Promise<Decision> {
  const refused = refusedUnseen(plan, on.domain);
  if (refused !== undefined) return refused;
  const looked = await peek(plan.peeks, on);
  if (looked.refusal !== undefined || plan.takes.length === 0) return looked;
  const { over, standings, refusal } = await lookAt(plan.takes, on.tools.limiter);
  const parts = [...looked.parts, ...plan.takes];
  const stood = allOf(plan.takes.filter((_, i) => over.has(i)));
  return { ...GRANTED, parts, over: stood, standings: [...looked.standings, ...standings], refusal };
}

/** Debits in full, and never refuses. */
export async function charge(
  parts: readonly CallPart[],
  on: DecidingFor,
  idempotencyKey?: string | undefined,
): Promise<void> {
  await changed(parts, on, (request) => on.tools.limiter.charge({ ...request, ...given({ idempotencyKey }) }));
}

async function giveBack(parts: readonly CallPart[], on: DecidingFor): Promise<void> {
  await changed(parts, on, (request) => on.tools.limiter.giveBack(request));
}

/** Reasons for which nothing is charged or given back. A call does not fail by them: a client can choose them. */
const NOT_CHARGED: ReadonlySet<string> = new Set([
  ...["debt_too_large", "resource_disabled", "namespace_frozen", "entity_not_found", "idempotency_in_progress"],
]);

interface Change {
  readonly entityId: string;
  readonly resource: string;
  readonly amounts: CallPart["consume"];
  readonly also?: readonly Asked[];
}

async function changed(
  parts: readonly CallPart[],
  { tools }: DecidingFor,
  change: (request: Change) => Promise<unknown>,
): Promise<void> {
  const counted = await chargeable(parts, tools.limiter);
  const [first, ...others] = counted;
  if (first === undefined) return;
  const { entityId, resource, consume: amounts } = first;
  const also = others.map((part) => ({ entityId: part.entityId, resource: part.resource, consume: part.consume }));
  try {
    await change({ entityId, resource, amounts, ...(also.length === 0 ? {} : { also }) });
  } catch (error) {
    if (!(error instanceof LimiterError) || !NOT_CHARGED.has(error.code)) throw error;
  }
}

type Settled = Pick<SettledPart, "entityId" | "resource" | "consume">;

type SettledLease = readonly [leaseId: string, parts: readonly Settled[]];

function leasesOf(settles: readonly SettledPart[]): readonly SettledLease[] {
  const leases = new Map<string, SettledPart[]>();
  for (const part of settles) {
    const parts = leases.get(part.leaseId) ?? [];
    leases.set(part.leaseId, [...parts, part]);
  }
  return [...leases];
}

export function settleReservation(leaseId: string, parts: readonly Settled[], on: DecidingFor): Promise<void> {
  return settle([leaseId, parts], on);
}

/** Settles a lease to what its parts came to, in total. The same again changes nothing. */
async function settle([leaseId, all]: SettledLease, { tools }: DecidingFor): Promise<void> {
  const view = await tools.storedLeases.get(leaseId);
  const isOwn = ({ entityId, resource }: Settled) => entityId === view.entityId && resource === view.resource;
  // A part without limits was not taken, and the lease has the others.
  const parts = all.filter((part) => isOwn(part) || isAmong(part, view));
  if (parts.length === 0) throw new GrpcError("FAILED_PRECONDITION", "The lease is of other entities or resources.");
  const counts = new Set(view.limits.map((limit) => limit.counts));
  const countedOf = ({ consume }: Settled) =>
    Object.fromEntries(Object.entries(consume).filter(([name]) => counts.has(name)));
  const own = parts.find(isOwn);
  const also = parts.flatMap((part) =>
    isOwn(part) ? [] : [{ entityId: part.entityId, resource: part.resource, consume: countedOf(part) }],
  );
  await tools.storedLeases.settle(leaseId, {
    ...(own === undefined ? {} : { consumed: countedOf(own) }),
    ...(also.length === 0 ? {} : { also }),
  });
}

/** Whether a lease has a part, besides its own. */
function isAmong({ entityId, resource }: Settled, { entityId: own, also, parts = [] }: LeaseView): boolean {
  if (entityId === own && Object.hasOwn(also, resource)) return true;
  return parts.some((part) => part.entityId === entityId && part.resource === resource);
}
