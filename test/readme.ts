import { readFileSync } from "node:fs";

export const README = new URL("../README.md", import.meta.url);

/** The package as examples import it: from "zae-limiter" or from one of its subpaths. */
const PACKAGE_IMPORT = /(\bfrom\s+|\bimport\s*\(?\s*)(["'])zae-limiter(?:\/([\w-]+))?\2/g;

/** The first TypeScript block of a README that begins with an import of the package: what a newcomer copies. */
export function readmeExample(markdown: string): string {
  for (const [, block = ""] of markdown.matchAll(/^```ts\n([\s\S]*?)^```$/gm)) {
    if (/^import [^;]*from ["']zae-limiter(?:\/[\w-]+)?["']/.test(block)) return block;
  }
  throw new Error('README.md has no ```ts block that begins with an import from "zae-limiter".');
}

export function readExample(): string {
  return readmeExample(readFileSync(README, "utf8"));
}

/** The example as it runs from source: `entry` answers with the file for a subpath, "index" for the package itself. */
export function importingFrom(example: string, entry: (subpath: string) => string): string {
  return example.replace(PACKAGE_IMPORT, (_, before: string, quote: string, subpath = "index") => {
    return `${before}${quote}${entry(subpath)}${quote}`;
  });
}

/** The environment without what could lead an example elsewhere: our settings, and those of the test runner. */
export function plainEnvironment(): Record<string, string | undefined> {
  const env = { ...process.env };
  for (const name of Object.keys(env)) {
    if (name.startsWith("ZAEL_") || name === "NODE_OPTIONS" || name === "NODE_TEST_CONTEXT") delete env[name];
  }
  return env;
}
