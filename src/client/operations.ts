import type { LoggedRefusal } from "../domain/charge/refusal-log.ts";
import type { ShownConfig } from "../domain/config/overrides.ts";
import type { Limit } from "../domain/limits/limit.ts";
import { NotFoundError } from "../domain/names/errors.ts";
import type { OperationResult, PolicyScope, ResetRequest, TopUpRequest } from "../engine/acquire/policies.ts";
import type { CorrectionRequest } from "../engine/acquire/without-lease.ts";
import type { AccessOptions, ChangeOptions } from "../engine/limiter/level-options.ts";
import type { Limiter } from "../engine/limiter/limiter.ts";
import type { Listing, ListOptions, ListPage } from "../engine/limiter/listing.ts";
import type { FreezeOptions } from "../engine/limiter/namespaces.ts";
import type { PastExplanation, PastQuestion } from "../engine/limiter/past-explanation.ts";
import type { Question, RequestQuestion } from "../engine/limiter/question.ts";
import type { RefusalLogRequest } from "../engine/refusal/logged-refusals.ts";
import type { RefusalRequest } from "../engine/refusal/refusal-counts.ts";
import { alsoRule, checkAmounts, checkName, invalid, isRecord, refuse } from "./check.ts";
import { keyField, type Operation, type Path, type RequestParts, requestOf, type ServiceCalls } from "./http.ts";
import { questionOf } from "./options.ts";

/** The route of a level and the query that names it. */
export interface LevelRoute {
  readonly path: Path;
  readonly query: { readonly entityId?: string; readonly planId?: string; readonly resource?: string };
}

/** `get…`, `set…` and `delete…` of a level. `where`: its route, with the name of its owner where it has one. */
function levelOperations<const Level extends string>(level: Level, where: string) {
  const rows: Readonly<Record<string, Operation>> = {
    [`get${level}`]: [`GET ${where}`, ofLevel],
    [`set${level}`]: [`PUT ${where}`, ofLevel],
    [`delete${level}`]: [`DELETE ${where}`, ofLevel],
  };
  return rows as Readonly<Record<`${"get" | "set" | "delete"}${Level}`, Operation>>;
}

async function ofLevel(calls: ServiceCalls, http: string, given: readonly unknown[]): Promise<unknown> {
  const { method, path, query, rest } = requestOf(http, given);
  const limits = method === "PUT" ? (rest.shift() as readonly Limit[]) : [];
  const { resource, ...others } = (rest[0] ?? {}) as { readonly resource?: string };
  // An entity and a plan may have limits on one resource.
  const isOn = resource !== undefined && /limits.+Id/.test(http);
  const route = { path, query: isOn ? { ...query, resource: checkName("resource", resource) } : query };
  const options = isOn || resource === undefined ? others : { resource, ...others };
  if (method === "PUT") return setLevel(calls, route, limits, options);
  if (method === "DELETE") return deleteLevel(calls, route, options);
  const { untilMs: _, then: __, ...config } = (await readLevel(calls, route)).config;
  return path === "limits" && http.endsWith(path) ? config : config.limits;
}

/** The configuration of a level and its tag, if it has one; `limits: []` if nothing is stored. */
export async function readLevel(
  calls: ServiceCalls,
  { path, query }: LevelRoute,
): Promise<{ readonly config: ShownConfig; readonly tag?: string | null }> {
  return unlessEmpty<{ config: ShownConfig; tag?: string | null }>({ config: { limits: [] } }, async () => {
    const { body, headers } = await calls.answer<ShownConfig & Record<string, unknown>>("GET", path, { query });
    const { level: _, entityId: __, planId: ___, resource: ____, ...config } = body;
    return { config, tag: headers.get("etag") };
  });
}

