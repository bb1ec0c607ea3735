import { withoutShadowed } from "../domain/bucket/bucket-questions.ts";
import type { BucketState } from "../domain/bucket/bucket-state.ts";
import { PLAIN_TICKET, type Ticket } from "../domain/bucket/give-back.ts";
import type { LimitStanding } from "../domain/charge/rate-limit-headers.ts";
import type { LeaseHolding, LeaseRecord, LeaseResourceRecord } from "../domain/lease/lease-record.ts";
import type { BucketPosition } from "../engine/lease/lease-part.ts";
import { exceededBy } from "../engine/refusal/refused.ts";
import { standingsOf } from "../engine/refusal/standing.ts";
import type { Held, Undecided } from "../ports/bucket-store.ts";
import { withBeside } from "./beside.ts";
import type { ChangePlan, Charge, ChargePlan, StoredLeasesDeps } from "./change-plan.ts";
import { leaseNotStored } from "./errors.ts";
import {
  bucketsOf,
  claimOf,
  claimsOf,
  debitsOf,
  heldAt,
  type Ledger,
  positionsIn,
  type ResourceAmounts,
  type Share,
  sharesOf,
  withMore,
  withPassedBy,
  withReturned,
  withSeen,
} from "./ledger.ts";
import { seenIn } from "./record-of.ts";
import { endingWithSlots } from "./slots.ts";

/** Delays events of takes and debits until the record of the lease is written: without it, they are undone. */
export class Untold implements Undecided {
  #waiting: (() => void)[] = [];

  add(tell: () => void): void {
    this.#waiting.push(tell);
  }

  tell(): void {
    for (const tell of this.#waiting.splice(0)) tell();
  }
}

/** A charge that can be undone if the record is not moved. */
interface UndoableCharge extends Charge {
  undo(): Promise<void>;
  /** Keeps the charge and publishes its events. */
  kept(): void;
}

/** The charge of one level. */
export interface ChargedShare {
  readonly share: Share;
  readonly held: Held;
  readonly ticket: Ticket;
  readonly state: BucketState | undefined;
}

/**
 * Charges all buckets or none, before the record is written. `holdings` are those of the lease without the amounts about to be given back.
 */
export async function charge(
  deps: StoredLeasesDeps,
  record: LeaseRecord,
  holdings: readonly LeaseHolding[],
  plan: ChargePlan,
): Promise<UndoableCharge> {
  const untold = new Untold();
  const got = [...(await take(deps, record, plan, untold)), ...(await debit(deps, record, plan.debits, untold))];
  return { ...chargeOf(deps, record, holdings, got), undo: () => undo(deps, got), kept: () => untold.tell() };
}

async function take(
  { acquirer, engine }: StoredLeasesDeps,
  record: LeaseRecord,
  { takes, leavePercent }: ChargePlan,
  untold: Untold,
): Promise<readonly ChargedShare[]> {
  const shares = sharesOf(record, takes);
  if (shares.length === 0) return [];
  const claims = claimsOf(record, shares, { nowMs: engine.clock.now(), leavePercent });
  const taken = await acquirer.takeMore(claims, bucketsOf(record), untold);
  if (taken.kind === "refused") throw exceededBy(taken.refusal);
  if (taken.kind !== "granted") {
    const cause = taken.kind === "unavailable" ? taken.cause : undefined;
    throw leaseNotStored(`A consume of the lease ${record.leaseId}`, cause);
  }
  return shares.map((share) => chargedShare(record, share, taken.answers[claimOf(record, share, claims)]));
}

/** `answer` is undefined, or without a ticket, if the bucket no longer exists. */
export function chargedShare(
  record: LeaseRecord,
  share: Share,
  answer: { readonly ticket?: Ticket | undefined; readonly state?: BucketState | undefined } | undefined,
): ChargedShare {
  const { ticket = PLAIN_TICKET, state } = answer ?? {};
  return { share, held: heldAt(record, share.at, ticket), ticket, state };
}

async function debit(
  deps: StoredLeasesDeps,
  record: LeaseRecord,
  amounts: ResourceAmounts,
  untold: Untold,
): Promise<readonly ChargedShare[]> {
  const shares = debitsOf(record, amounts);
  const { client } = deps.acquirer;
  const written = await Promise.allSettled(
    shares.map(async ({ at, amounts }) => client.debit(heldAt(record, at, PLAIN_TICKET), amounts, "adjust", untold)),
  );
  const got: ChargedShare[] = [];
  let failure: { readonly error: unknown } | undefined;
  for (const [i, outcome] of written.entries()) {
    if (outcome.status === "rejected") failure ??= { error: outcome.reason };
    else if (outcome.value.outcome === "applied" || outcome.value.outcome === "gone") {
      got.push(chargedShare(record, shares[i] as Share, outcome.value));
    } else failure ??= { error: leaseNotStored(`A charge of the lease ${record.leaseId}`, undefined) };
  }
  if (failure === undefined) return got;
  await undo(deps, got);
  throw failure.error;
}

async function undo({ acquirer }: StoredLeasesDeps, got: readonly ChargedShare[]): Promise<void> {
  if (got.length === 0) return;
  await acquirer.client.giveBack(
    got.map(({ held }) => held),
    got.map(({ share, ticket }) => withoutShadowed(share.amounts, ticket.shadowed)),
    "rollback",
  );
}

/** The lease after the charge. `holdings` are those of the lease without the amounts about to be given back. */
export function chargeOf(
  { engine }: Pick<StoredLeasesDeps, "engine">,
  { resources }: LeaseRecord,
  holdings: readonly LeaseHolding[],
  got: readonly ChargedShare[],
): Charge {
  const times = { nowMs: engine.clock.now(), calendar: engine.calendar };
  let ledger: Ledger = { holdings, resources };
  const standings: LimitStanding[] = [];
  for (const { share, held, ticket, state } of got) {
    ledger = withMore(ledger, share, ticket);
    if (state === undefined) continue;
    const [resource, level] = share.at;
    const position = positionsIn(resources[resource] as LeaseResourceRecord)[level] as BucketPosition;
    const seen = seenIn(held, state, { position, nowMs: times.nowMs });
    ledger = { ...ledger, resources: withSeen(ledger.resources, share.at, seen) };
    standings.push(...standingsOf({ bucket: held.bucket, set: held.set, level: position.level }, state, times));
  }
  return { ...ledger, standings };
}

/** The next version of the record after a change with this charge. */
export function changedRecord(record: LeaseRecord, plan: ChangePlan, charge: Charge, writer: string): LeaseRecord {
  return endingWithSlots({
    ...record,
    ...plan.to,
    version: record.version + 1,
    writer,
    resources: withBeside(
      { ...record, resources: withPassedBy(withReturned(charge.resources, plan.returns), plan.passes) },
      plan.beside,
    ),
    holdings: charge.holdings,
  });
}
