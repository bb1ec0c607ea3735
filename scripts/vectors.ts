import { readFile } from "node:fs/promises";
import { parsedArgs, runScript } from "./script.ts";
import { type BucketVector, checkBucketVector, isBucketFn } from "./vectors-bucket.ts";
import type { ScheduleVector } from "./vectors-schedule.ts";

const USAGE = `npm run vectors -- FILE       checks the arithmetic against a file of recorded inputs and outputs

The file's own note says what is compared and how exactly; docs/reference/arithmetic.md explains the format.
`;

const SCHEDULE_FNS = ["effective_params", "encode_schedule", "reset_edges"];

/** Checks every vector of a file and prints each failure; a file that cannot be read counts as one failure. */
export async function checkVectorFile(
  file: string,
  print: (line: string) => void,
): Promise<{ readonly passed: number; readonly failed: number }> {
  let vectors: readonly unknown[];
  try {
    vectors = vectorsOf(await readFile(file, "utf8"));
  } catch (error) {
    print(`Cannot read vectors from ${file}: ${error instanceof Error ? error.message : error}`);
    return { passed: 0, failed: 1 };
  }
  let passed = 0;
  for (const [i, vector] of vectors.entries()) {
    const difference = await differenceOf(vector);
    if (difference === undefined) passed++;
    else print(`${idOf(vector) ?? `vector ${i}`}: ${difference}`);
  }
  return { passed, failed: vectors.length - passed };
}

function vectorsOf(json: string): readonly unknown[] {
  const content: unknown = JSON.parse(json);
  const vectors = (content as { vectors?: unknown } | null)?.vectors;
  if (!Array.isArray(vectors)) throw new Error('it has no list "vectors"');
  return vectors;
}

async function differenceOf(vector: unknown): Promise<string | undefined> {
  const fn = (vector as { fn?: unknown } | null)?.fn;
  if (typeof fn !== "string" || typeof (vector as BucketVector).in !== "object") return 'a vector needs "fn" and "in"';
  if (isBucketFn(fn)) return checkBucketVector(vector as BucketVector);
  if (!SCHEDULE_FNS.includes(fn)) return `unknown fn "${fn}"`;
  // Loaded only when needed: schedules bring a calendar along.
  const { checkScheduleVector } = await import("./vectors-schedule.ts");
  return checkScheduleVector(vector as ScheduleVector);
}

function idOf(vector: unknown): string | undefined {
  const id = (vector as { id?: unknown } | null)?.id;
  return typeof id === "string" ? id : undefined;
}

if (import.meta.main) {
  await runScript(USAGE, async (args) => {
    const [file] = parsedArgs({ args: [...args], allowPositionals: true }).positionals;
    // No file is a failure that is counted: the last line always says how many there were.
    if (file === undefined) process.stderr.write("Name a file of vectors: npm run vectors -- FILE\n");
    const { passed, failed } =
      file === undefined ? { passed: 0, failed: 1 } : await checkVectorFile(file, (line) => console.log(line));
    console.log(`${passed} passed, ${failed} failed`);
    return failed > 0 ? 1 : 0;
  });
}
