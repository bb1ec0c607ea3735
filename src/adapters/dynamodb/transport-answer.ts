import { crc32 } from "node:zlib";
import type { DynamoAnswer, DynamoCall } from "./client.ts";

/** What an HTTP answer that arrived whole has to say. */
interface HttpAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly bytes: Buffer;
}

/** Reads an answer. One that was damaged on the way, or that nobody at DynamoDB wrote, tells nothing: it is lost. */
export function readAnswer({ status, headers, bytes }: HttpAnswer, readItem: DynamoCall["readItem"]): DynamoAnswer {
  const crc = headers["x-amz-crc32"];
  if (crc !== undefined && Number(crc) !== crc32(bytes)) {
    return lost(status, `its checksum should be ${crc} and is ${crc32(bytes)}`);
  }
  const text = bytes.toString("utf8");
  const item = status === 200 ? readItem?.(text) : undefined;
  if (item !== undefined) return { kind: "answered", body: NOTHING, item };
  const body = parsed(text);
  if (status === 200)
    return body === undefined ? lost(status, "its body is not a JSON object") : { kind: "answered", body };
  const code = codeOf(body?.__type ?? headers["x-amzn-errortype"]);
  // A gateway on the way may say 502 or 504 long after it passed the request on.
  if (code === undefined && status >= 500) return lost(status, "it names no exception of DynamoDB");
  return {
    kind: "failed",
    status,
    code: code ?? `Http${status}`,
    message: String(body?.message ?? body?.Message ?? ""),
    body: body ?? {},
  };
}

const NOTHING = Object.freeze({});

function parsed(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : undefined;
  } catch {
    return undefined;
  }
}

/** `com.amazonaws.dynamodb.v20120810#ThrottlingException:http://...` is ThrottlingException. */
function codeOf(type: unknown): string | undefined {
  if (typeof type !== "string") return undefined;
  const code = type.slice(type.indexOf("#") + 1).split(":", 1)[0];
  return code === "" ? undefined : code;
}

function lost(status: number, why: string): DynamoAnswer {
  return { kind: "lost", cause: new Error(`The response with HTTP status ${status} is invalid: ${why}.`) };
}
