import type { BucketKey } from "../../domain/bucket/bucket-key.ts";
import type { RecordKey, RecordKind } from "../../ports/record-store.ts";

/** Separates the parts of a key. No name has it; a key that somebody chose is always the last part. */
const SEPARATOR = "#";
/** Separates the parts of a member of an index: below all that a name may have, so that members are in the order of their parts. */
const PART_END = "\n";

/** The character after that. */
export const AFTER_PART_END = "\v";

const RECORD_LETTERS: Readonly<Record<RecordKind, string>> = {
  ...{ namespace: "i", entity: "e", plan: "p", config: "c", history: "h", owner: "t", owned: "m" },
  ...{ lease: "l", leaseKey: "k", refusalLog: "q", refusal: "f", caller: "y" },
};

/** A member of an index, which is a sorted set with scores 0. It goes in ahead of the script that writes what it names. */
export interface Hint {
  readonly index: string;
  readonly member: string;
}

/**
 * The keys of a namespace, all of one slot of a cluster; the namespaces themselves are kept under the id `""`. A value is empty or missing where
 * there is nothing.
 *
 * | key | is |
 * | --- | --- |
 * | `g` | the generation, as decimal text |
 * | `gc` | what the last changes touched: JSON `[[generation, [name, …]], …]` |
 * | `n` | how many calls have written: the version of what the last one wrote |
 * | `nl` | the last loss of writes that was noticed, for `doctor`: JSON |
 * | `b#entity#resource` | a bucket |
 * | `u#entity#resource#hourMs` | what a bucket counted in an hour |
 * | `w#lane` | the last call of a lane |
 * | `o#entity#resource#key` | an operation, so that it is known when it is repeated |
 * | `an`, `a#number` | how many events the audit log has had; an event |
 * | `v#eventId` | the event of a change, for a day, so that the change is known when it is repeated |
 * | `d#entityId` | an entity that was deleted, while something of it is left |
 * | `s` | in a namespace: the last change of the registry that was applied here; in the registry: a change that is to be applied |
 * | other letters | records |
 *
 * Indexes begin with `x`, or with `X` where they are a second one of the same.
 */
export class NamespaceKeys {
  readonly #begin: string;
  readonly namespaceId: string;
  readonly generation: string;
  readonly changes: string;
  readonly writes: string;
  readonly lostWrites: string;
  readonly auditCount: string;
  readonly registrySeen: string;

  constructor(prefix: string, namespaceId: string) {
    this.namespaceId = namespaceId;
    this.#begin = `{${prefix}:${namespaceId}}`;
    this.generation = `${this.#begin}g`;
    this.changes = `${this.#begin}gc`;
    this.writes = `${this.#begin}n`;
    this.lostWrites = `${this.#begin}nl`;
    this.auditCount = `${this.#begin}an`;
    this.registrySeen = `${this.#begin}s`;
  }

  record({ kind, key }: RecordKey): string {
    return this.#key(RECORD_LETTERS[kind], ...key);
  }

  bucket({ entityId, resource }: Pick<BucketKey, "entityId" | "resource">): string {
    return this.#key("b", entityId, resource);
  }

  usage(entityId: string, resource: string, hourMs: number): string {
    return this.#key("u", entityId, resource, String(hourMs));
  }

  lane(lane: string): string {
    return this.#key("w", lane);
  }

  operation(entityId: string, resource: string, key: string): string {
    return this.#key("o", entityId, resource, key);
  }

  audit(number: number): string {
    return this.#key("a", String(number));
  }

  event(eventId: string): string {
    return this.#key("v", eventId);
  }

  deletedEntity(entityId: string): string {
    return this.#key("d", entityId);
  }

  /** The name of an index (of `INDEXES`). */
  index(name: IndexName): string {
    return this.#begin + INDEXES[name];
  }

  hint(name: IndexName, ...parts: readonly (string | number)[]): Hint {
    return { index: this.index(name), member: memberOf(...parts) };
  }

  bucketHints({ entityId, resource }: Pick<BucketKey, "entityId" | "resource">): readonly Hint[] {
    return [this.hint("bucketsByEntity", entityId, resource), this.hint("bucketsByResource", resource, entityId)];
  }

  usageHints(entityId: string, resource: string, hourMs: number): readonly Hint[] {
    return [
      this.hint("usageByHour", hourMs, entityId, resource),
      this.hint("usageByBucket", entityId, resource, hourMs),
    ];
  }

