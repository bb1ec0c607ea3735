import { readFileSync } from "node:fs";

/**
 * A script as its file in `lua/` has it. This file is replaced by one with all of the texts in it when the package is built
 * (scripts/bundle-texts.ts), so that a bundle needs no other file.
 */
export function luaText(name: string): string {
  return readFileSync(new URL(`lua/${name}.lua`, import.meta.url), "utf8");
}
