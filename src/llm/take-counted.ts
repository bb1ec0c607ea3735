import type { Tokens } from "../domain/charge/amounts.ts";
import { leavingOut, type Uncounted } from "../domain/charge/leaving-out.ts";
import { ValidationError } from "../domain/names/errors.ts";
import type { Acquiring } from "../engine/acquire/acquiring.ts";
import type { AcquireRequest } from "../engine/acquire/request.ts";
import { inShadow } from "../engine/acquire/shadow.ts";
import type { Lease } from "../engine/lease/lease.ts";

/** A lease, and those of the measures asked for that it was charged by. */
export interface TakenLease {
  readonly lease: Lease;
  readonly measures: readonly string[];
}

/**
 * Takes what is asked for, without the measures that no level counts: a key without a budget is not limited by one. Undefined: there are limits, and none counts anything of it.
 */
export async function takeCounted(
  limiter: Acquiring,
  request: AcquireRequest & { readonly consume: Tokens },
  { isShadow, uncounted }: { readonly isShadow: boolean; readonly uncounted: Uncounted },
): Promise<TakenLease | undefined> {
  const asked = leavingOut(request, uncounted);
  try {
    const lease = await limiter.acquire(isShadow ? inShadow(asked) : asked);
    // A stream may outlast the hold of a service's lease.
    lease.keep();
    return {
      lease,
      measures: Object.keys(request.consume).filter((measure) => Object.hasOwn(lease.consumed, measure)),
    };
  } catch (error) {
    if (error instanceof ValidationError && error.code === "consume_empty") return undefined;
    throw error;
  }
}
