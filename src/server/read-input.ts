import { faultsIn } from "./input-words.ts";
import { Problem } from "./problem.ts";
import type { z } from "./vendor.ts";

/** The query, checked: unknown names, and names given twice, are refused. */
export function readQuery(url: string, schema: z.ZodObject | undefined): unknown {
  const mark = url.indexOf("?");
  if (mark < 0 && schema === undefined) return undefined;
  const given = new Map<string, string>();
  for (const [name, value] of mark < 0 ? [] : new URLSearchParams(url.slice(mark + 1).split("#", 1)[0])) {
    if (given.has(name)) throw invalid([{ pointer: `?${name}`, detail: "it is given twice" }]);
    given.set(name, value);
  }
  if (schema === undefined) {
    const [name] = given.keys();
    if (name === undefined) return undefined;
    throw invalid([{ pointer: `?${name}`, detail: "this route takes no query" }]);
  }
  return checked(schema, Object.fromEntries(given), (path) => `?${path.join("/")}`);
}

/** The text of a body; undefined where there is none and none is wanted. */
export function readBody(
  request: Request,
  schema: z.ZodObject | undefined,
  bytesMax: number,
  isFetch: boolean,
): Promise<string> | undefined {
  const { headers } = request;
  const length = headers.get("content-length");
  const hasBody =
    length === null ? headers.has("transfer-encoding") || (isFetch && request.body !== null) : length !== "0";
  if (!hasBody) {
    if (schema === undefined) return undefined;
    throw new Problem("body_invalid", "The body is empty; send a JSON object.");
  }
  requireJson(headers.get("content-type"));
  if (length !== null && Number(length) > bytesMax) throw tooLarge(bytesMax);
  // With a length the server counts; without one we do.
  if (length === null) return boundedText(request, bytesMax);
  return isFetch ? countedText(request, bytesMax) : request.text();
}

/** The JSON object of a body, checked. */
export function parseBody(text: string, schema: z.ZodObject | undefined): unknown {
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch (error) {
    throw new Problem("body_invalid", `The body is not JSON: ${(error as Error).message}.`);
  }
  if (typeof body !== "object" || body === null || Array.isArray(body)) {
    throw new Problem("body_invalid", "The body is JSON, but not an object; send { ... }.");
  }
  // Such a key would be dropped on the way, and no limit or field has it.
  if (text.includes("__proto__")) throw new Problem("body_invalid", 'The body has the key "__proto__"; remove it.');
  if (schema === undefined) {
    const [name] = Object.keys(body);
    if (name === undefined) return undefined;
    throw invalid([{ pointer: `/${name}`, detail: "this route takes no body" }]);
  }
  return checked(schema, body, (path) => `/${path.map(escaped).join("/")}`);
}

function checked(schema: z.ZodObject, value: object, pointerOf: (path: readonly PropertyKey[]) => string): unknown {
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  const faults = faultsIn(result.error.issues, schema, value).slice(0, ERRORS_MAX);
  throw invalid(faults.map(({ path, detail }) => ({ pointer: pointerOf(path), detail })));
}

/** A body can be wrong in thousands of places; some of them say enough. */
const ERRORS_MAX = 20;

/** Input of the right form with a value that this service does not take. */
export function invalid(errors: readonly { readonly pointer: string; readonly detail: string }[]): Problem {
  const [first] = errors;
  const sentence = `${first?.pointer}: ${first?.detail}`;
  const more = errors.length > 1 ? ` And ${errors.length - 1} more.` : "";
  return new Problem("request_invalid", `${sentence}${sentence.endsWith("?") ? "" : "."}${more}`, {
    members: { errors },
  });
}

function escaped(key: PropertyKey): string {
  return String(key).replaceAll("~", "~0").replaceAll("/", "~1");
}

function requireJson(type: string | null): void {
  const media = type?.split(";", 1)[0]?.trim().toLowerCase();
  if (media === "application/json") return;
  throw new Problem("content_type_unsupported", "Bodies are JSON; send Content-Type: application/json.");
}

/** What another program received may be longer than it says. */
async function countedText(request: Request, bytesMax: number): Promise<string> {
  const text = await request.text();
  if (text.length > bytesMax) throw tooLarge(bytesMax);
  return text;
}

async function boundedText(request: Request, bytesMax: number): Promise<string> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of request.body ?? []) {
    bytes += chunk.length;
    if (bytes > bytesMax) throw tooLarge(bytesMax);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString();
}

function tooLarge(bytesMax: number): Problem {
  return new Problem("body_too_large", `The body has more than ${bytesMax} bytes, the maximum of this service.`, {
    // What is still on its way is not read.
    headers: { connection: "close" },
  });
}
