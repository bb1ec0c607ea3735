import { openapiDocument } from "../../src/server/openapi.ts";
import { PROBLEM_STATUSES } from "../../src/server/problem.ts";
import type { Route } from "../../src/server/route.ts";
import { routes } from "../../src/server/routes.ts";
import { commentOf } from "./comments.ts";
import { GROUPS, MEANINGS } from "./http-groups.ts";
import { type Field, fieldsOf, linkedType, type Schema } from "./json-schema.ts";
import { memberTexts } from "./library.ts";
import { cell, code, fenced, table } from "./markdown.ts";

interface Parameter {
  readonly name: string;
  readonly in: "path" | "query" | "header";
  readonly required?: boolean;
  readonly description?: string;
  readonly schema: Schema;
}

interface Response {
  readonly description: string;
  readonly headers?: Readonly<Record<string, unknown>>;
  readonly content?: Readonly<Record<string, { readonly schema: Schema }>>;
}

interface Operation {
  readonly parameters?: readonly Parameter[];
  readonly requestBody?: { readonly content: Readonly<Record<string, { readonly schema: Schema }>> };
  readonly responses: Readonly<Record<string, Response>>;
}

interface OpenApi {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: { readonly schemas: Readonly<Record<string, Schema>> };
}

/** The bodies that the reference shows, each with the route that takes it. */
export function bodyExamples(): readonly { readonly route: Route; readonly example: unknown }[] {
  const { paths, components } = documentOf();
  return routes.flatMap((route) => {
    const schema = paths[route.path]?.[route.method]?.requestBody?.content["application/json"]?.schema;
    const example = schema === undefined ? undefined : resolved(schema, components.schemas).example;
    return example === undefined ? [] : [{ route, example }];
  });
}

/** docs/reference/http.md, from the schemas that check what the service is sent. */
export function httpReference(): string {
  const { paths, components } = documentOf();
  const missing: string[] = [];
  const meaning = meaningsIn(missing);
  const parts = [HEAD, "## Routes at a glance", overview()];
  for (const { title, of } of GROUPS) {
    parts.push(`## ${title}`);
    for (const route of of)
      parts.push(...routeText(route, paths[route.path]?.[route.method] as Operation, components.schemas, missing));
  }
  parts.push(
    "## Error codes",
    ERRORS,
    problemTable(),
    "## Schemas",
    "The objects in bodies and answers. A `?` marks a field that may be absent.",
  );
  for (const [name, schema] of Object.entries(components.schemas)) parts.push(...schemaText(name, schema, meaning));
  if (missing.length > 0) throw new Error(`Describe these in src/server/schemas:\n${missing.join("\n")}`);
  const listed = GROUPS.flatMap(({ of }) => of);
  if (listed.length !== routes.length || routes.some((route) => !listed.includes(route))) {
    throw new Error("scripts/reference/http-groups.ts has other routes than the service.");
  }
  return `${parts.join("\n\n")}\n`;
}

function documentOf(): OpenApi {
  return openapiDocument(routes, "0") as OpenApi;
}

function resolved(schema: Schema, all: Readonly<Record<string, Schema>>): Schema {
  return all[schema.$ref?.split("/").at(-1) ?? ""] ?? schema;
}

function overview(): string {
  const rows = routes.map(({ method, path, summary, scope }) => [
    code(`${method.toUpperCase()} ${path}`),
    `[${summary}](#${anchor(summary)})`,
    scope === undefined ? "no token" : scope === "any" ? "any token" : code(scope),
  ]);
  return table(["route", "what it does", "scope"], rows);
}

function routeText(
  route: Route,
  operation: Operation,
  all: Readonly<Record<string, Schema>>,
  missing: string[],
): readonly string[] {
  const { method, path, summary, note } = route;
  const parts = [
    `### ${summary}`,
    fenced("http", `${method.toUpperCase()} ${path}`),
    `${note === undefined ? "" : `${note} `}${scopeText(route)}`,
  ];
  const parameters = (operation.parameters ?? []).filter((each) => each.in !== "path");
  if (parameters.length > 0) {
    const rows = parameters.map(({ name, in: place, required = false, description = "", schema }) => {
      if (description === "") missing.push(`${method} ${path}: ${name}`);
      return [
        code(name),
        place,
        linkedType(schema),
        ...optionCells({ name, schema, isRequired: required, description }),
      ];
    });
    parts.push(table(["parameter", "in", "type", "default", "meaning"], rows));
  }
  const body = operation.requestBody?.content["application/json"]?.schema;
  if (body !== undefined) {
    const schema = resolved(body, all);
    const rows = fieldsOf(schema).map((field) => {
      if (field.description === "" && !field.name.includes(".")) missing.push(`${method} ${path}: ${field.name}`);
      return [code(field.name), linkedType(field.schema), ...optionCells(field)];
    });
    parts.push(table(["field of the body", "type", "default", "meaning"], rows));
    if (schema.example !== undefined) parts.push(fenced("json", spaced(schema.example)));
  }
  const { granted, refused } = split(operation.responses);
  parts.push(
    table(
      ["status", "answer", "meaning"],
      granted.map(([status, answer]) => [status, answerType(answer), answerMeaning(answer)]),
    ),
  );
  parts.push(`[Errors](#error-codes): ${refused.map(([status]) => status).join(", ")}.`);
  return parts;
}

