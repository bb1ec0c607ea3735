import { PHRASES } from "./problem.ts";
import type { Described, Route } from "./route.ts";
import * as output from "./schemas/output.ts";
import { OpenAPIHono, z } from "./vendor.ts";

/** Refusals that every route may answer with. */
const EVERYWHERE = [400, 403, 421, 500, 503] as const;

const HEADERS: Readonly<Record<string, string>> = {
  Location: "The URL of the created resource.",
  "RateLimit-Policy": "The limits that counted the request.",
  RateLimit: "What is left of each limit.",
  "Retry-After": "Seconds until the request may fit; absent if it never will.",
  ETag: "The stored version; send it in If-Match to change only that version.",
  "Zael-Changed": "true: it was another before; false: nothing has changed.",
  "Idempotency-Replayed": "true: this is the response to an earlier request with the same key.",
};

/** OpenAPI 3.1 of the routes, from the schemas that check their input. */
export function openapiDocument(routes: readonly Route[], version: string): object {
  const app = new OpenAPIHono();
  const { openAPIRegistry: registry } = app;
  registry.registerComponent("securitySchemes", "token", { type: "http", scheme: "bearer" });
  for (const route of routes) registry.registerPath(pathOf(route));
  return app.getOpenAPI31Document({
    openapi: "3.1.0",
    info: {
      title: "zae-limiter",
      version,
      description: "Rate limits over HTTP. Amounts are whole tokens, times are milliseconds, names are camelCase.",
      license: { name: "MIT" },
    },
    servers: [{ url: "/" }],
  });
}

type Registered = Parameters<OpenAPIHono["openAPIRegistry"]["registerPath"]>[0];

function pathOf(route: Route): Registered {
  const { method, path, summary, scope, query, body, answers, idempotent, conditional } = route;
  const names = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name as string);
  const params = z.object(Object.fromEntries(names.map((name) => [name, z.string()])));
  const headers = z.object({
    ...(idempotent === undefined ? {} : KEY_HEADER),
    ...(conditional === undefined ? {} : CONDITION_HEADERS),
  });
  return {
    method,
    path,
    summary,
    operationId: operationId(method, path),
    description: [route.note, scope === undefined ? "No token is needed." : scopeText(route)].filter(Boolean).join(" "),
    ...(scope === undefined ? {} : { security: [{ token: [] }] }),
    request: {
      ...(names.length === 0 ? {} : { params }),
      ...(query === undefined ? {} : { query }),
      ...(idempotent === undefined && conditional === undefined ? {} : { headers }),
      ...(body === undefined ? {} : { body: { required: true, content: { "application/json": { schema: body } } } }),
    },
    responses: { ...granted(answers), ...refused(route) },
  };
}

const KEY_HEADER = {
  "idempotency-key": z.string().optional().openapi({
    description:
      "A key of the request, 1 to 64 of A-Za-z0-9._:-, or a quoted string. A repeat with the same key gets the first answer.",
  }),
};

const CONDITION_HEADERS = {
  "if-match": z.string().optional().openapi({
    description:
      "Changes only what has this ETag; *: only if something is stored. Otherwise 412, and nothing is changed.",
  }),
  "if-none-match": z
    .string()
    .optional()
    .openapi({ description: "*: changes only if nothing is stored. Otherwise 412, and nothing is changed." }),
};

function granted(answers: Readonly<Record<number, Described>>): Registered["responses"] {
  const responses = Object.entries(answers).map(([status, { description, schema, type, headers = [] }]) => {
    const content =
      schema !== undefined
        ? { "application/json": { schema } }
        : type === undefined
          ? undefined
          : Object.fromEntries([type].flat().map((each) => [each, { schema: textOf(each) }]));
    return [status, { description, ...headerPart(headers), ...(content === undefined ? {} : { content }) }];
  });
  return Object.fromEntries(responses);
}

/** A file may be JSON, too, of whatever shape. */
function textOf(type: string): z.ZodType {
  return type === "application/json" ? z.looseObject({}) : z.string();
}

function refused(route: Route): Registered["responses"] {
  const { scope, path, body, method, conditional } = route;
  const statuses = new Set<number>([...EVERYWHERE, ...(route.refusals ?? [])]);
  if (scope !== undefined) statuses.add(401);
  if (path.includes("{")) statuses.add(404);
  if (method !== "get") for (const status of [409, 413, 415]) statuses.add(status);
  if (body !== undefined) statuses.add(404);
  if (conditional !== undefined) statuses.add(412);
  const content = { "application/problem+json": { schema: output.problem } };
  return Object.fromEntries(
    [...statuses].map((status) => {
      const headers = status === 429 ? headerPart(["RateLimit-Policy", "RateLimit", "Retry-After"]) : {};
      return [status, { description: PHRASES[status] ?? "Too Many Requests", content, ...headers }];
    }),
  );
}

function headerPart(names: readonly string[]) {
  if (names.length === 0) return {};
  const each = names.map((name) => [name, { description: HEADERS[name] ?? "", schema: { type: "string" as const } }]);
  return { headers: Object.fromEntries(each) };
}

function scopeText({ scope, everywhere }: Route): string {
  if (scope === "any") return "Any token.";
  return `Scope: ${scope}${everywhere === undefined ? "" : ', namespaces "*"'}.`;
}

function operationId(method: string, path: string): string {
  const words = path
    .replace("/v1/", "/")
    .split(/[^a-zA-Z]+/)
    .filter((word) => word !== "");
  return [method, ...words].map((word, i) => (i === 0 ? word : word.charAt(0).toUpperCase() + word.slice(1))).join("");
}
