import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import pg from "pg";
import { zaeLimiter } from "../cli/run-bin.ts";
import { browserTests } from "../dashboard/chromium.ts";
import { furnish, goTo, PAGES, row, served, visit, wordsOf } from "../dashboard/page-kit.ts";
import { deepTest } from "../deep-test.ts";
import { plainEnvironment } from "../docs/readme.ts";
import { storyOfInstances, storyTimeout } from "../server/instances.ts";
import { serving } from "../server/serve-kit.ts";
import { NS } from "../server/service-kit.ts";
import { describePostgres } from "./postgres.ts";

const SECRET = "hunter2";

await describePostgres("programs on PostgreSQL", ({ url, newSchema }) => {
  const admin = new pg.Pool({ connectionString: url, max: 1 });
  after(() => admin.end());

  /** The address of a schema, with a password: the server asks for none, and nobody may hear it. */
  const place = () => `${url.replace(/\/\/(\w+)@/, `//$1:${SECRET}@`)}?schema=${newSchema()}`;

  deepTest("two services are one, a crash loses no lease, a deploy gives none back", async (t) => {
    const env = { DATABASE_URL: place() };
    await storyOfInstances(() => serving(t, ["--store", "postgres", "--timeout", "10s", "--no-dashboard"], env));
  });

  test(
    "serve makes the tables, serves the API and the page, and tells neither user nor password",
    storyTimeout,
    async (t) => {
      const { line, child, ended, call } = await serving(t, ["--store", place(), "--durability", "normal"]);
      const { store } = line as unknown as { store: string };
      assert.match(store, /^postgres:\/\/127\.0\.0\.1:\d+\/\w+\?schema=test_/);
      const limits = [{ name: "rpm", capacity: 5, refillAmount: 5, refillPeriodMs: 60_000 }];
      assert.equal((await call("PUT", `${NS}/limits`, { body: { limits } })).status, 200);
      const taken = await call("POST", `${NS}/acquire`, {
        body: { entityId: "a", resource: "b", consume: { rpm: 1 } },
      });
      assert.equal(taken.status, 201);
      assert.equal((await call("GET", "/readyz")).status, 200);
      const page = await fetch(line.url);
      assert.match(page.headers.get("content-type") ?? "", /^text\/html/);
      const metrics = await (await fetch(`${line.url}metrics`)).text();
      child.kill("SIGTERM");
      const { code, stdout, stderr } = await ended;
      assert.equal(code, 0, stderr);
      for (const said of [stdout, stderr, metrics]) assert.doesNotMatch(said, /hunter2|postgres@/);
    },
  );

  test("a server that cannot be had ends serve with 3, in one line", async () => {
    const ran = await zaeLimiter([
      "serve",
      "--port",
      "0",
      "--json",
      "--store",
      `postgres://u:${SECRET}@127.0.0.1:1/app`,
    ]);
    assert.equal(ran.code, 3, ran.stderr);
    assert.equal(JSON.parse(ran.stderr).error.code, "unavailable");
    assert.ok(!ran.stderr.includes(SECRET));
  });

  const { inBrowser } = browserTests();
  inBrowser("every page of the dashboard shows what is on the server", async (t, open) => {
    const service = await served(t, {}, { store: place() });
    await furnish(service);
    const page = await open();
    const faults: string[] = [];
    page.on("pageerror", (error) => faults.push(String(error)));
    page.on("response", (response) => {
      if (response.status() >= 400) faults.push(`${response.status()} ${response.url()}`);
    });
    await page.clock.setSystemTime(service.clock.now());
    await visit(page, service.url);
    assert.match(await wordsOf(row(page, "key-1", "gpt-4")), /key-1.*rpm.*40/);
    for (const name of Object.keys(PAGES)) {
      await goTo(page, name);
      assert.notEqual(await wordsOf(page.locator("main")), "", name);
    }
    await goTo(page, "audit");
    assert.match(await wordsOf(page.locator("main")), /ops/);
    assert.deepEqual(faults, []);
  });

  deepTest("a load test grants no more than arithmetic allows, and leaves nothing behind", async () => {
    const store = place();
    const env = { DATABASE_URL: store };
    assert.equal((await zaeLimiter(["init", "--store", "postgres"], env)).code, 0);
    const short = ["--duration", "500ms", "--processes", "2", "--concurrency", "4", "--seed", "7", "--json"];
    for (const scenario of ["hot-key", "cascade", "llm"]) {
      const args = ["loadtest", "--store", "postgres", "--scenario", scenario, "--timeout", "30s", ...short];
      const { code, stdout, stderr } = await zaeLimiter(args, env);
      assert.deepEqual([code, stderr], [0, ""], stdout);
      const { granted, errors, admission, store: told } = JSON.parse(stdout);
      assert.ok(granted > 0);
      assert.deepEqual([errors, admission.excessTokens], [0, 0]);
      assert.doesNotMatch(told, /hunter2|postgres@/);
    }
    const schema = new URL(store).searchParams.get("schema");
    const { rows } = await admin.query(`SELECT name, status FROM ${schema}.namespace`);
    assert.deepEqual(rows, [{ name: "default", status: "active" }]);
    assert.deepEqual((await admin.query(`SELECT entity FROM ${schema}.bucket`)).rows, []);
    const missing = await zaeLimiter(["loadtest", "--store", place(), ...short]);
    assert.deepEqual([missing.code, JSON.parse(missing.stderr).error.code], [4, "store_not_found"]);
  });

  test("the example with express-rate-limit counts in PostgreSQL as in a file", async () => {
    const folder = new URL("../../examples/express-rate-limit-store/", import.meta.url);
    const main = fileURLToPath(new URL("main.ts", folder));
    const { stdout } = await promisify(execFile)(process.execPath, [main, place()], { env: plainEnvironment() });
    assert.equal(stdout, readFileSync(new URL("expected-output.txt", folder), "utf8"));
  });
});
