import { type ServerTime, TRUSTED_CLOCK } from "../../clock/clock-bounds.ts";
import { DisciplinedClock, type Stamp } from "../../clock/disciplined-clock.ts";
import { LimiterError, ValidationError } from "../../domain/names/errors.ts";
import type { Clock } from "../../ports/system.ts";
import type { DateListener, DynamoClient } from "./client.ts";
import type { Credentials, CredentialsProvider } from "./credentials.ts";
import { shownAddress } from "./endpoint.ts";
import { openSdkClient, type SdkClient } from "./sdk-client.ts";
import { openTransport } from "./transport.ts";
import { loadSdk } from "./transport-peer.ts";

interface ConnectOptions {
  /** Undefined: taken from the environment or the shared configuration, like the AWS SDK does. */
  readonly region: string | undefined;
  readonly endpoint: string | undefined;
  readonly credentials: Credentials | CredentialsProvider | undefined;
  /** The profile that the environment names, for messages. */
  readonly profile: string | undefined;
  /** A client that the caller has made, instead of our own transport. */
  readonly client: SdkClient | undefined;
  /** The machine's clock, which is corrected by the server's time. */
  readonly local: Clock;
  /** Whole ms since some instant, not affected when the machine's clock is set. */
  readonly steadyMs: () => number;
  /** The caller's own clock, which is never corrected. */
  readonly given: Clock | undefined;
}

/** A client of DynamoDB, and a clock that follows the server's. */
export interface Connection {
  readonly client: DynamoClient;
  readonly clock: Clock;
  readonly serverTime: ServerTime;
}

export async function connect(options: ConnectOptions): Promise<Connection> {
  const { given, local } = options;
  const clock = new DisciplinedClock(local, options.steadyMs);
  const stamp = () => clock.stamp();
  const onDate: DateListener = ({ dateMs, sent }) => clock.observe({ dateMs, sent: sent as Stamp });
  const client = await clientOf(options, { stamp, onDate, now: () => clock.now() });
  if (given !== undefined) {
    return { client, clock: given, serverTime: TRUSTED_CLOCK };
  }
  return {
    client,
    clock,
    serverTime: { latestMs: () => clock.latestServerMs(), isKnown: () => clock.isDisciplined },
  };
}

interface Listening {
  readonly stamp: () => unknown;
  readonly onDate: DateListener;
  readonly now: () => number;
}

async function clientOf(options: ConnectOptions, { stamp, onDate, now }: Listening): Promise<DynamoClient> {
  const { client, credentials } = options;
  if (client !== undefined) return openSdkClient(client, { stamp, onDate });
  const { region, endpoint } = await locate(options);
  return openTransport({ region, endpoint, credentials, now, stamp, onDate });
}

interface ServiceLocation {
  readonly region: string;
  readonly endpoint: string | undefined;
}

/**
 * The region and endpoint. If not given, they are looked up like the AWS SDK does: in the environment or the shared
 * configuration.
 */
export async function locate({
  region,
  endpoint,
  profile,
}: Pick<ConnectOptions, "region" | "endpoint" | "profile">): Promise<ServiceLocation> {
  if (region !== undefined && endpoint !== undefined) return { region, endpoint };
  try {
    return await locatedBySdk({ region, endpoint, profile });
  } catch (error) {
    // Without the SDK the shared configuration cannot be read; the region suffices.
    if (region !== undefined && error instanceof LimiterError && error.code === "package_missing") {
      return { region, endpoint };
    }
    throw error;
  }
}

async function locatedBySdk(given: Pick<ConnectOptions, "region" | "endpoint" | "profile">) {
  const { DynamoDBClient, ListTablesCommand } = await loadSdk();
  const client = new DynamoDBClient({
    ...(given.region === undefined ? {} : { region: given.region }),
    // Nothing is signed or sent. An endpoint per account would need real credentials.
    credentials: { accessKeyId: "-", secretAccessKey: "-" },
    accountIdEndpointMode: "disabled",
  });
  try {
    const region = await regionOf(client.config, given.profile);
    if (given.endpoint !== undefined) return { region, endpoint: given.endpoint };
    const addressed = new Promise<string>((resolve) => {
      client.middlewareStack.add(
        () => async (args) => {
          const { protocol, hostname, port, path } = args.request as AddressedRequest;
          resolve(`${protocol}//${hostname}${port === undefined ? "" : `:${port}`}${path}`);
          return { output: { $metadata: {} }, response: undefined };
        },
        { step: "build" },
      );
    });
    await client.send(new ListTablesCommand({})).catch(refuseConfigured);
    const endpoint = await addressed;
    // The SDK reads `localhost:8000` as the scheme `localhost:`.
    if (!/^https?:/.test(endpoint)) throw configuredInvalid(endpoint.replace("://", ":").replace(/\/$/, ""), undefined);
    return { region, endpoint };
  } finally {
    client.destroy();
  }
}

function refuseConfigured(cause: unknown): never {
  const { code, input } = (cause ?? {}) as { readonly code?: string; readonly input?: string };
  // The cause contains the whole address.
  throw code === "ERR_INVALID_URL" && input !== undefined ? configuredInvalid(input, undefined) : cause;
}

function configuredInvalid(endpoint: string, cause: unknown): ValidationError {
  return new ValidationError(
    "endpoint_invalid",
    `${shownAddress(endpoint)} is not an endpoint: correct AWS_ENDPOINT_URL_DYNAMODB, AWS_ENDPOINT_URL or the profile's endpoint_url; ` +
      'with a scheme, such as "http://localhost:8000".',
    { cause },
  );
}

interface AddressedRequest {
  readonly protocol: string;
  readonly hostname: string;
  readonly port?: number;
  readonly path: string;
}

async function regionOf({ region }: { region(): Promise<string> }, profile: string | undefined): Promise<string> {
  try {
    return await region();
  } catch (cause) {
    throw new ValidationError(
      "region_missing",
      `No AWS region is set${profile === undefined ? "" : `, and the profile "${profile}" of AWS_PROFILE has none`}; ` +
        'pass `region` such as "eu-west-1", or set AWS_REGION.',
      { cause },
    );
  }
}
