import { type DynamodbLocal, dynamodbLocalOrReason } from "../dynamodb/dynamodb-local.ts";
import { declareMissing, describeOn } from "../engines/describe-on.ts";
import { startMoto } from "../engines/python-tools.ts";

// The S3 that suites run against: moto's server, in a Python environment that is made once and kept outside of the
// repository. ZAEL_TEST_S3_ENDPOINT=http://... names another one. Where none can be had, suites are skipped and say so; with
// ZAEL_REQUIRE_S3=1 that is a failure.

export interface S3Server {
  readonly endpoint: string;
  /** A new bucket of its own; its name. */
  newBucket(): Promise<string>;
  /** A plain request, as another program would make it. */
  send(method: string, path: string): Promise<Response>;
}

/** A suite on a real DynamoDB and a real S3. To be awaited, at the top of a file. */
export async function describeArchive(
  name: string,
  define: (servers: { readonly dynamodb: DynamodbLocal; readonly s3: S3Server }) => void,
): Promise<void> {
  const dynamodb = await dynamodbLocalOrReason();
  s3 ??= s3OrReason();
  const found = await s3;
  if (typeof dynamodb === "string") declareMissing("dynamodb", name, dynamodb);
  else describeOn("s3", name, found, (server) => define({ dynamodb, s3: server }));
}

let s3: Promise<S3Server | string> | undefined;

async function s3OrReason(): Promise<S3Server | string> {
  try {
    const { ZAEL_TEST_S3_ENDPOINT: given } = process.env;
    return serverAt(given || (await startMoto()));
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

let buckets = 0;

function serverAt(endpoint: string): S3Server {
  const send = (method: string, path: string) =>
    fetch(`${endpoint}${path}`, { method, headers: { authorization: AUTHORIZATION } });
  return {
    endpoint,
    send,
    newBucket: async () => {
      const name = `archive-${process.pid}-${++buckets}`;
      const answer = await send("PUT", name);
      if (!answer.ok) throw new Error(`No bucket ${name}: ${answer.status} ${await answer.text()}`);
      return name;
    },
  };
}

const AUTHORIZATION =
  "AWS4-HMAC-SHA256 Credential=test/20200101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0";
