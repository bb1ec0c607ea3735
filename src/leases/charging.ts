import type { BucketState } from "../domain/bucket/bucket-state.ts";
import { PLAIN_TICKET, type Ticket } from "../domain/bucket/give-back.ts";
import type { LeaseHolding, LeaseRecord, LeaseResourceRecord } from "../domain/lease/lease-record.ts";
import type { Calendar } from "../domain/limits/calendar.ts";
import { onlyShadowed, withoutShadowed } from "../domain/limits/shadow.ts";
import type { BucketPosition } from "../engine/lease/lease-part.ts";
import { exceededBy } from "../engine/refusal/refused.ts";
import { standingsOf } from "../engine/refusal/standing.ts";
import type { Held } from "../ports/bucket-store.ts";
import type { Charge, ChargePlan } from "./change-plan.ts";
import { leaseNotStored } from "./errors.ts";
import {
  bucketsOf,
  claimOf,
  claimsOf,
  debitsOf,
  heldAt,
  notPassedBy,
  positionsIn,
  type ResourceAmounts,
  type Share,
  sharesOf,
  withMore,
  withSeen,
} from "./ledger.ts";
import { withMorePassed } from "./passed.ts";
import { seenIn } from "./record-of.ts";
import type { StoredLeasesDeps } from "./stored-leases-deps.ts";
import { Untold } from "./untold.ts";

/** A charge that can be given back, should the lease not be moved. */
interface UndoableCharge extends Charge {
  undo(): Promise<void>;
  /** It stays: what it reached is told. */
  kept(): void;
}

/** What one level gave. */
export interface ChargedShare {
  readonly share: Share;
  readonly held: Held;
  readonly ticket: Ticket;
  readonly state: BucketState | undefined;
}

/** Takes more for a stored lease, before its record says so. */
export class Charging {
  readonly #deps: StoredLeasesDeps;

  constructor(deps: StoredLeasesDeps) {
    this.#deps = deps;
  }

  /** All of it or nothing. `holdings` are those of the lease without what it is about to give back. */
  async charge(record: LeaseRecord, holdings: readonly LeaseHolding[], plan: ChargePlan): Promise<UndoableCharge> {
    const untold = new Untold();
    const got = [...(await this.#take(record, plan, untold)), ...(await this.#debit(record, plan.debits, untold))];
    const { clock, calendar } = this.#deps.engine;
    const charge = chargeOf(record, holdings, got, { nowMs: clock.now(), calendar });
    return { ...charge, undo: () => this.#undo(got), kept: () => untold.tell() };
  }

  async #take(
    record: LeaseRecord,
    { takes, leavePercent }: ChargePlan,
    untold: Untold,
  ): Promise<readonly ChargedShare[]> {
    const shares = sharesOf(record, takes);
    if (shares.length === 0) return [];
    const claims = claimsOf(record, shares, { nowMs: this.#deps.engine.clock.now(), leavePercent });
    const taken = await this.#deps.acquirer.client.takeMore(claims, bucketsOf(record), untold);
    switch (taken.kind) {
      case "granted":
        return shares.map((share) => {
          const answer = taken.answers[claimOf(record, share, claims)];
          const ticket = answer?.ticket ?? PLAIN_TICKET;
          return { share, held: heldAt(record, share.at, ticket), ticket, state: answer?.state };
        });
      case "refused":
        throw exceededBy(taken.refusal);
      default:
        throw leaseNotStored(
          `A consume of the lease ${record.leaseId}`,
          taken.kind === "unavailable" ? taken.cause : undefined,
        );
    }
  }

  async #debit(record: LeaseRecord, amounts: ResourceAmounts, untold: Untold): Promise<readonly ChargedShare[]> {
    const shares = notPassedBy(record, debitsOf(record, amounts));
    const helds = shares.map(({ at }) => heldAt(record, at, PLAIN_TICKET));
    const written = await Promise.allSettled(
      helds.map((held, i) => this.#deps.acquirer.client.debit(held, (shares[i] as Share).amounts, untold)),
    );
    const got: ChargedShare[] = [];
    let failure: { readonly error: unknown } | undefined;
    for (const [i, outcome] of written.entries()) {
      const held = helds[i] as Held;
      if (outcome.status === "rejected") failure ??= { error: outcome.reason };
      else if (outcome.value.outcome === "applied" || outcome.value.outcome === "gone") {
        const { ticket, state } = outcome.value;
        got.push({ share: shares[i] as Share, held, ticket: ticket ?? PLAIN_TICKET, state });
      } else failure ??= { error: leaseNotStored(`A charge of the lease ${record.leaseId}`, undefined) };
    }
    if (failure === undefined) return got;
    await this.#undo(got);
    throw failure.error;
  }

  async #undo(got: readonly ChargedShare[]): Promise<void> {
    if (got.length === 0) return;
    await this.#deps.acquirer.client.giveBack(
      got.map(({ ticket, held }) => ({ ...held, ticket })),
      got.map(({ share, ticket }) => withoutShadowed(share.amounts, ticket.shadowed)),
      "rollback",
    );
  }
}

/** The lease with what each level gave. `holdings` are those of the lease without what it is about to give back. */
export function chargeOf(
  record: LeaseRecord,
  holdings: readonly LeaseHolding[],
  got: readonly ChargedShare[],
  at: { readonly nowMs: number; readonly calendar: Calendar },
): Charge {
  let charge: Charge = { holdings, resources: record.resources, standings: [] };
  for (const { share, held, ticket, state } of got) {
    const position = positionsIn(record.resources[share.at[0]] as LeaseResourceRecord)[share.at[1]] as BucketPosition;
    const seen = state === undefined ? undefined : seenIn(held, state, { position, nowMs: at.nowMs });
    const level = { bucket: held.bucket, set: held.set, level: position.level };
    const taken = { at: share.at, amounts: withoutShadowed(share.amounts, ticket.shadowed) };
    const passed = { at: share.at, amounts: onlyShadowed(share.amounts, ticket.shadowed) };
    const resources = withMorePassed(charge.resources, passed);
    charge = {
      holdings: withMore(charge.holdings, taken, ticket),
      resources: seen === undefined ? resources : withSeen(resources, share.at, seen),
      standings: state === undefined ? charge.standings : [...charge.standings, ...standingsOf(level, state, at)],
    };
  }
  return charge;
}
