const STORE_DEFAULT = "sqlite:.zae-limiter/limiter.db";

/** The store that the environment names, or the default; the command line decides by the same. Empty counts as unset. */
export function storeOfEnvironment(env: Readonly<Record<string, string | undefined>>): string {
  if (env.ZAEL_STORE !== undefined && env.ZAEL_STORE !== "") return env.ZAEL_STORE;
  return env.ZAEL_STACK === undefined || env.ZAEL_STACK === "" ? STORE_DEFAULT : `dynamodb:${env.ZAEL_STACK}`;
}
