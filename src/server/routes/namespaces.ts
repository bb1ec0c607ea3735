import type { Namespace } from "../../domain/config/namespace.ts";
import { NotFoundError } from "../../domain/names/errors.ts";
import { given } from "../../domain/names/given.ts";
import type { Limiter } from "../../engine/limiter/limiter.ts";
import { partsOf } from "../../engine/limiter/limiter-parts.ts";
import { withFrozen } from "../../engine/limiter/namespaces.ts";
import { type Call, NS, pageOf, type Route, route } from "../route.ts";
import { listQuery, name, page, strictObject, told } from "../schemas/input.ts";
import { answer } from "../schemas/levels.ts";
import * as output from "../schemas/output.ts";
import { z } from "../vendor.ts";

/** One call of purge works for at most this time. */
const PURGE_MS = 20_000;

const frozenChange = answer("FrozenChange", {
  name: told(z.string(), "The namespace."),
  frozen: told(z.boolean(), "Whether it is frozen now."),
  changed: told(z.boolean(), "Whether this call changed anything."),
});

export const namespaceRoutes: readonly Route[] = [
  route("GET /v1/namespaces", "List namespaces", {
    note: "Only namespaces that the token may use.",
    scope: "read",
    query: strictObject({
      name: told(name.optional(), "Only the one of exactly this name, if there is one."),
      search: told(name.optional(), "Only those whose name contains this text, in upper or lower case."),
      frozen: told(z.enum(["true", "false"]), "true: also whether each is frozen, one read more for each.").optional(),
      ...page,
    }),
    pages: ["The active namespaces.", output.namespaceShown],
    run: async ({ limiter, caller: { namespaces }, query: { name, search, frozen, ...rest } }) => {
      const page = pageOf(rest);
      if (name !== undefined)
        return namespaces === "*" || namespaces.includes(name) ? namedPage(limiter, [name], page) : [];
      const isFound = containing(search);
      if (namespaces !== "*") return namedPage(limiter, namespaces.filter(isFound), page);
      const found = await searchedPage(limiter, isFound, page);
      if (frozen !== "true") return found;
      const shown = await Promise.all(found.map((each) => withFrozen(partsOf(limiter), each)));
      return Object.assign(shown, given({ cursor: found.cursor }));
    },
  }),
  route(`GET ${NS}`, "Show a namespace", {
    note: "And whether it is frozen.",
    scope: "read",
    ok: ["The namespace.", output.namespaceShown],
    run: ({ limiter, namespace }) => limiter.getNamespace(namespace),
  }),
  route("POST /v1/namespaces", "Create a namespace", {
    note: "A namespace of that name that exists is answered as it is.",
    scope: "admin",
    everywhere: true,
    body: strictObject({ name: told(name, "Its name.") }).openapi({ example: { name: "team-a" } }),
    ok: ["The namespace existed.", output.namespace],
    created: ["The namespace was created.", output.namespace],
    handle: async ({ limiter, caller, body: { name } }) => {
      const before = await findNamespace(limiter, name);
      const namespace = before ?? (await limiter.registerNamespace(name, { principal: caller.id }));
      return { status: before === undefined ? 201 : 200, body: namespace };
    },
  }),
  route(`DELETE ${NS}`, "Delete a namespace", {
    note: "Its data stays, and it can be recovered until it is purged.",
    scope: "admin",
    everywhere: true,
    ok: ["The namespace was deleted; its data stays.", output.namespace],
    run: async ({ service, caller, namespace }) => {
      const deleted = await service.limiter.deleteNamespace(namespace, { principal: caller.id });
      service.tenants.lost(service.tenants.get(namespace));
      return deleted;
    },
  }),
  route("POST freeze", "Freeze the namespace", {
    note:
      "Takes, top-ups and resets are refused with 403 `namespace_frozen`, whatever access is set. Leases are settled and rolled back, questions " +
      "are answered, limits can be changed. Other instances know it with their next request; on DynamoDB within their configTtlMs.",
    scope: "admin",
    body: strictObject({
      reason: told(z.string(), "Why, in at most 256 characters; those who are refused are told.").optional(),
    }).openapi({ example: { reason: "moving to another store" } }),
    ok: ["The namespace is frozen.", frozenChange],
    run: async ({ limiter, caller, namespace, body: { reason } }) => ({
      ...{ name: namespace, frozen: true },
      changed: await limiter.freezeNamespace(namespace, given({ reason, principal: caller.id })),
    }),
  }),
  route("POST unfreeze", "Unfreeze the namespace", {
    scope: "admin",
    ok: ["The namespace is not frozen.", frozenChange],
    run: async ({ limiter, caller, namespace }) => ({
      ...{ name: namespace, frozen: false },
      changed: await limiter.unfreezeNamespace(namespace, given({ principal: caller.id })),
    }),
  }),
  route("GET /v1/orphans", "List deleted namespaces", {
    note: "Those whose data is still stored.",
    scope: "admin",
    everywhere: true,
    query: listQuery,
    pages: ["Namespaces that can be recovered or purged.", output.namespace],
    run: ({ limiter, query }) => limiter.listOrphanNamespaces(pageOf(query)),
  }),
  route("POST /v1/orphans/{id}/recover", "Recover a deleted namespace", {
    scope: "admin",
    everywhere: true,
    ok: ["The namespace is active again.", output.namespace],
    run: ({ limiter, caller, id }) => limiter.recoverNamespace(id, { principal: caller.id }),
  }),
  route("POST /v1/orphans/{id}/purge", "Purge a deleted namespace", {
    note: "Removes its data for good. Call it again until `done` is true.",
    scope: "admin",
    everywhere: true,
    ok: ["How much this call deleted.", output.purged],
    run: (call) => {
      call.extend(PURGE_MS);
      return purge(call);
    },
  }),
];