/** Sets the limits of a level, with `ifTag` only while it is what was read with this tag. Answers whether that changed something. */
export async function setLevel(
  calls: ServiceCalls,
  { path, query }: LevelRoute,
  limits: readonly Limit[],
  { principal, ...options }: { readonly principal?: string | undefined },
  ifTag?: string | null,
): Promise<boolean> {
  refuse({ principal });
  const { body, repeats } = await calls.answer<{ readonly changed: boolean }>("PUT", path, {
    query,
    body: { limits, ...options },
    // Sent again after a lost answer, what was read has been changed: by the first.
    ...(ifTag && { headers: { "if-match": ifTag }, repeats: "never" }),
  });
  // A repeat finds what the first may have set, and cannot tell whose it is.
  return body.changed || repeats > 0;
}

/** Answers whether there were any. */
export function deleteLevel(calls: ServiceCalls, { path, query }: LevelRoute, options: object): Promise<boolean> {
  return unlessEmpty(false, async () => {
    const { override, ...others } = options as { readonly override?: boolean };
    refuse(others);
    await calls.answer("DELETE", path, { query: { ...query, ...(override && { override }) }, repeats: "never" });
    return true;
  });
}

async function unlessEmpty<Value>(none: Value, work: () => Promise<Value>): Promise<Value> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof NotFoundError && /^(limits|override)_not_found$/.test(error.code)) return none;
    throw error;
  }
}

interface PageOf<Item> {
  readonly items: readonly Item[];
  readonly cursor?: string;
}

/** The service answers at most so many items at a time, and the library ten times as many on a page. */
const PART_MAX = 1_000;

/** A list of the service: `await` it for one page, or `for await` over it for everything, page after page. */
function listed<Item, Shown = ListPage<Item>>(
  fetch: (page: { readonly limit: number; readonly cursor: string | undefined }) => Promise<PageOf<Item>>,
  { limit = PART_MAX, cursor }: { readonly limit?: number | undefined; readonly cursor?: string | undefined },
  shape: (page: PageOf<Item>) => Shown,
): Listing<Item, Shown> {
  if (!Number.isSafeInteger(limit) || limit < 1 || limit > PART_MAX * 10) {
    throw invalid("page", "limit", limit, "a whole number from 1 to 10000");
  }
  async function* parts(most: number) {
    let part: PageOf<Item> = { items: [], ...(cursor !== undefined && { cursor }) };
    do {
      part = await fetch({ limit: Math.min(most, limit, PART_MAX), cursor: part.cursor });
      yield part;
      most -= part.items.length;
    } while (part.cursor !== undefined && most > 0);
  }
  async function page() {
    const all: PageOf<Item>[] = [];
    for await (const part of parts(limit)) all.push(part);
    return shape({ ...(all.at(-1) as PageOf<Item>), items: all.flatMap(({ items }) => items) });
  }
  const list: Pick<Listing<Item, Shown>, "then" | typeof Symbol.asyncIterator> = {
    // biome-ignore lint/suspicious/noThenProperty: a list is awaited for its first page.
    then: (onFulfilled, onRejected) => page().then(onFulfilled, onRejected),
    async *[Symbol.asyncIterator]() {
      for await (const { items } of parts(Number.POSITIVE_INFINITY)) yield* items;
    },
  };
  return list as Listing<Item, Shown>;
}

/** A page as the library has it: an array that knows where the next one begins. */
function pageWithCursor<Item>({ items, ...rest }: PageOf<Item>): ListPage<Item> {
  return Object.assign([...items], rest);
}

