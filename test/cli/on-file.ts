import assert from "node:assert/strict";
import type { TestContext } from "node:test";
import { tempFile } from "../sqlite/temp-store.ts";
import { here } from "./in-process.ts";

/** Runs commands on a file of its own, which some commands have set up. */
export async function onFile(t: TestContext, ...lines: readonly string[]) {
  const store = ["--store", `sqlite:${tempFile(t)}`];
  const run = async (line: string) => here([...line.split(" "), ...store]);
  for (const line of ["init", ...lines]) {
    const { code, stderr } = await run(line);
    assert.equal(code, 0, `${line}: ${stderr}`);
  }
  return { run };
}
