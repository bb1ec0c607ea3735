import { GIVING_BACK } from "./writes-giving-back.ts";
import { CONFIGURATION, OPERATIONS, SHARDS, SHARED_TABLE, USAGE } from "./writes-keeping.ts";
import type { FormGroup } from "./writes-scenes.ts";
import { SLOTS } from "./writes-slots.ts";
import { REBASES, TAKING } from "./writes-taking.ts";

/** Every form of write, in the order of the page. */
export const GROUPS: readonly FormGroup[] = [
  TAKING,
  GIVING_BACK,
  REBASES,
  SLOTS,
  SHARDS,
  OPERATIONS,
  CONFIGURATION,
  USAGE,
  SHARED_TABLE,
];
