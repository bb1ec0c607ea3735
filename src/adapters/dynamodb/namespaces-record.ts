import { type Namespace, type NamespaceStatus, namespaceNotActive } from "../../domain/config/namespace.ts";
import { given } from "../../domain/names/given.ts";
import type { Clock } from "../../ports/system.ts";
import { type Attributes, instantOf, instantText } from "./codec.ts";
import { checkRecord, isStill, type RecordWrite, texts } from "./records-write.ts";
import {
  CREATED_AT,
  DELETED_AT,
  NAMESPACE_ID,
  NAMESPACE_NAME,
  namespaceIdKey,
  REGISTRY,
  STATUS,
  systemIndexKeys,
} from "./schema.ts";

/** The content of both records of a namespace: the one found by name, and the one found by id. */
export function namespaceItem({ id, name, status, createdAtMs, deletedAtMs }: Namespace): Attributes {
  return {
    ...texts({ [NAMESPACE_ID]: id, [NAMESPACE_NAME]: name, [STATUS]: status, [CREATED_AT]: instantText(createdAtMs) }),
    ...(deletedAtMs === undefined ? {} : { [DELETED_AT]: { S: instantText(deletedAtMs) } }),
    ...texts(systemIndexKeys(REGISTRY)),
  };
}

export function namespaceOf(item: Attributes): Namespace {
  const deletedAt = item[DELETED_AT]?.S;
  return {
    id: item[NAMESPACE_ID]?.S ?? "",
    name: item[NAMESPACE_NAME]?.S ?? "",
    status: (item[STATUS]?.S ?? "active") as NamespaceStatus,
    createdAtMs: instantOf(item[CREATED_AT]?.S),
    ...given({ deletedAtMs: deletedAt === undefined ? undefined : instantOf(deletedAt) }),
  };
}

/**
 * Namespaces that this process has lately seen active. The status of a namespace is one item, which is not read with
 * every read of configuration. A change always checks the item itself.
 */
export class NamespaceWatch {
  readonly #clock: Clock;
  readonly #seenAtMs = new Map<string, number>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  wasActive(namespaceId: string): boolean {
    const ageMs = this.#clock.now() - (this.#seenAtMs.get(namespaceId) ?? Number.NEGATIVE_INFINITY);
    return ageMs >= 0 && ageMs < SEEN_MS;
  }

  forget(namespaceId: string): void {
    this.#seenAtMs.delete(namespaceId);
  }

  /** Throws if the namespace was deleted: nothing may be written to it. */
  requireActive(namespaceId: string, item: Attributes | undefined): void {
    if (item !== undefined && namespaceOf(item).status === "active") {
      this.#seenAtMs.set(namespaceId, this.#clock.now());
      return;
    }
    this.forget(namespaceId);
    throw namespaceNotActive(namespaceId);
  }
}

/** Part of every transaction that changes something in a namespace. */
export function activeCheck(namespaceId: string): RecordWrite {
  return checkRecord(namespaceIdKey(namespaceId), isStill(STATUS, { S: "active" }));
}

const SEEN_MS = 5_000;
