import type { Retention } from "../domain/config/retention.ts";
import { ValidationError } from "../domain/names/errors.ts";
import { shown } from "../domain/names/names.ts";

/** What the memory and SQLite stores keep, and for how long. */
export interface RetentionOptions {
  /**
   * How long usage is kept after the hour in which it was counted. `false`: usage is not counted, and `usage()` throws
   * `usage_not_kept`. Default: 2 days in memory, 400 days in SQLite.
   */
  readonly usage?: false | { readonly keepMs?: number };
  /** How long audit events are kept, in ms. Default: 400 days. */
  readonly auditKeepMs?: number;
}

export function retentionOf({ usage, auditKeepMs }: RetentionOptions, unsaid: Retention): Retention {
  return {
    usageKeepMs: usage === false ? undefined : usageKeepMs(usage, unsaid),
    auditKeepMs: auditKeepMs === undefined ? unsaid.auditKeepMs : checkKeepMs("auditKeepMs", auditKeepMs),
  };
}

/** What a store that is handed in keeps was decided where it was opened. */
export function refuseRetention(options: RetentionOptions, storeName: string): void {
  for (const name of ["usage", "auditKeepMs"] as const) {
    if (options[name] === undefined) continue;
    throw new ValidationError(
      "option_invalid",
      `${name} is given with an open store; pass it where ${shown(storeName)} is opened.`,
    );
  }
}

function usageKeepMs(usage: unknown, unsaid: Retention): number | undefined {
  if (usage === undefined) return unsaid.usageKeepMs;
  if (typeof usage !== "object" || usage === null || Object.keys(usage).some((name) => name !== "keepMs")) {
    throw new ValidationError("option_invalid", `usage is ${shown(usage)}; give false or { keepMs }.`);
  }
  const { keepMs } = usage as { readonly keepMs?: unknown };
  return keepMs === undefined ? unsaid.usageKeepMs : checkKeepMs("usage.keepMs", keepMs);
}

function checkKeepMs(name: string, value: unknown): number {
  if (typeof value === "number" && Number.isSafeInteger(value) && value >= 1) return value;
  throw new ValidationError("option_invalid", `${name} is ${shown(value)}; give whole milliseconds, at least 1.`);
}