/** Every method of the library that is one operation of the service, word for word. */
export const OPERATIONS = {
  available: ["GET available", available],
  explain: ["POST explain", explain],
  resolveLimits: ["GET limits/effective?entityId&resource", read],
  listBuckets: ["GET buckets", list],
  resourceCapacity: [
    "GET capacity?resource",
    (calls, http, [resource, limit]) => read(calls, http, [resource, { limit }]),
  ],
  topUp: ["POST top-up", operate],
  resetBucket: ["POST reset", operate],
  charge: ["POST charge", operate],
  giveBack: ["POST give-back", operate],
  getPolicy: ["GET access", read],
  setAccess: ["PUT access", setPolicy],
  setCascade: ["PUT cascade", setPolicy],
  usage: ["GET usage", list],
  usageSummary: ["GET usage/summary", readSummary],
  usageTotals: ["GET usage/totals", items],
  exportUsage: ["GET usage/export", readText],
  refusals: ["GET refusals", listRefusals],
  refusalLog: ["GET refusals/log", listLog],
  refusalTotals: ["GET refusals/totals", items],
  overview: ["GET overview", read],
  auditEvents: ["GET audit", listEvents],
  createEntity: ["POST entities", change],
  ensureEntity: ["POST entities", ensure],
  getEntity: ["GET entities/{entityId}", read],
  updateEntity: ["PATCH entities/{entityId}", change],
  deleteEntity: ["DELETE entities/{entityId}", act],
  listEntities: ["GET entities", list],
  getChildren: ["GET entities/{entityId}/children", list],
  createPlan: ["POST plans", change],
  ensurePlan: ["POST plans", ensure],
  getPlan: ["GET plans/{planId}", read],
  updatePlan: ["PATCH plans/{planId}", change],
  deletePlan: ["DELETE plans/{planId}", act],
  listPlans: ["GET plans", list],
  listLimits: ["GET entities/{entityId}/limits", list],
  listResources: ["GET resources", list],
  listEntitiesWithLimits: ["GET limits/entities?resource", list],
  listResourcesWithEntityLimits: ["GET limits/resources", list],
  ...levelOperations("Limits", "limits?entityId"),
  ...levelOperations("PlanLimits", "limits?planId"),
  ...levelOperations("ResourceDefaults", "limits?resource"),
  ...levelOperations("SystemDefaults", "limits"),
  ...levelOperations("Totals", "totals?entityId"),
  ...levelOperations("PlanTotals", "totals?planId"),
  ...levelOperations("SystemTotals", "totals"),
  registerNamespace: ["POST /v1/namespaces", registerNamespace],
  listNamespaces: ["GET /v1/namespaces", list],
  getNamespace: ["GET /v1/namespaces", readNamespace],
  deleteNamespace: ["DELETE /v1/namespaces/{namespace}", act],
  freezeNamespace: ["POST /v1/namespaces/{namespace}/freeze", freeze],
  unfreezeNamespace: ["POST /v1/namespaces/{namespace}/unfreeze", freeze],
  recoverNamespace: ["POST /v1/orphans/{namespaceId}/recover", act],
  listOrphanNamespaces: ["GET /v1/orphans", list],
  purgeNamespace: ["POST /v1/orphans/{namespaceId}/purge", purgeNamespace],
} as const satisfies { readonly [Name in keyof Limiter]?: Operation };

/** Gives a class a method for each row. */
export function addMethods<Instance extends object>(
  prototype: Instance,
  operations: Readonly<Record<string, Operation>>,
  callsOf: (instance: Instance) => ServiceCalls,
): void {
  for (const [name, [http, send]] of Object.entries(operations)) {
    Object.defineProperty(prototype, name, {
      value(this: Instance, ...given: never[]) {
        return send(callsOf(this), http, given);
      },
      ...{ configurable: true, writable: true },
    });
  }
}

/** The body of an answer; `names` are the arguments that the request has names for. */
async function ask<Body>(calls: ServiceCalls, http: string, parts: RequestParts, names: readonly unknown[] = []) {
  const { method, path } = requestOf(http, names);
  return (await calls.answer<Body>(method, path, parts)).body;
}

/** The answer as it is. What is left of the arguments is the query. */
export async function read<Body>(calls: ServiceCalls, http: string, given: readonly unknown[]): Promise<Body> {
  const { query, rest } = requestOf(http, given);
  return ask(calls, http, { query: { ...query, ...(rest[0] as object) } }, given);
}

/** The items of an answer that has no pages. */
async function items<Item>(calls: ServiceCalls, http: string, given: readonly unknown[]): Promise<readonly Item[]> {
  return (await read<{ readonly items: readonly Item[] }>(calls, http, given)).items;
}

