import type { TestContext } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { type BatchAnswer, createHandler } from "../../src/entry/aggregator.ts";
import { prepareTable } from "../../src/entry/dynamodb.ts";
import { Limit, RateLimiter } from "../../src/entry/index.ts";
import { applyManifest, parseManifest, planManifest } from "../../src/entry/manifest.ts";
import { handler as provision } from "../../src/entry/provisioner.ts";
import { StoredLeases } from "../../src/leases/stored-leases.ts";
import type { ProvisionerEvent } from "../../src/provisioner/handler.ts";
import { auditImage, removal } from "../aggregator/stream-records.ts";
import type { DynamodbLocal } from "../dynamodb/dynamodb-local.ts";
import { exception, type Fault, FaultProxy, type Passage } from "../dynamodb/fault-proxy.ts";
import { serve } from "../engines/http-kit.ts";

// What each kind of client does, on a real table, through a proxy that notes every request.

const START_MS = Date.UTC(2026, 2, 15, 12);
const TIMEOUT_MS = 10_000;
const HOUR_MS = 3_600_000;
const two = [Limit.perMinute("rpm", 1_000), Limit.perMinute("tpm", 100_000)];
const KEY = { entityId: "key", resource: "api" } as const;
const PLANNED = { entityId: "planned", resource: "api" } as const;
const CHILD = { entityId: "child", resource: "api" } as const;
const consume = { rpm: 1, tpm: 10 } as const;

/** A table with something in it, and the ways of several clients to it. */
export class PolicyGround {
  readonly #dynamodb: DynamodbLocal;
  readonly #t: TestContext;
  readonly #table: string;
  namespaceId = "";
  nowMs = START_MS;
  /** Every method of a limiter that a story has called. */
  readonly called = new Set<string>();

  private constructor(dynamodb: DynamodbLocal, t: TestContext, table: string) {
    this.#dynamodb = dynamodb;
    this.#t = t;
    this.#table = table;
  }

