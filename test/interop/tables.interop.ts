import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { test } from "node:test";
import { createTable, deleteTable } from "../../src/entry/dynamodb.ts";
import { Limit, RateLimiter } from "../../src/entry/index.ts";
import { describeDynamo } from "../dynamodb/dynamodb-local.ts";
import { RELEASE } from "./environment.ts";
import { ADA, admitted, ask, CREDENTIALS, grants, originalProcess, REGION, Shared } from "./kit.ts";

const RPM = [Limit.perMinute("rpm", 10)];

await describeDynamo("a table made by either", (dynamodb) => {
  const where = { endpoint: dynamodb.endpoint, region: REGION };

  test("the original is the release that the promise is about", async () => {
    assert.equal(await originalProcess().ask("version"), RELEASE);
  });

  for (const madeBy of ["ours", "original"] as const) {
    test(`both take from one bucket on a table of ${madeBy}`, async (t) => {
      const shared = await Shared.on(dynamodb, t, { madeBy });
      // Opening is what registers the original's first namespace.
      const their = await shared.their();
      const our = await shared.our();
      await our.setResourceDefaults("api", RPM);
      assert.equal(await admitted(our, ask({ rpm: 1 }), 4), 4);
      assert.equal(await their.admits(ask({ rpm: 1 }), 20), 6);
      assert.equal(await grants(our, ask({ rpm: 1 })), false);
    });
  }

  test("a table of the original is refused by name unless it is opened as shared", async (t) => {
    const shared = await Shared.on(dynamodb, t, { madeBy: "original" });
    await shared.their();
    const open = (sharedTable: boolean) =>
      RateLimiter.open({ ...where, credentials: CREDENTIALS, store: `dynamodb:${shared.table}`, sharedTable });
    await assert.rejects(open(false), { code: "table_shared", message: /`sharedTable: true`/ });
    await (await open(true)).close();
  });

  test("a table of ours with keys only in its index is refused as shared, because the original reads whole items", async (t) => {
    const stack = `interop-${process.pid}-${randomBytes(6).toString("hex")}`;
    await createTable({ ...where, stack, credentials: CREDENTIALS });
    t.after(() => deleteTable({ ...where, stack, credentials: CREDENTIALS }));
    const options = { ...where, credentials: CREDENTIALS, store: `dynamodb:${stack}`, sharedTable: true };
    await assert.rejects(RateLimiter.open(options), { code: "index_projection" });
  });

  test("the original connects to a table of ours without changing its version record", async (t) => {
    const shared = await Shared.on(dynamodb, t);
    const their = await shared.their({ how: "connect" });
    const record = await their.call<Record<string, string>>("get_version_record");
    assert.equal(record.schema_version, "0.10.0");
    assert.equal(record.lambda_version, RELEASE);
    assert.ok((record.client_min_version ?? "") <= RELEASE, `clients must be ${record.client_min_version}`);
    assert.match(record.updated_by ?? "", /^zae-limiter-ts:/);
    await shared.their({ how: "open" });
    assert.deepEqual(await their.call("get_version_record"), record);
  });

  test("what either demands of readers only grows, whoever raises it", async (t) => {
    const shared = await Shared.on(dynamodb, t, { madeBy: "original" });
    const their = await shared.their();
    const our = await shared.our();
    const least = async () => (await their.call<Record<string, string>>("get_version_record")).client_min_version;
    assert.equal(await least(), "0.0.0");
    await their.call("set_resource_cascade", ["api", true]);
    assert.equal(await least(), "0.16.0");
    await our.setResourceDefaults("api", [Limit.perMinute("rpm", 10, { soft: true })]);
    assert.equal(await least(), "0.17.0");
    await their.call("set_limits", [ADA.entityId, [Limit.quota("five", 10, { resetAfterMs: 3_600_000 })], "other"]);
    await our.setCascade({ resource: "api" }, false);
    assert.equal(await least(), "0.17.0");
    const record = await their.call<Record<string, string>>("get_version_record");
    assert.equal(record.lambda_version, RELEASE, "nobody else vouches for the Lambda functions");
    assert.equal(record.schema_version, "0.10.0");
  });

  test("where the original cannot ask for its functions, both refuse what they would have to know", async (t) => {
    const stack = `interop-${process.pid}-${randomBytes(6).toString("hex")}`;
    await originalProcess().ask("create_table", { ...where, table: stack, lambda_version: null });
    t.after(() => deleteTable({ ...where, stack, credentials: CREDENTIALS }));
    // The original writes the record itself: at an endpoint without Lambda it cannot tell, and says so.
    const opening = { ...where, table: stack, namespace: "default", how: "open", options: {} };
    await originalProcess().ask("open", opening);
    const our = await RateLimiter.open({
      ...{ ...where, credentials: CREDENTIALS, store: `dynamodb:${stack}`, sharedTable: true },
    });
    t.after(() => our.close());
    const soft = [Limit.perMinute("rpm", 10, { soft: true })];
    await assert.rejects(our.setResourceDefaults("api", soft), { code: "lambda_version" });
    await our.setResourceDefaults("api", RPM);
    assert.ok(await grants(our, ask({ rpm: 1 })));
  });
});