/** Page after page. */
export function list(calls: ServiceCalls, http: string, given: readonly unknown[], shape = pageWithCursor as never) {
  const { query, rest } = requestOf(http, given);
  const { limit, cursor, ...asked } = (rest[0] ?? {}) as ListOptions;
  return listed(
    (part) => ask<never>(calls, http, { query: { ...query, ...asked, ...part } }, given),
    { limit, cursor },
    shape,
  );
}

/** Sends no body, and never twice: a repeat would answer that it is gone. */
async function act<Body>(calls: ServiceCalls, http: string, given: readonly unknown[], waitMs = 0): Promise<Body> {
  refuse((requestOf(http, given).rest[0] ?? {}) as object);
  return ask(calls, http, { repeats: "never", waitMs }, given);
}

/** Sends fields, and options beside them. */
async function change(calls: ServiceCalls, http: string, given: readonly unknown[]): Promise<unknown> {
  const [fields, { principal, ...options } = {}] = requestOf(http, given).rest as [object, ChangeOptions?];
  refuse({ principal });
  checkFields(fields);
  return ask(calls, http, { body: { ...fields, ...options }, repeats: "never" }, given);
}

function ensure(calls: ServiceCalls, http: string, [fields, options]: readonly (object | undefined)[]) {
  return change(calls, http, [fields && { ...fields, ifAbsent: true }, options]);
}

/** JSON would leave metadata out whose value was forgotten, and a change that is no object would change nothing. */
function checkFields(fields: unknown): void {
  const { metadata = {} } = (isRecord(fields) ? fields : { metadata: 0 }) as { readonly metadata?: unknown };
  if (isRecord(metadata) && !Object.values(metadata).includes(undefined)) return;
  throw invalid("metadata", "The change", fields, "an object, with metadata whose values are strings");
}

async function available(calls: ServiceCalls, http: string, [question]: readonly Question[]): Promise<unknown> {
  const { consume: _, leavePercent: __, ...about } = questionOf(question as Question);
  return items(calls, http, [about]);
}

async function explain(calls: ServiceCalls, http: string, [question]: readonly (RequestQuestion | PastQuestion)[]) {
  const { atMs, ...about } = (question ?? {}) as PastQuestion;
  const body = { ...questionOf((question && about) as RequestQuestion), ...(atMs !== undefined && { atMs }) };
  const explained = await ask<Partial<PastExplanation>>(calls, http, { body });
  return explained.refusals ? { ...explained, refusals: explained.refusals.map(logged) } : explained;
}

async function operate(
  calls: ServiceCalls,
  http: string,
  [request]: readonly (TopUpRequest | ResetRequest | CorrectionRequest)[],
) {
  const { method, path } = requestOf(http, []);
  const { principal, idempotencyKey, keyOwner, ...body } = (request ?? {}) as TopUpRequest & CorrectionRequest;
  if (path !== "reset") checkAmounts(body.amounts, path);
  if (body.also && alsoRule(body.also)) throw invalid("also", "also", body.also, "parts");
  refuse({ principal, keyOwner });
  const headers = keyField(idempotencyKey);
  const answer = await calls.answer<OperationResult>(method, path, { body, headers });
  // Its own repeat after a lost answer is no repetition of the caller's.
  const repeated = idempotencyKey !== undefined && answer.headers.has("idempotency-replayed");
  return { ...answer.body, repeated };
}

async function setPolicy(calls: ServiceCalls, http: string, given: readonly unknown[]): Promise<boolean> {
  const [query, value, { untilMs, ...options } = {}] = given as [PolicyScope, unknown, AccessOptions?];
  refuse(options);
  const { method, path } = requestOf(http, []);
  const body = { [path]: value, ...(untilMs !== undefined && { untilMs }) };
  const { headers, repeats } = await calls.answer(method, path, { query, body });
  // A repeat finds what the first may have set, and cannot tell whose it is.
  return headers.get("zael-changed") !== "false" || repeats > 0;
}

/** Leaves out `once`, which only the service adds up. */
async function readSummary(calls: ServiceCalls, http: string, given: readonly unknown[]): Promise<object> {
  const { once: _, ...summary } = await read<{ readonly once: unknown }>(calls, http, given);
  return summary;
}

