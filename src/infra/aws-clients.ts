import { LimiterError } from "../domain/names/errors.ts";

// Packages that only the stack needs. Each import stands in a `try`, so that bundlers take one that is not installed for one that may
// be missing.

/** The region and endpoint of AWS, and the time a call may take. */
export interface AwsConfig {
  /** Undefined: as the AWS SDK finds it. */
  readonly region: string | undefined;
  /** One address for every service, for servers other than AWS. */
  readonly endpoint: string | undefined;
  /** Bound on each call, in ms. */
  readonly timeoutMs: number;
}

export async function openCloudFormation(aws: AwsConfig) {
  const sdk = await loaded("@aws-sdk/client-cloudformation", () => import("@aws-sdk/client-cloudformation"));
  return { sdk, client: new sdk.CloudFormationClient(settings(aws)) };
}

export async function openLambda(aws: AwsConfig) {
  const sdk = await loaded("@aws-sdk/client-lambda", () => import("@aws-sdk/client-lambda"));
  return { sdk, client: new sdk.LambdaClient(settings(aws)) };
}

export async function openDynamo(aws: AwsConfig) {
  const sdk = await loaded("@aws-sdk/client-dynamodb", () => import("@aws-sdk/client-dynamodb"));
  return { sdk, client: new sdk.DynamoDBClient(settings(aws)) };
}

export async function openS3(aws: AwsConfig) {
  const sdk = await loaded("@aws-sdk/client-s3", () => import("@aws-sdk/client-s3"));
  // Servers other than AWS seldom have a host name for each bucket.
  return { sdk, client: new sdk.S3Client({ ...settings(aws), forcePathStyle: aws.endpoint !== undefined }) };
}

function settings({ region, endpoint, timeoutMs }: AwsConfig) {
  return {
    ...(region === undefined ? {} : { region }),
    ...(endpoint === undefined ? {} : { endpoint }),
    requestHandler: { connectionTimeout: Math.min(timeoutMs, 3_000), requestTimeout: timeoutMs },
  };
}

async function loaded<Sdk>(name: string, load: () => Promise<Sdk>): Promise<Sdk> {
  try {
    return await load();
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

/** All that commands on stacks may ask for: to hear of them one at a time takes as many tries. */
const PACKAGES = ["client-cloudformation", "client-dynamodb", "client-lambda", "client-s3"].map(
  (name) => `@aws-sdk/${name}`,
);

/** What to install where a package is missing, that one first. */
export function missingText(name: string): string {
  const others = PACKAGES.filter((each) => each !== name);
  return (
    `The package ${name} is not installed, and commands on stacks need it; run \`npm install ${[name, ...others].join(" ")}\`, ` +
    "which installs all that they need."
  );
}

/** What AWS, or the way there, has to say against a call. */
export function awsFault(cause: unknown, what: string): LimiterError {
  if (cause instanceof LimiterError) return cause;
  const { name, message } = cause instanceof Error ? cause : { name: "Error", message: String(cause) };
  // What follows the first line tells programmers how to go on.
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