class TimeOver extends Error {}

/** Purges until the time is over; the next call goes on. */
async function purge({ limiter, caller, id, service: { clock } }: Call<unknown, unknown>) {
  const untilMs = clock.now() + PURGE_MS;
  let records = 0;
  const onProgress = (deleted: number) => {
    records = deleted;
    if (clock.now() >= untilMs) throw new TimeOver();
  };
  try {
    const all = await limiter.purgeNamespace(id, { principal: caller.id, onProgress });
    return { records: all.records, done: true };
  } catch (error) {
    if (!(error instanceof TimeOver)) throw error;
    return { records, done: false };
  }
}

async function findNamespace(limiter: Limiter, name: string): Promise<Namespace | undefined> {
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

/** One answer reads at most this many namespaces; an answer with a cursor may have no items. */
const SEARCHED_MAX = 10_000;

/** A page of the namespaces that match: each read asks for as many as still fit on it. */
async function searchedPage(
  limiter: Limiter,
  isFound: (name: string) => boolean,
  { limit, cursor }: ReturnType<typeof pageOf>,
) {
  const items: Namespace[] = [];
  let after = cursor;
  let read = 0;
  do {
    const page = await limiter.listNamespaces({ limit: limit - items.length, ...given({ cursor: after }) });
    items.push(...page.filter(({ name }) => isFound(name)));
    read += page.length;
    after = page.cursor;
  } while (after !== undefined && items.length < limit && read < SEARCHED_MAX);
  return Object.assign(items, given({ cursor: after }));
}

/** A page of the names of a token that exist, in order; the cursor is the last name looked at. */
async function namedPage(limiter: Limiter, names: readonly string[], { limit, cursor }: ReturnType<typeof pageOf>) {
  const left = [...new Set(names)].sort().filter((name) => cursor === undefined || name > cursor);
  const looked = left.slice(0, limit);
  const items = (await Promise.all(looked.map((name) => findNamespace(limiter, name)))).filter(
    (one) => one !== undefined,
  );
  return Object.assign(items, left.length > limit ? { cursor: looked.at(-1) as string } : {});
}
