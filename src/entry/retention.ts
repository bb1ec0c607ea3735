import type { Retention } from "../domain/config/retention.ts";
import { ValidationError } from "../domain/names/errors.ts";
import { given } from "../domain/names/given.ts";
import { requireOption } from "../domain/names/known-names.ts";
import { shown } from "../domain/names/names.ts";

/** What the memory and SQLite stores keep, and for how long. */
export interface RetentionOptions {
  /**
   * How long usage is kept after the hour in which it was counted. `false`: usage is not counted, and `usage()` throws
   * `usage_not_kept`. Default: 2 days in memory, 400 days in SQLite. `callers: false`: what no bucket of the caller
   * counts is not counted; on DynamoDB, too. Default: `true`.
   */
  readonly usage?: false | { readonly keepMs?: number; readonly callers?: boolean };
  /** How long audit events are kept, in ms. Default: 400 days. */
  readonly auditKeepMs?: number;
}

export function retentionOf({ usage, auditKeepMs }: RetentionOptions, unsaid: Retention): Retention {
  return {
    usageKeepMs: usage === false ? undefined : usageKeepMs(usage, unsaid),
    auditKeepMs: auditKeepMs === undefined ? unsaid.auditKeepMs : checkKeepMs("auditKeepMs", auditKeepMs),
  };
}

/** A store by itself counts nothing: whether usage of callers is counted is said where a limiter is opened on it. */
export function storeRetention(options: RetentionOptions, unsaid: Retention): Retention {
  const { usage } = options;
  if (usage && checkedUsage(usage).callers !== undefined) {
    throw new ValidationError(
      "option_invalid",
      `usage.callers is ${shown(usage.callers)} for a store; pass it to RateLimiter.open.`,
    );
  }
  return retentionOf(options, unsaid);
}

/** What a store that is handed in keeps was decided where it was opened. */
export function refuseRetention(options: RetentionOptions, storeName: string): void {
  for (const name of ["usage", "auditKeepMs"] as const) {
    if (options[name] === undefined || (name === "usage" && saysOnlyCallers(options))) continue;
    throw new ValidationError(
      "option_invalid",
      `${name} is given with an open store; pass it where ${shown(storeName)} is opened.`,
    );
  }
}

function usageKeepMs(usage: unknown, unsaid: Retention): number | undefined {
  if (usage === undefined) return unsaid.usageKeepMs;
  const { keepMs } = checkedUsage(usage);
  return keepMs === undefined ? unsaid.usageKeepMs : checkKeepMs("usage.keepMs", keepMs);
}

/** Whether usage of callers is counted that no bucket counts. */
export function countsCallers({ usage }: RetentionOptions): boolean {
  if (usage === undefined || usage === false) return usage !== false;
  return checkedUsage(usage).callers ?? true;
}

/** True if nothing is said about how long usage is kept. */
export function saysOnlyCallers({ usage }: RetentionOptions): boolean {
  return usage !== undefined && usage !== false && checkedUsage(usage).keepMs === undefined;
}

function checkedUsage(usage: unknown): { readonly keepMs?: unknown; readonly callers?: boolean } {
  const known = ["keepMs", "callers"];
  const isKnown =
    typeof usage === "object" && usage !== null && Object.keys(usage).every((name) => known.includes(name));
  requireOption("usage", usage, isKnown, "false or { keepMs }, with callers: false if wanted");
  const { callers, ...rest } = usage as { readonly keepMs?: unknown; readonly callers?: boolean };
  requireOption("usage.callers", callers, callers === undefined || typeof callers === "boolean", "true or false");
  return { ...rest, ...given({ callers }) };
}

function checkKeepMs(name: string, value: unknown): number {
  const isValid = Number.isSafeInteger(value) && (value as number) >= 1;
  requireOption(name, value, isValid, "whole milliseconds, at least 1");
  return value as number;
}
