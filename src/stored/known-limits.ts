import type { Limit } from "../domain/limits/limit.ts";
import { isLimit, readableJson, rowUnreadable } from "./row-damage.ts";

/** The limits that a text of JSON has. The same list for the same text: of many ids that go by the same limits, each would otherwise hold its own. */
export function knownLimits(text: unknown): readonly Limit[] {
  const known = byText.get(text);
  if (known !== undefined) return known;
  const found = readableJson(text, LIMITS);
  // Whether they are limits in all respects was checked when they were set.
  if (!Array.isArray(found) || !found.every((one) => isLimit(one, ANY_CRON))) throw rowUnreadable(text, LIMITS);
  if (byText.size >= TEXTS_MAX) byText.clear();
  byText.set(text, found);
  return found;
}

const TEXTS_MAX = 1_000;
const byText = new Map<unknown, readonly Limit[]>();

const LIMITS = { table: "config", column: "limits", of: "" };
const ANY_CRON = { problemOf: () => undefined };
