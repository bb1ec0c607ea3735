import { NotFoundError } from "../domain/names/errors.ts";
import type { OperationResult, PolicyScope, ResetRequest, TopUpRequest } from "../engine/acquire/policies.ts";
import type { ChangeOptions } from "../engine/limiter/level-options.ts";
import type { Limiter } from "../engine/limiter/limiter.ts";
import type { ListOptions } from "../engine/limiter/listing.ts";
import type { Question, RequestQuestion } from "../engine/limiter/question.ts";
import type { RefusalRequest } from "../engine/refusal/refusal-counts.ts";
import { checkAmounts, checkName, invalid, isRecord, refuse } from "./check.ts";
import { keyField, type Operation, type RequestParts, type ServiceCalls } from "./http.ts";
import { levelOperations, readLevel } from "./levels.ts";
import { listed, pageWithCursor } from "./listing.ts";
import { requestOf } from "./path.ts";
import { questionOf } from "./request.ts";

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
  getPolicy: ["GET limits", readPolicy],
  setAccess: ["PUT access", setPolicy],
  setCascade: ["PUT cascade", setPolicy],
  usage: ["GET usage", list],
  usageSummary: ["GET usage/summary", readSummary],
  usageTotals: ["GET usage/totals", items],
  exportUsage: ["GET usage/export", readText],
  refusals: ["GET refusals", listRefusals],
  refusalTotals: ["GET refusals/totals", items],
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

async function explain(calls: ServiceCalls, http: string, [question]: readonly RequestQuestion[]): Promise<unknown> {
  return ask(calls, http, { body: questionOf(question as RequestQuestion) });
}

async function operate(calls: ServiceCalls, http: string, [request]: readonly (TopUpRequest | ResetRequest)[]) {
  const { method, path } = requestOf(http, []);
  if (path === "top-up") checkAmounts((request as TopUpRequest | undefined)?.amounts, "topUp");
  const { principal, idempotencyKey, ...body } = request as TopUpRequest;
  refuse({ principal });
  const headers = keyField(idempotencyKey);
  const answer = await calls.answer<OperationResult>(method, path, { body, headers });
  // Its own repeat after a lost answer is no repetition of the caller's.
  const repeated = idempotencyKey !== undefined && answer.headers.has("idempotency-replayed");
  return { ...answer.body, repeated };
}

async function readPolicy(calls: ServiceCalls, http: string, [where]: readonly PolicyScope[]) {
  const { entityId, resource } = where as PolicyScope;
  const { path } = requestOf(http, []);
  const { access, cascade } = (await readLevel(calls, { path, query: { entityId, resource } as object })).config;
  return { ...(access && { access }), ...(cascade !== undefined && { cascade }) };
}

async function setPolicy(calls: ServiceCalls, http: string, given: readonly unknown[]): Promise<boolean> {
  const [query, value, options = {}] = given as [PolicyScope, unknown, object?];
  refuse(options);
  const { method, path } = requestOf(http, []);
  const { headers, repeats } = await calls.answer(method, path, { query, body: { [path]: value } });
  // A repeat finds what the first may have set, and cannot tell whose it is.
  return headers.get("zael-changed") !== "false" || repeats > 0;
}

/** Without what only the service adds up. */
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

function listEvents(calls: ServiceCalls, http: string, [query]: readonly object[]) {
  const shape = ({ items: events, ...rest }: { readonly items: unknown }) => ({ events, ...rest });
  return list(calls, http, [{ limit: 100, ...query }], shape as never);
}

/** By the list: a namespace that is not there would be an error of the service's own in a path. */
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
