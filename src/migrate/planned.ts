import type { Attributes } from "../adapters/dynamodb/codec.ts";
import { keyOf } from "../adapters/dynamodb/records-write.ts";
import type { TableKey } from "../adapters/dynamodb/schema.ts";

export interface NewItem {
  readonly key: TableKey;
  /** The attributes, including the key. */
  readonly attributes: Attributes;
}

/** An item that stays where it is and lacks something, or has something too much. */
export interface ItemChange {
  readonly key: TableKey;
  readonly set: Attributes;
  readonly remove: readonly string[];
}

/** The number of items of old layouts that each step concerns. */
export interface StepCounts {
  /** Items that hold one limit, or have their attributes in a map. */
  readonly limits: number;
  /** Items without a namespace. */
  readonly namespaces: number;
  /** Buckets beside their entity, and usage that is not on sheets. */
  readonly buckets: number;
  /** Items that stay where they are, and change. */
  readonly changes: number;
}

export const NO_COUNTS: StepCounts = { limits: 0, namespaces: 0, buckets: 0, changes: 0 };

export function addCounts(a: StepCounts, b: StepCounts): StepCounts {
  return {
    limits: a.limits + b.limits,
    namespaces: a.namespaces + b.namespaces,
    buckets: a.buckets + b.buckets,
    changes: a.changes + b.changes,
  };
}

/** A level that has a configuration, for the registries of its namespace. */
export interface ConfigOf {
  readonly namespaceId: string;
  readonly resource: string;
  readonly of: "entity" | "resource";
}

export interface PartitionPlan {
  readonly makes: readonly NewItem[];
  /** Items that are deleted after everything was copied. */
  readonly removes: readonly TableKey[];
  readonly changes: readonly ItemChange[];
  readonly configs: readonly ConfigOf[];
  readonly counts: StepCounts;
}

export function newItemOf(key: TableKey, attributes: Attributes): NewItem {
  return { key, attributes: { ...attributes, ...keyOf(key) } };
}
