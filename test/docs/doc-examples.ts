import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { importingFrom } from "./readme.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));

export const documents = ["README.md", "CHANGELOG.md", ...globSync("docs/**/*.md", { cwd: root })].sort();

export interface Example {
  /** Such as `docs/guide/outages.md:15`. */
  readonly place: string;
  /** As it runs from source. */
  readonly text: string;
  /** What it prints, where the document shows that right below it. */
  readonly printed: string | undefined;
  /** Whether it needs a DynamoDB. */
  readonly isOnDynamo: boolean;
  /** Whether it needs a PostgreSQL server. */
  readonly isOnPostgres: boolean;
  readonly isOnRedis: boolean;
  /** Whether it is a step of a tutorial: those are followed as a whole (test/docs/tutorial.test.ts). */
  readonly isStep: boolean;
}

/** Every TypeScript block of the documents that begins with an import of the package. */
export function allExamples(): readonly Example[] {
  return documents.flatMap((document) => {
    const markdown = readFileSync(join(root, document), "utf8");
    const blocks = markdown.matchAll(/^```ts\n([\s\S]*?)^```$(?:\n+```text\n([\s\S]*?)^```$)?/gm);
    return [...blocks].flatMap(({ 1: block = "", 2: printed, index }) => {
      if (!/^import [^;]*from ["']zae-limiter(?:\/[\w-]+)?["']/.test(block)) return [];
      const place = `${document}:${markdown.slice(0, index).split("\n").length}`;
      const text = importingFrom(block, (name) => join(root, `src/entry/${name}.ts`));
      const isOnDynamo = /zae-limiter\/dynamodb|dynamodb:/.test(block);
      const isOnPostgres = /postgres:\/\/|store: "postgres"/.test(block);
      const isOnRedis = /zae-limiter\/redis|(redis|valkey)s?:\/\/|store: "redis"/.test(block);
      const on = { isOnDynamo, isOnPostgres, isOnRedis };
      return [{ place, text, printed, ...on, isStep: document.startsWith("docs/tutorial/") }];
    });
  });
}
