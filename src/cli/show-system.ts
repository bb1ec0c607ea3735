import type { Limit } from "../domain/limit.ts";
import type { OnUnavailable } from "../entry/index.ts";
import { limitsBlock } from "./show-limits.ts";

/** What everybody has on everything else, for people. */
export function systemText(system: {
  readonly limits: readonly Limit[];
  readonly onUnavailable?: OnUnavailable;
}): string {
  const { limits, onUnavailable } = system;
  const outage = onUnavailable === undefined ? "" : `  on unavailable: ${onUnavailable}\n`;
  return `${limitsBlock("system", limits, {})}${outage}`;
}
