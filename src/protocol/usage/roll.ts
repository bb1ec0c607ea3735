import type { ItemWrite } from "../../ports/item-store.ts";
import type { Image } from "../item/codec.ts";
import { blankIntent, type Env, NO_USAGE } from "../take/intent.ts";
import { rebaseWrite } from "../take/rebase.ts";

/** Closes the open hour and begins another one, without taking anything. What stands beside it must be on its sheet. */
export function rollWrite(
  image: Image,
  {
    hour,
    readingMs,
    sheeted,
  }: { readonly hour: number; readonly readingMs: number; readonly sheeted: number | undefined },
  env: Env,
): ItemWrite {
  const step = rebaseWrite(image, { ...blankIntent(readingMs), usage: { ...NO_USAGE, rollsTo: hour, sheeted } }, env);
  if (step.kind !== "write") throw new RangeError("Nothing is taken where an hour is closed; nothing can be short.");
  return step.write;
}
