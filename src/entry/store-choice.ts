import { shown } from "../domain/names.ts";

const STORE_DEFAULT = "sqlite:.zae-limiter/limiter.db";

/** The store that the environment names, or the default; the command line decides by the same. Empty counts as unset. */
export function storeOfEnvironment(env: Readonly<Record<string, string | undefined>>): string {
  if (env.ZAEL_STORE !== undefined && env.ZAEL_STORE !== "") return env.ZAEL_STORE;
  return env.ZAEL_STACK === undefined || env.ZAEL_STACK === "" ? STORE_DEFAULT : `dynamodb:${env.ZAEL_STACK}`;
}

/** A store that is not known, for a message: an address of somewhere else may have a password in it, wherever that is mistyped. */
export function shownStore(store: unknown): string {
  if (typeof store !== "string" || /^((dynamodb|sqlite):)?[\w.-]*$/.test(store)) return shown(store);
  return `"${/^[a-z][\w+.-]{0,20}:/i.exec(store)?.[0] ?? ""}..."`;
}

/** Whether what follows `sqlite:` or `dynamodb:` is an address of something else: no file or table is called so. */
export function isAddress(name: string): boolean {
  return /:\/\/|^\/\/[^/]*@/.test(name);
}

/** Whether a store is named by the address of a PostgreSQL server. */
export function isPostgresAddress(store: string): boolean {
  return /^postgres(ql)?:\/\//i.test(store);
}
