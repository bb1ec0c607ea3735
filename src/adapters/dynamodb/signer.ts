import { createHmac, hash } from "node:crypto";
import type { DynamoOperation } from "./client.ts";
import type { Credentials } from "./credentials.ts";
import type { Endpoint } from "./endpoint.ts";

interface Signable {
  readonly operation: DynamoOperation;
  readonly body: string | Uint8Array;
  readonly credentials: Credentials;
  /** The server refuses a time more than five minutes from its own. */
  readonly nowMs: number;
}

/**
 * Signature Version 4 for POSTs of DynamoDB's JSON 1.0 only: no query, always the same headers, so that a call costs
 * three hashes and some concatenation. DynamoDB does not need x-amz-content-sha256.
 */
export class Signer {
  readonly #head: string;
  readonly #region: string;
  #key: DayKey | undefined;
  #second: Second = { atSecond: Number.NaN, text: "", day: "" };

  constructor({ host, path, signingRegion }: Endpoint) {
    this.#head = `POST\n${canonicalPath(path)}\n\ncontent-type:${CONTENT_TYPE}\nhost:${host}\nx-amz-date:`;
    this.#region = signingRegion;
  }

  /** All headers except `host` and `content-length`: names and values alternate. */
  headers({ operation, body, credentials, nowMs }: Signable): string[] {
    const { text: date, day } = this.#secondOf(nowMs);
    const { mac, scope, credential, token, signed } = this.#keyOf(credentials, day);
    const target = `${API}.${operation}`;
    const request = `${this.#head}${date}\n${token}x-amz-target:${target}\n\n${signed}\n${hash("sha256", body, "hex")}`;
    const signature = mac.hex(`${ALGORITHM}\n${date}\n${scope}\n${hash("sha256", request, "hex")}`);
    const authorization = `${credential}${signature}`;
    const headers = [
      "content-type",
      CONTENT_TYPE,
      "x-amz-date",
      date,
      "x-amz-target",
      target,
      "authorization",
      authorization,
    ];
    if (credentials.sessionToken !== undefined) headers.push("x-amz-security-token", credentials.sessionToken);
    return headers;
  }

  #secondOf(nowMs: number): Second {
    const atSecond = Math.floor(nowMs / 1000);
    if (this.#second.atSecond !== atSecond) {
      const text = new Date(nowMs).toISOString().replace(/[-:]|\.\d{3}/g, "");
      this.#second = { atSecond, text, day: text.slice(0, 8) };
    }
    return this.#second;
  }

  #keyOf(credentials: Credentials, day: string): DayKey {
    // Compared by identity: credentials are replaced, never changed.
    if (this.#key?.credentials !== credentials || this.#key.day !== day) {
      const scope = `${day}/${this.#region}/dynamodb/aws4_request`;
      const key = [day, this.#region, "dynamodb", "aws4_request"].reduce<string | Buffer>(
        (secret, part) => createHmac("sha256", secret).update(part).digest(),
        `AWS4${credentials.secretAccessKey}`,
      );
      const { accessKeyId, sessionToken } = credentials;
      const signed = sessionToken === undefined ? SIGNED : SIGNED_WITH_TOKEN;
      this.#key = {
        credentials,
        day,
        scope,
        mac: new Mac(key as Buffer),
        signed,
        token: sessionToken === undefined ? "" : `x-amz-security-token:${canonicalValue(sessionToken)}\n`,
        credential: `${ALGORITHM} Credential=${accessKeyId}/${scope}, SignedHeaders=${signed}, Signature=`,
      };
    }
    return this.#key;
  }
}

/**
 * HMAC-SHA-256 with one key, for short ASCII texts: two hashes over reused memory, at half the cost of the platform's
 * own, which allocates outside of the heap for each text.
 */
class Mac {
  #inner: Buffer;
  readonly #outer = Buffer.alloc(BLOCK_BYTES + DIGEST_BYTES);

  constructor(key: Buffer) {
    this.#inner = Buffer.alloc(BLOCK_BYTES);
    for (let i = 0; i < BLOCK_BYTES; i++) {
      const byte = key[i] ?? 0;
      this.#inner[i] = byte ^ 0x36;
      this.#outer[i] = byte ^ 0x5c;
    }
  }

  hex(text: string): string {
    // All texts of a day have the same length.
    if (this.#inner.length !== BLOCK_BYTES + text.length) {
      this.#inner = Buffer.concat([this.#inner.subarray(0, BLOCK_BYTES)], BLOCK_BYTES + text.length);
    }
    this.#inner.write(text, BLOCK_BYTES, "latin1");
    this.#outer.write(hash("sha256", this.#inner, "binary"), BLOCK_BYTES, "latin1");
    return hash("sha256", this.#outer, "hex");
  }
}

const BLOCK_BYTES = 64;
const DIGEST_BYTES = 32;
const ALGORITHM = "AWS4-HMAC-SHA256";
const API = "DynamoDB_20120810";
const CONTENT_TYPE = "application/x-amz-json-1.0";
const SIGNED = "content-type;host;x-amz-date;x-amz-target";
const SIGNED_WITH_TOKEN = "content-type;host;x-amz-date;x-amz-security-token;x-amz-target";

/** Values that are constant for the calls of a day. */
interface DayKey {
  readonly credentials: Credentials;
  readonly day: string;
  readonly scope: string;
  readonly mac: Mac;
  readonly signed: string;
  /** The line of the session token, empty without one. */
  readonly token: string;
  /** The header without the signature. */
  readonly credential: string;
}

interface Second {
  readonly atSecond: number;
  /** As in `20260115T235959Z`. */
  readonly text: string;
  readonly day: string;
}

/** The path as signed: encoded once more, without empty segments. */
function canonicalPath(path: string): string {
  const segments = path.split("/").filter((segment) => segment !== "");
  const tail = segments.length > 0 && path.endsWith("/") ? "/" : "";
  return `/${segments.map(encoded).join("/")}${tail}`;
}

function encoded(text: string): string {
  return encodeURIComponent(text).replace(/[!'()*]/g, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`);
}

function canonicalValue(value: string): string {
  return value.trim().replace(/\s+/g, " ");
}
