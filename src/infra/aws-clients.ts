import { LimiterError } from "../domain/names/errors.ts";
import { given } from "../domain/names/given.ts";

// Packages that only the stack needs. Each import is in a `try`, so that bundlers accept one that is not installed.

/** The region and endpoint of AWS, and the time a call may take. */
export interface AwsConfig {
  /** Undefined: as the AWS SDK finds it. */
  readonly region: string | undefined;
  /** One address for every service, for servers other than AWS. */
  readonly endpoint: string | undefined;
  /** Bound on each call, in ms. */
  readonly timeoutMs: number;
}

/** A package of the AWS SDK with a client of it. The types are names, for a declaration would repeat all that the package exports. */
interface Opened<Sdk, Client> {
  readonly sdk: Sdk;
  readonly client: Client;
}

type CloudFormation = typeof import("@aws-sdk/client-cloudformation");
type Lambda = typeof import("@aws-sdk/client-lambda");
type Dynamo = typeof import("@aws-sdk/client-dynamodb");
type S3 = typeof import("@aws-sdk/client-s3");

export async function openCloudFormation(
  aws: AwsConfig,
): Promise<Opened<CloudFormation, InstanceType<CloudFormation["CloudFormationClient"]>>> {
  const sdk = await load("@aws-sdk/client-cloudformation", () => import("@aws-sdk/client-cloudformation"));
  return { sdk, client: new sdk.CloudFormationClient(settings(aws)) };
}

export async function openLambda(aws: AwsConfig): Promise<Opened<Lambda, InstanceType<Lambda["LambdaClient"]>>> {
  const sdk = await load("@aws-sdk/client-lambda", () => import("@aws-sdk/client-lambda"));
  return { sdk, client: new sdk.LambdaClient(settings(aws)) };
}

export async function openDynamo(aws: AwsConfig): Promise<Opened<Dynamo, InstanceType<Dynamo["DynamoDBClient"]>>> {
  const sdk = await load("@aws-sdk/client-dynamodb", () => import("@aws-sdk/client-dynamodb"));
  return { sdk, client: new sdk.DynamoDBClient(settings(aws)) };
}

export async function openS3(aws: AwsConfig): Promise<Opened<S3, InstanceType<S3["S3Client"]>>> {
  const sdk = await load("@aws-sdk/client-s3", () => import("@aws-sdk/client-s3"));
  // Servers other than AWS seldom have a host name for each bucket.
  return { sdk, client: new sdk.S3Client({ ...settings(aws), forcePathStyle: aws.endpoint !== undefined }) };
}

/**
 * Runs work with a client and closes it. An error says what could not be done. Returns undefined for an error of the name `missing`.
 */
export async function withAws<Opened extends { readonly client: { destroy(): void } }, Answer>(
  opening: Promise<Opened>,
  { what, missing }: { readonly what: string; readonly missing?: string },
  work: (opened: Opened) => Promise<Answer>,
): Promise<Answer | undefined> {
  const opened = await opening;
  try {
    return await work(opened);
  } catch (cause) {
    if (cause instanceof Error && cause.name === missing) return undefined;
    throw awsFault(cause, what);
  } finally {
    opened.client.destroy();
  }
}

function settings({ region, endpoint, timeoutMs }: AwsConfig) {
  return {
    ...given({ region, endpoint }),
    requestHandler: { connectionTimeout: Math.min(timeoutMs, 3_000), requestTimeout: timeoutMs },
  };
}

async function load<Sdk>(name: string, importIt: () => Promise<Sdk>): Promise<Sdk> {
  try {
    return await importIt();
  } catch (cause) {
    const isMissing =
      cause instanceof Error &&
      "code" in cause &&
      cause.code === "ERR_MODULE_NOT_FOUND" &&
      cause.message.includes(`'${name}'`);
    if (!isMissing) throw cause;
    throw new LimiterError("package_missing", missingText(name), { cause });
  }
}

/** All packages that commands on stacks need: one error names them all. */
const PACKAGES = ["client-cloudformation", "client-dynamodb", "client-lambda", "client-s3"].map(
  (name) => `@aws-sdk/${name}`,
);

/** Says what to install if a package is missing, that one first. */
export function missingText(name: string): string {
  const others = PACKAGES.filter((each) => each !== name);
  return (
    `The package ${name} is not installed, and commands on stacks need it; run \`npm install ${[name, ...others].join(" ")}\`, ` +
    "which installs all that they need."
  );
}

/** Makes a sentence of an error of AWS or of the connection. */
export function awsFault(cause: unknown, what: string): LimiterError {
  if (cause instanceof LimiterError) return cause;
  const { name, message } = cause instanceof Error ? cause : { name: "Error", message: String(cause) };
  // The lines after the first tell programmers how to go on.
  const [text = ""] = message.split("\n");
  const why = text === "" || text === "UnknownError" ? name : `${name}: ${text}`;
  if (DENIALS.has(name)) {
    const told = `Could not ${what} (${why}); allow it in the policy of this user or role.`;
    return new LimiterError("aws_denied", told, { cause });
  }
  return new LimiterError("aws_failed", `Could not ${what} (${why}); ${remedyFor(name, message)}.`, { cause });
}

const DENIALS: ReadonlySet<string> = new Set(["AccessDenied", "AccessDeniedException", "UnauthorizedOperation"]);

function remedyFor(name: string, message: string): string {
  if (name === "CredentialsProviderError") {
    return "set AWS_PROFILE to a profile that has credentials, or the keys in the environment";
  }
  if (name === "Error" && /region/i.test(message)) return "give --region, or set AWS_REGION";
  return "check the message, the region and the endpoint, and try again";
}