function optionCells({ schema, isRequired, description }: Field): readonly [string, string] {
  const { text, fallback } = commentOf(description);
  const stated = schema.default === undefined ? fallback : JSON.stringify(schema.default);
  return [cell(isRequired ? "required" : (stated ?? "none")), cell(text)];
}

function scopeText({ scope, everywhere }: Route): string {
  if (scope === undefined) return "It needs no token.";
  if (scope === "any") return "It needs a token of any scope.";
  return `It needs the scope ${code(scope)}${everywhere === undefined ? "" : ' and a token for all namespaces (`"*"`)'}.`;
}

function split(responses: Readonly<Record<string, Response>>) {
  const all = Object.entries(responses).sort(([one], [other]) => Number(one) - Number(other));
  return {
    granted: all.filter(([status]) => Number(status) < 400),
    refused: all.filter(([status]) => Number(status) >= 400),
  };
}

function answerType({ content = {} }: Response): string {
  const types = Object.keys(content);
  const schema = content["application/json"]?.schema;
  if (types.length === 1 && schema !== undefined) return listItem(schema);
  return types.map(code).join(", ") || "nothing";
}

/** A page of a list has the same shape everywhere. */
function listItem(schema: Schema): string {
  const item = schema.properties?.items?.items;
  if (item === undefined || schema.properties?.cursor === undefined) return linkedType(schema);
  return `a list of ${linkedType(item)}`;
}

function answerMeaning({ description, headers = {} }: Response): string {
  const names = Object.keys(headers);
  return cell(`${description}${names.length === 0 ? "" : ` Headers: ${names.map(code).join(", ")}.`}`);
}

function problemTable(): string {
  const rows = Object.entries(PROBLEM_STATUSES).map(([name, status]) => [code(name), String(status)]);
  return table(["code", "status"], rows);
}

function schemaText(name: string, schema: Schema, meaning: (of: string, field: Field) => string): readonly string[] {
  const parts = [`### ${name}`, ...(schema.description === undefined ? [] : [schema.description])];
  const forms = schema.anyOf ?? [schema];
  for (const form of forms) {
    const fields = fieldsOf(form);
    if (fields.length === 0) parts.push(`${forms.length > 1 ? "Or: " : "Type: "}${linkedType(form)}.`);
    else
      parts.push(
        table(
          ["field", "type", "meaning"],
          fields.map((field) => [
            code(`${field.name}${field.isRequired ? "" : "?"}`),
            linkedType(field.schema),
            cell(meaning(name, field)),
          ]),
        ),
      );
  }
  return parts;
}

/** What a field of a schema means: its own description, or that of the library's type that it shows. */
function meaningsIn(missing: string[]): (of: string, field: Field) => string {
  const texts = memberTexts();
  return (of, { name, description }) => {
    if (description !== "" && !GENERIC.has(description)) return description;
    for (const [prefix, type] of MEANINGS[of] ?? [["", of]]) {
      if (!name.startsWith(prefix)) continue;
      const found = texts.get(type)?.get(name.slice(prefix.length));
      if (found !== undefined) return found;
    }
    if (description === "") missing.push(`${of}.${name}`);
    return description;
  };
}

/** Descriptions that say of what kind a number is, and not what it means. */
const GENERIC: ReadonlySet<string> = new Set([
  "In ms since 1970.",
  "Milliseconds; null: never.",
  "Whole tokens by measure; in a top-up, by limit.",
]);

/** JSON on one line, with room to read it. */
function spaced(value: unknown): string {
  return JSON.stringify(value, null, 1).replace(/\n\s*/g, " ").replaceAll("[ ", "[").replaceAll(" ]", "]");
}

function anchor(heading: string): string {
  return heading.toLowerCase().replaceAll(" ", "-");
}

const HEAD = `# HTTP

The routes of the service (\`zae-limiter serve\`, or \`createService\` of [\`zae-limiter/server\`](library-server.md)). This page is made from
the service's own schemas by \`node scripts/http-reference.ts\`; a running service has them as an OpenAPI document at \`/openapi.json\`.

- A token goes into the header \`Authorization: Bearer TOKEN\`. Its scopes (\`acquire\`, \`read\`, \`admin\`, \`refund\`) do not include each other.
- \`{namespace}\` in a path is the name of a namespace, \`{id}\` the id of a lease, an entity, a plan or a deleted namespace. Encode both for URLs.
- Bodies and answers are JSON. Tokens are whole numbers, times are milliseconds, \`null\` in place of a wait means never.
- A field or parameter that the service does not know is refused with 400.
- A list is \`{ "items": [...], "cursor": "..." }\`. Pass the \`cursor\` on for the next page; the last page has none.
- [Metrics](metrics.md) lists the metrics of the route \`/metrics\`.
- An error is a problem (RFC 9457) with the type \`application/problem+json\` and the shape [\`Problem\`](#problem).`;

const ERRORS = `Errors of the library keep their code and have the status of their class ([Errors](errors.md)). A status of 503 has the header
\`Retry-After\`. The service itself refuses with these codes; [Errors](errors.md#the-http-service) has their meanings:`;
