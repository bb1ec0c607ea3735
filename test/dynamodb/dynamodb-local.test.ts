import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { chmodSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { isDeep } from "../depth.ts";
import { describeDynamo } from "./dynamodb-local.ts";

const moduleUrl = (name: string) => JSON.stringify(new URL(name, import.meta.url).href);

/** Runs a script with this environment besides; how it ended, and what it said. */
async function ran(script: string, env: Readonly<Record<string, string>>) {
  const child = started(script, env);
  let said = "";
  for (const stream of [child.stdout!, child.stderr!]) stream.on("data", (chunk) => (said += chunk));
  const code = await new Promise((resolve) => child.once("close", resolve));
  return { code, said };
}

function started(script: string, env: Readonly<Record<string, string>>): ChildProcess {
  // What belongs to this runner, or was said about its DynamoDB Local, is not the script's.
  const { NODE_TEST_CONTEXT, ZAEL_TEST_ENDPOINT, ZAEL_REQUIRE_DYNAMODB, ...own } = process.env;
  return spawn(process.execPath, ["--input-type=module", "-e", script], { env: { ...own, ...env } });
}

const SUITE = `
  const { describeDynamo } = await import(${moduleUrl("dynamodb-local.ts")});
  await describeDynamo("a suite", () => { throw new Error("there is a DynamoDB"); });`;

test("where no DynamoDB Local can be had a suite is skipped aloud, and fails where one is required", async (t) => {
  const folder = temporary(t);
  const env = { PATH: folder, XDG_CACHE_HOME: folder };
  const skipped = await ran(SUITE, env);
  assert.equal(skipped.code, 0, skipped.said);
  assert.match(skipped.said, /SKIPPED\. No DynamoDB for the suite "a suite": `mvn` does not start .*install Maven/);
  assert.match(skipped.said, /skipped 1/);
  const failed = await ran(SUITE, { ...env, ZAEL_REQUIRE_DYNAMODB: "1" });
  assert.equal(failed.code, 1, failed.said);
  assert.match(failed.said, /No DynamoDB for the suite "a suite"/);
});

const FETCH = `
  const { fetchedDynamodbLocal } = await import(${moduleUrl("dynamodb-local-download.ts")});
  console.log("fetched " + (await fetchedDynamodbLocal()));`;

test("test files that start together fetch DynamoDB Local once", async (t) => {
  const folder = temporary(t);
  const env = withMaven(folder, 'sleep 1; echo whole > "$out/DynamoDBLocal.jar"');
  const runs = await Promise.all([ran(FETCH, env), ran(FETCH, env), ran(FETCH, env)]);
  for (const { code, said } of runs) assert.equal(code, 0, said);
  assert.equal(readFileSync(join(folder, "calls"), "utf8"), "called\n");
  assert.deepEqual(readdirSync(join(folder, "zae-limiter")), ["dynamodb-local-3.1.0"]);
});

test("half a download is never taken for a whole one", async (t) => {
  const folder = temporary(t);
  const failing = await ran(
    FETCH,
    withMaven(folder, 'echo half > "$out/DynamoDBLocal.jar"; echo "[ERROR] no network"; exit 1'),
  );
  assert.equal(failing.code, 1);
  assert.match(failing.said, /could not download DynamoDB Local \(exit code 1\): \[ERROR\] no network/);
  assert.deepEqual(readdirSync(join(folder, "zae-limiter")), []);
  // Killed in the middle: what it held and what it left is in nobody's way.
  const killed = started(FETCH, withMaven(folder, 'echo half > "$out/DynamoDBLocal.jar"; exec sleep 5'));
  while (readdirSync(join(folder, "zae-limiter")).length < 2) await sleep(20);
  killed.kill("SIGKILL");
  await new Promise((resolve) => killed.once("close", resolve));
  const { code, said } = await ran(FETCH, withMaven(folder, 'echo whole > "$out/DynamoDBLocal.jar"'));
  assert.equal(code, 0, said);
  assert.equal(
    readFileSync(join(folder, "zae-limiter", "dynamodb-local-3.1.0", "DynamoDBLocal.jar"), "utf8"),
    "whole\n",
  );
});

const START = `
  const { fetchedDynamodbLocal } = await import(${moduleUrl("dynamodb-local-download.ts")});
  const { startDynamodbLocal } = await import(${moduleUrl("dynamodb-local-process.ts")});
  console.log(await startDynamodbLocal(await fetchedDynamodbLocal()));`;

await describeDynamo("the DynamoDB Local of the tests", ({ endpoint }) => {
  const { ZAEL_TEST_ENDPOINT, ZAEL_TEST_ENGINE } = process.env;
  // `npm test` starts one for all suites, and says that it is one that can be started here.
  const isGiven = ZAEL_TEST_ENDPOINT && ZAEL_TEST_ENGINE !== "local";
  const skip = isGiven ? "the endpoint was given, not started here" : false;

  test("answers", async () => {
    assert.ok(await isUp(endpoint));
  });

  test("is gone when its process is: at its end, and when it is killed", { skip }, async () => {
    // To start one takes a few seconds of a processor.
    if (isDeep) {
      const { code, said } = await ran(START, {});
      assert.equal(code, 0, said);
      assert.ok(await goesDown(said.trim()), "it ended with its process");
    }
    const killed = started(`${START} setInterval(() => {}, 1000);`, {});
    const url = await new Promise<string>((resolve) =>
      killed.stdout!.once("data", (chunk) => resolve(`${chunk}`.trim())),
    );
    assert.ok(await isUp(url));
    killed.kill("SIGKILL");
    assert.ok(await goesDown(url), "it ended when its process was killed");
  });
});

async function isUp(url: string): Promise<boolean> {
  return fetch(url).then(
    () => true,
    () => false,
  );
}

async function goesDown(url: string): Promise<boolean> {
  for (let i = 0; i < 100; i++) {
    if (!(await isUp(url))) return true;
    await sleep(50);
  }
  return false;
}

function temporary(t: { after(done: () => void): void }): string {
  const folder = mkdtempSync(join(tmpdir(), "zael-dynamodb-local-"));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** An environment in which `mvn` is this script; `$out` is where it is to put what it fetches. */
function withMaven(folder: string, script: string): Record<string, string> {
  const file = join(folder, "mvn");
  const out = `out=$(for arg do echo "$arg"; done | sed -n "s/^-DoutputDirectory=//p")`;
  writeFileSync(file, `#!/bin/sh\necho called >> "${join(folder, "calls")}"\n${out}\n${script}\n`);
  chmodSync(file, 0o755);
  assert.ok(existsSync(file));
  return { PATH: `${folder}${delimiter}${process.env.PATH}`, XDG_CACHE_HOME: folder };
}
