import { type AwsConfig, awsFault, openS3 } from "./aws-clients.ts";

/** How many objects are in a bucket, counted up to a thousand; undefined: there is no such bucket. */
export async function objectsIn(aws: AwsConfig, bucket: string): Promise<number | undefined> {
  const { sdk, client } = await openS3(aws);
  try {
    const { KeyCount = 0 } = await client.send(new sdk.ListObjectsV2Command({ Bucket: bucket, MaxKeys: COUNTED_MAX }));
    return KeyCount;
  } catch (cause) {
    if (cause instanceof Error && cause.name === "NoSuchBucket") return undefined;
    throw awsFault(cause, `look into the bucket ${bucket}`);
  } finally {
    client.destroy();
  }
}

export const COUNTED_MAX = 1_000;

/** Deletes a bucket with all that is in it, old versions and marks of deleted objects included. */
export async function deleteBucket(aws: AwsConfig, bucket: string, onDeleted: (count: number) => void): Promise<void> {
  const { sdk, client } = await openS3(aws);
  let count = 0;
  try {
    for (;;) {
      const listed = await client.send(new sdk.ListObjectVersionsCommand({ Bucket: bucket }));
      const Objects = [...(listed.Versions ?? []), ...(listed.DeleteMarkers ?? [])].map(({ Key, VersionId }) => ({
        ...{ Key, VersionId },
      }));
      if (Objects.length === 0) break;
      await client.send(new sdk.DeleteObjectsCommand({ Bucket: bucket, Delete: { Objects, Quiet: true } }));
      count += Objects.length;
      onDeleted(count);
    }
    await client.send(new sdk.DeleteBucketCommand({ Bucket: bucket }));
  } catch (cause) {
    throw awsFault(cause, `delete the bucket ${bucket}`);
  } finally {
    client.destroy();
  }
}
