import assert from "node:assert/strict";
import { Ajv2020 } from "ajv/dist/2020.js";
import { openapiDocument } from "../../src/server/openapi.ts";
import { routes } from "../../src/server/routes.ts";
import type { Answered } from "./service-kit.ts";

// Every answer that a test gets is held against the document: its status, its type, its schema.

interface Operation {
  readonly responses: Readonly<
    Record<string, { readonly content?: Readonly<Record<string, { readonly schema: object }>> }>
  >;
}

const document = openapiDocument(routes, "0.0.0") as {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: object;
};
const ajv = new Ajv2020({ strict: false, allErrors: true });
ajv.addSchema({ $id: "doc", components: document.components });

const compiled = new Map<object, ReturnType<typeof ajv.compile>>();

/** Operations of which a granted and of which a refused answer was seen. */
export const seen = new Set<string>();

export function conforms(method: string, path: string, { status, headers, body }: Answered): void {
  const bare = path.split("?")[0] ?? "";
  const [pattern, operations] =
    Object.entries(document.paths).find(([each]) =>
      new RegExp(`^${each.replaceAll(/\{\w+\}/g, "[^/]+").replaceAll(".", "\\.")}$`).test(bare),
    ) ?? [];
  const operation = operations?.[method === "HEAD" ? "get" : method.toLowerCase()];
  if (operation === undefined) {
    // No operation, no schema: what is not in the document is not there, or not by that method.
    if (bare !== "/" && !bare.startsWith("/assets/"))
      assert.ok([404, 405, 204, 403, 421].includes(status), `${method} ${path}: ${status}`);
    return;
  }
  const described = operation.responses[status];
  assert.ok(described !== undefined, `${method} ${pattern} answers ${status}, which the document does not know`);
  if (method === "HEAD") return;
  seen.add(`${method} ${pattern} ${status}`);
  const type = (headers.get("content-type") ?? "").split(";")[0] ?? "";
  if (described.content === undefined) {
    assert.equal(body, "", `${method} ${pattern} ${status} has a body`);
    return;
  }
  const content = described.content[type];
  assert.ok(content !== undefined, `${method} ${pattern} ${status} is ${type}, which the document does not know`);
  let check = compiled.get(content.schema);
  if (check === undefined) {
    const text = JSON.stringify(content.schema).replaceAll('"#/components/', '"doc#/components/');
    check = ajv.compile(JSON.parse(text));
    compiled.set(content.schema, check);
  }
  assert.ok(check(body), `${method} ${pattern} ${status}: ${ajv.errorsText(check.errors)}\n${JSON.stringify(body)}`);
}
