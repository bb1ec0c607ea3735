import type { S3Client } from "@aws-sdk/client-s3";
import type { Credentials, CredentialsProvider } from "../adapters/dynamodb/credentials.ts";
import { LimiterError, NotFoundError } from "../domain/names/errors.ts";
import { type ArchiveLocation, locationText } from "./archive-location.ts";
import type { ObjectStore } from "./objects.ts";
import { loadS3 } from "./optional.ts";

interface S3Options extends ArchiveLocation {
  /** Undefined: as the AWS SDK finds it. */
  readonly region: string | undefined;
  readonly endpoint: string | undefined;
  readonly credentials: Credentials | CredentialsProvider | undefined;
  /** The bucket's name in the path instead of the host: for servers other than AWS. */
  readonly pathStyle: boolean;
}

/** The archive in S3, or in whatever speaks its protocol. */
export async function openS3(options: S3Options): Promise<ObjectStore> {
  const sdk = await loadS3();
  const { region, endpoint, credentials, pathStyle } = options;
  const client = new sdk.S3Client({
    ...(region === undefined ? {} : { region }),
    ...(endpoint === undefined ? {} : { endpoint }),
    ...(credentials === undefined ? {} : { credentials: credentials as never }),
    forcePathStyle: pathStyle,
    followRegionRedirects: true,
    maxAttempts: ATTEMPTS_MAX,
    // The SDK waits for ever otherwise.
    requestHandler: { connectionTimeout: CONNECT_TIMEOUT_MS, requestTimeout: REQUEST_TIMEOUT_MS },
  });
  return new S3Objects(sdk, client, options);
}

const ATTEMPTS_MAX = 3;
const CONNECT_TIMEOUT_MS = 3_000;
const REQUEST_TIMEOUT_MS = 30_000;

type Sdk = typeof import("@aws-sdk/client-s3");

class S3Objects implements ObjectStore {
  readonly location: string;
  readonly #sdk: Sdk;
  readonly #client: S3Client;
  readonly #bucket: string;
  readonly #before: string;

  constructor(sdk: Sdk, client: S3Client, { bucket, prefix }: ArchiveLocation) {
    this.#sdk = sdk;
    this.#client = client;
    this.#bucket = bucket;
    this.#before = prefix === "" ? "" : `${prefix}/`;
    this.location = locationText({ bucket, prefix });
  }

  async put({ key, body }: { readonly key: string; readonly body: Uint8Array }): Promise<void> {
    const input = {
      ...{ Bucket: this.#bucket, Key: this.#before + key, Body: body },
      ...{ ContentType: "application/x-ndjson", ContentEncoding: "gzip" },
    };
    await this.#told(WRITE, () => this.#client.send(new this.#sdk.PutObjectCommand(input)));
  }

  async get(key: string): Promise<Uint8Array> {
    const input = { Bucket: this.#bucket, Key: this.#before + key };
    return this.#told("read from", async () => {
      const { Body } = await this.#client.send(new this.#sdk.GetObjectCommand(input));
      return Body === undefined ? new Uint8Array() : await Body.transformToByteArray();
    });
  }

  async *keys(folder: string): AsyncGenerator<string> {
    for await (const { Contents = [] } of this.#pages(folder, {})) {
      for (const { Key } of Contents) if (Key !== undefined) yield Key.slice(this.#before.length);
    }
  }

  async folders(folder: string): Promise<readonly string[]> {
    const found: string[] = [];
    for await (const { CommonPrefixes = [] } of this.#pages(folder, { Delimiter: "/" })) {
      for (const { Prefix } of CommonPrefixes) if (Prefix !== undefined) found.push(Prefix.slice(this.#before.length));
    }
    return found;
  }

  close(): void {
    this.#client.destroy();
  }

  async *#pages(folder: string, more: { readonly Delimiter?: string }) {
    let token: string | undefined;
    do {
      const page = await this.#told("list", () =>
        this.#client.send(
          new this.#sdk.ListObjectsV2Command({
            ...{ Bucket: this.#bucket, Prefix: this.#before + folder, ...more },
            ...(token === undefined ? {} : { ContinuationToken: token }),
          }),
        ),
      );
      yield page;
      token = page.IsTruncated === true ? page.NextContinuationToken : undefined;
    } while (token !== undefined);
  }

  async #told<Answer>(what: string, call: () => Promise<Answer>): Promise<Answer> {
    try {
      return await call();
    } catch (cause) {
      throw faultOf(cause, what, this.location);
    }
  }
}

const WRITE = "write to";

function faultOf(cause: unknown, what: string, location: string): LimiterError {
  const { name, message } = cause instanceof Error ? cause : { name: "", message: String(cause) };
  if (name === "NoSuchBucket") {
    const message = `There is no bucket for the archive ${location}; create it, or name another.`;
    // What is to be written is not missing, it cannot be done.
    const Kind = what === WRITE ? LimiterError : NotFoundError;
    return new Kind("archive_not_found", message, { cause });
  }
  if (name === "NoSuchKey") {
    return new NotFoundError("archive_not_found", `An object of the archive ${location} is gone.`, { cause });
  }
  const why = message === "" || message === "UnknownError" ? name : `${name}: ${message}`;
  return new LimiterError(
    "archive_unavailable",
    `Could not ${what} the archive ${location} (${why}); check the bucket's policy, its region and the endpoint.`,
    { cause },
  );
}
