import { withoutShadowed } from "../../domain/bucket/bucket-questions.ts";
import { PLAIN_TICKET } from "../../domain/bucket/give-back.ts";
import type { Also } from "../../domain/charge/amounts.ts";
import {
  type Amount,
  type AmountUse,
  measureIn,
  milliOf,
  type Tokens,
  tokensByName,
} from "../../domain/charge/amounts.ts";
import { callerAmounts } from "../../domain/charge/caller-usage.ts";
import { nothingCounted } from "../../domain/charge/charge-errors.ts";
import { changedBy, chargedTo, checkCounted, countedAmong } from "../../domain/charge/charges.ts";
import { TOTAL_RESOURCE } from "../../domain/config/totals.ts";
import { LEASE_REMEMBERED_MS } from "../../domain/lease/lease-record.ts";
import { RateLimiterUnavailable } from "../../domain/names/errors.ts";
import { KnownNames } from "../../domain/names/known-names.ts";
import type { KeyFinish } from "../../ports/bucket-store.ts";
import type { LeaseStore } from "../../ports/lease-store.ts";
import { heldOf } from "../lease/lease-part.ts";
import type { LimiterParts } from "../limiter/limiter-parts.ts";
import { alsoOf, type FurtherPart } from "./also.ts";
import type { ChainLink } from "./chain-link.ts";
import { finishOf, type KeyedResult, oncePerKey } from "./once-per-key.ts";
import { amongOf, summed } from "./parts.ts";
import { isByConfig } from "./plan.ts";
import { type Demand, demandOf, withoutSlots, withTotals } from "./request.ts";
import { allDone } from "./store-calls.ts";

// What is known only afterwards, where no lease is left to say it to: more was used, or less.

/** What `charge` and `giveBack` take. */
export interface CorrectionRequest {
  /** Whose limits. */
  readonly entityId: string;
  /** The resource. */
  readonly resource: string;
  /** Whole tokens by measure. Every limit that counts the measure is meant, at every level. `requests` is 0 unless it is named. */
  readonly amounts: Tokens;
  /** Amounts for further resources of the entity, or a list of parts, as in `acquire`. Default: none. */
  readonly also?: Also;
  /** A second call with the same key within a day does nothing, and gets the first answer. Default: each call counts. */
  readonly idempotencyKey?: string;
  /** Whose key it is: keys of two owners never collide. Default: nobody's. */
  readonly keyOwner?: string;
}

/** What `charge` and `giveBack` did. */
export interface CorrectionResult {
  /** Whose limits. */
  readonly entityId: string;
  /** The resource. */
  readonly resource: string;
  /** Whole tokens by measure that the entity itself was charged or given back, rounded down. */
  readonly amounts: Readonly<Record<string, number>>;
  /** True: the key was used before, and this call changed nothing. */
  readonly repeated: boolean;
}

type Answer = Omit<CorrectionResult, "repeated">;

const REQUEST = new KnownNames<CorrectionRequest>({
  ...{ entityId: true, resource: true, amounts: true, also: true, idempotencyKey: true, keyOwner: true },
});

/** Debits in full, into debt if need be. */
export function charge(parts: LimiterParts, request: CorrectionRequest): Promise<CorrectionResult> {
  // A charge that died half-way is made again: rather twice than not at all.
  return once(parts, "charge", request, undefined, async (places) => {
    await chargeAll(parts, places);
    for (const place of places) countBeside(parts, place, place.named, 1);
    return (places[0] as Place).named;
  });
}

/** Gives back at most what is missing. */
export function giveBack(parts: LimiterParts, request: CorrectionRequest): Promise<CorrectionResult> {
  // One that died half-way is not made again while its key is remembered: what may be given back must not be given twice.
  return once(parts, "giveBack", request, LEASE_REMEMBERED_MS, async (places) => {
    const given = await giveBackAll(parts, places);
    const byPlace = places.map((place) => givenTo(place, given));
    for (const [i, place] of places.entries()) countBeside(parts, place, (byPlace[i] as Given).anywhere, -1);
    return (byPlace[0] as Given).own;
  });
}

