import { admissionDefects } from "./admission.ts";
import { faultDefects } from "./faults.ts";
import { kindDefects } from "./kinds.ts";
import type { Kit } from "./kit.ts";
import { nameDefects } from "./names.ts";
import { newerDefects } from "./newer.ts";

/** Every symptom of the original that can show on any store. */
export function everyDefect(kit: Kit): void {
  admissionDefects(kit);
  faultDefects(kit);
  nameDefects(kit);
  newerDefects(kit);
  kindDefects(kit);
}
