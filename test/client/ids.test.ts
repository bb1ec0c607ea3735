import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { ServiceClient } from "../../src/cli/service-client.ts";
import { checkEntityId, checkNamespace, checkPlanId } from "../../src/domain/names/names.ts";
import { Limit } from "../../src/entry/index.ts";
import { routeFinder, routes } from "../../src/server/routes.ts";
import { fc } from "../properties.ts";

// Whatever text a program gives as an id, it arrives as that id at the route that was meant, or nothing is sent at all.

const AT_MS = 1_800_000_000_000;
const LIMITS = [Limit.perMinute("rpm", 5)];
const find = routeFinder(routes);

/** How the id is sent: `path`, or the name of the field of the query or of the body. `check`: the library's own rule for it. */
type Case = readonly [
  call: (client: ServiceClient, id: string) => unknown,
  route: string,
  field: string,
  check?: (id: string) => unknown,
];

const checkDrawnId = (id: string) => assert.match(id, /^[\w-]{1,64}$/);
const NS = "/v1/namespaces/{namespace}";
const entity = { entityId: "ada", resource: "api" };

/** Every method that takes an id, and each of its ids. */
const CASES: Readonly<Record<string, readonly Case[]>> = {
  acquire: [
    [(c, entityId) => c.acquire({ ...entity, entityId }), `post ${NS}/acquire`, "entityId", checkEntityId],
    [(c, resource) => c.acquire({ ...entity, resource }), `post ${NS}/acquire`, "resource"],
  ],
  tryAcquire: [[(c, entityId) => c.tryAcquire({ ...entity, entityId }), `post ${NS}/try`, "entityId", checkEntityId]],
  withLease: [[(c, entityId) => c.withLease({ ...entity, entityId }, () => {}), `post ${NS}/acquire`, "entityId"]],
  available: [
    [(c, entityId) => c.available({ ...entity, entityId }), `get ${NS}/available`, "entityId", checkEntityId],
    [(c, resource) => c.available({ ...entity, resource }), `get ${NS}/available`, "resource"],
  ],
  explain: [[(c, entityId) => c.explain({ ...entity, entityId }), `post ${NS}/explain`, "entityId", checkEntityId]],
  timeUntilAvailable: [
    [(c, entityId) => c.timeUntilAvailable({ ...entity, entityId }), `post ${NS}/explain`, "entityId"],
  ],
  resolveLimits: [
    [(c, id) => c.resolveLimits(id, "api"), `get ${NS}/limits/effective`, "entityId", checkEntityId],
    [(c, resource) => c.resolveLimits("ada", resource), `get ${NS}/limits/effective`, "resource"],
  ],
  usage: [[(c, entityId) => c.usage({ entityId, window: "hourly" }), `get ${NS}/usage`, "entityId"]],
  usageSummary: [
    [(c, entityId) => c.usageSummary({ entityId, window: "hourly" }), `get ${NS}/usage/summary`, "entityId"],
  ],
  usageTotals: [
    [
      (c, resource) => c.usageTotals({ resource, window: "hourly", by: "entity" }),
      `get ${NS}/usage/totals`,
      "resource",
    ],
  ],
  exportUsage: [
    [
      async (c, entityId) => {
        for await (const _ of c.exportUsage({ entityId, window: "hourly", format: "csv" }));
      },
      `get ${NS}/usage/export`,
      "entityId",
    ],
  ],
  refusals: [[(c, entityId) => c.refusals({ entityId, window: "hourly" }), `get ${NS}/refusals`, "entityId"]],
  refusalLog: [[(c, entityId) => c.refusalLog({ entityId }), `get ${NS}/refusals/log`, "entityId"]],
  refusalTotals: [
    [
      (c, resource) => c.refusalTotals({ resource, window: "hourly", by: "limit" } as never),
      `get ${NS}/refusals/totals`,
      "resource",
    ],
  ],
  auditEvents: [[(c, entityId) => c.auditEvents({ entityId }), `get ${NS}/audit`, "entityId"]],
  listBuckets: [[(c, entityId) => c.listBuckets({ entityId }), `get ${NS}/buckets`, "entityId"]],
  listEntities: [[(c, planId) => c.listEntities({ planId } as never), `get ${NS}/entities`, "planId"]],
  listEntitiesWithLimits: [[(c, id) => c.listEntitiesWithLimits(id), `get ${NS}/limits/entities`, "resource"]],
  listLimits: [[(c, id) => c.listLimits(id), `get ${NS}/entities/{id}/limits`, "path", checkEntityId]],
  getChildren: [[(c, id) => c.getChildren(id), `get ${NS}/entities/{id}/children`, "path", checkEntityId]],
  createEntity: [[(c, id) => c.createEntity({ id }), `post ${NS}/entities`, "id"]],
  ensureEntity: [[(c, id) => c.ensureEntity({ id }), `post ${NS}/entities`, "id"]],
  getEntity: [[(c, id) => c.getEntity(id), `get ${NS}/entities/{id}`, "path", checkEntityId]],
  updateEntity: [[(c, id) => c.updateEntity(id, { name: "x" }), `patch ${NS}/entities/{id}`, "path", checkEntityId]],
  deleteEntity: [[(c, id) => c.deleteEntity(id), `delete ${NS}/entities/{id}`, "path", checkEntityId]],
  ensurePlan: [[(c, id) => c.ensurePlan({ id }), `post ${NS}/plans`, "id"]],
  createPlan: [[(c, id) => c.createPlan({ id }), `post ${NS}/plans`, "id"]],
  getPlan: [[(c, id) => c.getPlan(id), `get ${NS}/plans/{id}`, "path", checkPlanId]],
  updatePlan: [[(c, id) => c.updatePlan(id, { name: "x" }), `patch ${NS}/plans/{id}`, "path", checkPlanId]],
  deletePlan: [[(c, id) => c.deletePlan(id), `delete ${NS}/plans/{id}`, "path", checkPlanId]],
  setLimits: [
    [(c, id) => c.setLimits(id, LIMITS), `put ${NS}/limits`, "entityId", checkEntityId],
    [(c, resource) => c.setLimits("ada", LIMITS, { resource }), `put ${NS}/limits`, "resource"],
  ],
  getLimits: [[(c, id) => c.getLimits(id), `get ${NS}/limits`, "entityId", checkEntityId]],
  deleteLimits: [[(c, id) => c.deleteLimits(id), `delete ${NS}/limits`, "entityId", checkEntityId]],
  setPlanLimits: [[(c, id) => c.setPlanLimits(id, LIMITS), `put ${NS}/limits`, "planId", checkPlanId]],
  getPlanLimits: [[(c, id) => c.getPlanLimits(id), `get ${NS}/limits`, "planId", checkPlanId]],
  deletePlanLimits: [[(c, id) => c.deletePlanLimits(id), `delete ${NS}/limits`, "planId", checkPlanId]],
  setResourceDefaults: [[(c, id) => c.setResourceDefaults(id, LIMITS), `put ${NS}/limits`, "resource"]],
  getResourceDefaults: [[(c, id) => c.getResourceDefaults(id), `get ${NS}/limits`, "resource"]],
  deleteResourceDefaults: [[(c, id) => c.deleteResourceDefaults(id), `delete ${NS}/limits`, "resource"]],
  setTotals: [[(c, id) => c.setTotals(id, LIMITS), `put ${NS}/totals`, "entityId", checkEntityId]],
  getTotals: [[(c, id) => c.getTotals(id), `get ${NS}/totals`, "entityId", checkEntityId]],
  deleteTotals: [[(c, id) => c.deleteTotals(id), `delete ${NS}/totals`, "entityId", checkEntityId]],
  setPlanTotals: [[(c, id) => c.setPlanTotals(id, LIMITS), `put ${NS}/totals`, "planId", checkPlanId]],
  getPlanTotals: [[(c, id) => c.getPlanTotals(id), `get ${NS}/totals`, "planId", checkPlanId]],
  deletePlanTotals: [[(c, id) => c.deletePlanTotals(id), `delete ${NS}/totals`, "planId", checkPlanId]],
  getPolicy: [[(c, entityId) => c.getPolicy({ entityId }), `get ${NS}/access`, "entityId"]],
  setAccess: [[(c, entityId) => c.setAccess({ entityId }, "enforce"), `put ${NS}/access`, "entityId"]],
  setCascade: [[(c, resource) => c.setCascade({ resource }, true), `put ${NS}/cascade`, "resource"]],
  topUp: [[(c, entityId) => c.topUp({ ...entity, entityId, amounts: { rpm: 1 } }), `post ${NS}/top-up`, "entityId"]],
  charge: [[(c, entityId) => c.charge({ ...entity, entityId, amounts: { rpm: 1 } }), `post ${NS}/charge`, "entityId"]],
  giveBack: [
    [(c, entityId) => c.giveBack({ ...entity, entityId, amounts: { rpm: 1 } }), `post ${NS}/give-back`, "entityId"],
  ],
  resetBucket: [[(c, entityId) => c.resetBucket({ ...entity, entityId }), `post ${NS}/reset`, "entityId"]],
  resourceCapacity: [[(c, resource) => c.resourceCapacity(resource, "rpm"), `get ${NS}/capacity`, "resource"]],
  registerNamespace: [[(c, name) => c.registerNamespace(name), "post /v1/namespaces", "name"]],
  getNamespace: [[(c, name) => c.getNamespace(name), "get /v1/namespaces", "name", checkNamespace]],
  deleteNamespace: [[(c, name) => c.deleteNamespace(name), `delete ${NS}`, "namespace", checkNamespace]],
  freezeNamespace: [[(c, name) => c.freezeNamespace(name), `post ${NS}/freeze`, "namespace", checkNamespace]],
  unfreezeNamespace: [[(c, name) => c.unfreezeNamespace(name), `post ${NS}/unfreeze`, "namespace", checkNamespace]],
  recoverNamespace: [[(c, id) => c.recoverNamespace(id), "post /v1/orphans/{id}/recover", "path", checkDrawnId]],
  purgeNamespace: [[(c, id) => c.purgeNamespace(id), "post /v1/orphans/{id}/purge", "path", checkDrawnId]],
  "leases.list": [[(c, entityId) => c.leases.list({ entityId, limit: 10 }), `get ${NS}/leases`, "entityId"]],
  "leases.get": [[(c, id) => c.leases.get(id), `get ${NS}/leases/{id}`, "path", checkDrawnId]],
  "leases.settle": [[(c, id) => c.leases.settle(id, {}), `post ${NS}/leases/{id}/settle`, "path", checkDrawnId]],
  "leases.rollback": [[(c, id) => c.leases.rollback(id), `post ${NS}/leases/{id}/rollback`, "path", checkDrawnId]],
  "levels.get": [
    [
      (c, entityId) => c.levels.get({ level: "entity", entityId, resource: "api" } as never),
      `get ${NS}/limits`,
      "entityId",
    ],
  ],
  "levels.set": [
    [(c, planId) => c.levels.set({ level: "plan", planId } as never, LIMITS, {}), `put ${NS}/limits`, "planId"],
  ],
  "levels.delete": [
    [(c, resource) => c.levels.delete({ level: "resource", resource }, {}), `delete ${NS}/limits`, "resource"],
  ],
  events: [
    [
      async (c, entityId) => {
        const options = { signal: new AbortController().signal, lastEventId: undefined };
        for await (const _ of c.events({ entityId }, options));
      },
      `get ${NS}/events`,
      "entityId",
    ],
  ],
};