/** A part of the request with its buckets: of each level its limits, then its totals. */
interface Place extends Pick<FurtherPart, "entityId" | "resource"> {
  readonly named: readonly Amount[];
  readonly demands: readonly Demand[];
}

async function once(
  parts: LimiterParts,
  use: Extract<AmountUse, "charge" | "giveBack">,
  request: CorrectionRequest,
  deadAfterMs: number | undefined,
  work: (places: readonly Place[]) => Promise<readonly Amount[]>,
): Promise<CorrectionResult> {
  const { deps } = parts;
  const { idempotencyKey, keyOwner, ...asks } = REQUEST.check(request, `The request of ${use}`);
  const { entityId, resource } = asks;
  const places = await placesOf(parts, use, request);
  const done = async (): Promise<Answer> => ({ entityId, resource, amounts: wholeByName(await work(places)) });
  const { leases } = deps.scope;
  const { answer, replayed } = await oncePerKey(
    { leases, engine: deps },
    { idempotencyKey, keyOwner, asks: { [use]: asks }, waits: false, deadAfterMs },
    async (mark): Promise<KeyedResult<Answer>> => {
      const answer = await done();
      if (mark === undefined) return { answer, isKept: false };
      await keep(leases, finishOf(mark, answer, deps.clock.now()));
      // It is done: where that could not be stored, the key is free only once its work counts as dead.
      return { answer, isKept: true };
    },
  );
  return { ...answer, repeated: replayed };
}

/** Stores an answer under its key. A write that was applied unseen may be repeated. */
async function keep(leases: LeaseStore, finish: KeyFinish): Promise<void> {
  for (let attempt = 1; attempt <= KEEP_ATTEMPTS_MAX; attempt++) {
    try {
      const reply = await leases.create({ record: undefined, finish }, finish.nowMs);
      if (reply.kind !== "unavailable") return;
    } catch (error) {
      if (!(error instanceof RateLimiterUnavailable)) throw error;
    }
  }
}

const KEEP_ATTEMPTS_MAX = 3;

async function placesOf(
  parts: LimiterParts,
  use: Extract<AmountUse, "charge" | "giveBack">,
  request: CorrectionRequest,
): Promise<readonly Place[]> {
  const { entityId, resource, amounts } = request;
  const asked = [{ entityId, resource, consume: amounts }, ...alsoOf(request)];
  const placed = async (how: "any" | "consistent") => {
    const chains = await Promise.all(asked.map((part) => parts.acquirer.planner.lateChain(part, how)));
    return asked.map((part, i) => placeOf(asked, i, part, withTotals(chains[i] as readonly ChainLink[]), use));
  };
  try {
    return await placed("any");
  } catch (error) {
    // Cached configuration must not decide that a measure is unknown.
    if (!isByConfig(error)) throw error;
    return placed("consistent");
  }
}

function placeOf(
  all: readonly FurtherPart[],
  index: number,
  { entityId, resource, consume = {} }: FurtherPart,
  chain: readonly ChainLink[],
  use: AmountUse,
): Place {
  const among = amongOf(all, index);
  const asked = changedBy(consume, use);
  checkCounted(asked, chain);
  if (all.every((part) => Object.keys(part.consume ?? {}).length === 0)) throw nothingCounted(chain);
  const demands = chain.map((link) => {
    const { charged } = countedAmong(link, among);
    return demandOf(link, withoutSlots(link.set, chargedTo(charged, asked)), link.access === "bypass");
  });
  return { entityId, resource, named: asked.named, demands };
}

/** The demands of all places that have amounts, one for each bucket. */
function claimsOf(places: readonly Place[]): readonly Demand[] {
  const demands = places.flatMap((place) => place.demands);
  return summed(demands.filter(({ take }) => take.some(({ milli }) => milli > 0)));
}

