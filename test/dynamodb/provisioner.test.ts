import assert from "node:assert/strict";
import { test } from "node:test";
import { Limit } from "../../src/entry/limits.ts";
import { parseManifest } from "../../src/entry/manifest.ts";
import { handler } from "../../src/entry/provisioner.ts";
import { RateLimiter } from "../../src/entry/rate-limiter.ts";
import { cfnTemplateOf } from "../../src/manifest/cfn-template.ts";
import { handle, type ProvisionerEvent } from "../../src/provisioner/handler.ts";
import type { Properties } from "../../src/provisioner/properties.ts";
import { type CustomResourceResponse, putResponse, responseText } from "../../src/provisioner/response.ts";
import { apply, plan } from "../manifest/apply-kit.ts";
import { describeDynamo } from "./dynamodb-local.ts";
import { asInLambda, newStack } from "./provisioner-kit.ts";
import { CUT_OFF } from "./store-kit.ts";

const perMinute = (capacity: string) => ({ Limits: { rpm: { Capacity: capacity } } });
const A: Properties = { Resources: { a: perMinute("5") } };
const AB: Properties = { Resources: { a: perMinute("5"), b: perMinute("5") } };
const BY_HAND = "resources: { hand: { limits: { rpm: 7 } } }";
const NOTHING = { create: 0, update: 0, delete: 0, adopt: 0, release: 0, unchanged: 0 };

/** Everything as texts, as CloudFormation hands it over. */
function asTexts(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(asTexts);
  if (typeof value !== "object" || value === null) return typeof value === "string" ? value : String(value);
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, asTexts(each)]));
}

