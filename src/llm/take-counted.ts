import type { Tokens } from "../domain/amounts.ts";
import { ValidationError } from "../domain/errors.ts";
import type { Acquiring } from "../engine/acquiring.ts";
import type { Lease } from "../engine/lease.ts";
import type { AcquireRequest } from "../engine/request.ts";
import { inShadow } from "../engine/shadow.ts";

/** A lease, and those of the measures asked for that it was charged by. */
export interface TakenLease {
  readonly lease: Lease;
  readonly measures: readonly string[];
}

/**
 * Takes what is asked for, without the measures that no level counts: a key without a budget is not limited by one. Undefined:
 * there are limits, and none counts anything of it.
 */
export async function takeCounted(
  limiter: Acquiring,
  request: AcquireRequest & { readonly consume: Tokens },
  isShadow: boolean,
): Promise<TakenLease | undefined> {
  let consume: Tokens = request.consume;
  for (;;) {
    try {
      const asked = { ...request, consume };
      const lease = await limiter.acquire(isShadow ? inShadow(asked) : asked);
      // A stream may outlast the hold of a service's lease.
      lease.keep();
      return { lease, measures: Object.keys(consume) };
    } catch (error) {
      if (!(error instanceof ValidationError)) throw error;
      if (error.code === "consume_empty") return undefined;
      const left = error.code === "limit_unknown" ? withoutNamed(consume, error.message) : consume;
      if (left === consume) throw error;
      consume = left;
    }
  }
}

/** A service tells of the measure in words alone, so a limiter's are read as well: the first name in quotes. */
function withoutNamed(consume: Tokens, message: string): Tokens {
  const [, measure = ""] = /"([^"]+)"/.exec(message) ?? [];
  if (!Object.hasOwn(consume, measure)) return consume;
  const { [measure]: _, ...left } = consume;
  return left;
}