/** Charges all buckets, or none: what is charged where another could not be is given back. */
async function chargeAll({ acquirer }: LimiterParts, places: readonly Place[]): Promise<void> {
  const { client, publisher } = acquirer;
  const charged = await Promise.allSettled(
    claimsOf(places).map(async (demand) => {
      const held = heldOf(demand.link, PLAIN_TICKET);
      const { outcome, ticket = PLAIN_TICKET } = await client.debit(held, demand.take, "charge");
      if (outcome === "unknown") {
        publisher.degraded(demand.bucket, "adjustment_not_stored", "a charge may not be stored", undefined);
      }
      return { demand, outcome, ticket };
    }),
  );
  const ends = charged.flatMap((one) => (one.status === "fulfilled" ? [one.value] : []));
  const failed = charged.find((one) => one.status === "rejected");
  const missing = ends.find(({ outcome }) => outcome === "no");
  if (failed === undefined && missing === undefined) return;
  const back = ends.filter(({ outcome }) => outcome === "applied");
  await client.giveBack(
    back.map(({ demand, ticket }) => heldOf(demand.link, ticket)),
    back.map(({ demand, ticket }) => withoutShadowed(demand.take, ticket.shadowed)),
    "rollback",
  );
  if (failed !== undefined) throw failed.reason;
  throw notStored("charge", places);
}

type GivenBack = ReadonlyMap<string, readonly Amount[]>;

/** What each bucket was given back. It throws only if certainly none was: the rest must not be given again. */
async function giveBackAll({ acquirer }: LimiterParts, places: readonly Place[]): Promise<GivenBack> {
  const claims = claimsOf(places).filter(({ bypass }) => !bypass);
  const ends = await allDone(
    claims.map(({ link, take }) => () => {
      const { ticket: _, bypass: __, ...of } = heldOf(link, PLAIN_TICKET);
      return acquirer.client.refund(of, take);
    }),
  );
  if (ends.length > 0 && ends.every(({ kind }) => kind === "no")) throw notStored("give-back", places);
  return new Map(
    claims.map(({ bucket }, i) => {
      const end = ends[i];
      return [bucket.id, end?.kind === "applied" ? (end.given ?? []) : []];
    }),
  );
}

interface Given {
  /** What limits of the entity itself were given back at most, by measure. */
  readonly own: readonly Amount[];
  /** What limits of any level were given back at most, by measure. */
  readonly anywhere: readonly Amount[];
}

function givenTo({ entityId, named, demands }: Place, given: GivenBack): Given {
  const most = (demand: Demand, { limit: measure, milli: askedMilli }: Amount): number => {
    const { limits } = demand.link.charged;
    const amounts = given.get(demand.bucket.id) ?? [];
    const counting = demand.take.filter(({ limit }) => measureIn(limits, limit) === measure);
    return Math.min(askedMilli, Math.max(0, ...counting.map(({ limit }) => milliOf(amounts, limit))));
  };
  const among = (some: readonly Demand[]) =>
    named.map((one) => ({ limit: one.limit, milli: Math.max(0, ...some.map((demand) => most(demand, one))) }));
  return { own: among(demands.filter(({ bucket }) => bucket.entityId === entityId)), anywhere: among(demands) };
}

/** Counts what no bucket of the entity does, as of a lease. */
function countBeside(
  { acquirer }: LimiterParts,
  { entityId, resource, demands }: Place,
  amounts: readonly Amount[],
  sign: 1 | -1,
): void {
  const levels = demands.map(({ link, bucket }) => ({
    limits: link.charged.limits,
    isTotal: bucket.resource === TOTAL_RESOURCE,
  }));
  const difference = (callerAmounts(amounts, levels) ?? []).map((one) => ({ ...one, milli: sign * one.milli }));
  acquirer.callers.differed({ entityId, resource }, demands[0]?.bypass ?? false, difference, "counted");
}

function wholeByName(amounts: readonly Amount[]): Readonly<Record<string, number>> {
  return tokensByName(amounts.map(({ limit, milli }) => ({ limit, milli: Math.floor(milli / 1000) * 1000 })));
}

function notStored(what: string, [own]: readonly Place[]): RateLimiterUnavailable {
  const { entityId, resource } = own as Place;
  return new RateLimiterUnavailable(`The ${what} of ${entityId} on ${resource} could not be stored; repeat it.`);
}
