import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { mkdtemp, readdir, readFile, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { publint } from "publint";
import { formatMessage } from "publint/utils";
import { type PackedProject, root, run, userNode } from "./packed-project.ts";

/** What is run with the installed package, and what publint says of it. */
export function testPrograms(project: PackedProject): void {
  test("publint finds nothing to say about the tarball, not even a suggestion", async () => {
    const bytes = await readFile(project.tarball);
    const { messages, pkg } = await publint({
      pack: { tarball: bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength) },
      strict: true,
    });
    assert.deepEqual(
      messages.map((message) => formatMessage(message, pkg)),
      [],
    );
  });

  test("the installed stores keep the contract that the installed package has for stores", async () => {
    await project.write("contract.mjs", [
      'import { mkdtempSync, rmSync } from "node:fs";',
      'import { dirname, join } from "node:path";',
      'import { describeStore } from "zae-limiter/testing";',
      'import { openMemory } from "zae-limiter/memory";',
      'import { openSqlite } from "zae-limiter/sqlite";',
      'describeStore("memory", () => {',
      // As long as files keep it: the contract looks back over a month.
      "  const store = openMemory({ usage: { keepMs: 400 * 86_400_000 } });",
      "  return { store, close: () => store.close() };",
      "});",
      'describeStore("sqlite", () => {',
      '  const folder = mkdtempSync("contract-");',
      '  const store = openSqlite({ file: join(folder, "limiter.db") });',
      "  return { store, close: async () => { await store.close(); rmSync(folder, { recursive: true }); } };",
      "});",
    ]);
    const told = await run(userNode, ["--test", "--test-reporter=tap", "contract.mjs"], project.folder);
    const [, passed = "0"] = /^# pass (\d+)$/m.exec(told) ?? [];
    assert.ok(Number(passed) > 300, `only ${passed} tests passed`);
    assert.match(told, /^# fail 0$/m);
  });

  test("an installed command loads few files, and only what it needs", async () => {
    const main = join(project.folder, "node_modules/zae-limiter/dist/cli/main.js");
    await run(userNode, [main, "init"], project.folder);
    await run(userNode, [main, "entity", "create", "key-1"], project.folder);
    const seen = await loadedBy(project.folder, ["entity", "show", "key-1"]);
    // What all share is a few files; of what is loaded when it is needed, each has its name.
    const named = (files: readonly string[]) => files.filter((file) => !file.startsWith("chunk"));
    assert.deepEqual(named(seen), ["main"]);
    // The command line in two files, the heart of the library, what a store in memory shares with it, limits in two files, errors, amounts,
    // the limiter and SQLite: each file costs a look and a compilation.
    assert.ok(seen.length <= 10, seen.join());
    // Of the commands `list` and `entity list` one is called.
    assert.deepEqual(await loadedBy(project.folder, ["entity", "list"]), seen);
    const others = await loadedBy(project.folder, ["limits", "schema"]);
    assert.deepEqual(named(others), ["main"]);
    // One has the JSON of limits, which takes know nothing of.
    assert.ok(others.length <= 10, others.join());
  });

  test("processes that a command starts beside itself start from the installed package", async () => {
    const main = join(project.folder, "node_modules/zae-limiter/dist/cli/main.js");
    const short = ["--scenario", "hot-key", "--duration", "200ms", "--processes", "2", "--concurrency", "4"];
    const report = JSON.parse(
      await run(userNode, [main, "loadtest", "--store", "memory", ...short, "--json"], project.folder),
    );
    assert.deepEqual([report.processes, report.errors, report.admission.excessTokens], [2, 0, 0]);
    assert.ok(report.granted > 0);
    const runner = join(project.folder, "node_modules/zae-limiter/dist/code/runner-process.js");
    // The engine that it watches has gone already: it ends by itself.
    const { pid = 0 } = spawnSync(process.execPath, ["-e", "0"]);
    await run(userNode, [runner, "http://127.0.0.1:1", String(pid)], project.folder);
  });

  test("a CDK stack of the installed package has the code of the functions in it", async () => {
    for (const name of ["aws-cdk-lib", "constructs"]) {
      await symlink(join(root, "node_modules", name), join(project.folder, "node_modules", name));
    }
    await project.write("cdk.mjs", [
      'import { readdirSync } from "node:fs";',
      'import { App, Stack } from "aws-cdk-lib";',
      'import { RateLimiter } from "zae-limiter/cdk";',
      'const app = new App({ outdir: "cdk.out", analyticsReporting: false });',
      'const stack = new Stack(app, "limits");',
      'const limiter = new RateLimiter(stack, "Limits", { tableName: "limits" });',
      'const table = limiter.template.getResource("RateLimitsTable").cfnResourceType;',
      "app.synth();",
      'console.log(readdirSync("cdk.out").filter((name) => name.startsWith("asset.")).length, table);',
    ]);
    assert.equal(await project.node("cdk.mjs"), "2 AWS::DynamoDB::Table\n");
    const functions = await readdir(join(project.folder, "node_modules/zae-limiter/dist/lambda"));
    assert.deepEqual(functions.sort(), ["aggregator.part", "provisioner.part", "shared.part"]);
  });
}

/** The files of the package that one command has loaded, by their names without the mark of what is in them. */
async function loadedBy(folder: string, args: readonly string[]): Promise<string[]> {
  const told = await mkdtemp(join(tmpdir(), "loaded-"));
  const main = join(folder, "node_modules/zae-limiter/dist/cli/main.js");
  execFileSync(userNode, [main, ...args], { cwd: folder, env: { ...process.env, NODE_V8_COVERAGE: told } });
  const [file = ""] = await readdir(told);
  const { result } = JSON.parse(await readFile(join(told, file), "utf8")) as { result: { url: string }[] };
  await rm(told, { recursive: true });
  return result.flatMap(({ url }) => /dist\/\w+\/(.+?)(?:-[A-Z0-9]{8})?\.js$/.exec(url)?.[1] ?? []).sort();
}