  /** Each lease has one, also one that is never forgotten: a purge must find it. */
  leaseHints(leaseId: string, dueAtMs: number | undefined, forgottenAtMs: number | undefined): readonly Hint[] {
    const forgotten = forgottenAtMs ?? (dueAtMs === undefined ? Number.MAX_SAFE_INTEGER : undefined);
    return [
      ...(dueAtMs === undefined ? [] : [this.hint("leasesDue", dueAtMs, leaseId)]),
      ...(forgotten === undefined ? [] : [this.hint("forgotten", forgotten, RECORD_LETTERS.lease, leaseId)]),
    ];
  }

  leaseKeyHints(key: string, forgottenAtMs: number): readonly Hint[] {
    return [this.hint("forgotten", forgottenAtMs, RECORD_LETTERS.leaseKey, key)];
  }

  operationHints(entityId: string, resource: string, key: string, atMs: number): readonly Hint[] {
    return [
      this.hint("operationsByTime", atMs, entityId, resource, key),
      this.hint("operationsByEntity", entityId, resource, key),
    ];
  }

  laneHints(lane: string, atMs: number): readonly Hint[] {
    return [this.hint("lanes", atMs, lane)];
  }

  auditHints(number: number, entityId: string): readonly Hint[] {
    return [this.hint("auditByEntity", entityId, number), this.hint("audit", number)];
  }

  eventHints(eventId: string, atMs: number): readonly Hint[] {
    return [this.hint("eventsByTime", atMs, eventId)];
  }

  /** The lease or the key of work that an entry of `forgotten` names. */
  forgotten(letter: string, key: string): string {
    return this.#key(letter, key);
  }

  #key(letter: string, ...parts: readonly string[]): string {
    return `${this.#begin}${letter}${SEPARATOR}${parts.join(SEPARATOR)}`;
  }
}

/** Members are texts of `memberOf`. */
export const INDEXES = {
  /** entity, resource */
  bucketsByEntity: "xb",
  /** resource, entity */
  bucketsByResource: "Xb",
  /** hour, entity, resource */
  usageByHour: "xu",
  /** entity, resource, hour */
  usageByBucket: "Xu",
  /** time, lane */
  lanes: "xw",
  /** time, entity, resource, key */
  operationsByTime: "xo",
  /** entity, resource, key */
  operationsByEntity: "Xo",
  /** number */
  audit: "xa",
  /** entity, number */
  auditByEntity: "Xa",
  /** time, event id */
  eventsByTime: "xv",
  /** due time, lease id */
  leasesDue: "xl",
  /** time, letter of the kind (`l` or `k`), key */
  forgotten: "xk",
  /** id */
  namespaces: "xi",
  /** name, id */
  namespacesByName: "Xi",
  /** id */
  entities: "xe",
  /** parent, id */
  entitiesByParent: "Xe",
  /** plan, id */
  entitiesByPlan: "Xp",
  /** id */
  plans: "xp",
  /** `entity` or `plan`, owner, resource */
  configs: "xc",
  /** `entity` or `plan`, resource, owner */
  configsByResource: "Xc",
  /** `entity`, `plan` or `stints`, owner, resource */
  histories: "xh",
  /** owner */
  owners: "xt",
  /** piece */
  owned: "xm",
  /** hour, entity, writer */
  refusalLogs: "xq",
  /** entity, hour, writer */
  refusalLogsByEntity: "Xq",
  /** hour, entity, resource, writer */
  refusals: "xf",
  /** entity, hour, resource, writer */
  refusalsByEntity: "Xf",
  /** hour, entity, resource, writer */
  callers: "xy",
  /** entity, hour, resource, writer */
  callersByEntity: "Xy",
  /** entity */
  deletedEntities: "xd",
} as const;

export type IndexName = keyof typeof INDEXES;

/** Numbers have 16 digits, so that their order is that of texts. */
export function memberOf(...parts: readonly (string | number)[]): string {
  return parts.map((part) => (typeof part === "number" ? String(part).padStart(16, "0") : part)).join(PART_END);
}

/** The bounds of ZRANGEBYLEX for all members that begin with these parts; without parts for all. */
export function rangeOf(...parts: readonly (string | number)[]): { readonly from: string; readonly to: string } {
  if (parts.length === 0) return { from: "-", to: "+" };
  const begin = memberOf(...parts);
  return { from: `[${begin}${PART_END}`, to: `(${begin}${AFTER_PART_END}` };
}

/** The parts of a member; numbers are texts of 16 digits. */
export function partsOf(member: string): string[] {
  return member.split(PART_END);
}

/** The key of the registry's own: what kind of store this is. */
export const metaKey = (prefix: string): string => `{${prefix}:}meta`;

export function namespaceKeys(prefix: string, namespaceId: string): NamespaceKeys {
  return new NamespaceKeys(prefix, namespaceId);
}

/** A command that puts a hint into its index. */
export function hintCommand({ index, member }: Hint): readonly string[] {
  return ["ZADD", index, "0", member];
}
