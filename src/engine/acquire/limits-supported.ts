import { checkLimits, type Limit } from "../../domain/limits/limit.ts";
import { ValidationError } from "../../domain/names/errors.ts";
import type { EngineDeps } from "../limiter/settings.ts";

/** Limits as they are given, checked, and such as the store can keep: what it cannot keep is refused rather than ignored. */
export function checkSupported<Name extends string, Measure extends string>(
  given: readonly Limit<Name, Measure>[],
  {
    calendar,
    store,
  }: Pick<EngineDeps, "calendar"> & { readonly store: Pick<EngineDeps["store"], "name" | "tellsThresholds"> },
): readonly Limit<Name, Measure>[] {
  const limits = checkLimits(given, calendar);
  const telling = store.tellsThresholds === true ? undefined : limits.find(({ notifyAt }) => notifyAt !== undefined);
  if (telling === undefined) return limits;
  throw new ValidationError(
    "notify_unsupported",
    `Limit "${telling.name}" has notifyAt, and the store ${store.name} keeps no marks of what was told. Leave notifyAt out, or use another store.`,
  );
}
