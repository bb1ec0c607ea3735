import { assembled, countFrom, type LimitState } from "../../domain/bucket/bucket-state.ts";
import { withResets } from "../../domain/limits/changed-limit.ts";
import { rulesOf } from "../../domain/limits/kinds/table.ts";
import { rewound } from "../../domain/limits/limit-kinds.ts";
import { BN, namesOf, RF, VU } from "../item/attributes.ts";
import type { Image } from "../item/codec.ts";
import { parameterNames, parametersOf } from "../item/encode-item.ts";
import { boundDebt } from "../shared/debts.ts";
import { count, signWrite } from "../usage/count-usage.ts";
import { keepFor } from "./expiry.ts";
import { type Env, type Intent, NO_USAGE, type Step } from "./intent.ts";
import { relativeTo, traceOf } from "./moves.ts";
import { NO_SIDES } from "./passed.ts";
import { writeSlices } from "./slots.ts";

/** An epoch so much later than the server's clock can be was written by a client with a wrong clock. */
const AHEAD_MS = 5_000;

/** Whether the epoch of an item lies in the future. Never true where the server's time is not known. */
export function isAhead({ state }: Image, { serverTime }: Env): boolean {
  return state.epochMs > serverTime.latestMs() + AHEAD_MS;
}

/**
 * Moves an epoch back that lies in the future; no other write moves one back. Until that time came the bucket would not
 * refill for anybody. What the jump had credited is taken off again, at most a capacity; a quota that was filled by the end
 * of a period that is yet to come is empty until it comes.
 */
export function repairFutureEpochWrite(image: Image, intent: Intent, env: Env): Step {
  const { item, state, key } = image;
  // An epoch pins everything stored relative to it, so none may be used again: from here on another row of epochs counts. Of
  // items that the original makes anew no row is known, so the nonce chooses the moment as well.
  const atMs = intent.readingMs - 1 - ((intent.nonce?.value ?? 0) % 1000);
  const builder = relativeTo(image).asSeen(VU, item);
  const limits: LimitState[] = [];
  for (const held of state.limits) {
    const { tk } = namesOf(held.name);
    const { limit, lostMilli } = rewound(held, { fromMs: state.epochMs, toMs: atMs }, env.calendar);
    // What was taken in the period that is yet to come is not given back into this one: it has a number of its own.
    const resets = Math.max(countFrom(atMs, 0), (held.quota?.resets ?? 0) + 1);
    if (rulesOf(held.limit).holdsSlots) {
      // By the clock that was ahead slices may have ended whose tickets are still out: they must find none that ends at the same time.
      limits.push(withResets(limit, resets));
      builder.present(tk).add(tk, limit.tokensMilli - held.tokensMilli);
      writeSlices(builder, held, limit.slices, undefined);
      continue;
    }
    limits.push(lostMilli === "all" ? withResets(limit, resets) : limit);
    if (lostMilli === "all") {
      if (held.tokensMilli > 0) builder.where(tk, ">", 0).set(tk, 0);
      else builder.where(tk, "<=", 0);
    } else {
      builder.present(tk).add(tk, -lostMilli);
      boundDebt(builder, held, held.tokensMilli - limit.terms.capacityMilli, env);
    }
  }
  const { signature, origin } = state;
  const next = assembled({ epochMs: atMs, limits, signature, origin }, env.calendar);
  builder
    .diffAttributes(
      item,
      parameterNames(item, state, limits, env.dialect),
      parametersOf(next, env, item[VU] === 0 ? 0 : undefined),
    )
    .set(RF, atMs);
  if (intent.nonce !== undefined) builder.set(BN, intent.nonce.value);
  const low = limits.map((limit) => ({ limit, lowMilli: limit.tokensMilli - limit.terms.capacityMilli }));
  const { shardCount, hourEndMs } = image;
  const { install } = intent;
  keepFor(builder, { item, shardCount, readingMs: atMs, install, state: next, low, hourEndMs }, env);
  // The hour of usage stays where it is: an hour that may be on a sheet is not opened again.
  const usage = { ...NO_USAGE, sheeted: intent.usage.sheeted };
  count(builder, image, { usage, limits, hour: undefined }, env);
  signWrite(builder, intent.nonce);
  const write = builder.update(key, "exists", traceOf("rebase", [], atMs, []));
  return { kind: "write", write, state: next, sides: NO_SIDES };
}
