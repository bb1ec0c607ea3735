import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";
import { importingFrom, plainEnvironment } from "./readme.ts";

// The recipes of the guide are whole programs that serve HTTP: each prints what the guide says, and ends by itself.

const guide = readFileSync(new URL("../docs/guide/streams-and-shutdown.md", import.meta.url), "utf8");
const entryOf = (subpath: string) => new URL(`../src/entry/${subpath}.ts`, import.meta.url).href;
// What is printed is compared, so it must not be coloured, wherever this runs.
const env = { ...plainEnvironment(), FORCE_COLOR: "0" };

/** The program under a heading, and what it prints. */
function recipe(heading: string): { readonly program: string; readonly printed: string } {
  const [, section = ""] = guide.split(`## ${heading}\n`);
  const [, program = "", printed = ""] = /^```ts\n([\s\S]*?)^```\n\n```text\n([\s\S]*?)^```$/m.exec(section) ?? [];
  assert.ok(program !== "", `there is no program under ${heading}`);
  return { program, printed };
}

for (const [heading, symptom] of [
  ["Streamed answers", "a client that leaves in the middle of a stream is charged for what was produced"],
  ["Shutdown", "told to stop, a server refuses who waits, finishes who is at work, and has it on file"],
] as const) {
  test(`${heading}: ${symptom}`, async (t) => {
    const folder = await mkdtemp(join(tmpdir(), "recipe-"));
    t.after(() => rm(folder, { recursive: true }));
    const { program, printed } = recipe(heading);
    await writeFile(join(folder, "recipe.mts"), importingFrom(program, entryOf));
    const { stdout } = await promisify(execFile)(process.execPath, ["recipe.mts"], { cwd: folder, env });
    assert.equal(stdout, printed);
  });
}
