import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { fileURLToPath } from "node:url";
import { here } from "./in-process.ts";
import { COMPILED } from "./run-bin.ts";

const MAIN = fileURLToPath(new URL("../../src/cli/main.ts", import.meta.url));

/** How each shell is asked what it would offer after a line; the last word is unfinished. One candidate a line. */
const SHELLS = {
  bash: (words: readonly string[]) =>
    `source script; COMP_WORDS=(zae-limiter ${words.map(quoted).join(" ")}); COMP_CWORD=${words.length}; ` +
    `_zae_limiter; printf '%s\\n' "\${COMPREPLY[@]}"`,
  zsh: (words: readonly string[]) =>
    `compdef() { }; compadd() { print -l -- "\${(@P)2}" }; _files() { }; source ./script; ` +
    `words=(zae-limiter ${words.map(quoted).join(" ")}); CURRENT=${words.length + 1}; _zae_limiter`,
  fish: (words: readonly string[]) => `source script; complete -C ${quoted(`zae-limiter ${words.join(" ")}`)}`,
};

for (const [shell, lineFor] of Object.entries(SHELLS)) {
  const isThere = spawnSync(shell, ["--version"]).status === 0;
  test(`${shell} completes commands, options and ids with the script`, {
    skip: isThere ? false : `no ${shell} (needs ${shell})`,
  }, async (t) => {
    const { folder, store } = await prepared(t);
    writeFileSync(join(folder, "script"), (await here(["completion", shell])).stdout);
    const offered = (...words: readonly string[]) => {
      const { stdout, stderr } = spawnSync(shell, ["-c", lineFor(words)], {
        cwd: folder,
        encoding: "utf8",
        env: { PATH: `${folder}:${process.env.PATH}`, HOME: folder, ZAEL_STORE: store, ...COMPILED },
      });
      return { lines: stdout.split("\n").filter(Boolean), stderr };
    };
    assert.deepEqual(offered("entity", "sh"), { lines: ["show"], stderr: "" });
    assert.deepEqual(offered("entity", "show", "--js"), { lines: ["--json"], stderr: "" });
    assert.deepEqual(offered("entity", "show", ""), { lines: ["key-1", "key-2"], stderr: "" });
    assert.deepEqual(offered("entity", "show", "nobody").lines, []);
  });
}

/** A folder with a store of two keys, and the command under its own name. */
async function prepared(t: TestContext) {
  const folder = mkdtempSync(join(tmpdir(), "zae-limiter-completion-"));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const store = `sqlite:${join(folder, "limiter.db")}`;
  for (const line of ["init", "entity create key-1", "entity create key-2"]) {
    assert.equal((await here([...line.split(" "), "--store", store])).code, 0, line);
  }
  const command = join(folder, "zae-limiter");
  writeFileSync(command, `#!/bin/sh\nexec ${quoted(process.execPath)} ${quoted(MAIN)} "$@"\n`);
  chmodSync(command, 0o755);
  return { folder, store };
}

function quoted(word: string): string {
  return `'${word.replaceAll("'", "'\\''")}'`;
}
