import { refilledMilli } from "../bucket/level.ts";
import { assembled, type LimitState } from "../domain/bucket-state.ts";
import type { Calendar } from "../domain/calendar.ts";
import { boundaryAfter, termsAt } from "../domain/limit-state.ts";
import { namesOf, RF, VU } from "./attributes.ts";
import type { Image } from "./codec.ts";
import type { Env, Intent, Step } from "./intent.ts";
import { countAndSign, keepFor, traceOf } from "./moves.ts";
import { attributesOf, wantedOf } from "./rebase.ts";
import { WriteBuilder } from "./write-builder.ts";

/** So much later than the server's clock can be, an epoch is damage done by a clock that nobody disciplined. */
const AHEAD_MS = 5_000;

/** Whether the epoch of an item lies in the future, for whoever knows the server's time. */
export function isAhead({ state }: Image, { serverTime }: Env): boolean {
  return state.epochMs > serverTime.latestMs() + AHEAD_MS;
}

/**
 * Sets an epoch back that lies in the future: the only write that moves one back. Until that time came the bucket would
 * stand still for everybody. What the jump had credited is taken off again, at most a capacity; a quota that was filled by
 * a reset that is yet to come is empty until it comes.
 */
export function setBackForm(image: Image, intent: Intent, env: Env): Step {
  const { item, state, key } = image;
  // An epoch pins what is told from it, so none may come back that was there before: the moment is chosen by the nonce.
  const atMs = intent.readingMs - 1 - ((intent.nonce?.value ?? 0) % 1000);
  const builder = new WriteBuilder().where(RF, "=", state.epochMs).asSeen(VU, item);
  const limits: LimitState[] = [];
  for (const held of state.limits) {
    const { tk } = namesOf(held.name);
    const then = asOf(held, atMs, env.calendar);
    limits.push(then.limit);
    if (then.lost === "all") {
      if (held.tokensMilli > 0) builder.where(tk, ">", 0).set(tk, 0);
      else builder.where(tk, "<=", 0);
    } else builder.present(tk).add(tk, -then.lost);
  }
  const { signature, origin } = state;
  const next = assembled({ epochMs: atMs, limits, signature, origin }, env.calendar);
  builder
    .turn(item, attributesOf(item, state, limits), wantedOf(next, env, item[VU] === 0 ? 0 : undefined))
    .set(RF, atMs);
  const low = limits.map((limit) => ({ limit, lowMilli: limit.tokensMilli - limit.terms.capacityMilli }));
  keepFor(builder, image, next, low, { ...intent, readingMs: atMs }, env);
  countAndSign(builder, limits, { ...intent, counted: [], requests: 0 });
  const write = builder.update(key, "exists", traceOf("rebase", { ...intent, parts: [] }, atMs, []));
  return { kind: "write", write, state: next };

  function asOf(
    held: LimitState,
    thenMs: number,
    calendar: Calendar,
  ): { readonly limit: LimitState; readonly lost: number | "all" } {
    const terms = termsAt(held.limit, held.quota?.topUpMilli ?? 0, thenMs, calendar, held.part);
    if (held.quota !== undefined) {
      const passesEdge = boundaryAfter({ ...held, terms }, thenMs, calendar) <= state.epochMs;
      const tokensMilli = passesEdge ? Math.min(held.tokensMilli, 0) : held.tokensMilli;
      return { limit: { ...held, terms, tokensMilli, remainder: 0 }, lost: passesEdge ? "all" : 0 };
    }
    const lost = Math.min(terms.capacityMilli, refilledMilli(0, terms, state.epochMs - thenMs));
    return { limit: { ...held, terms, tokensMilli: held.tokensMilli - lost, remainder: 0 }, lost };
  }
}
