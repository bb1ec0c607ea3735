import { readFileSync } from "node:fs";

export const README = new URL("../../README.md", import.meta.url);

/** The package as examples import it: from "zae-limiter" or from one of its subpaths. */
const PACKAGE_IMPORT = /(\bfrom\s+|\bimport\s*\(?\s*)(["'])zae-limiter(?:\/([\w-]+))?\2/g;

/** The TypeScript blocks of a README that begin with an import of the package: what a newcomer copies. */
export function readmeExamples(markdown: string): string[] {
  const blocks = [...markdown.matchAll(/^```ts\n([\s\S]*?)^```$/gm)].map(([, block = ""]) => block);
  const examples = blocks.filter((block) => /^import [^;]*from ["']zae-limiter(?:\/[\w-]+)?["']/.test(block));
  if (examples.length === 0) {
    throw new Error('README.md has no ```ts block that begins with an import from "zae-limiter".');
  }
  return examples;
}

export function readExamples(): string[] {
  return readmeExamples(readFileSync(README, "utf8"));
}

/** Its links that are relative: files of the repository. */
export function readLinks(): { readonly text: string; readonly target: string }[] {
  const links = [...readFileSync(README, "utf8").matchAll(/(?<!!)\[([^\]]*)\]\(([^()\s]+)\)/g)];
  return links
    .map(([, text = "", target = ""]) => ({ text, target }))
    .filter(({ target }) => !target.startsWith("https:"));
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
