import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import {
  chmodSync,
  closeSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { type TestContext, test } from "node:test";
import { fileURLToPath } from "node:url";
import { writeWhole } from "../../src/cli/output.ts";
import { RateLimiter } from "../../src/entry/index.ts";
import { atDepth } from "../depth.ts";
import { tempFile } from "../sqlite/temp-store.ts";
import { here } from "./in-process.ts";
import { COMPILED, PLAIN } from "./run-bin.ts";

const MAIN = fileURLToPath(new URL("../../src/cli/main.ts", import.meta.url));

/** Runs the command with an answer that goes to a file, a device, or a pipe whose reader is gone. */
function withOutput(
  args: readonly string[],
  output: number | "closed",
): Promise<{ code: number | null; stderr: string }> {
  const child = spawn(process.execPath, [MAIN, ...args], {
    env: { PATH: process.env.PATH ?? "", ...COMPILED, ...PLAIN },
    stdio: ["ignore", output === "closed" ? "pipe" : output, "pipe"],
  });
  if (output === "closed") child.stdout?.destroy();
  let stderr = "";
  child.stderr?.on("data", (chunk) => {
    stderr += chunk;
  });
  return new Promise((resolve) => child.once("close", (code) => resolve({ code, stderr })));
}

async function prepared(t: TestContext) {
  const file = tempFile(t);
  const where = ["--store", `sqlite:${file}`];
  assert.equal((await here(["init", ...where])).code, 0);
  assert.equal((await here(["resource", "set-defaults", "api", "-l", "rpm:100", ...where])).code, 0);
  assert.equal((await here(["entity", "create", "key-1", ...where])).code, 0);
  return { file, where, folder: dirname(file) };
}

test("a full disk is a sentence and 3, whatever is printed, and what was changed is changed", async (t) => {
  const { where, file } = await prepared(t);
  const full = openSync("/dev/full", "w");
  t.after(() => closeSync(full));
  const further = [
    ["entity", "list", "--json", ...where],
    ["acquire", "key-1", "api", "-c", "rpm=1", "--json", ...where],
    ["limits", "export", ...where],
    ["usage", "export", ...where],
    ["--version"],
    [],
  ];
  for (const args of [
    ["entity", "list", ...where],
    ["entity", "create", "made", "--json", ...where],
    ["entity", "--help"],
    ...atDepth([], further),
  ]) {
    const { code, stderr } = await withOutput(args, full);
    assert.equal(code, 3, `${args.join(" ")}: ${stderr}`);
    assert.match(stderr, /The answer cannot be written: no space is left on the device/);
    assert.doesNotMatch(stderr, /\n +at |node:/, "no stack trace");
    if (args.includes("--json")) assert.equal(JSON.parse(stderr).error.code, "file_failed");
  }
  const limiter = await RateLimiter.open({ store: `sqlite:${file}` });
  t.after(() => limiter.close());
  assert.equal((await limiter.getEntity("made")).id, "made");
});

test("a reader that is gone before anything was written: silent, 0, and a change is made", async (t) => {
  const { where, file } = await prepared(t);
  for (const args of [
    ["entity", "list", "--json", ...where],
    ["entity", "create", "piped", ...where],
    ...atDepth(
      [],
      [
        ["limits", "export", ...where],
        ["entity", "--help"],
      ],
    ),
  ]) {
    assert.deepEqual(await withOutput(args, "closed"), { code: 0, stderr: "" }, args.join(" "));
  }
  const limiter = await RateLimiter.open({ store: `sqlite:${file}` });
  t.after(() => limiter.close());
  assert.equal((await limiter.getEntity("piped")).id, "piped");
});

test("a file that cannot be written is 3 everywhere, one that cannot be read is 2", async (t) => {
  const { where, folder, file } = await prepared(t);
  const manifest = `${file}.yaml`;
  writeFileSync(manifest, "resources: { api: { limits: { rpm: 5 } } }\n");
  const target = join(folder, "a-folder");
  mkdirSync(target);
  const missing = join(folder, "no", "such", "file");
  const report = (to: string) => [
    "loadtest",
    "--store",
    "memory",
    "--duration",
    "1ms",
    "--processes",
    "1",
    "--html",
    to,
  ];
  for (const to of [target, missing, "/dev/full"]) {
    for (const args of [
      ["limits", "export", "-o", to, ...where],
      ["usage", "export", "-o", to, ...where],
      ["limits", "plan", "-f", manifest, "-o", to, "--quiet", ...where],
      // Only a device that is full is found when the load has been made.
      ...atDepth(to === "/dev/full" ? [] : [report(to)], [report(to)]),
    ]) {
      const { code, stderr } = await here([...args]);
      assert.equal(code, 3, `${args.join(" ")}: ${stderr}`);
      assert.match(stderr, /cannot be written: (it is a folder|there is no such|no space is left)/);
    }
  }
  // A token file below something that is no folder.
  const token = [
    "token",
    "add",
    join(manifest, "tokens.json"),
    "--id",
    "a",
    "--namespaces",
    "default",
    "--scopes",
    "read",
  ];
  const added = await here([...token, "--json"]);
  assert.deepEqual([added.code, JSON.parse(added.stderr).error.code], [3, "file_failed"]);
  for (const args of [
    ["limits", "plan", "-f", target, ...where],
    ["limits", "apply", missing, ...where],
    ["limits", "validate", "-f", missing],
    ["token", "list", missing],
  ]) {
    const { code, stderr } = await here(args);
    assert.equal(code, 2, `${args.join(" ")}: ${stderr}`);
    assert.match(stderr, /cannot be read/);
  }
});

test("an export that fails leaves the file of before, and nothing beside it; modes and links stay", async (t) => {
  const { folder } = await prepared(t);
  const file = join(folder, "out.csv");
  writeFileSync(file, "before\n");
  chmodSync(file, 0o640);
  const before = readdirSync(folder);
  const broken = (async function* () {
    yield "half\n";
    throw new Error("the store is gone");
  })();
  await assert.rejects(writeWhole(file, broken), /the store is gone/);
  assert.equal(readFileSync(file, "utf8"), "before\n");
  assert.deepEqual(readdirSync(folder), before);
  const link = join(folder, "link.csv");
  symlinkSync(file, link);
  await writeWhole(link, "after\n");
  assert.equal(readFileSync(file, "utf8"), "after\n");
  assert.equal(statSync(file).mode & 0o777, 0o640);
  // A device is written, not replaced.
  await writeWhole("/dev/null", "gone\n");
  assert.ok(statSync("/dev/null").isCharacterDevice());
});

test("a defect of ours names no tracker that package.json does not", async () => {
  const { faultOf } = await import("../../src/cli/exit-code.ts");
  const { bugs } = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8")) as {
    bugs?: unknown;
  };
  const { message, exitCode } = faultOf(new TypeError("x is not a function"), () => ({ same: [], others: [] }));
  assert.equal(exitCode, 70);
  if (bugs === undefined) assert.doesNotMatch(message, /tracker|http/);
});