/** Methods that take none. */
const WITHOUT_IDS = [
  ...["me", "about", "close", "isAvailable", "listPlans", "listResources", "listResourcesWithEntityLimits"],
  ...[
    "overview",
    "listNamespaces",
    "listOrphanNamespaces",
    "levels.changeSystem",
    "setSystemDefaults",
    "getSystemDefaults",
  ],
  ...["deleteSystemDefaults", "setSystemTotals", "getSystemTotals", "deleteSystemTotals"],
];

const ids = fc.oneof(
  fc.constantFrom(
    "bob#2",
    "x/../../plans/gold",
    "x/../../../bank/entities/carol",
    "bob\n",
    "x\\..\\bob",
    "%2e%2e",
    "__proto__",
  ),
  fc.string({ unit: "binary", maxLength: 6 }),
  fc.stringMatching(/^[\w.:@*-]{1,12}$/),
  fc
    .array(
      fc.constantFrom(
        "a",
        "B",
        "7",
        "/",
        "\\",
        ".",
        "..",
        "#",
        "?",
        "%",
        "%2F",
        "&",
        "=",
        ":",
        "@",
        "*",
        " ",
        "\t",
        "\n",
      ),
      {
        maxLength: 8,
      },
    )
    .map((parts) => parts.join("")),
  fc.integer({ min: 63, max: 258 }).map((length) => "a".repeat(length)),
);

