import type { StoredConfig } from "../domain/config.ts";
import { levelBlock } from "./show-limits.ts";

/** What everybody has on everything else, for people. */
export function systemText(system: StoredConfig): string {
  return levelBlock("system", system);
}
