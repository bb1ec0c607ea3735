import { cronOfReset, cronProblem } from "../../domain/limits/reset-names.ts";
import { TZ_DEFAULT } from "../../domain/limits/schedule.ts";
import { given } from "../../domain/names/given.ts";
import type { Limiter } from "../../engine/limiter/limiter.ts";
import { partsOf } from "../../engine/limiter/limiter-parts.ts";
import { pageOf, type Route, route } from "../route.ts";
import {
  ending,
  entityId,
  levelQuery,
  limitsBody,
  listQuery,
  name,
  override,
  page,
  pairQuery,
  resource,
  strictObject,
  told,
  totalsBody,
  totalsQuery,
} from "../schemas/input.ts";
import { answer } from "../schemas/levels.ts";
import * as output from "../schemas/output.ts";
import { z } from "../vendor.ts";
import { defaultsOf, deleteAt, endIn, levelOf, levelsOf, setAt, storedAt, totalOf } from "./levels.ts";

const policyQuery = strictObject({ entityId: entityId.optional(), resource: resource.optional() });

const policy = answer("Policy", {
  access: told(z.enum(["disabled", "bypass", "enforce"]), "Absent: the next scope decides.").optional(),
  accessUntilMs: told(z.int(), "The access ends then by itself, in ms since 1970. Absent: it has no end.").optional(),
  accessThen: told(
    z.enum(["disabled", "bypass", "enforce"]),
    "What counts after that. Absent: the next scope decides.",
  ).optional(),
  cascade: told(z.boolean(), "Absent: the next scope decides.").optional(),
  frozen: output.frozen,
});

export const limitRoutes: readonly Route[] = [
  route("GET limits", "Show the limits of a level", {
    note: "The level follows from the query: entity on resource, entity, plan on resource, plan, resource, or with nothing the system.",
    scope: "read",
    query: levelQuery,
    ok: ["The limits of exactly that level.", output.levelLimits, "ETag"],
    handle: ({ limiter, query }) => storedAt(limiter, levelOf(query)),
  }),
  route("PUT limits", "Set the limits of a level", {
    note: "The level follows from the query, as for reading. The limits replace all that are stored there.",
    scope: "admin",
    query: levelQuery,
    body: limitsBody,
    conditional: true,
    ok: ["The limits now stored, and whether they changed.", output.changedLimits, "ETag"],
    handle: (call) => setAt(call, levelOf(call.query), call.body),
  }),
  route("DELETE limits", "Delete the limits of a level", {
    note: "The level follows from the query, as for reading.",
    scope: "admin",
    query: levelQuery.extend({ override }),
    conditional: true,
    done: ["The limits were deleted."],
    run: (call) => deleteAt(call, levelOf(call.query), call.query.override === "true"),
  }),
  route("GET limits/levels", "Show the limits of all levels", {
    note: "Every level that applies to the entity, the plan and the resource of the query, totals included.",
    scope: "read",
    query: levelQuery,
    ok: ["Most specific first; a level without settings has no limits.", output.levels],
    run: ({ limiter, query }) => levelsOf(limiter, query),
  }),
  route("GET limits/defaults", "List default limits", {
    note: "The limits and totals of the system, then the limits of every resource.",
    scope: "read",
    query: listQuery,
    pages: ["The levels that have limits.", output.levelLimits],
    run: ({ limiter, query }) => defaultsOf(limiter, pageOf(query)),
  }),
  route("GET limits/resets", "Preview a reset", {
    note: "When a quota with such a reset would be full again. Nothing is stored.",
    scope: "read",
    query: strictObject({
      cron: told(z.string().max(256), 'A cron, or "hourly", "daily", "weekly", "monthly", "yearly".'),
      tz: told(z.string().max(64).optional(), "An IANA time zone. Default: UTC."),
    }),
    ok: ["The next resets, or why the reset is invalid.", output.resets],
    run: ({ limiter, query }) => nextResets(limiter, query),
  }),
  route("GET limits/effective", "Show the limits that apply", {
    note: "To an entity on a resource, with the level that they come from.",
    scope: "read",
    query: pairQuery,
    ok: ["The limits in force.", output.effective],
    run: ({ limiter, query }) => limiter.resolveLimits(query.entityId, query.resource),
  }),
  route("GET resources", "List resources with default limits", {
    scope: "read",
    query: listQuery,
    pages: ["Resource names.", output.resourceName],
    run: ({ limiter, query }) => limiter.listResources(pageOf(query)),
  }),
  route("GET access", "Show access and cascading", {
    note: "What is set for exactly this entity, this resource, or both; and whether the namespace is frozen.",
    scope: "read",
    query: policyQuery,
    ok: ["What is set there.", policy],
    run: ({ limiter, query }) => limiter.getPolicy(given(query)),
  }),
  route("PUT access", "Set access", {
    note: "Switches an entity or a resource off, lets it bypass its limits, or takes that back.",
    scope: "admin",
    query: policyQuery,
    body: strictObject({
      access: told(
        z.enum(["disabled", "bypass", "enforce", "inherit"]),
        "disabled: refused. bypass: requests pass and are counted. enforce: the limits apply. inherit: the next scope decides.",
      ),
      ...ending("The access counts"),
    }).openapi({ example: { access: "disabled" } }),
    done: ["The setting is stored.", undefined, "Zael-Changed"],
    handle: async ({ limiter, caller, query, body: { access, ...end } }) =>
      policySet(await limiter.setAccess(given(query), access, { principal: caller.id, ...endIn(end) })),
  }),
  route("PUT cascade", "Set cascading", {
    note: "Whether parents are charged.",
    scope: "admin",
    query: policyQuery,
    body: strictObject({
      cascade: told(
        z.union([z.boolean(), z.literal("inherit")]),
        "Whether parents are charged. inherit: the next scope decides.",
      ),
    }).openapi({ example: { cascade: false } }),
    done: ["The setting is stored.", undefined, "Zael-Changed"],
    handle: async ({ limiter, caller, query, body: { cascade } }) =>
      policySet(await limiter.setCascade(given(query), cascade, { principal: caller.id })),
  }),
];

