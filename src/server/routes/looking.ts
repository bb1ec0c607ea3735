import { given } from "../../domain/names/given.ts";
import { checkBucketResource, checkEntityId } from "../../domain/names/names.ts";
import type { RefusalRequest } from "../../engine/refusal/refusal-counts.ts";
import { leaveOf } from "../caller.ts";
import { pageOf, type Route, route } from "../route.ts";
import {
  amounts,
  bucketsQuery,
  count,
  entity,
  entityId,
  leavePercent,
  name,
  onResource,
  page,
  pairQuery,
  resource,
  strictObject,
  told,
} from "../schemas/input.ts";
import * as output from "../schemas/output.ts";
import * as refused from "../schemas/refusals.ts";
import { z } from "../vendor.ts";
import { summarized, usageExported } from "./usage.ts";

const instants = count(0, Number.MAX_SAFE_INTEGER).optional();
const range = {
  fromMs: told(instants, "The first window is the one that contains this instant. Default: from the beginning."),
  toMs: told(instants, "Only windows that start before this instant. Default: to the end."),
};
const usage = {
  window: told(z.enum(["hourly", "daily", "monthly"]), "How long each window is (UTC)."),
  entityId: entityId.optional(),
  resource: resource.optional(),
  ...range,
};
const zoned = {
  ...usage,
  tz: told(
    z.string().optional(),
    "A time zone (IANA): daily and monthly windows begin at midnight there. Default: UTC.",
  ),
};

const listed = {
  ...zoned,
  totals: told(
    z.enum(["true", "false"]).optional(),
    'Whether rows of totals over all resources ("*") are among the others. Default: false.',
  ),
};

/** A number is the size of a page, as in every list; the name of a limit begins with a letter. */
const limitOrSize = z
  .union([page.limit.unwrap(), name.regex(/^[^\d]/, "it must be the name of a limit, or a number from 1 to 1000")])
  .optional()
  .openapi({
    type: "string",
    description: "The name of the limit that refused. A number means the same as pageSize, as in other lists.",
  });
const refusalsQuery = strictObject({ ...usage, limit: limitOrSize, pageSize: page.limit, cursor: page.cursor });

function flagOf(text: "true" | "false" | undefined): boolean | undefined {
  return text === undefined ? undefined : text === "true";
}

