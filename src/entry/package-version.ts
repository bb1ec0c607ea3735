import { readFileSync } from "node:fs";

/** Of this package. Its file is two folders up, built or not. */
export function packageVersion(): string {
  const text = readFileSync(new URL("../../package.json", import.meta.url), "utf8");
  return (JSON.parse(text) as { readonly version: string }).version;
}
