/** Settings that are read from the environment. The second line is what the aggregator's Lambda is given by its stack. */
type Setting =
  | (
      | "ZAEL_STORE"
      | "ZAEL_NAMESPACE"
      | "ZAEL_STACK"
      | "ZAEL_SHARED_TABLE"
      | "DATABASE_URL"
      | "AWS_PROFILE"
      | "AWS_ENDPOINT_URL"
      | "AWS_ENDPOINT_URL_S3"
    )
  | ("TABLE_NAME" | "ARCHIVE_BUCKET_NAME" | "ARCHIVE_PREFIX" | "SWEEP_AFTER_HOURS" | "LOG_LEVEL");

/** All of it, for a choice that depends on several settings. */
export function environment(): Readonly<Record<string, string | undefined>> {
  return process.env;
}

/** The settings of this process's environment. An empty value counts as absent. */
export function fromEnvironment(name: Setting): string | undefined {
  const value = process.env[name];
  return value === undefined || value === "" ? undefined : value;
}
