import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { checkVectorFile } from "../../scripts/vectors.ts";

const recorded = fileURLToPath(new URL("bucket.json", import.meta.url));
const script = fileURLToPath(new URL("../../scripts/vectors.ts", import.meta.url));

let folder: string;
before(async () => {
  folder = await mkdtemp(join(tmpdir(), "vectors-"));
});
after(() => rm(folder, { recursive: true }));

interface Vector {
  id: string;
  fn: string;
  in: Record<string, unknown>;
  out?: unknown;
  raises?: string;
}

async function vectorsOf(file: string): Promise<Vector[]> {
  return (JSON.parse(await readFile(file, "utf8")) as { vectors: Vector[] }).vectors;
}

/** Checks vectors as they would stand in a file. */
async function check(vectors: readonly unknown[]): Promise<{ passed: number; failed: number; lines: string[] }> {
  const file = join(folder, "some.json");
  await writeFile(file, JSON.stringify({ format: 1, vectors }));
  const lines: string[] = [];
  return { ...(await checkVectorFile(file, (line) => lines.push(line))), lines };
}

async function recordedVector(fn: string, fits: (vector: Vector) => boolean): Promise<Vector> {
  const vector = (await vectorsOf(recorded)).find((each) => each.fn === fn && fits(each));
  assert.ok(vector !== undefined, `no vector of ${fn} is recorded`);
  return vector;
}

function run(args: readonly string[]): Promise<{ code: number; lines: string[] }> {
  return new Promise((resolve) => {
    execFile(process.execPath, [script, ...args], (error, stdout) => {
      resolve({ code: error === null ? 0 : Number(error.code), lines: stdout.trimEnd().split("\n") });
    });
  });
}

test("the arithmetic agrees with every recorded vector of the original", async () => {
  const lines: string[] = [];
  const { passed, failed } = await checkVectorFile(recorded, (line) => lines.push(line));
  assert.deepEqual(lines, []);
  assert.equal(failed, 0);
  assert.equal(passed, 446);
});

test("the last line says how many passed and failed, and the exit code agrees with it", async () => {
  assert.deepEqual(await run([recorded]), { code: 0, lines: ["446 passed, 0 failed"] });
});

test("a missing file, a file that is no JSON and no file at all are failures with a reason", async () => {
  const broken = join(folder, "broken.json");
  await writeFile(broken, "{");
  for (const [args, reason] of [
    [[join(folder, "missing.json")], /Cannot read vectors from .*missing\.json: ENOENT/],
    [[broken], /Cannot read vectors from .*broken\.json: /],
    [[], /^$/],
  ] as const) {
    const { code, lines } = await run(args);
    assert.equal(code, 1);
    assert.equal(lines.at(-1), "0 passed, 1 failed");
    assert.match(lines.slice(0, -1).join("\n"), reason);
  }
});

test("an unknown function and a vector without one are failures, not gaps", async () => {
  const { passed, failed, lines } = await check([{ id: "x-1", fn: "toString", in: {}, out: 1 }, { id: "x-2" }, null]);
  assert.deepEqual([passed, failed], [0, 3]);
  assert.deepEqual(lines, [
    'x-1: unknown fn "toString"',
    'x-2: a vector needs "fn" and "in"',
    'vector 2: a vector needs "fn" and "in"',
  ]);
});

test("one millitoken more or less is a failure that shows both", async () => {
  for (const fn of ["refill_bucket", "try_consume", "force_consume"]) {
    const vector = await recordedVector(fn, (each) => each.raises === undefined);
    const out = vector.out as { new_tokens_milli: string };
    for (const wrong of [-1, 1]) {
      const tokens = String(Number(out.new_tokens_milli) + wrong);
      const { failed, lines } = await check([{ ...vector, out: { ...out, new_tokens_milli: tokens } }]);
      assert.equal(failed, 1);
      assert.match(
        lines[0] ?? "",
        new RegExp(`^${vector.id}: expected .*"${tokens}".*got .*"${out.new_tokens_milli}"`),
      );
    }
  }
});

test("every recorded answer counts: with any field of it changed, the vector fails", async () => {
  const vectors = await vectorsOf(recorded);
  const changed = vectors.flatMap((vector) => variations(vector.out).map((out) => ({ ...vector, out })));
  assert.ok(changed.length > vectors.length);
  const { passed } = await check(changed);
  assert.equal(passed, 0);
});

/** The answer with one field of it changed, for each field that the note of the file says to compare. */
function variations(out: unknown): unknown[] {
  if (typeof out === "number") return [out + 0.003, out - 0.003];
  if (typeof out === "string") return [`${out}1`, Number(out)];
  if (typeof out === "boolean") return [!out];
  if (Array.isArray(out)) {
    const without = out.length > 0 ? [out.slice(1)] : [];
    return [...without, ...out.flatMap((item, i) => variations(item).map((other) => out.with(i, other)))];
  }
  return Object.entries(out ?? {})
    .filter(([key]) => key !== "new_last_refill_ms")
    .flatMap(([key, value]) => variations(value).map((other) => ({ ...(out as object), [key]: other })));
}

test("a wait may differ by the one millisecond that the note allows", async () => {
  const deficit = { deficit_milli: "1000", refill_amount_milli: "1000", refill_period_ms: "1000" };
  const waits = [0.998, 0.999, 1, 1.001, 1.002].map((out) => ({
    id: `${out} s`,
    fn: "calculate_retry_after",
    in: deficit,
    out,
  }));
  const { passed, lines } = await check(waits);
  assert.equal(passed, 3);
  assert.deepEqual(lines, ["0.998 s: expected 0.998, got 1", "1.002 s: expected 1.002, got 1"]);
});

test("the stored time of the last refill is not compared: the original counts time twice there", async () => {
  const vector = await recordedVector("refill_bucket", (each) => each.raises === undefined);
  const out = { ...(vector.out as object), new_last_refill_ms: "0" };
  assert.equal((await check([{ ...vector, out }])).passed, 1);
});

test("an error where an answer was recorded fails, and so does an answer where an error was", async () => {
  const raising = await recordedVector("refill_bucket", (each) => each.raises !== undefined);
  const answering = await recordedVector("refill_bucket", (each) => each.raises === undefined);
  const { failed, lines } = await check([
    { ...raising, raises: undefined, out: { new_tokens_milli: "0" } },
    { ...answering, out: undefined, raises: "ZeroDivisionError" },
    { ...answering, in: { ...answering.in, tokens_milli: "9007199254740993" } },
  ]);
  assert.equal(failed, 3);
  assert.match(lines[0] ?? "", /got the error RangeError: A refill period of 0 ms/);
  assert.match(lines[1] ?? "", /expected an error \(ZeroDivisionError\), got \{/);
  assert.match(lines[2] ?? "", /no safe integer/);
});

test("schedule vectors in the same format are checked by the same command", async () => {
  const schedule = await vectorsOf(fileURLToPath(new URL("schedule.json", import.meta.url)));
  const one = schedule[0] as Vector;
  assert.deepEqual((await check([one])).lines, []);
  assert.equal((await check([{ ...one, out: {} }])).failed, 1);
});
