import type { Attributes } from "../adapters/dynamodb/codec.ts";
import { namespaceOf, PK, REGISTRY, SK } from "../adapters/dynamodb/schema.ts";
import { VersionError } from "../domain/names/errors.ts";

/** The subject of a partition of the table. */
export interface Partition {
  /** Undefined: a layout that has no namespaces. */
  readonly namespaceId: string | undefined;
  readonly kind: "entity" | "resource" | "system" | "audit" | "bucket";
  /** The name of the entity or resource; for a bucket, everything after the word. */
  readonly name: string;
}

/** Reads the key of a partition. Undefined for the registry of namespaces and for unknown keys. */
export function partitionOf(pk: string): Partition | undefined {
  // A resource may have a slash, so layouts without namespaces are recognized by their first word.
  const bare = named(pk);
  if (bare !== undefined) return bare.kind === "bucket" ? undefined : { namespaceId: undefined, ...bare };
  const namespaceId = namespaceOf(pk);
  if (namespaceId === undefined || namespaceId === REGISTRY) return undefined;
  const own = named(pk.slice(namespaceId.length + 1));
  return own === undefined ? undefined : { namespaceId, ...own };
}

/** The kinds of items of old layouts. */
export type OldItem =
  | { readonly kind: "meta" | "registry" | "provisioner" | "audit" | "childLink" | "version" | "state" | "unknown" }
  /** One limit of a level, before 0.8. */
  | { readonly kind: "limit"; readonly resource: string | undefined; readonly limit: string }
  | { readonly kind: "config"; readonly resource: string | undefined }
  /** One limit of a bucket, before 0.7. */
  | { readonly kind: "limitBucket"; readonly resource: string; readonly limit: string }
  /** All limits of a bucket, beside its entity, before 0.10. */
  | { readonly kind: "bucket"; readonly resource: string }
  | { readonly kind: "usage"; readonly resource: string; readonly start: string };

/** Recognizes an item that was flattened. */
export function oldItemOf({ kind }: Partition, item: Attributes): OldItem {
  const sk = item[SK]?.S ?? "";
  switch (kind) {
    case "audit":
      return { kind: sk.startsWith("#AUDIT#") ? "audit" : "unknown" };
    case "bucket":
      return { kind: sk === "#STATE" ? "state" : "unknown" };
    case "entity":
      return entityItemOf(sk, item);
    case "resource":
    case "system":
      return levelItemOf(sk, kind, item);
  }
}

/** Moves attributes out of the map that held all but the keys until 0.5. */
export function flattened(item: Attributes): Attributes {
  const { data, ...rest } = item;
  return data?.M === undefined ? item : { ...rest, ...data.M };
}

export function isNested(item: Attributes): boolean {
  return item.data?.M !== undefined;
}

/** Reads a whole number of an old item. Throws for any other value. */
export function wholeIn(item: Attributes, name: string): number {
  const value = Number(item[name]?.N ?? Number.NaN);
  if (Number.isSafeInteger(value)) return value;
  throw unreadable(item, `"${name}" is ${item[name]?.N ?? "missing"}, not a whole number`);
}

export function unreadable(item: Attributes, problem: string): VersionError {
  return new VersionError(
    "item_unreadable",
    `The item ${item[PK]?.S ?? "?"} ${item[SK]?.S ?? "?"} cannot be migrated: ${problem}. Correct or delete it, then run migrate again ` +
      "to resume.",
  );
}

function named(text: string): Pick<Partition, "kind" | "name"> | undefined {
  const [, word, name = ""] = /^(ENTITY|RESOURCE|AUDIT|BUCKET)#(.+)$/.exec(text) ?? [];
  if (word !== undefined) return { kind: word.toLowerCase() as Partition["kind"], name };
  return text === "SYSTEM#" ? { kind: "system", name: "" } : undefined;
}

function entityItemOf(sk: string, item: Attributes): OldItem {
  if (sk === "#META") return { kind: "meta" };
  if (sk.startsWith("#CHILD#")) return { kind: "childLink" };
  if (sk.startsWith("#CONFIG#")) return { kind: "config", resource: sk.slice("#CONFIG#".length) };
  if (sk.startsWith("#LIMIT#")) return { kind: "limit", ...twoNames(sk.slice("#LIMIT#".length), item) };
  if (sk.startsWith("#USAGE#")) return usageOf(sk.slice("#USAGE#".length));
  if (!sk.startsWith("#BUCKET#")) return { kind: "unknown" };
  const rest = sk.slice("#BUCKET#".length);
  return "tokens_milli" in item
    ? { kind: "limitBucket", ...twoNames(rest, item) }
    : { kind: "bucket", resource: item.resource?.S ?? rest };
}

function levelItemOf(sk: string, kind: "resource" | "system", item: Attributes): OldItem {
  if (sk === "#CONFIG") return { kind: "config", resource: undefined };
  if (sk.startsWith("#LIMIT#")) {
    const rest = sk.slice("#LIMIT#".length);
    return { kind: "limit", resource: undefined, limit: item.limit_name?.S ?? rest.slice(rest.lastIndexOf("#") + 1) };
  }
  if (kind === "resource") return { kind: "unknown" };
  if (sk === "#VERSION") return { kind: "version" };
  if (sk === "#PROVISIONER") return { kind: "provisioner" };
  return { kind: sk === "#RESOURCES" || sk === "#ENTITY_CONFIG_RESOURCES" ? "registry" : "unknown" };
}

/** Splits the names of a resource and a limit, which have no `#`. Attributes come first. */
function twoNames(rest: string, item: Attributes): { readonly resource: string; readonly limit: string } {
  const at = rest.lastIndexOf("#");
  return {
    resource: item.resource?.S ?? (at < 0 ? "_default_" : rest.slice(0, at)),
    limit: item.limit_name?.S ?? rest.slice(at + 1),
  };
}

function usageOf(rest: string): OldItem {
  // In copies of our own, days and months have their window after the start.
  const [, resource, start] = /^(.+?)#(\d{4}-[^#]+)(?:#[a-z]+)?$/.exec(rest) ?? [];
  return resource === undefined || start === undefined ? { kind: "unknown" } : { kind: "usage", resource, start };
}
