import type { Amount } from "../domain/amounts.ts";
import type { BucketKey } from "../domain/bucket-key.ts";
import type { BucketState } from "../domain/bucket-state.ts";
import { RateLimiterUnavailable, ValidationError } from "../domain/errors.ts";
import type {
  Answer,
  CallContext,
  Claim,
  Held,
  TakenAnswer,
  TakeReply,
  Ticket,
  WriteReply,
} from "../ports/bucket-store.ts";
import type { GaveBackEvent } from "../ports/events.ts";
import type { DenyMemory } from "./deny-memory.ts";
import { type ObservedBucket, type Refusal, refusalOf } from "./refusal.ts";
import type { EngineDeps, Settings } from "./settings.ts";
import type { WaitingRoom } from "./waiting.ts";

/** What the store made of all claims of a request. */
export type Taken =
  | { readonly kind: "granted"; readonly answers: readonly TakenAnswer[] }
  | { readonly kind: "refused"; readonly refusal: Refusal }
  | { readonly kind: "unavailable"; readonly cause: unknown }
  /** `buckets`: of which configuration has to be read again; undefined: of all. */
  | { readonly kind: "stale"; readonly buckets: readonly BucketKey[] | undefined };

/** What became of a debit or credit; `state` as it was after, when the store told. */
export interface Written {
  readonly outcome: "applied" | "no" | "unknown";
  readonly state: BucketState | undefined;
  /** Of a debit that is given back by itself. */
  readonly ticket: Ticket | undefined;
}

const NOTHING_TOLD = { state: undefined, ticket: undefined };

/** How often a give-back or an adjustment that certainly was not applied is tried. */
const WRITE_ATTEMPTS_MAX = 3;

/** Sends claims, and gives back. There is one give-back, for refusals, rollbacks, releases and negative adjustments. */
export class StoreClient {
  readonly #deps: EngineDeps;
  readonly #settings: Settings;
  readonly #deny: DenyMemory;
  readonly #room: WaitingRoom;

  constructor(deps: EngineDeps, settings: Settings, deny: DenyMemory, room: WaitingRoom) {
    this.#deps = deps;
    this.#settings = settings;
    this.#deny = deny;
    this.#room = room;
  }

  /** Reads the answers of the store. Half-taken requests are given back before anybody hears of the refusal. */
  conclude(claims: readonly Claim[], reply: TakeReply, nowMs: number): Taken | Promise<Taken> {
    if (reply === "stale") return { kind: "stale", buckets: undefined };
    if (allTaken(reply)) return { kind: "granted", answers: reply };
    const verdict = this.#verdict(claims, reply, nowMs);
    const taken = reply.flatMap((answer, i) =>
      answer.kind === "taken" ? [{ ...(claims[i] as Claim), ticket: answer.ticket }] : [],
    );
    if (taken.length === 0) return verdict;
    return this.giveBack(
      taken,
      taken.map(({ take }) => take),
      "refused",
    ).then(() => verdict);
  }

  /** Gives back what is held on several buckets. What cannot be confirmed counts as not given. */
  async giveBack(
    helds: readonly Held[],
    amounts: readonly (readonly Amount[])[],
    reason: GaveBackEvent["reason"],
  ): Promise<void> {
    await Promise.all(helds.map((held, i) => this.#giveBackOne(held, amounts[i] ?? [], reason)));
    // What a refused request gives back it had only just taken. Were others woken by it, two of them that share a parent
    // would wake each other without end, refused each time.
    if (reason !== "refused") this.#room.wakeHeads();
  }

  /** Takes without a lower bound. Answers whether it is stored, certainly not, or perhaps. */
  debit(held: Held, amounts: readonly Amount[]): Promise<Written> {
    return this.#write(() => this.#deps.scope.buckets.debit(held, amounts, this.#context()));
  }

  #verdict(claims: readonly Claim[], answers: readonly Answer[], nowMs: number): Taken {
    const observed: ObservedBucket[] = [];
    const doubted = claims.flatMap(({ bucket }, i) => (answers[i]?.kind === "configSuspect" ? [bucket] : []));
    if (doubted.length > 0) return { kind: "stale", buckets: doubted };
    for (const [i, answer] of answers.entries()) {
      if (answer.kind === "unavailable") return { kind: "unavailable", cause: answer.cause };
      const { bucket, take, bypass } = claims[i] as Claim;
      observed.push({ bucket, state: answer.state, take, taken: answer.kind === "taken", bypass });
    }
    this.#deny.remember(observed, nowMs);
    return { kind: "refused", refusal: refusalOf(observed, nowMs, this.#deps.clock.now(), this.#deps.calendar) };
  }

  async #giveBackOne(held: Held, amounts: readonly Amount[], reason: GaveBackEvent["reason"]): Promise<void> {
    const due = amounts.filter(({ milli }) => milli > 0);
    if (due.length === 0) return;
    this.#deny.forget(held.bucket.id);
    const { outcome } = await this.#write(() => this.#deps.scope.buckets.credit(held, due, this.#context()));
    this.#deny.forget(held.bucket.id);
    const { gaveBack } = this.#deps.events;
    if (!gaveBack.active) return;
    gaveBack.publish({
      namespace: this.#settings.namespace,
      entityId: held.bucket.entityId,
      resource: held.bucket.resource,
      amounts: Object.fromEntries(due.map(({ limit, milli }) => [limit, milli / 1000])),
      reason,
      confirmed: outcome === "applied",
    });
  }

  // Only what certainly was not applied is tried again: a give-back that was applied unseen must not happen twice.
  async #write(send: () => WriteReply | Promise<WriteReply>): Promise<Written> {
    for (let attempt = 1; ; attempt++) {
      let reply: WriteReply;
      try {
        reply = await send();
      } catch (error) {
        if (error instanceof RangeError) throw new ValidationError("debt_too_large", error.message, { cause: error });
        if (!(error instanceof RateLimiterUnavailable)) throw error;
        reply = { kind: "unavailable", applied: "unknown", cause: error };
      }
      if (reply.kind !== "unavailable") {
        const { state, ticket } = reply.kind === "applied" ? reply : NOTHING_TOLD;
        return { outcome: "applied", state, ticket };
      }
      if (reply.applied === "unknown" || attempt === WRITE_ATTEMPTS_MAX) {
        return { outcome: reply.applied, state: undefined, ticket: undefined };
      }
    }
  }

  #context(): CallContext {
    return { nowMs: this.#deps.clock.now(), timeoutMs: this.#settings.timeoutMs };
  }
}

function allTaken(answers: readonly Answer[]): answers is readonly TakenAnswer[] {
  for (let i = 0; i < answers.length; i++) if (answers[i]?.kind !== "taken") return false;
  return true;
}

/** The claim of a lease: it goes on by what it was taken under, and nobody reads configuration again for it. */
export function withoutConfigCheck(claim: Claim): Claim {
  const { asOfMs, generation, reading } = claim.origin;
  return reading === undefined ? claim : { ...claim, origin: { asOfMs, generation } };
}
