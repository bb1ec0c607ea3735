import { ValidationError } from "../domain/names/errors.ts";
import { shown } from "../domain/names/names.ts";

/** Where an archive lies in S3. */
export interface ArchiveLocation {
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

export function locationText({ bucket, prefix }: ArchiveLocation): string {
  return prefix === "" ? `s3://${bucket}` : `s3://${bucket}/${prefix}`;
}

/** Without the slashes at its ends. */
function trimmed(prefix: string): string {
  return prefix.replace(/^\/+|\/+$/g, "");
}
