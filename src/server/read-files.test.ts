import assert from "node:assert/strict";
import { chmodSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { readText, rereadOnChange } from "./read-files.ts";

test("a file is read again when its text or only its rights changed, and what was read before stays where that fails", (t) => {
  const folder = mkdtempSync(join(tmpdir(), "zael-files-"));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const file = join(folder, "tokens.json");
  writeFileSync(file, "one");
  const log: string[] = [];
  let kept = readFileSync(file, "utf8");
  let reads = 0;
  const read = () => {
    reads += 1;
    kept = readText(file, "tokens_invalid", "The file", "");
  };
  const reread = rereadOnChange({
    files: [file],
    read,
    done: "Reloaded.",
    kept: " It stays.",
    log: (s) => log.push(s),
  });
  assert.equal(reread(), false);

  writeFileSync(file, "another");
  assert.equal(reread(), true);
  assert.deepEqual([kept, reads, log], ["another", 1, ["Reloaded."]]);
  assert.equal(reread(), false);

  const { ctimeMs } = statSync(file);
  // The clock of a file system moves on in steps.
  while (statSync(file).ctimeMs === ctimeMs) chmodSync(file, 0o600);
  assert.equal(reread(), true);
  assert.equal(reads, 2);

  rmSync(file);
  assert.equal(reread(), false);
  assert.equal(kept, "another");
  assert.match(log.at(-1) ?? "", /^The file .+ cannot be read: ENOENT.+ It stays\.$/);
  assert.equal(reread(), false);
  assert.equal(reads, 3, "a file that is missing is not read again and again");
});
