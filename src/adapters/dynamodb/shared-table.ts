import { type ConfigScope, isTotal, type LimitsChange } from "../../domain/config/config.ts";
import { ValidationError } from "../../domain/names/errors.ts";

/** On a table shared with the original: throws for limits that the original would not go by. */
export function refuseLevelShared(scope: ConfigScope, { inherit, appliesTo }: LimitsChange): void {
  if ("planId" in scope) throw notShared("Plans");
  if (isTotal(scope)) throw notShared("Totals over all resources");
  if (inherit === true) throw notShared("Levels that inherit");
  if (appliesTo === "callers") throw notShared("Defaults for callers only");
}

/** The original knows nothing of it and would not charge it. */
export function notShared(what: string): ValidationError {
  return new ValidationError(
    "shared_table",
    `${what} cannot be set on a table that is shared with the original, which would ignore them; ` +
      "take the table over with `migrate`, or leave them out.",
  );
}