test("every method of the client that takes an id is known to this file", () => {
  const client = new ServiceClient({ url: "http://limits.test", namespace: "shop" });
  const parts = { "": client, "leases.": client.leases, "levels.": client.levels };
  const methods = Object.entries(parts).flatMap(([prefix, part]) => namesOf(part).map((name) => prefix + name));
  const unknown = methods.filter((name) => !CASES[name] && !WITHOUT_IDS.includes(name));
  assert.deepEqual(unknown, []);
});

test("any text as any id arrives at the route that was meant, or is refused before it is sent", async (t) => {
  const sent = recorded(t);
  const client = new ServiceClient({ url: "http://limits.test/below", namespace: "shop" });
  const one = fc.constantFrom(...Object.values(CASES).flat());
  await fc.assert(
    fc.asyncProperty(one, ids, async ([call, route, field, check], id) => {
      sent.length = 0;
      await Promise.resolve()
        .then(() => call(client, id))
        .catch(() => {});
      if (check !== undefined && isRefused(check, id)) assert.deepEqual(sent, []);
      if (check !== undefined && !isRefused(check, id)) assert.notEqual(sent.length, 0);
      for (const { method, url, body } of sent) {
        assert.ok(url.href.startsWith("http://limits.test/below/"), url.href);
        const found = find(method, url.pathname.slice("/below".length));
        assert.equal(`${found?.route.method} ${found?.route.path}`, route);
        if (route.includes("{namespace}") && field !== "namespace") assert.equal(found?.namespace, "shop");
        const arrived =
          field === "path"
            ? found?.id
            : field === "namespace"
              ? found?.namespace
              : (url.searchParams.get(field) ?? body[field]);
        // A query has no halves of characters; nor has any id that the service takes.
        assert.equal(arrived, url.searchParams.has(field) ? new URLSearchParams([["", id]]).get("") : id);
        assert.equal(url.hash, "");
      }
    }),
    { numRuns: 3_000 },
  );
  for (const [entityId, code] of [
    [null, "entity_id_invalid"],
    [["a", "b"], "entity_id_invalid"],
  ] as const) {
    sent.length = 0;
    await assert.rejects(async () => await client.listBuckets({ entityId: entityId as never }), { code });
    assert.deepEqual(sent, []);
  }
});

interface Sent {
  readonly method: string;
  readonly url: URL;
  readonly body: Readonly<Record<string, unknown>>;
}

/** What reaches `fetch`, in place of a service. */
function recorded(t: TestContext): Sent[] {
  const sent: Sent[] = [];
  t.mock.method(globalThis, "fetch", async (url: URL, { method = "", body }: RequestInit) => {
    sent.push({ method, url, body: body === undefined ? {} : JSON.parse(String(body)) });
    return Response.json({ items: [], done: true, records: 0, outcome: "granted", leaseId: null, atMs: AT_MS });
  });
  return sent;
}

function isRefused(check: (id: string) => unknown, id: string): boolean {
  try {
    check(id);
    return false;
  } catch {
    return true;
  }
}

function namesOf(part: object): string[] {
  const names = new Set<string>();
  for (let own = part; own !== Object.prototype; own = Object.getPrototypeOf(own)) {
    for (const name of Object.getOwnPropertyNames(own)) {
      if (name !== "constructor" && typeof part[name as never] === "function") names.add(name);
    }
  }
  return [...names];
}