/** The file as it comes, piece by piece. */
async function* readText(calls: ServiceCalls, http: string, [query]: readonly object[]): AsyncGenerator<string> {
  const { body } = await ask<Response>(calls, http, { query: { ...query }, isStream: true });
  const decoder = new TextDecoder();
  for await (const bytes of (body ?? []) as AsyncIterable<Uint8Array>) yield decoder.decode(bytes, { stream: true });
}

/** A number is the size of a page; the name of a limit goes with the query. */
function listRefusals(calls: ServiceCalls, http: string, [query]: readonly RefusalRequest[]) {
  const { cursor, pageSize, limit, ...about } = query as RefusalRequest;
  const isName = typeof limit === "string";
  const asked = isName ? { ...about, limit } : about;
  return listed(
    (part) => ask<never>(calls, http, { query: { ...asked, pageSize: part.limit, cursor: part.cursor } }),
    { limit: pageSize ?? (isName ? undefined : limit), cursor },
    pageWithCursor,
  );
}

function listLog(calls: ServiceCalls, http: string, [query = {}]: readonly RefusalLogRequest[]) {
  const { cursor, pageSize = 100, ...about } = query;
  if (!(pageSize <= PART_MAX)) throw invalid("page", "pageSize", pageSize, `a whole number from 1 to ${PART_MAX}`);
  return listed(
    async (part) => {
      const page = await ask<PageOf<LoggedRefusal>>(calls, http, {
        query: { ...about, pageSize: part.limit, cursor: part.cursor },
      });
      return { ...page, items: page.items.map(logged) };
    },
    { limit: pageSize, cursor },
    pageWithCursor,
  );
}

/** The library has `null` in the log for a wait without end. */
function logged(refusal: LoggedRefusal): LoggedRefusal {
  return refusal.retryAfterMs === Number.POSITIVE_INFINITY ? { ...refusal, retryAfterMs: null } : refusal;
}

function listEvents(calls: ServiceCalls, http: string, [query]: readonly object[]) {
  const shape = ({ items: events, ...rest }: { readonly items: unknown }) => ({ events, ...rest });
  return list(calls, http, [{ limit: 100, ...query }], shape as never);
}

/** Reads the list: in a path, a missing namespace would be an error of the service's own. */
async function readNamespace(calls: ServiceCalls, http: string, [name]: readonly string[]): Promise<unknown> {
  const [found] = await items(calls, http, [{ name: checkName("namespace", name as string) }]);
  if (found) return found;
  throw new NotFoundError("namespace_not_found", `There is no namespace ${name}, or the token has no access to it.`);
}

async function registerNamespace(calls: ServiceCalls, http: string, given: readonly unknown[]): Promise<unknown> {
  const [name, options = {}] = given as [string, object?];
  refuse(options);
  return ask(calls, http, { body: { name } });
}

/** Freezes or unfreezes; only what freezes has a body. */
async function freeze(calls: ServiceCalls, http: string, given: readonly unknown[]): Promise<boolean> {
  const { method, path, rest } = requestOf(http, given);
  const { principal, ...body } = (rest[0] ?? {}) as FreezeOptions;
  refuse(http.endsWith("/freeze") ? { principal } : { principal, ...body });
  const answer = await calls.answer<{ readonly changed: boolean }>(method, path, { body });
  // A repeat finds what the first may have changed.
  return answer.body.changed || answer.repeats > 0;
}

const PURGE_MS = 30_000;

/** Until all of it is gone: the service works for some seconds at a time. */
async function purgeNamespace(calls: ServiceCalls, http: string, given: readonly unknown[]) {
  const [id, { onProgress, ...options } = {}] = given as Parameters<Limiter["purgeNamespace"]>;
  for (let records = 0; ; ) {
    const part = await act<{ readonly records: number; readonly done: boolean }>(calls, http, [id, options], PURGE_MS);
    records += part.records;
    onProgress?.(records);
    if (part.done) return { records };
  }
}
