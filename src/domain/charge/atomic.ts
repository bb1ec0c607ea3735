import { ValidationError } from "../names/errors.ts";

/** Throws where a request that must be taken all at once asks for more than the store can write in one transaction. */
export function checkAtomic(
  request: { readonly entityId: string; readonly resource: string },
  { items, itemsMax }: { readonly items: number; readonly itemsMax: number },
): void {
  if (items <= itemsMax) return;
  throw new ValidationError(
    "atomic_too_many",
    `The request of ${request.entityId} for ${request.resource} needs ${items} items in one transaction, one for each bucket of each level ` +
      `and shard; this store allows ${itemsMax}. ` +
      "Name fewer resources in `also`, or leave `atomic` out.",
    // How many parents it has is not for the holder of a key.
    {
      publicDetail:
        "The request names more resources than one transaction allows; name fewer in `also`, or leave `atomic` out.",
    },
  );
}
