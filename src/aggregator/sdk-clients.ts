import type { Credentials, CredentialsProvider } from "../adapters/dynamodb/credentials.ts";
import { notInstalled } from "../adapters/dynamodb/transport-peer.ts";
import { given } from "../domain/names/given.ts";

export async function loadS3(): Promise<typeof import("@aws-sdk/client-s3")> {
  try {
    return await import("@aws-sdk/client-s3");
  } catch (cause) {
    throw notInstalled("@aws-sdk/client-s3", "the audit archive needs it", cause);
  }
}

export async function loadStreams(): Promise<typeof import("@aws-sdk/client-dynamodb-streams")> {
  try {
    return await import("@aws-sdk/client-dynamodb-streams");
  } catch (cause) {
    throw notInstalled("@aws-sdk/client-dynamodb-streams", "following a table's stream needs it", cause);
  }
}

/** The location of a service of AWS; undefined parts are found by the AWS SDK. */
export interface SdkLocation {
  readonly region: string | undefined;
  readonly endpoint: string | undefined;
  readonly credentials: Credentials | CredentialsProvider | undefined;
}

/** Options of a client of the AWS SDK, which has no timeouts by default. */
export function sdkOptions({ region, endpoint, credentials }: SdkLocation) {
  return {
    ...given({ region, endpoint, credentials: credentials as never }),
    maxAttempts: 3,
    requestHandler: { connectionTimeout: 3_000, requestTimeout: 30_000 },
  };
}
