import assert from "node:assert/strict";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { COMMANDS, GROUPS } from "../../src/cli/commands.ts";
import { EDGE_FILE } from "../edge/kit.ts";
import { here } from "./in-process.ts";
import { cliReference, helpOf } from "./reference.ts";

test("docs/reference/cli.md says what the help says", async () => {
  const file = new URL("../../docs/reference/cli.md", import.meta.url);
  assert.equal(readFileSync(file, "utf8"), await cliReference(), "run `node scripts/cli-reference.ts`");
});

test("every command and group has help with examples, and opens no store for it", async () => {
  const paths = [[], ...Object.keys(GROUPS).map((name) => [name]), ...COMMANDS.map(({ path }) => path)];
  for (const path of paths) {
    const { code, stdout, stderr } = await here([...path, "--help"], {
      env: { ZAEL_STORE: "sqlite:/nowhere/at/all.db" },
    });
    assert.deepEqual([code, stderr], [0, ""], path.join(" "));
    assert.match(stdout, /^Usage: /);
    assert.match(stdout, /\nExamples:\n {2}\$ zae-limiter /, path.join(" "));
  }
});

/** The manifest that examples name. */
const MANIFEST = "owner: platform\nresources:\n  gpt-4: { limits: { rpm: 100 } }\n";

/** What the examples are about. */
const PREPARED = [
  "init",
  "resource set-defaults gpt-4 -l rpm:100 -l tpm:10k/min:20k",
  "entity create proj-1 --name Production",
  "entity create key-1 --parent proj-1",
  "entity set-limits key-1 -r gpt-4 -l rpm:100 -l tpm:10k/min:20k",
  "system set-defaults -l rpm:10",
  "plan create gold",
  "plan set-limits gold -l rpm:10",
  "plan set-limits gold -r gpt-4 -l rpm:10",
  "plan set-totals gold -l usd:5/day",
  "entity create acme",
  "entity set-totals acme -l usd:5/day",
  "system set-totals -l usd:5/day",
  "namespace register tenant-z",
  "acquire key-1 gpt-4 -c rpm=1,tpm=500",
];

test("every example works when it is pasted", async (t) => {
  const before = process.cwd();
  const folder = mkdtempSync(join(tmpdir(), "zae-limiter-cli-"));
  t.after(() => {
    process.chdir(before);
    rmSync(folder, { recursive: true, force: true });
  });
  const prepared = join(folder, "prepared");
  mkdirSync(prepared);
  writeFileSync(join(prepared, "limits.yaml"), MANIFEST);
  writeFileSync(join(prepared, "edge.yaml"), EDGE_FILE);
  for (const line of [...PREPARED, `limits apply -f ${join(prepared, "limits.yaml")} --take-over --yes`]) {
    const { code, stderr } = await here([
      ...line.split(" "),
      "--store",
      `sqlite:${join(prepared, ".zae-limiter/limiter.db")}`,
    ]);
    assert.equal(code, 0, `${line}: ${stderr}`);
  }
  const ops = ["--id", "ops", "--namespaces", "*", "--scopes", "read"];
  assert.equal((await here(["token", "add", join(prepared, "tokens.json"), ...ops])).code, 0);
  let pasted = 0;
  for (const [i, { path }] of COMMANDS.entries()) {
    const there = join(folder, String(i));
    cpSync(prepared, there, { recursive: true });
    process.chdir(there);
    for (const line of examplesIn(await helpOf(path))) {
      // These need a stack, a table or a bucket in the cloud or a server, go on until Ctrl-C, or start an engine, as suites of their own do.
      if (/dynamodb:|s3:\/\/|audit follow|^local (up|down|logs)|^serve|^sweep/.test(line)) continue;
      if (/^(deploy|update|status|list|check|delete|migrate) /.test(line)) continue;
      // What is left to the shell is left out: where an answer goes is no matter of the command.
      const { code, stderr } = await here(wordsOf(line.replace(/ >>? \S+$/, "")));
      assert.equal(code, isNotRunning(line) ? 1 : 0, `zae-limiter ${line}: ${stderr}`);
      pasted += 1;
    }
  }
  assert.ok(pasted > 60, `${pasted} examples`);
});

/** No engine runs where the examples are pasted, and that is the answer. */
function isNotRunning(line: string): boolean {
  return /^local status/.test(line);
}

function examplesIn(help: string): readonly string[] {
  return Array.from(help.matchAll(/^ {2}\$ zae-limiter (.+)$/gm), ([, line]) => line ?? "");
}

/** As a shell takes a line apart. */
function wordsOf(line: string): readonly string[] {
  return Array.from(line.matchAll(/'([^']*)'|(\S+)/g), ([, quoted, plain]) => quoted ?? plain ?? "");
}
