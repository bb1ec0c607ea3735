import { isOfOnePeriod, PLAIN_TICKET } from "../domain/bucket/give-back.ts";
import { measuresOf, milliOf, REQUESTS, type Tokens } from "../domain/charge/amounts.ts";
import { type Asked, changedBy, chargedTo } from "../domain/charge/charges.ts";
import { withoutSlots } from "../engine/acquire/request.ts";
import { allEnded } from "../engine/acquire/store-calls.ts";
import type { StoreClient } from "../engine/acquire/store-client.ts";
import { type Lease, partsOfLease, settleNow } from "../engine/lease/lease.ts";
import type { LevelMove } from "../engine/lease/lease-ledger.ts";
import { answersOf, hasSlots, heldOf, type LeasePart, SinglePart, type TakenPart } from "../engine/lease/lease-part.ts";
import type { MaybePromise } from "../ports/bucket-store.ts";

/**
 * Settles a lease to totals, as its method does; undefined: as it was taken. Most need no ledger, since nobody looks at the lease
 * afterwards: what each level comes to is written at once.
 */
export function settled(client: StoreClient, lease: Lease, totals: Tokens | undefined): MaybePromise<unknown> {
  if (totals === undefined) return settleNow(lease, undefined);
  const [own, ...others] = partsOfLease(lease) as readonly [LeasePart, ...LeasePart[]];
  const levels = others.length > 0 || hasSlots(own) ? undefined : plainLevels(own);
  if (levels === undefined) return settleNow(lease, countedOf(own, totals));
  const asked = changedBy(totals, "settle");
  const written = levels.flatMap((level) => writeDifference(client, level, asked));
  return written.some((one) => one instanceof Promise) ? allEnded(written) : undefined;
}

/** The levels of a take of which all comes back by its ticket; undefined: a shadow, or a period that ended meanwhile, makes parts of it. */
function plainLevels(part: LeasePart): readonly TakenPart[] | undefined {
  const levels =
    part instanceof SinglePart
      ? [part.asTaken]
      : answersOf(part).map((answer, i) => {
          const { link, take, holdMs } = part.demands[i] as LeasePart["demands"][number];
          return { link, take, ticket: answer?.ticket ?? PLAIN_TICKET, holdMs };
        });
  return levels.every(({ ticket }) => ticket.shadowed.length === 0 && isOfOnePeriod(ticket)) ? levels : undefined;
}

function writeDifference(
  client: StoreClient,
  { link, take, ticket }: TakenPart,
  asked: Asked,
): readonly MaybePromise<unknown>[] {
  const { more, less } = differenceOf(take, withoutSlots(link.charged, chargedTo(link.charged, asked)));
  return [
    ...(more.length === 0 ? [] : [client.debit(heldOf(link, PLAIN_TICKET), more, "adjust")]),
    ...(less.length === 0 ? [] : [client.giveBack([heldOf(link, ticket)], [less], "adjust")]),
  ];
}

function differenceOf(taken: TakenPart["take"], totals: TakenPart["take"]): LevelMove {
  const more: TakenPart["take"][number][] = [];
  const less: TakenPart["take"][number][] = [];
  for (const { limit, milli } of totals) {
    const takenMilli = milliOf(taken, limit);
    if (milli > takenMilli) more.push({ limit, milli: milli - takenMilli });
    if (milli < takenMilli) less.push({ limit, milli: takenMilli - milli });
  }
  return { more, less };
}

/** The totals of measures that some limit of the lease's own resource counts. */
function countedOf({ demands }: LeasePart, totals: Tokens): Tokens {
  const counted = new Set([REQUESTS, ...demands.flatMap(({ link }) => measuresOf(link.charged.limits))]);
  return Object.fromEntries(Object.entries(totals).filter(([measure]) => counted.has(measure)));
}
