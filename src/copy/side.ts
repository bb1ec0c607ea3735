import { NotFoundError, ValidationError } from "../domain/names/errors.ts";
import type { GuardedDeps } from "../engine/acquire/guarded-deps.ts";
import type { Limiter } from "../engine/limiter/limiter.ts";
import { type LimiterParts, partsOf } from "../engine/limiter/limiter-parts.ts";
import type { CopyStore } from "../ports/copy-store.ts";
import type { ScopedStore } from "../ports/store.ts";

/** A namespace on one side of a copy. */
export interface Side {
  readonly deps: GuardedDeps;
  readonly namespaceId: string;
  readonly scope: ScopedStore;
  readonly copy: CopyStore;
  /** Both sides can say for how many days usage is kept. */
  readonly keepsUsageDays: boolean;
}

/** The parts of both limiters; throws where they are on one store. */
export function partsOfBoth(from: Limiter, to: Limiter): { readonly from: LimiterParts; readonly to: LimiterParts } {
  const parts = { from: partsOf(from), to: partsOf(to) };
  const [a, b] = [parts.from.deps, parts.to.deps];
  const isOne = a.returns === b.returns || (a.store.name === b.store.name && a.store.name !== "memory");
  if (!isOne) return parts;
  throw new ValidationError(
    "stores_same",
    `Both limiters are on the store ${a.store.name}; open the second one on another store.`,
  );
}

export function sideOf({ deps }: LimiterParts, namespaceId: string): Omit<Side, "keepsUsageDays"> {
  const scope = deps.store.scope(namespaceId);
  const { copy } = scope;
  if (copy !== undefined) return { deps, namespaceId, scope, copy };
  throw new ValidationError(
    "shared_table",
    `The store ${deps.store.name} is shared with the original, or cannot be copied; take the table over with \`migrate\`, and open it without \`sharedTable\`.`,
  );
}

/** The same side and its other, as far as they agree. */
export function agreed(one: Omit<Side, "keepsUsageDays">, other: Pick<Side, "copy">): Side {
  return { ...one, keepsUsageDays: one.copy.keepsUsageDays && other.copy.keepsUsageDays };
}

export function namespaceMissing(name: string, store: string): NotFoundError {
  return new NotFoundError(
    "namespace_not_found",
    `The store ${store} has no namespace ${name}; name one that \`namespace list\` shows.`,
  );
}
