import type { BucketKey } from "../domain/bucket/bucket-key.ts";
import type { BucketState } from "../domain/bucket/bucket-state.ts";
import type { RefusalLogRow } from "../domain/charge/refusal-log.ts";
import type { UsageSnapshot } from "../domain/charge/usage.ts";
import type { AuditEvent } from "../domain/config/audit.ts";
import type { ConfigScope, StoredConfig } from "../domain/config/config.ts";
import type { Entity } from "../domain/config/entity.ts";
import type { OwnedPiece } from "../domain/config/piece.ts";
import type { Plan } from "../domain/config/plan.ts";
import type { Page, PageRequest } from "../domain/names/paging.ts";
import type { MaybePromise } from "./bucket-store.ts";
import type { OwnerRecord } from "./config-store.ts";
import type { CallerRow, RefusalRow } from "./usage-store.ts";

export interface CopiedConfig {
  readonly scope: ConfigScope;
  readonly config: StoredConfig;
}

/** What a scope said over time, or the plans that an entity had: a text without the numbers of the changes. */
export interface CopiedHistory {
  readonly key: readonly [of: "entity" | "plan" | "stints", owner: string, resource: string];
  readonly versions: string;
}

/** A bucket that is one, whatever it was; its origin tells when it was read, and whether its limits came with a request. */
export interface CopiedBucket {
  readonly key: BucketKey;
  readonly state: BucketState;
}

/** `place`: how many events of the namespace are older. */
interface CopiedEvent {
  readonly event: AuditEvent;
  readonly place: number;
}

/** The facts of a namespace as every store understands them, by kind. A row is whole: whoever writes it twice has it once. */
export interface CopiedRows {
  readonly plan: Plan;
  readonly entity: Entity;
  readonly config: CopiedConfig;
  readonly history: CopiedHistory;
  readonly owner: OwnerRecord;
  readonly owned: OwnedPiece;
  readonly bucket: CopiedBucket;
  /** Of an hour, whether it is over or not. */
  readonly usage: UsageSnapshot;
  readonly refusal: RefusalRow;
  readonly refusalLog: RefusalLogRow;
  readonly caller: CallerRow;
  readonly audit: CopiedEvent;
}

export type CopiedKind = keyof CopiedRows;

export type RemovedKind = "history" | "owner" | "owned";

/** The kinds that no other port lists. Events come in the order in which they were written. */
export interface ListedRows {
  readonly history: CopiedHistory;
  readonly owner: OwnerRecord;
  readonly audit: AuditEvent;
}

/**
 * What a copy of one namespace to another store needs besides the ports that a limiter has. Only a namespace that is hidden is
 * written to: nobody takes, asks or changes anything there meanwhile.
 */
export interface CopyStore {
  /** System configuration says for how many days usage is kept. */
  readonly keepsUsageDays: boolean;
  list<Kind extends keyof ListedRows>(kind: Kind, page: PageRequest): MaybePromise<Page<ListedRows[Kind]>>;
  /** Writes rows of one kind, as of an instant. Entities and plans come before what they own. */
  write<Kind extends CopiedKind>(kind: Kind, rows: readonly CopiedRows[Kind][], nowMs: number): MaybePromise<void>;
  /** Removes what nothing refers to. */
  remove<Kind extends RemovedKind>(kind: Kind, rows: readonly CopiedRows[Kind][]): MaybePromise<void>;
  /** Writes what follows from all rows together. */
  finish(): MaybePromise<void>;
}
