import { LimiterError, NotFoundError, ValidationError } from "../domain/names/errors.ts";
import { given } from "../domain/names/given.ts";
import { shown } from "../domain/names/names.ts";
import { loadS3, type SdkLocation, sdkOptions } from "./sdk-clients.ts";

/** Storage of the archive: objects by key, below a prefix. */
export interface ObjectStore {
  /** `s3://BUCKET` or `s3://BUCKET/PREFIX`. */
  readonly location: string;
  /** Atomic. Rejects with a `LimiterError` of code `archive_unavailable`. */
  put(object: { readonly key: string; readonly body: Uint8Array }): Promise<void>;
  get(key: string): Promise<Uint8Array>;
  /** All keys below a folder, sorted. */
  keys(folder: string): AsyncIterable<string>;
  /** The direct subfolders of a folder, each with a slash at its end, sorted. */
  folders(folder: string): Promise<readonly string[]>;
  close(): void;
}

/** The location of an archive in S3. */
interface ArchiveLocation {
  readonly bucket: string;
  /** Without slashes at its ends; empty: none. */
  readonly prefix: string;
}

/** `s3://BUCKET` or `s3://BUCKET/PREFIX`. */
export function parseArchiveLocation(text: string): ArchiveLocation {
  const match = /^s3:\/\/([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?:\/(.*))?$/.exec(text);
  if (match === null) {
    throw new ValidationError(
      "archive_invalid",
      `The archive is ${shown(text)}; give s3://BUCKET or s3://BUCKET/PREFIX, with the bucket's name as S3 has it.`,
    );
  }
  return { bucket: match[1] as string, prefix: trimmed(match[2] ?? "") };
}

function locationText({ bucket, prefix }: ArchiveLocation): string {
  return prefix === "" ? `s3://${bucket}` : `s3://${bucket}/${prefix}`;
}

function trimmed(prefix: string): string {
  return prefix.replace(/^\/+|\/+$/g, "");
}

interface S3Options extends ArchiveLocation, SdkLocation {
  /** The bucket's name in the path instead of the host: for servers other than AWS. */
  readonly pathStyle: boolean;
}

/** The archive in S3, or in another server with its protocol. */
export async function openS3(options: S3Options): Promise<ObjectStore> {
  const { S3Client, PutObjectCommand, GetObjectCommand, ListObjectsV2Command } = await loadS3();
  const style = { forcePathStyle: options.pathStyle, followRegionRedirects: true };
  const client = new S3Client({ ...sdkOptions(options), ...style });
  const { bucket: Bucket, prefix } = options;
  const before = prefix === "" ? "" : `${prefix}/`;
  const location = locationText(options);

  async function told<Answer>(what: string, call: () => Promise<Answer>): Promise<Answer> {
    try {
      return await call();
    } catch (cause) {
      throw faultOf(cause, what, location);
    }
  }

  async function* pages(folder: string, more: { readonly Delimiter?: string }) {
    let token: string | undefined;
    do {
      const input = given({ Bucket, Prefix: before + folder, ...more, ContinuationToken: token });
      const page = await told("list", () => client.send(new ListObjectsV2Command(input)));
      yield page;
      token = page.IsTruncated === true ? page.NextContinuationToken : undefined;
    } while (token !== undefined);
  }

  return {
    location,

    async put({ key, body }) {
      const format = { ContentType: "application/x-ndjson", ContentEncoding: "gzip" };
      const input = { Bucket, Key: before + key, Body: body, ...format };
      await told(WRITE, () => client.send(new PutObjectCommand(input)));
    },

    get: (key) =>
      told("read from", async () => {
        const { Body } = await client.send(new GetObjectCommand({ Bucket, Key: before + key }));
        return Body === undefined ? new Uint8Array() : await Body.transformToByteArray();
      }),

    async *keys(folder) {
      for await (const { Contents = [] } of pages(folder, {})) {
        for (const { Key } of Contents) if (Key !== undefined) yield Key.slice(before.length);
      }
    },

    async folders(folder) {
      const found: string[] = [];
      for await (const { CommonPrefixes = [] } of pages(folder, { Delimiter: "/" })) {
        for (const { Prefix } of CommonPrefixes) if (Prefix !== undefined) found.push(Prefix.slice(before.length));
      }
      return found;
    },

    close: () => client.destroy(),
  };
}

const WRITE = "write to";

function faultOf(cause: unknown, what: string, location: string): LimiterError {
  const { name, message } = cause instanceof Error ? cause : { name: "", message: String(cause) };
  if (name === "NoSuchBucket") {
    const message = `There is no bucket for the archive ${location}; create it, or name another.`;
    // A missing bucket makes a write impossible, which is not a `NotFoundError`.
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