  static async open(dynamodb: DynamodbLocal, t: TestContext): Promise<PolicyGround> {
    const table = await dynamodb.newTable({ gsi2Projection: "KEYS_ONLY", expiry: false });
    t.after(() => dynamodb.client.send("DeleteTable", JSON.stringify({ TableName: table }), { timeoutMs: 10_000 }));
    const ground = new PolicyGround(dynamodb, t, table);
    await prepareTable(ground.#way(dynamodb.endpoint));
    const limiter = await ground.#limiter(dynamodb.endpoint, "default");
    ground.namespaceId = (await limiter.registerNamespace("tenant")).id;
    await limiter.registerNamespace("other");
    const tenant = limiter.namespace("tenant");
    await tenant.setSystemDefaults(two);
    await tenant.setResourceDefaults("api", two);
    await tenant.createEntity({ id: "project" });
    await tenant.createEntity({ id: "child", parentId: "project", cascade: true });
    await tenant.setLimits("key", two, { resource: "api" });
    await tenant.createPlan({ id: "gold" });
    await tenant.setPlanLimits("gold", two);
    await tenant.createEntity({ id: "planned", parentId: "project", planId: "gold" });
    await tenant.setTotals("project", [Limit.quota("month", 1_000, { resetAfterMs: HOUR_MS, counts: "tpm" })]);
    return ground;
  }

  /** The requests that a client makes meanwhile, from its opening to its end. */
  async recorded(
    work: (client: { limiter: RateLimiter; proxy: FaultProxy }) => Promise<void>,
  ): Promise<readonly Passage[]> {
    const proxy = await FaultProxy.open(this.#t, this.#dynamodb.endpoint);
    const limiter = await this.#limiter(proxy.endpoint, "tenant");
    note(limiter, this.called);
    await work({ limiter, proxy });
    await limiter.close();
    await proxy.idle();
    return proxy.passages;
  }

  /** Takes of every kind: first contact, levels, adjustments, refusals, over the hour, split and joined; by somebody who may do no more. */
  async acquirer(may: (passage: Passage) => boolean): Promise<readonly Passage[]> {
    const denial = (passage: Passage): Fault | undefined =>
      may(passage) ? undefined : async ({ answer }) => answer(exception(400, "AccessDeniedException"));
    // From here on the table is none that the original could share.
    const owner = await this.#limiter(this.#dynamodb.endpoint, "tenant");
    await owner.setPlanLimits("gold", [...two, Limit.concurrent("parallel", 5, { notifyAt: [50] })]);
    await owner.setPlanTotals("gold", [Limit.perDay("day", 1_000, { counts: "requests", shadow: true })]);
    await owner.close();
    return this.recorded(async ({ limiter, proxy }) => {
      proxy.choose = denial;
      await limiter.acquire({ ...KEY, consume });
      const lease = await limiter.acquire({ ...CHILD, consume });
      await lease.adjust({ tpm: 5 });
      await lease.consume({ tpm: 5 });
      await lease.release({ tpm: 3 });
      await lease.settle();
      await (await limiter.acquire({ ...CHILD, consume })).rollback();
      await limiter.acquire({ ...CHILD, consume, atomic: true });
      await limiter.acquire({ entityId: "nobody", resource: "unknown", consume });
      await limiter.tryAcquire({ ...KEY, consume: { rpm: 1_000 } });
      // A plan, totals, slots and what is told of them.
      await limiter.withLease({ ...PLANNED, consume: { ...consume, parallel: 3 } }, () => pause(10));
      await limiter.acquire({ ...PLANNED, consume: {}, also: { other: consume }, leavePercent: 5 });
      await limiter.charge({ ...CHILD, amounts: { tpm: 5 } });
      await limiter.giveBack({ ...CHILD, amounts: { tpm: 5 }, also: [{ ...KEY, consume: { tpm: 1 } }] });
      await limiter.available(PLANNED);
      await limiter.explain({ ...PLANNED, consume });
      await limiter.acquire({ ...KEY, consume, limits: [Limit.perMinute("rpm", 50), Limit.perMinute("tpm", 500)] });
      await limiter.isAvailable();
      await limiter.available(CHILD);
      await limiter.timeUntilAvailable({ ...CHILD, consume });
      await limiter.explain({ ...CHILD, consume });
      await limiter.resolveLimits("key", "api");
      await limiter.resolveLimits("planned", "api");
      limiter.cacheStats();
      limiter.invalidateCache();
      // The next hours: what was open is closed, on a sheet.
      for (let hour = 0; hour < 3; hour++) {
        this.nowMs += HOUR_MS;
        await limiter.acquire({ ...KEY, consume });
        await pause(100);
      }
      // Throttled: the bucket is split. Idle for long: it is joined.
      this.nowMs += 11_000;
      let left = 1;
      proxy.choose = (passage) =>
        passage.operation === "UpdateItem" && left-- > 0
          ? async ({ answer }) => answer(exception(400, "ProvisionedThroughputExceededException"))
          : denial(passage);
      await limiter.acquire({ ...KEY, consume });
      await proxy.until(1, ({ operation, input }) => operation === "TransactWriteItems" && splits(input));
      proxy.choose = denial;
      for (let minute = 0; minute < 40 && !proxy.passages.some(({ input }) => joins(input)); minute++) {
        this.nowMs += 60_000;
        await limiter.acquire({ ...KEY, consume });
        await pause(20);
      }
    });
  }

  /** A service that stores leases, with idempotency keys. */
  service(): Promise<readonly Passage[]> {
    return this.recorded(async ({ limiter }) => {
      const storedLeases = new StoredLeases(limiter, {
        holdMs: 300_000,
        holdMaxMs: 86_400_000,
        onExpiry: "charge",
        onChange: () => {},
      });
      const { lease } = await storedLeases.acquire({ ...CHILD, consume, idempotencyKey: "first" } as never);
      await storedLeases.get(lease.leaseId ?? "");
      await storedLeases.adjust(lease.leaseId ?? "", { delta: { tpm: 5 }, idempotencyKey: "second" });
      await storedLeases.settle(lease.leaseId ?? "");
      const { lease: other } = await storedLeases.acquire({ ...KEY, consume });
      await storedLeases.extend(other.leaseId ?? "", { holdMs: 600_000 });
      await storedLeases.rollback(other.leaseId ?? "");
      await storedLeases.expireDue();
    });
  }

  /** Everything that is looked at in a namespace. */
  reader(): Promise<readonly Passage[]> {
    return this.recorded(({ limiter }) => look(limiter));
  }

  /** Namespaces are looked at, too. */
  overseer(): Promise<readonly Passage[]> {
    return this.recorded(async ({ limiter, proxy }) => {
      await look(limiter);
      await limiter.listNamespaces();
      await limiter.listOrphanNamespaces();
      // Looks whether the table has what the original needs; this one has not.
      await this.#limiter(proxy.endpoint, "tenant", { sharedTable: true }).catch(() => {});
    });
  }

  /** The custom resource: made, changed, deleted. */
  async provisioner(): Promise<readonly Passage[]> {
    const proxy = await FaultProxy.open(this.#t, this.#dynamodb.endpoint);
    const { url } = await serve(this.#t, (request, response) => {
      request.resume().on("end", () => response.end());
    });
    const environment = {
      ...{ TABLE_NAME: this.#table, AWS_ENDPOINT_URL_DYNAMODB: proxy.endpoint, AWS_REGION: "eu-west-1" },
      ...{ AWS_ACCESS_KEY_ID: "test", AWS_SECRET_ACCESS_KEY: "test", LOG_LEVEL: "error" },
    };
    Object.assign(process.env, environment);
    const ask = async (RequestType: "Create" | "Update" | "Delete", more: Partial<ProvisionerEvent>) => {
      const answer = await provision({
        ...{ RequestType, RequestId: RequestType, LogicalResourceId: "Limits", ResponseURL: `${url}/answer` },
        ...{ StackId: "arn:aws:cloudformation:eu-west-1:123456789012:stack/app/1", ...more },
        ResourceProperties: {
          ...{ ServiceToken: "arn:aws:lambda:x", TableName: this.#table, Namespace: "tenant" },
          ...more.ResourceProperties,
        },
      });
      if (answer.Status !== "SUCCESS") throw new Error(answer.Reason);
      return answer.PhysicalResourceId;
    };
    const limits = { Limits: { rpm: { Capacity: "5" } } };
    const Entities = { made: { Name: "Made", Parent: "project", Resources: { api: limits } } };
    const PhysicalResourceId = await ask("Create", { ResourceProperties: { Resources: { made: limits }, Entities } });
    await ask("Update", { PhysicalResourceId, ResourceProperties: { Resources: { other: limits } } });
    await ask("Delete", { PhysicalResourceId });
    for (const name of Object.keys(environment)) delete process.env[name];
    await proxy.idle();
    return proxy.passages;
  }

  /** Everything that is changed in a namespace. */
  tenantAdministrator(): Promise<readonly Passage[]> {
    return this.recorded(({ limiter }) => administer(limiter));
  }

  /** The same, and namespaces. */
  administrator(): Promise<readonly Passage[]> {
    return this.recorded(async ({ limiter }) => {
      await administer(limiter);
      const { id } = await limiter.registerNamespace("short-lived");
      await limiter.listNamespaces();
      await limiter.deleteNamespace("short-lived");
      await limiter.listOrphanNamespaces();
      await limiter.recoverNamespace(id);
      await limiter.deleteNamespace("short-lived");
      await limiter.purgeNamespace(id);
    });
  }

  /** A sweep over buckets that are idle, split, and left over. */
  async aggregator(): Promise<readonly Passage[]> {
    const proxy = await FaultProxy.open(this.#t, this.#dynamodb.endpoint);
    this.nowMs += 5 * HOUR_MS;
    // An S3 that takes everything: what is asked of the table is looked at here.
    const { url } = await serve(this.#t, (request, response) => {
      request.resume().on("end", () => response.end());
    });
    const handler = createHandler({
      ...{ ...this.#way(proxy.endpoint), archive: "s3://archive", s3Endpoint: url },
      ...{ clock: this.#clock(), write: () => {} },
    });
    await handler({});
    const event = { namespaceId: this.namespaceId, entityId: "key", timestamp: "2026-03-15T12:00:00Z" };
    const image = auditImage({ ...event, eventId: "01J00000000000000000000001" });
    const { batchItemFailures } = (await handler({ Records: [removal(image, "lambda", "1")] })) as BatchAnswer;
    if (batchItemFailures.length > 0) throw new Error("The record was not archived.");
    await proxy.idle();
    return proxy.passages;
  }

  #way(endpoint: string) {
    return {
      stack: this.#table,
      endpoint,
      region: "eu-west-1",
      credentials: { accessKeyId: "t", secretAccessKey: "t" },
    };
  }

  #limiter(endpoint: string, namespace: string, more: { readonly sharedTable?: boolean } = {}): Promise<RateLimiter> {
    const { stack, ...way } = { ...this.#way(endpoint), ...more };
    return RateLimiter.open({
      store: `dynamodb:${stack}`,
      ...way,
      namespace,
      clock: this.#clock(),
      timeoutMs: TIMEOUT_MS,
    });
  }

  /** Stands still unless it is set; who sleeps is woken soon, but for the time that a request has, which a busy machine may need. */
  #clock() {
    const soon = (ms: number) => pause<void>(Math.min(ms, 20));
    const sleep = (ms: number, signal: AbortSignal | undefined) =>
      ms > TIMEOUT_MS / 2
        ? pause<void>(ms, undefined, signal === undefined ? { ref: false } : { signal, ref: false })
        : soon(ms);
    return { now: () => this.nowMs, sleep, sleepInBackground: soon };
  }
}

async function look(limiter: RateLimiter): Promise<void> {
  await limiter.available(CHILD);
  await limiter.explain({ ...CHILD, consume });
  await limiter.resolveLimits("key", "api");
  await limiter.getEntity("child");
  await limiter.getChildren("project");
  await limiter.listEntities();
  await limiter.getLimits("key", { resource: "api" });
  await limiter.listLimits("key");
  await limiter.listEntitiesWithLimits("api");
  await limiter.getResourceDefaults("api");
  await limiter.listResources();
  await limiter.getSystemDefaults();
  await limiter.getPolicy({ entityId: "key" });
  await limiter.listBuckets({ resource: "api" });
  await limiter.resourceCapacity("api", "rpm");
  await limiter.usage({ window: "hourly" });
  await limiter.usage({ entityId: "key", window: "hourly" });
  await limiter.usage({ resource: "api", window: "daily" });
  await limiter.usageSummary({ ...KEY, window: "hourly" });
  for (const planId of (await limiter.listPlans()).map(({ id }) => id)) {
    await limiter.getPlan(planId);
    await limiter.getPlanLimits(planId);
    await limiter.getPlanLimits(planId, { resource: "api" });
    await limiter.getPlanTotals(planId);
    await limiter.listEntities({ planId });
  }
  await limiter.getTotals("project");
  await limiter.getSystemTotals();
  await limiter.available(PLANNED);
  await limiter.timeUntilAvailable({ ...PLANNED, consume });
  await limiter.listResourcesWithEntityLimits();
  await limiter.usageTotals({ window: "hourly", by: "entity" });
  for await (const _ of limiter.exportUsage({ window: "hourly", format: "csv" }));
  await limiter.refusals({ window: "hourly" });
  await limiter.refusalTotals({ by: "limit" });
  await limiter.refusalLog();
  await limiter.refusalLog({ entityId: "key" });
  await limiter.explain({ entityId: "key", resource: "gpt-4", atMs: 0 });
  await limiter.overview();
  await limiter.auditEvents();
  await limiter.auditEvents({ entityId: "key" });
  await limiter.getNamespace("tenant");
  await limiter.isAvailable();
}

async function administer(limiter: RateLimiter): Promise<void> {
  await look(limiter);
  await limiter.acquire({ ...KEY, consume });
  await limiter.createEntity({ id: "new", parentId: "project", cascade: true });
  await limiter.acquire({ entityId: "new", resource: "api", consume });
  await limiter.updateEntity("new", { name: "Renamed" });
  await limiter.updateEntity("new", { parentId: null } as never);
  await limiter.setLimits("new", two, { resource: "api" });
  await limiter.setLimits("new", two);
  await limiter.deleteLimits("new", { resource: "api" });
  await limiter.setAccess({ entityId: "new" }, "disabled");
  await limiter.setAccess({ resource: "api" }, "bypass");
  await limiter.setAccess({ resource: "api" }, "inherit");
  await limiter.setCascade({ entityId: "new" }, true);
  await limiter.setResourceDefaults("more", two);
  await limiter.deleteResourceDefaults("more");
  await limiter.setSystemDefaults(two, { usageKeptDays: 30 });
  await limiter.freezeNamespace("tenant", { reason: "moving" });
  await limiter.unfreezeNamespace("tenant");
  await limiter.topUp({ ...KEY, amounts: { rpm: 5 }, idempotencyKey: "paid-1" });
  await limiter.resetBucket({ ...KEY, idempotencyKey: "reset-1" });
  const manifest = parseManifest("resources: { declared: { limits: { rpm: 5 } } }");
  await applyManifest(limiter, await planManifest(limiter, manifest));
  await limiter.deleteEntity("new");
  await limiter.ensureEntity({ id: "twice" });
  await limiter.createPlan({ id: "silver" });
  await limiter.ensurePlan({ id: "silver" });
  await limiter.updatePlan("silver", { name: "Silver" });
  await limiter.setPlanLimits("silver", two, { resource: "api" });
  await limiter.deletePlanLimits("silver", { resource: "api" });
  await limiter.setPlanTotals("silver", two);
  await limiter.deletePlanTotals("silver");
  await limiter.updateEntity("twice", { planId: "silver" });
  await limiter.setTotals("twice", two);
  await limiter.deleteTotals("twice");
  await limiter.updateEntity("twice", { planId: null } as never);
  await limiter.deletePlan("silver");
  await limiter.setSystemTotals(two);
  await limiter.deleteSystemTotals();
  await limiter.deleteSystemDefaults();
  await limiter.setSystemDefaults(two);
}

/** The names of a limiter's methods. */
export function methodsOf(limiter: RateLimiter): readonly (keyof RateLimiter & string)[] {
  const names = new Set<string>();
  for (let own = limiter; own !== Object.prototype; own = Object.getPrototypeOf(own)) {
    for (const name of Object.getOwnPropertyNames(own)) if (name !== "constructor") names.add(name);
  }
  return [...names] as (keyof RateLimiter & string)[];
}

/** Notes in `called` which methods of a limiter are used. */
function note(limiter: RateLimiter, called: Set<string>): void {
  for (const name of methodsOf(limiter)) {
    const method = limiter[name] as (...given: unknown[]) => unknown;
    const value = (...given: unknown[]) => {
      called.add(name);
      return method.apply(limiter, given);
    };
    Object.defineProperty(limiter, name, { value });
  }
}

function splits(input: Passage["input"]): boolean {
  return JSON.stringify(input).includes('"Put"');
}

function joins(input: Passage["input"]): boolean {
  return JSON.stringify(input).includes('"Delete"');
}
