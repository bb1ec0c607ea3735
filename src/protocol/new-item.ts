import type { BucketState } from "../domain/bucket-state.ts";
import type { ItemValue } from "../ports/item-store.ts";
import { namesOf, RF, RQ, WCU } from "./attributes.ts";
import type { Env } from "./intent.ts";
import { WCU_MILLI, wantedOf } from "./rebase.ts";

/** An item that is made, whole: its tokens are the state's, and nothing has been counted yet. */
export function newItem(state: BucketState, env: Env): Record<string, ItemValue> {
  const item: Record<string, ItemValue> = { ...wantedOf(state, env, undefined), [RF]: state.epochMs, [RQ]: 0 };
  for (const { name, tokensMilli } of state.limits) {
    item[namesOf(name).tk] = tokensMilli;
    item[namesOf(name).tc] = 0;
  }
  Object.assign(item, env.dialect.grantsOf(state));
  const { tk, cp, ra, rp, tc } = namesOf(WCU);
  // Making it is the first write.
  return Object.assign(item, { [tk]: WCU_MILLI - 1000, [cp]: WCU_MILLI, [ra]: WCU_MILLI, [rp]: 1000, [tc]: 1000 });
}
