import { readFileSync } from "node:fs";

/**
 * The statement that makes a function, as its file in `sql/` has it. This file is replaced by one with all of the texts in it when the package is
 * built (scripts/bundle-texts.ts), so that a bundle needs no other file.
 */
export function sqlText(name: string): string {
  return readFileSync(new URL(`sql/${name}.sql`, import.meta.url), "utf8");
}
