import { openSqlite as openWith } from "../adapters/sqlite/store.ts";
import { steadyMs } from "../adapters/system/clock.ts";
import { jitter } from "../adapters/system/random.ts";
import { FILE_RETENTION } from "../domain/config/retention.ts";
import { KnownNames } from "../domain/names/known-names.ts";
import type { Store } from "../ports/store.ts";
import { calendar } from "./limits.ts";
import { type RetentionOptions, storeRetention } from "./retention.ts";

const SQLITE_STORE = new KnownNames<SqliteStoreOptions>({
  ...{ file: true, durability: true, coalesce: true, usage: true, auditKeepMs: true },
});

export type { RetentionOptions } from "./retention.ts";

/** Which file, and how it is written. */
export interface SqliteStoreOptions extends RetentionOptions {
  /** The file. It is made if it is missing, with its folder. */
  readonly file: string;
  /** What a loss of power may take away: the last moments (`"normal"`), or nothing (`"full"`). Default: `"normal"`. */
  readonly durability?: "normal" | "full";
  /** Whether calls that are under way at the same time share one transaction. Default: `true`. */
  readonly coalesce?: boolean;
}

/** A store in one file, for `RateLimiter.open({ store })`. Several limiters of one process can share it. */
export function openSqlite(options: SqliteStoreOptions): Store {
  const { file, durability = "normal", coalesce = true } = SQLITE_STORE.check(options, "The options of openSqlite");
  const retention = storeRetention(options, FILE_RETENTION);
  return openWith({ file, durability, coalesce, retention, random: jitter, steadyMs, calendar });
}
