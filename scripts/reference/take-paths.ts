import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

/** The stores whose path is traced, and the most files that a warm take may enter there. */
export const PATHS = { memory: 24, sqlite: 39, postgres: 47, dynamodb: 73 } as const;

export type TracedStore = keyof typeof PATHS;

const NAMES: Readonly<Record<TracedStore, string>> = {
  memory: "Memory",
  sqlite: "SQLite",
  postgres: "PostgreSQL",
  dynamodb: "DynamoDB",
};

const ENGINES_AS_NEEDED = 300_000;

/** The files of `src` that one warm `tryAcquire` enters on a store, in order, traced in a process of its own. */
export async function tracedPath(store: TracedStore, endpoint?: string): Promise<readonly string[]> {
  const program = fileURLToPath(new URL("trace-take.ts", import.meta.url));
  const args = endpoint === undefined ? [program, store] : [program, store, endpoint];
  const { stdout } = await promisify(execFile)(process.execPath, args, { timeout: ENGINES_AS_NEEDED });
  return JSON.parse(stdout) as string[];
}

/** The page: a table for each room that a take passes through, store by store. */
export function takePathsPage(paths: ReadonlyMap<TracedStore, readonly string[]>): string {
  const stores = Array.from(paths.keys());
  const common = (paths.get(stores[0] as TracedStore) ?? []).filter((file) =>
    stores.every((store) => paths.get(store)?.includes(file)),
  );
  return [
    "# The path of a take",
    "",
    "For contributors. These are the files of `src` that one warm `tryAcquire` of two limits enters on each store, in the order in which they are",
    "first entered. The list is traced, not written: `node scripts/take-paths.ts` makes this page anew, and a test compares. Constructors do not count.",
    "",
    "| store | files | of them on every store |",
    "| --- | --- | --- |",
    ...stores.map((store) => `| ${NAMES[store]} | ${paths.get(store)?.length} | ${common.length} |`),
    "",
    "## On every store",
    "",
    ...listOf(common),
    ...stores.flatMap((store) => [
      "",
      `## ${NAMES[store]} besides`,
      "",
      ...listOf((paths.get(store) ?? []).filter((file) => !common.includes(file))),
    ]),
    "",
  ].join("\n");
}

/** The files that the page names for a store. */
export function filesOnPage(page: string, store: TracedStore): readonly string[] {
  const part = (title: string) => page.split(`\n## ${title}\n`)[1]?.split("\n## ")[0] ?? "";
  const text = part("On every store") + part(`${NAMES[store]} besides`);
  return Array.from(text.matchAll(/^\d+\. `([^`]+)`$/gm), ([, file = ""]) => file);
}

function listOf(files: readonly string[]): string[] {
  return files.map((file, i) => `${i + 1}. \`${file}\``);
}
