import type { Namespace } from "../../domain/config/namespace.ts";
import { NotFoundError } from "../../domain/names/errors.ts";
import type { Limiter } from "../../engine/limiter/limiter.ts";
import { listOf, pageOf, pageResponse } from "../page.ts";
import { NS, type Route, route } from "../route.ts";
import { listQuery, namespaceBody, namespacesQuery } from "../schemas/input.ts";
import * as output from "../schemas/output.ts";

/** How long one call of purge works. */
const PURGE_MS = 20_000;

export const namespaceRoutes: readonly Route[] = [
  route({
    method: "get",
    path: "/v1/namespaces",
    scope: "read",
    summary: "List namespaces",
    note: "Only namespaces that the token may use.",
    query: namespacesQuery,
    answers: { 200: { description: "The active namespaces.", schema: listOf(output.namespace) } },
    handle: async ({ limiter, caller, query: { name, search, ...page } }) => {
      const { namespaces } = caller;
      if (name !== undefined) {
        const isOne = namespaces === "*" || namespaces.includes(name);
        return pageResponse(isOne ? await namedPage(limiter, [name], pageOf(page)) : []);
      }
      const isFound = containing(search);
      if (namespaces === "*") return pageResponse(await searchedPage(limiter, isFound, pageOf(page)));
      return pageResponse(await namedPage(limiter, namespaces.filter(isFound), pageOf(page)));
    },
  }),
  route({
    method: "post",
    path: "/v1/namespaces",
    scope: "admin",
    everywhere: true,
    summary: "Create a namespace",
    note: "A namespace of that name that exists is answered as it is.",
    body: namespaceBody,
    answers: {
      200: { description: "The namespace existed.", schema: output.namespace },
      201: { description: "The namespace was created.", schema: output.namespace },
    },
    handle: async ({ limiter, caller, body: { name } }) => {
      const before = await found(limiter, name);
      const namespace = before ?? (await limiter.registerNamespace(name, { principal: caller.id }));
      return { status: before === undefined ? 201 : 200, body: namespace };
    },
  }),
  route({
    method: "delete",
    path: NS,
    scope: "admin",
    everywhere: true,
    summary: "Delete a namespace",
    note: "Its data stays, and it can be recovered until it is purged.",
    answers: { 200: { description: "The namespace was deleted; its data stays.", schema: output.namespace } },
    handle: async ({ service, caller, namespace }) => {
      const deleted = await service.limiter.deleteNamespace(namespace, { principal: caller.id });
      service.tenants.lost(service.tenants.get(namespace));
      return { status: 200, body: deleted };
    },
  }),
  route({
    method: "get",
    path: "/v1/orphans",
    scope: "admin",
    everywhere: true,
    summary: "List deleted namespaces",
    note: "Those whose data is still stored.",
    query: listQuery,
    answers: { 200: { description: "Namespaces that can be recovered or purged.", schema: listOf(output.namespace) } },
    handle: async ({ limiter, query }) => pageResponse(await limiter.listOrphanNamespaces(pageOf(query))),
  }),
  route({
    method: "post",
    path: "/v1/orphans/{id}/recover",
    scope: "admin",
    everywhere: true,
    summary: "Recover a deleted namespace",
    answers: { 200: { description: "The namespace is active again.", schema: output.namespace } },
    handle: async ({ limiter, caller, id }) => ({
      status: 200,
      body: await limiter.recoverNamespace(id, { principal: caller.id }),
    }),
  }),
  route({
    method: "post",
    path: "/v1/orphans/{id}/purge",
    scope: "admin",
    everywhere: true,
    summary: "Purge a deleted namespace",
    note: "Removes its data for good. Call it again until `done` is true.",
    answers: { 200: { description: "How much this call deleted.", schema: output.purged } },
    handle: async (call) => {
      const { limiter, caller, id, service } = call;
      call.extend(PURGE_MS);
      return { status: 200, body: await purged(limiter, id, caller.id, service.clock.now() + PURGE_MS, service.clock) };
    },
  }),
];

class TimeOver extends Error {}

/** Purges until the time is over; what is left is for the next call. */
async function purged(limiter: Limiter, id: string, principal: string, untilMs: number, clock: { now(): number }) {
  let records = 0;
  const onProgress = (deleted: number) => {
    records = deleted;
    if (clock.now() >= untilMs) throw new TimeOver();
  };
  try {
    const all = await limiter.purgeNamespace(id, { principal, onProgress });
    return { records: all.records, done: true };
  } catch (error) {
    if (!(error instanceof TimeOver)) throw error;
    return { records, done: false };
  }
}

async function found(limiter: Limiter, name: string): Promise<Namespace | undefined> {
  try {
    return await limiter.getNamespace(name);
  } catch (error) {
    if (error instanceof NotFoundError) return undefined;
    throw error;
  }
}

function containing(search: string | undefined): (name: string) => boolean {
  if (search === undefined) return () => true;
  const text = search.toLowerCase();
  return (name) => name.toLowerCase().includes(text);
}

/** So many are read for one answer; where more are to be looked through, it has a cursor and may have no items. */
const SEARCHED_MAX = 10_000;

/** A page of those that are found: as many are read at a time as still fit on it. */
async function searchedPage(
  limiter: Limiter,
  isFound: (name: string) => boolean,
  { limit, cursor }: ReturnType<typeof pageOf>,
) {
  const items: Namespace[] = [];
  let after = cursor;
  let read = 0;
  do {
    const page = await limiter.listNamespaces({
      limit: limit - items.length,
      ...(after === undefined ? {} : { cursor: after }),
    });
    items.push(...page.filter(({ name }) => isFound(name)));
    read += page.length;
    after = page.cursor;
  } while (after !== undefined && items.length < limit && read < SEARCHED_MAX);
  return Object.assign(items, after === undefined ? {} : { cursor: after });
}

/** Of the names of a token, those that exist, in order; the cursor is the last name looked at. */
async function namedPage(limiter: Limiter, names: readonly string[], { limit, cursor }: ReturnType<typeof pageOf>) {
  const left = [...new Set(names)].sort().filter((name) => cursor === undefined || name > cursor);
  const looked = left.slice(0, limit);
  const items = (await Promise.all(looked.map((name) => found(limiter, name)))).filter((one) => one !== undefined);
  return Object.assign(items, left.length > limit ? { cursor: looked.at(-1) as string } : {});
}
