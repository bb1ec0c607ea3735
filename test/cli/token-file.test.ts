import assert from "node:assert/strict";
import {
  chmodSync,
  chownSync,
  lstatSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { zaeLimiter } from "./run-bin.ts";

function folderOf(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), "zae-limiter-token-file-"));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

const add = (file: string, id: string) =>
  zaeLimiter(["token", "add", file, "--id", id, "--namespaces", "default", "--scopes", "acquire"]);

const idsIn = (file: string): string[] =>
  (JSON.parse(readFileSync(file, "utf8")) as { tokens: { id: string }[] }).tokens.map(({ id }) => id).sort();

test("tokens that several processes add and remove at once are all there, and the removed one is not", {
  timeout: 120_000,
}, async (t) => {
  const folder = folderOf(t);
  const file = join(folder, "tokens.json");
  assert.equal((await add(file, "old")).code, 0);
  const names = ["a", "b", "c", "d", "e"];
  const ran = await Promise.all([...names.map((id) => add(file, id)), zaeLimiter(["token", "remove", file, "old"])]);
  for (const { code, stderr } of ran) assert.equal(code, 0, stderr);
  assert.deepEqual(idsIn(file), names);
  assert.deepEqual(readdirSync(folder), ["tokens.json"], "no lock and no half-written file is left");
});

test("a token file stays whose it is, with its mode, and a link to it stays a link", { timeout: 60_000 }, async (t) => {
  const folder = folderOf(t);
  const file = join(folder, "tokens.json");
  await add(file, "first");
  assert.equal(statSync(file).mode & 0o777, 0o600, "a new one is its owner's alone");
  chmodSync(file, 0o640);
  // Only root may give files away.
  const isRoot = process.getuid?.() === 0;
  if (isRoot) chownSync(file, 4711, 4712);
  const link = join(folder, "link.json");
  symlinkSync(file, link);
  assert.equal((await add(link, "second")).code, 0);
  assert.equal((await zaeLimiter(["token", "remove", file, "first"])).code, 0);
  const { uid, gid, mode } = statSync(file);
  assert.deepEqual([mode & 0o777, isRoot ? [uid, gid] : []], [0o640, isRoot ? [4711, 4712] : []]);
  assert.equal(lstatSync(link).isSymbolicLink(), true);
  assert.deepEqual(idsIn(link), ["second"]);
});