await describeDynamo("limits as a resource of CloudFormation", (dynamodb) => {
  asInLambda(dynamodb);

  test("made, changed and deleted: each is done, audited and answered by a PUT, with counts", async (t) => {
    const { ask, limiter, puts } = await newStack(dynamodb, t);
    const made = await ask({ RequestType: "Create", ResourceProperties: A });
    assert.deepEqual([made.Status, made.Reason, made.Data], ["SUCCESS", undefined, { ...NOTHING, create: 1 }]);
    assert.deepEqual([puts[0]?.method, puts[0]?.type, made.RequestId], ["PUT", "", "request-1"]);
    assert.deepEqual(await limiter.getResourceDefaults("a"), [Limit.perMinute("rpm", 5)]);
    const id = made.PhysicalResourceId;
    const { events } = await limiter.auditEvents();
    assert.match(events[0]?.principal ?? "", /^arn:aws:cloudformation:.*stack\/app/);
    const changed = await ask({
      ...{ RequestType: "Update", PhysicalResourceId: id, OldResourceProperties: A },
      ResourceProperties: { Resources: { b: perMinute("6") } },
    });
    assert.deepEqual([changed.PhysicalResourceId, changed.Data], [id, { ...NOTHING, create: 1, delete: 1 }]);
    assert.deepEqual(await limiter.getResourceDefaults("a"), []);
    const gone = await ask({ RequestType: "Delete", PhysicalResourceId: id });
    assert.deepEqual([gone.Status, gone.Data], ["SUCCESS", { ...NOTHING, delete: 1 }]);
    assert.deepEqual(await limiter.getResourceDefaults("b"), []);
  });

  test("Prune: false lets an entity live that is no longer declared, and everything when the resource goes", async (t) => {
    const { ask, limiter } = await newStack(dynamodb, t);
    const declared = { Prune: "false", Entities: { "key-1": { Name: "Key" } }, Resources: { a: perMinute("5") } };
    const { PhysicalResourceId } = await ask({ RequestType: "Create", ResourceProperties: declared });
    const fewer = { Prune: "false", Resources: { a: perMinute("6") } };
    const changed = await ask({
      ...{ RequestType: "Update", PhysicalResourceId, ResourceProperties: fewer, OldResourceProperties: declared },
    });
    assert.deepEqual([changed.Status, changed.Data], ["SUCCESS", { ...NOTHING, update: 1, release: 1 }]);
    assert.equal((await limiter.getEntity("key-1")).name, "Key");
    const gone = await ask({ RequestType: "Delete", PhysicalResourceId, ResourceProperties: fewer });
    assert.deepEqual([gone.Status, gone.Data], ["SUCCESS", { ...NOTHING, release: 1 }]);
    assert.deepEqual(await limiter.getResourceDefaults("a"), [Limit.perMinute("rpm", 6)]);
    const wrong = await ask({ RequestType: "Create", ResourceProperties: { ...A, Prune: "perhaps" } });
    assert.match(wrong.Reason ?? "", /"perhaps" for Prune, which must be true or false/);
  });

  test("every field that cfn-template writes is read back, with all scalars as texts", async (t) => {
    const { ask, limiter, table } = await newStack(dynamodb, t);
    const text = `
owner: platform
system: { on_unavailable: allow, limits: { rpm: 1000 } }
resources:
  gpt-4:
    limits:
      rpm: 100,soft,when=* 9-17 * * 1-5 x0.5
      tpm: 10k/min:20k
      month: 1M,reset=monthly
      session: 500,after=5h
      odd: { capacity: 10, schedule: [{ cron: "* 1 * * *", refill_amount: 5, refill_period_seconds: 30 }] }
    cascade: false
  off: { disabled: true }
  berlin: { limits: { day: "50,reset=daily,tz=Europe/Berlin" } }
  free: { disabled: bypass }
entities:
  proj-1: { name: Production, metadata: { tier: gold } }
  key-1: { parent: proj-1, resources: { gpt-4: { limits: { rpm: 10 } }, _default_: { limits: { rpm: 5 } } } }
`;
    const template = cfnTemplateOf(parseManifest(text), { stack: table, namespace: "default" });
    const { Resources } = template as { Resources: { TenantLimits: { Properties: Properties } } };
    const properties = asTexts(Resources.TenantLimits.Properties) as Properties;
    const { Status, Reason, PhysicalResourceId } = await ask({ RequestType: "Create", ResourceProperties: properties });
    assert.deepEqual([Status, Reason], ["SUCCESS", undefined]);
    const owned = text.replace("owner: platform", `owner: "${PhysicalResourceId}"`);
    const { changes, conflicts, summary } = await plan(limiter, owned);
    assert.deepEqual([changes, conflicts, summary.unchanged], [[], [], 11]);
  });

  test("Y1 a create that failed leaves everything as it was, and so does its rollback", async (t) => {
    const { ask, limiter } = await newStack(dynamodb, t);
    await apply(limiter, BY_HAND);
    const ResourceProperties = { Resources: { a: perMinute("5"), b: perMinute("fifty") } };
    const failed = await ask({ RequestType: "Create", ResourceProperties });
    assert.equal(failed.Status, "FAILED");
    assert.match(failed.Reason ?? "", /\/resources\/b\/limits\/rpm\/capacity.*"fifty"/);
    assert.deepEqual(await limiter.getResourceDefaults("a"), [], "the whole is checked before anything is changed");
    const { PhysicalResourceId } = failed;
    const undone = await ask({ RequestType: "Delete", PhysicalResourceId, ResourceProperties });
    assert.deepEqual([undone.Status, undone.Data], ["SUCCESS", NOTHING]);
    assert.deepEqual(await limiter.getResourceDefaults("hand"), [Limit.perMinute("rpm", 7)]);
    for (const id of ["failed", "default", `${PhysicalResourceId}0`, "x/limits-provisioner"]) {
      const other = await ask({ RequestType: "Delete", PhysicalResourceId: id });
      assert.deepEqual([other.Status, other.Data], ["SUCCESS", NOTHING], "an id that was never given owns nothing");
    }
    assert.deepEqual((await plan(limiter, BY_HAND)).summary.unchanged, 1);
  });

  test("Y1 a create that failed half-way takes back what it had made, and nothing else", async (t) => {
    const { ask, limiter, another, eventOf } = await newStack(dynamodb, t);
    await limiter.setResourceDefaults("c", [Limit.perMinute("rpm", 1)]);
    const doomed = await another();
    let writes = 0;
    doomed.wire.fault = async ({ operation, send }) =>
      operation === "TransactWriteItems" && ++writes > 5 ? CUT_OFF : send();
    const event = eventOf({ RequestType: "Create", ResourceProperties: AB });
    const failed = await handleOn(event, () => RateLimiter.open({ store: doomed.store, timeoutMs: 10_000 }));
    assert.equal(failed.Status, "FAILED");
    assert.equal((await limiter.getResourceDefaults("a")).length, 1);
    const undone = await ask({
      ...{ RequestType: "Delete", PhysicalResourceId: failed.PhysicalResourceId, ResourceProperties: AB },
    });
    assert.equal(undone.Status, "SUCCESS");
    assert.deepEqual([await limiter.getResourceDefaults("a"), await limiter.getResourceDefaults("b")], [[], []]);
    assert.equal((await limiter.getResourceDefaults("c")).length, 1);
  });

  test("Y2 a renamed logical id, or a second stack, conflicts; it deletes nothing; TakeOver moves it", async (t) => {
    const { ask, limiter } = await newStack(dynamodb, t);
    const { PhysicalResourceId: first } = await ask({ RequestType: "Create", ResourceProperties: AB });
    for (const other of [{ LogicalResourceId: "Renamed" }, { StackId: "arn:aws:cloudformation:x:1:stack/other/2" }]) {
      const failed = await ask({ RequestType: "Create", ResourceProperties: AB, ...other });
      assert.equal(failed.Status, "FAILED");
      assert.ok(failed.Reason?.includes(first), "the sentence names the owner");
      const { PhysicalResourceId } = failed;
      const undone = await ask({ RequestType: "Delete", PhysicalResourceId, ResourceProperties: AB, ...other });
      assert.deepEqual([undone.Status, undone.Data], ["SUCCESS", NOTHING]);
    }
    assert.equal((await limiter.getResourceDefaults("a")).length, 1);
    const moved = await ask({
      ...{ RequestType: "Create", LogicalResourceId: "Renamed" },
      ResourceProperties: { ...AB, TakeOver: "true" },
    });
    assert.deepEqual([moved.Status, moved.Data], ["SUCCESS", { ...NOTHING, adopt: 2 }]);
    const old = await ask({ RequestType: "Delete", PhysicalResourceId: first, ResourceProperties: AB });
    assert.deepEqual([old.Status, old.Data], ["SUCCESS", NOTHING], "the first one's delete finds nothing any more");
    assert.equal((await limiter.getResourceDefaults("b")).length, 1);
  });

  test("Y2 a resource that is replaced under its own name is the same owner still, and its first life's delete harmless", async (t) => {
    const { ask, limiter } = await newStack(dynamodb, t);
    const { PhysicalResourceId: first } = await ask({ RequestType: "Create", ResourceProperties: A });
    const second = await ask({ RequestType: "Create", ResourceProperties: AB });
    assert.deepEqual([second.Status, second.Data], ["SUCCESS", { ...NOTHING, create: 1, adopt: 1 }]);
    assert.notEqual(second.PhysicalResourceId, first);
    await ask({ RequestType: "Delete", PhysicalResourceId: first, ResourceProperties: A });
    assert.equal((await limiter.getResourceDefaults("a")).length, 1);
  });

  test("Y8 a namespace that is not there fails a create and not a delete; so does a table", async (t) => {
    const { ask, table } = await newStack(dynamodb, t);
    const ResourceProperties = { ...A, Namespace: "nowhere" };
    const failed = await ask({ RequestType: "Create", ResourceProperties });
    assert.equal(failed.Status, "FAILED");
    assert.match(failed.Reason ?? "", /no namespace nowhere/);
    const { PhysicalResourceId } = failed;
    const gone = await ask({ RequestType: "Delete", PhysicalResourceId, ResourceProperties });
    assert.deepEqual([gone.Status, gone.Data], ["SUCCESS", NOTHING]);
    const { Status, Reason } = await ask({ RequestType: "Create", ResourceProperties: { ...A, TableName: "other" } });
    assert.deepEqual([Status, Reason?.includes(`"other", and this function is for "${table}"`)], ["FAILED", true]);
    const byId = await ask({ RequestType: "Create", ResourceProperties: { ...A, NamespaceId: "none" } });
    assert.match(byId.Reason ?? "", /no namespace with the id "none"/);
    await dynamodb.client.send("DeleteTable", JSON.stringify({ TableName: table }), { timeoutMs: 10_000 });
    const late = await ask({ RequestType: "Delete", PhysicalResourceId, ResourceProperties: A });
    assert.deepEqual([late.Status, late.Reason], ["SUCCESS", undefined]);
  });

  test("Y14 an answer holds counts only, and fits however much was changed or said", async (t) => {
    const { ask, puts } = await newStack(dynamodb, t);
    const many = Object.fromEntries(Array.from({ length: 48 }, (_, i) => [`resource-${i}`, perMinute("5")]));
    const made = await ask({ RequestType: "Create", ResourceProperties: { Resources: many } });
    assert.deepEqual(made.Data, { ...NOTHING, create: 48 });
    assert.ok(Buffer.byteLength(JSON.stringify(puts[0]?.answer)) < 1_000);
    const long = responseText({ ...made, Status: "FAILED", Reason: "ä".repeat(9_000) });
    assert.ok(Buffer.byteLength(long) <= 4_096 && Buffer.byteLength(long) > 3_500);
    assert.ok((JSON.parse(long) as CustomResourceResponse).Reason?.endsWith("ä ..."));
  });

  test("Y15 a write that fails is told as a failure, in one sentence", async (t) => {
    const { another, eventOf, puts, limiter } = await newStack(dynamodb, t);
    const doomed = await another();
    doomed.wire.fault = async ({ operation, send }) => (operation === "TransactWriteItems" ? CUT_OFF : send());
    const event = eventOf({ RequestType: "Create", ResourceProperties: A });
    const { Status, Reason, Data } = await handleOn(event, () =>
      RateLimiter.open({ store: doomed.store, timeoutMs: 10_000 }),
    );
    assert.deepEqual([Status, Data, puts.length], ["FAILED", undefined, 0]);
    assert.ok(Reason?.includes("cut off") && !Reason.includes("\n"), Reason);
    assert.deepEqual(await limiter.getResourceDefaults("a"), []);
  });

  test("an update into another namespace is another id, so that CloudFormation deletes what the first one owned", async (t) => {
    const { ask, limiter } = await newStack(dynamodb, t);
    const { id } = await limiter.registerNamespace("second");
    const { PhysicalResourceId: first } = await ask({ RequestType: "Create", ResourceProperties: A });
    const moved = await ask({
      ...{ RequestType: "Update", PhysicalResourceId: first, OldResourceProperties: A },
      ResourceProperties: { ...A, NamespaceId: id },
    });
    assert.deepEqual([moved.Status, moved.Data], ["SUCCESS", { ...NOTHING, create: 1 }]);
    assert.notEqual(moved.PhysicalResourceId, first);
    assert.equal((await limiter.getResourceDefaults("a")).length, 1, "until its own delete");
    await ask({ RequestType: "Delete", PhysicalResourceId: first, ResourceProperties: A });
    assert.deepEqual(await limiter.getResourceDefaults("a"), []);
    assert.equal((await limiter.namespace("second").getResourceDefaults("a")).length, 1);
  });

  test("an update that fails keeps the id; the rollback's update sets things right", async (t) => {
    const { ask, limiter } = await newStack(dynamodb, t);
    const { PhysicalResourceId } = await ask({ RequestType: "Create", ResourceProperties: A });
    const invalid = { Resources: { a: { Limits: { rpm: "much" } } }, Namespace: "default" };
    const failed = await ask({
      ...{ RequestType: "Update", PhysicalResourceId, OldResourceProperties: A, ResourceProperties: invalid },
    });
    assert.deepEqual([failed.Status, failed.PhysicalResourceId], ["FAILED", PhysicalResourceId]);
    const back = await ask({
      ...{ RequestType: "Update", PhysicalResourceId, OldResourceProperties: invalid, ResourceProperties: A },
    });
    assert.deepEqual([back.Status, back.Data], ["SUCCESS", { ...NOTHING, unchanged: 1 }]);
    assert.deepEqual(await limiter.getResourceDefaults("a"), [Limit.perMinute("rpm", 5)]);
  });

  test("a request that comes twice is answered twice, and done once", async (t) => {
    const { ask, limiter } = await newStack(dynamodb, t);
    const first = await ask({ RequestType: "Create", RequestId: "same", ResourceProperties: A });
    const again = await ask({ RequestType: "Create", RequestId: "same", ResourceProperties: A });
    assert.equal(again.PhysicalResourceId, first.PhysicalResourceId);
    assert.deepEqual(again.Data, { ...NOTHING, unchanged: 1 });
    const { PhysicalResourceId } = first;
    for (const deletions of [1, 0]) {
      const gone = await ask({ RequestType: "Delete", RequestId: "d", PhysicalResourceId, ResourceProperties: A });
      assert.deepEqual([gone.Status, gone.Data], ["SUCCESS", { ...NOTHING, delete: deletions }]);
    }
    assert.equal((await limiter.auditEvents()).events.length, 2);
  });

  test("what is misspelt or of the wrong kind is refused with its place, and nothing is changed", async (t) => {
    const { ask, limiter } = await newStack(dynamodb, t);
    await limiter.setResourceDefaults("a", [Limit.perMinute("rpm", 1)]);
    const wrong: readonly (readonly [Properties, RegExp])[] = [
      [{ Resource: {} }, /unknown property "Resource" in the resource; did you mean `Resources`\?/],
      [{ Resources: { a: { Limts: {} } } }, /"Limts" in Resources\/a; did you mean `Limits`/],
      [{ Resources: { a: { Limits: { rpm: { Capacty: "1" } } } } }, /"Capacty" in Resources\/a\/Limits\/rpm/],
      [{ Resources: { a: perMinute("10.5") } }, /capacity/],
      [{ Resources: [] }, /\[\] for Resources, which must be a map/],
      [{ ...A, TakeOver: "yes" }, /"yes" for TakeOver, which must be true or false/],
      [{ ...A, Namespace: "a", NamespaceId: "b" }, /both Namespace and NamespaceId/],
      [{ ...A, Namespace: ["a"] }, /for Namespace, which must be a text/],
      [{}, /declares nothing/],
      [{ Resources: { a: { Limits: { rpm: "1", "a b": "2" } }, "1x": { Disabled: "maybe" } } }, /a b.*and 1 more/],
    ];
    for (const [ResourceProperties, sentence] of wrong) {
      const { Status, Reason = "", Data } = await ask({ RequestType: "Create", ResourceProperties });
      assert.deepEqual([Status, Data], ["FAILED", undefined]);
      assert.match(Reason, sentence);
      assert.ok(!Reason.includes("\n"));
    }
    assert.deepEqual(await limiter.getResourceDefaults("a"), [Limit.perMinute("rpm", 1)]);
    assert.equal((await limiter.auditEvents()).events.length, 1);
  });

  test("an answer that is not taken is put again, and at last given up loudly", async (t) => {
    const { ask, puts, replies, eventOf } = await newStack(dynamodb, t);
    const answer = await ask({ RequestType: "Create", ResourceProperties: A });
    const { ResponseURL: url } = eventOf({ RequestType: "Create" });
    const waits: number[] = [];
    const clock = { now: () => 0, sleep: async (ms: number) => void waits.push(ms) };
    replies.push(503, 500);
    await putResponse(url, answer, clock);
    assert.deepEqual([puts.length, waits], [4, [500, 1_000]]);
    replies.push(403, 403, 403, 403);
    await assert.rejects(putResponse(url, answer, clock), /HTTP 403/, "Lambda asks again then");
    await assert.rejects(putResponse("http://127.0.0.1:1/closed", answer, clock), /ECONNREFUSED/);
  });

  test("when the time is over, what was done is told and the rest is left to the next update", async (t) => {
    const { limiter, eventOf, another } = await newStack(dynamodb, t);
    const other = await another();
    const signal = new AbortController();
    let writes = 0;
    other.wire.fault = ({ operation, send }) => {
      if (operation === "TransactWriteItems" && ++writes === 4) signal.abort();
      return send();
    };
    const event = eventOf({ RequestType: "Create", ResourceProperties: AB });
    const open = () => RateLimiter.open({ store: other.store, timeoutMs: 10_000 });
    const { Status, Reason } = await handleOn(event, open, signal.signal);
    assert.deepEqual([Status, /timed out after 1 changes, which stay/.test(Reason ?? "")], ["FAILED", true], Reason);
    assert.equal((await limiter.getResourceDefaults("a")).length, 1);
    assert.deepEqual(await limiter.getResourceDefaults("b"), []);
  });

  test("whoever else invokes it is told what it is for", async () => {
    process.env.TABLE_NAME = "any";
    await assert.rejects(handler({ action: "plan" } as unknown as ProvisionerEvent), /limits plan/);
  });
});

/** On a way to the table that the test may cut, without HTTP. */
function handleOn(
  event: ProvisionerEvent,
  open: () => Promise<RateLimiter>,
  signal = new AbortController().signal,
): Promise<CustomResourceResponse> {
  const table = event.ResourceProperties?.TableName as string;
  const setUp = async () => {};
  return handle(event, { table, open, setUp, parse: parseManifest, put: async () => {}, signal });
}