function policySet(changed: boolean) {
  return { status: 204, headers: { "zael-changed": String(changed) } };
}

/** Limits over all resources together. */
export const totalRoutes: readonly Route[] = [
  route("GET totals", "Show totals", {
    note: "The limits over all resources of an entity, of each entity of a plan, or with nothing in the query of every entity.",
    scope: "read",
    query: totalsQuery,
    ok: ["The totals of exactly that level.", output.levelLimits, "ETag"],
    handle: ({ limiter, query }) => storedAt(limiter, totalOf(query)),
  }),
  route("PUT totals", "Set totals", {
    note: "Of an entity, a plan or every entity, as for reading.",
    scope: "admin",
    query: totalsQuery,
    body: totalsBody,
    conditional: true,
    ok: ["The totals now stored, and whether they changed.", output.changedLimits, "ETag"],
    handle: (call) => setAt(call, totalOf(call.query), call.body),
  }),
  route("DELETE totals", "Delete totals", {
    note: "Of an entity, a plan or every entity, as for reading.",
    scope: "admin",
    query: totalsQuery.extend({ override }),
    conditional: true,
    done: ["The totals were deleted."],
    run: (call) => deleteAt(call, totalOf(call.query), call.query.override === "true"),
  }),
];

/** Questions over all entities of a resource. */
export const acrossRoutes: readonly Route[] = [
  route("GET limits/entities", "List entities with limits on a resource", {
    scope: "read",
    query: strictObject({ resource, ...page }),
    pages: ["Entity ids, sorted.", output.resourceName],
    run: ({ limiter, query }) => limiter.listEntitiesWithLimits(query.resource, pageOf(query)),
  }),
  route("GET limits/resources", "List resources with limits of entities", {
    scope: "read",
    query: listQuery,
    pages: ["Resource names, sorted.", output.resourceName],
    run: ({ limiter, query }) => limiter.listResourcesWithEntityLimits(pageOf(query)),
  }),
  route("GET capacity", "Show the capacity of a resource", {
    note: "What all entities together hold of one limit.",
    scope: "read",
    query: strictObject({ resource, limit: told(name, "The name of a limit.") }),
    ok: ["The total, and each entity.", output.capacity],
    run: ({ limiter, query: { resource, limit } }) => limiter.resourceCapacity(resource, limit),
  }),
];

/** The preview of a reset shows this many instants. */
const RESETS_SHOWN = 3;

/** The next resets. A cron that is not valid is an answer, too: the page asks while it is typed. */
function nextResets(
  limiter: Limiter,
  { cron: asked, tz = TZ_DEFAULT }: { readonly cron: string; readonly tz?: string | undefined },
) {
  const { calendar, clock } = partsOf(limiter).deps;
  const cron = cronOfReset(asked);
  const problem = cronProblem({ cron, tz }, "reset", calendar);
  if (problem !== undefined) return { cron, tz, problem, nextMs: [] };
  const nextMs: number[] = [];
  let atMs = clock.now();
  while (nextMs.length < RESETS_SHOWN) {
    atMs = calendar.nextReset(cron, tz, atMs);
    if (!Number.isFinite(atMs)) break;
    nextMs.push(atMs);
  }
  return { cron, tz, nextMs };
}