/** Questions that change nothing. */
export const lookingRoutes: readonly Route[] = [
  route("GET overview", "Show how it is going", {
    note: "Requests of a day, who is refused most, what is nearest to its end, slots, thresholds, shadows, faults of this service.",
    scope: "read",
    ok: ["Worked out at most every 10 s, on DynamoDB every minute.", output.overview],
    run: async ({ limiter, service, namespace }) => ({
      ...(await limiter.overview()),
      degraded: service.faults.of(namespace),
    }),
  }),
  route("GET available", "Show what limits hold", {
    note: "Every limit of the entity, and of the parents that are charged with it.",
    scope: "read",
    query: pairQuery,
    pages: ["The entity first, then its parents.", output.availability],
    run: ({ limiter, query }) => limiter.available(query),
  }),
  route("POST explain", "Explain a request", {
    note: "Which limits apply to an entity on a resource, where they come from, and what a request would get.",
    scope: "read",
    body: strictObject({
      entityId: entity,
      resource: onResource,
      consume: told(amounts, "What the request would take. Default: nothing.").optional(),
      leavePercent: leavePercent.optional(),
      atMs: told(
        z.number(),
        "An instant, in ms since 1970: what applied then, and what it refused in that minute. Default: now.",
      ).optional(),
    }).openapi({ example: { entityId: "key-1", resource: "gpt-4", consume: { rpm: 1 } } }),
    ok: ["The explanation; with atMs that of then.", z.union([output.explanation, refused.pastExplanation])],
    run: ({ limiter, caller, body: { atMs, ...body } }) =>
      atMs === undefined
        ? limiter.explain(given({ ...body, leavePercent: leaveOf(caller, body.leavePercent) }))
        : limiter.explain(given({ ...body, atMs })),
  }),
  route("GET buckets", "List buckets", {
    note: "Buckets that tokens were taken from.",
    scope: "read",
    query: bucketsQuery,
    pages: ["Sorted by entity, then by resource.", output.bucket],
    run: ({ limiter, query: { entityId, resource, ...page } }) =>
      limiter.listBuckets({ ...given({ entityId, resource }), ...pageOf(page) }),
  }),
  route("GET usage", "List usage", {
    note: "Tokens that were used, by window.",
    scope: "read",
    query: strictObject({ ...listed, ...page }),
    pages: ["Oldest first.", output.usage],
    run: ({ limiter, query: { limit, cursor, totals, ...about } }) =>
      limiter.usage({ ...given({ ...about, totals: flagOf(totals) }), ...pageOf({ limit, cursor }) }),
  }),
  route("GET usage/summary", "Sum up usage", {
    note: "As it was charged at every level, and with each request once.",
    scope: "read",
    query: strictObject(zoned),
    ok: ["The sum of all windows.", output.usageSummary],
    run: ({ limiter, query }) => summarized(limiter, given(query)),
  }),
  route("GET usage/totals", "Sum up usage by entity or resource", {
    scope: "read",
    query: strictObject({ ...zoned, by: told(z.enum(["entity", "resource"]), "What to add up by.") }),
    pages: ["Sorted by name.", output.usageTotal],
    run: ({ limiter, query }) => limiter.usageTotals(given(query)),
  }),
  route("GET usage/export", "Export usage", {
    note: "A file of any size: CSV, a JSON object on each line, or one JSON document.",
    scope: "read",
    query: strictObject({
      ...listed,
      format: z
        .enum(["csv", "ndjson", "json"])
        .optional()
        .openapi({ description: "The format of the file.", default: "csv" }),
    }),
    ok: ["Oldest first.", ["text/csv", "application/x-ndjson", "application/json"]],
    handle: (call) => {
      const { totals, ...query } = call.query;
      return usageExported(call, { ...query, totals: flagOf(totals) }, call.request.method === "HEAD");
    },
  }),
  route("GET refusals", "List refusals", {
    note: "How many requests were refused, by window.",
    scope: "read",
    query: refusalsQuery,
    pages: ["Oldest first.", refused.refusalCount],
    run: ({ limiter, query }) => limiter.refusals(refusalRequest(query)),
  }),
  route("GET refusals/log", "List single refusals", {
    note: "Of each entity and hour the first 20 and the last 20 of each process, for 48 hours.",
    scope: "read",
    query: strictObject({
      entityId: entityId.optional(),
      resource: resource.optional(),
      limit: told(name, "The name of the limit that refused.").optional(),
      fromMs: told(instants, "Refusals from this instant on. Default: all that are kept."),
      toMs: told(instants, "Refusals before this instant. Default: to the end."),
      pageSize: page.limit,
      cursor: page.cursor,
    }),
    pages: ["Newest first.", refused.loggedRefusal],
    run: ({ limiter, query }) => limiter.refusalLog(given(query)),
  }),
  route("GET refusals/totals", "Sum up refusals", {
    note: "By entity, by resource or by limit.",
    scope: "read",
    query: strictObject({
      by: told(z.enum(["entity", "resource", "limit"]), "What to add up by."),
      top: count(1, 1000).optional().openapi({ description: "How many to answer.", default: 10 }),
      ...range,
    }),
    pages: ["Most refused first.", refused.refusalTotal],
    run: ({ limiter, query }) => limiter.refusalTotals(given(query)),
  }),
  route("GET audit", "Show the audit trail", {
    note: "Changes of the configuration.",
    scope: "read",
    query: strictObject({ entityId: entityId.optional(), ...page }),
    pages: ["Newest first.", output.auditEvent],
    run: async ({ limiter, query: { entityId, ...page } }) => {
      const { events, cursor } = await limiter.auditEvents({ ...given({ entityId }), ...pageOf(page) });
      return Object.assign([...events], given({ cursor }));
    },
  }),
];

/** The library takes the size of a page under both names, too; here it has a default. */
function refusalRequest({ limit, pageSize, ...about }: z.output<typeof refusalsQuery>): RefusalRequest {
  if (typeof limit === "number") return given({ ...about, limit, pageSize });
  return given({ ...about, limit, pageSize: pageSize ?? 100 });
}

const EVENT_TYPES: readonly string[] = [
  ...["acquired", "refused", "charged", "gave-back", "unavailable", "degraded", "limits-changed", "threshold"],
  ...["lease", "bucket", "requests"],
];

export const eventRoutes: readonly Route[] = [
  route("GET events", "Follow events", {
    note: "Events of the namespace, as they happen.",
    scope: "read",
    query: strictObject({
      types: z
        .string()
        .transform((list) => list.split(","))
        .refine(
          (list) => list.every((type) => EVENT_TYPES.includes(type)),
          `it must be a list of ${EVENT_TYPES.join(", ")}`,
        )
        .optional()
        .openapi({
          type: "string",
          description: `Only these types, separated by commas: ${EVENT_TYPES.join(", ")}. Default: all but requests.`,
        }),
      entityId: entityId.optional(),
      resource: resource.optional(),
    }),
    ok: ["Server-sent events.", "text/event-stream"],
    handle: async ({ service, limiter, namespace, caller, query, request, cutOff }) => {
      const headers = { "content-type": "text/event-stream", "x-accel-buffering": "no" };
      // A missing namespace is an error now: once the stream has begun, it can no longer be one.
      await limiter.getNamespace(namespace);
      if (request.method === "HEAD") return { status: 200, headers };
      const { entityId, resource, types } = query;
      // A stream for a name that cannot exist would stay silent for ever.
      if (entityId !== undefined) checkEntityId(entityId);
      if (resource !== undefined) checkBucketResource(resource);
      const stream = service.feeds.open({
        namespace,
        filter: { entityId, resource, types: types === undefined ? undefined : new Set(types) },
        token: caller.token,
        lastEventId: request.headers.get("last-event-id"),
        cutOff,
      });
      return { status: 200, stream, headers };
    },
  }),
];
