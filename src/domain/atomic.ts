import { ValidationError } from "./errors.ts";

/** Throws where a request that must be taken all at once asks for more than the store can write in one transaction. */
export function checkAtomic(
  request: { readonly entityId: string; readonly resource: string },
  { items, itemsMax }: { readonly items: number; readonly itemsMax: number },
): void {
  if (items <= itemsMax) return;
  throw new ValidationError(
    "atomic_too_many",
    `The request of ${request.entityId} for ${request.resource} writes ${items} items at once, one for each bucket of each level ` +
      `and more where a bucket is in shards; one transaction of this store has room for ${itemsMax}. ` +
      "Name fewer resources in `also`, or leave `atomic` out.",
    // How many parents it has is not for the holder of a key.
    {
      publicDetail:
        "The request takes from more resources at once than one transaction has room for; name fewer in `also`, or leave `atomic` out.",
    },
  );
}
