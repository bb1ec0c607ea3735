import assert from "node:assert/strict";
import { createHash, createHmac, type Hash, type Hmac } from "node:crypto";
import { test } from "node:test";
import { SignatureV4 } from "@smithy/signature-v4";
import { runs } from "../../../test/depth.ts";
import { fc } from "../../../test/properties.ts";
import type { DynamoOperation } from "./client.ts";
import type { Credentials } from "./credentials.ts";
import { type Endpoint, resolveEndpoint } from "./endpoint.ts";
import { Signer } from "./signer.ts";

const operations: DynamoOperation[] = ["UpdateItem", "PutItem", "BatchGetItem", "TransactWriteItems", "DescribeTable"];
const DAY_MS = 86_400_000;

const endpoints = fc.oneof(
  fc.record({
    region: fc.constantFrom(
      ...["us-east-1", "eu-west-1", "cn-north-1", "us-gov-west-1", "us-iso-east-1", "us-isob-east-1", "eu-isoe-west-1"],
      ...["us-isof-south-1", "eusc-de-east-1", "local"],
    ),
    endpoint: fc.constant(undefined),
    useFips: fc.constant(false),
    useDualStack: fc.constant(false),
  }),
  fc.record({
    region: fc.constantFrom("us-east-1", "ap-southeast-7"),
    endpoint: fc.constantFrom(
      ...["http://localhost:8000", "https://[::1]:8443/", "https://vpce-1.dynamodb.eu-west-1.vpce.amazonaws.com"],
      ...["http://proxy:80/a b/c%20d/", "https://proxy//x//y", "http://proxy/!'()*~._-/ü"],
    ),
    useFips: fc.constant(false),
    useDualStack: fc.constant(false),
  }),
);

const credentials: fc.Arbitrary<Credentials> = fc.record(
  {
    accessKeyId: fc.stringMatching(/^[A-Z0-9]{16,20}$/),
    secretAccessKey: fc.string({ minLength: 1, unit: "binary" }),
    sessionToken: fc.stringMatching(/^[A-Za-z0-9+/=]{1,600}$/),
  },
  { requiredKeys: ["accessKeyId", "secretAccessKey"] },
);

/** Often within a second of midnight. */
const times = fc.oneof(
  fc.integer({ min: 0, max: 4_102_444_800_000 }),
  fc
    .tuple(fc.integer({ min: 18_000, max: 40_000 }), fc.integer({ min: -1001, max: 1001 }))
    .map(([day, ms]) => day * DAY_MS + ms),
);

test("signs as @smithy/signature-v4 does: any host, text, key and moment", async () => {
  await fc.assert(
    fc.asyncProperty(
      endpoints.map(resolveEndpoint),
      fc.constantFrom(...operations),
      fc.oneof(fc.string({ unit: "binary" }), fc.json({ stringUnit: "grapheme" }), fc.constant("\ud800 alone")),
      credentials,
      times,
      async (endpoint, operation, body, keys, nowMs) => {
        const headers = new Signer(endpoint).headers({ operation, body, credentials: keys, nowMs });
        assert.deepEqual(asObject(headers), await smithyHeaders({ endpoint, operation, body, keys, nowMs }));
      },
    ),
    { numRuns: runs(3000) },
  );
});

test("one signer goes on signing rightly over midnight, back over it, and with new credentials", async () => {
  const endpoint = resolveEndpoint({ region: "eu-west-1", endpoint: undefined, useFips: false, useDualStack: false });
  const signer = new Signer(endpoint);
  await fc.assert(
    fc.asyncProperty(times, fc.array(credentials, { minLength: 2, maxLength: 3 }), async (startMs, all) => {
      for (const nowMs of [startMs, startMs + 1, startMs + 1000, startMs + DAY_MS, startMs]) {
        for (const keys of all) {
          const headers = signer.headers({ operation: "UpdateItem", body: "{}", credentials: keys, nowMs });
          const expected = await smithyHeaders({ endpoint, operation: "UpdateItem", body: "{}", keys, nowMs });
          assert.deepEqual(asObject(headers), expected);
        }
      }
    }),
    { numRuns: runs(100) },
  );
});

interface Case {
  readonly endpoint: Endpoint;
  readonly operation: DynamoOperation;
  readonly body: string;
  readonly keys: Credentials;
  readonly nowMs: number;
}

async function smithyHeaders({ endpoint, operation, body, keys, nowMs }: Case): Promise<Record<string, string>> {
  const signer = new SignatureV4({
    service: "dynamodb",
    region: endpoint.signingRegion,
    credentials: keys as ConstructorParameters<typeof SignatureV4>[0]["credentials"],
    sha256: Sha256,
    applyChecksum: false,
  });
  const { headers } = await signer.sign(
    {
      method: "POST",
      protocol: "https:",
      hostname: endpoint.host,
      path: endpoint.path,
      query: {},
      headers: {
        host: endpoint.host,
        "content-type": "application/x-amz-json-1.0",
        "x-amz-target": `DynamoDB_20120810.${operation}`,
      },
      body,
    },
    { signingDate: new Date(nowMs) },
  );
  const { host: _, ...rest } = headers;
  return rest;
}

function asObject(headers: readonly string[]): Record<string, string> {
  const pairs: [string, string][] = [];
  for (let i = 0; i < headers.length; i += 2) pairs.push([headers[i] as string, headers[i + 1] as string]);
  return Object.fromEntries(pairs);
}

/** What @smithy/signature-v4 wants to be handed. */
class Sha256 {
  readonly #secret: string | Uint8Array | undefined;
  #hash: Hash | Hmac;

  constructor(secret?: string | ArrayBuffer | ArrayBufferView) {
    this.#secret = secret as string | Uint8Array | undefined;
    this.#hash = this.#fresh();
  }

  update(chunk: string | Uint8Array): void {
    this.#hash.update(chunk);
  }

  async digest(): Promise<Uint8Array> {
    return this.#hash.digest();
  }

  reset(): void {
    this.#hash = this.#fresh();
  }

  #fresh(): Hash | Hmac {
    return this.#secret === undefined ? createHash("sha256") : createHmac("sha256", this.#secret);
  }
}
