import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { createTable } from "../../src/entry/dynamodb.ts";
import { RateLimiter } from "../../src/entry/index.ts";
import { createService } from "../../src/entry/server.ts";
import { here } from "../cli/in-process.ts";
import { PLAIN } from "../cli/run-bin.ts";
import { clientOf, NS, problem } from "../server/service-kit.ts";
import { describeDynamo } from "./dynamodb-local.ts";

const rpm = { name: "rpm", capacity: 5, refillAmount: 5, refillPeriodMs: 60_000 };

await describeDynamo("how long usage is kept, on DynamoDB", ({ endpoint, client }) => {
  test("it is set over HTTP, by the command and by a manifest, and stays when limits change", {
    timeout: 120_000,
  }, async (t) => {
    Object.assign(process.env, PLAIN);
    const stack = `kept-${process.pid}`;
    await createTable({ stack, endpoint, region: "us-east-1" });
    t.after(() => client.send("DeleteTable", JSON.stringify({ TableName: stack }), { timeoutMs: 10_000 }));
    const place = { store: `dynamodb:${stack}`, endpoint, region: "us-east-1", timeoutMs: 10_000 } as const;
    const limiter = await RateLimiter.open(place);
    const service = await createService({ limiter, log: () => {}, dashboard: false });
    const { url, close } = await service.listen({ port: 0 });
    t.after(async () => {
      await close();
      await limiter.close();
    });
    const call = clientOf(url);
    const kept = async () => (await limiter.getSystemDefaults()).usageKeptDays;

    const put = await call("PUT", `${NS}/limits`, { body: { limits: [rpm], usageKeptDays: 365 } });
    assert.deepEqual([put.status, put.body.usageKeptDays], [200, 365]);
    await call("PUT", `${NS}/limits`, { body: { limits: [{ ...rpm, capacity: 6 }] } });
    assert.equal(await kept(), 365, "who sets limits does not mean the bills");
    problem(
      await call("PUT", `${NS}/limits?resource=x`, { body: { limits: [rpm], usageKeptDays: 5 } }),
      400,
      "request_invalid",
    );
    problem(
      await call("PUT", `${NS}/limits`, { body: { limits: [rpm], usageKeptDays: 0 } }),
      400,
      "usage_kept_days_invalid",
    );

    const at = ["--store", place.store, "--endpoint", endpoint, "--region", "us-east-1", "--timeout", "10s"];
    const set = await here(["system", "set-defaults", "--usage-kept-days", "400", "--json", ...at]);
    assert.deepEqual([set.code, JSON.parse(set.stdout).usageKeptDays], [0, 400], set.stderr);
    assert.equal((await limiter.getSystemDefaults()).limits[0]?.capacity, 6, "the limits stay");
    assert.equal((await here(["system", "set-defaults", "--usage-kept-days", "x", ...at])).code, 2);

    const folder = mkdtempSync(join(tmpdir(), "zae-limiter-kept-"));
    t.after(() => rmSync(folder, { recursive: true, force: true }));
    const file = join(folder, "limits.yaml");
    const apply = async (text: string, ...more: string[]) => {
      writeFileSync(file, text);
      const ran = await here(["limits", "apply", "-f", file, "--yes", ...more, ...at]);
      assert.equal(ran.code, 0, ran.stderr);
    };
    await apply("namespace: default\nowner: t\nsystem: { usage_kept_days: 730, limits: { rpm: 10 } }\n");
    assert.equal(await kept(), 730);
    const exported = await here(["limits", "export", ...at]);
    assert.match(exported.stdout, /usage_kept_days: 730/, exported.stderr);
    await apply("namespace: default\nowner: t\nsystem: { limits: { rpm: 10 } }\n", "--prune");
    assert.equal(await kept(), undefined, "no longer declared, it is the default");
    assert.equal((await limiter.getSystemDefaults()).limits.length, 1);

    // The days alone are shown like any other default, on the store and over the service; deleting limits keeps the bills.
    for (const where of [at, ["--url", url]]) {
      const system = (...words: string[]) => here(["system", ...words, ...where]);
      await system("set-defaults", "-l", "rpm:9", "--usage-kept-days", "30");
      const deleted = await system("delete-defaults", "--yes");
      assert.equal(
        deleted.stdout,
        "The system defaults are deleted.\nUsage is still kept for 30 days.\n",
        deleted.stderr,
      );
      const shown = await system("get-defaults");
      assert.deepEqual([shown.code, shown.stdout], [0, "system\n  no limits\n  usage kept: 30 days\n"], shown.stderr);
      assert.deepEqual(JSON.parse((await system("get-defaults", "--json")).stdout), { limits: [], usageKeptDays: 30 });
      assert.equal((await system("set-defaults", "--usage-kept-days", "30")).stdout, shown.stdout);
      const again = await system("delete-defaults", "--yes");
      assert.equal(again.code, 4);
      assert.match(again.stderr, /only say that usage is kept for 30 days, .* nothing was deleted\./);
    }
  });
});
