import { openSqlite as openWith } from "../adapters/sqlite/store.ts";
import { steadyMs } from "../adapters/system/clock.ts";
import { jitter } from "../adapters/system/random.ts";
import { KnownNames } from "../domain/known-names.ts";
import { FILE_RETENTION } from "../domain/retention.ts";
import type { Store } from "../ports/store.ts";
import { calendar } from "./limits.ts";
import { type RetentionOptions, retentionOf } from "./retention.ts";

const SQLITE_STORE = new KnownNames<SqliteStoreOptions>({
  ...{ file: true, durability: true, coalesce: true, usage: true, auditKeepMs: true },
});

export type { RetentionOptions } from "./retention.ts";

/** Which file, and how it is kept. */
export interface SqliteStoreOptions extends RetentionOptions {
  /** Made if missing, with its folder. */
  readonly file: string;
  /** What a loss of power may take: the last moments (`"normal"`, the default) or nothing (`"full"`). */
  readonly durability?: "normal" | "full";
  /** Join calls under way together into one transaction. Default true. */
  readonly coalesce?: boolean;
}

/** A store in one file, for `RateLimiter.open({ store })`: several limiters of one process can share it. */
export function openSqlite(options: SqliteStoreOptions): Store {
  const { file, durability = "normal", coalesce = true } = SQLITE_STORE.check(options, "The options of openSqlite");
  const retention = retentionOf(options, FILE_RETENTION);
  return openWith({ file, durability, coalesce, retention, random: jitter, steadyMs, calendar });
}
