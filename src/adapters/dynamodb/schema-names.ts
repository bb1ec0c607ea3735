// Names and units of the attributes of the table. Those of bucket items are the protocol's: millitokens and ms there, whole
// tokens and seconds in configuration.
import type { KindStored } from "../../domain/limits/kinds/kind.ts";
import { FIELDS_STORED, type FieldAttribute } from "../../domain/limits/limit-stored.ts";

export * from "../../protocol/item/attributes.ts";

export const SCHEMA_VERSION = "0.10.0";

/** The namespace id of records outside namespaces: the registry of namespaces and the version record. */
export const REGISTRY = "_";

export const PK = "PK";
export const SK = "SK";
export const GSI1PK = "GSI1PK";
export const GSI1SK = "GSI1SK";
export const GSI2PK = "GSI2PK";
export const GSI2SK = "GSI2SK";
export const GSI3PK = "GSI3PK";
export const GSI3SK = "GSI3SK";
export const GSI4PK = "GSI4PK";
export const GSI4SK = "GSI4SK";

/** An index, and the attributes that are its keys. */
export interface TableIndex {
  readonly name: string;
  readonly pk: string;
  readonly sk: string;
}

/** Children of a parent. */
export const CHILDREN_INDEX: TableIndex = { name: "GSI1", pk: GSI1PK, sk: GSI1SK };
/** Buckets and usage of a resource. */
export const RESOURCE_INDEX: TableIndex = { name: "GSI2", pk: GSI2PK, sk: GSI2SK };
/** Buckets of an entity; entities with a configuration of their own for a resource. */
export const ENTITY_INDEX: TableIndex = { name: "GSI3", pk: GSI3PK, sk: GSI3SK };
/** Everything of a namespace. */
export const NAMESPACE_INDEX: TableIndex = { name: "GSI4", pk: GSI4PK, sk: GSI4SK };

export const ENTITY_ID = "entity_id";
export const RESOURCE = "resource";
/** An entity says by it whether its parent is charged too. Buckets have a copy, beside the other three. */
export const CASCADE = "cascade";
export const PARENT_ID = "parent_id";
/** Grows by 1 with every change of parent. */
export const PARENT_GENERATION = "pgen";
/** 16 hex digits, drawn again whenever the entity is created again. */
export const INCARNATION = "pinc";
export const NAME = "name";
export const METADATA = "metadata";
export const CREATED_AT = "created_at";

export const PLAN_ID = "plan_id";
/** A plan counts the entities that ever joined it. A deletion is conditional on it, so that it never misses a new one. */
export const PLAN_SEQ = "kin";

/** A level that has it adds its limits to those of lower priority. */
export const INHERIT = "inherit";
/** `callers` if the level applies only to the requesting entity. */
export const APPLIES_TO = "applies_to";
export const CONFIG_VERSION = "config_version";
export const ON_UNAVAILABLE = "on_unavailable";
export const AUDIT_RETENTION_DAYS = "audit_retention_days";
export const USAGE_KEPT_DAYS = "usage_kept_days";
/** Ours: the reason for which a namespace is frozen, on its system level; empty: none was given. */
export const FROZEN = "frozen";
/** A set of strings, on the registry of resources. */
export const RESOURCES = "resources";

/** A map in the record of an operation: whole tokens per limit. */
export const AMOUNTS = "amounts";
/** Ours: the amounts in millitokens and in order, as JSON, where the map is not exact. */
export const AMOUNTS_MILLI = "amounts_milli";

export const EVENT_ID = "event_id";
/** Ours: the id that the caller gave the event. */
export const OWN_EVENT_ID = "own_event_id";
export const TIMESTAMP = "timestamp";
export const ACTION = "action";
export const PRINCIPAL = "principal";
export const DETAILS = "details";

export const WINDOW = "window";
export const WINDOW_START = "window_start";
/** The instant before which all usage is on sheets, in ms. */
export const CLOSED_UNTIL = "closed_until";
export const USED_RESOURCES = "used_resources";
export const USED_RESOURCES_ARE = "used_resources_are";
export const TOTAL_EVENTS = "total_events";

export const NAMESPACE_ID = "namespace_id";
export const NAMESPACE_NAME = "namespace_name";
export const STATUS = "status";
export const DELETED_AT = "deleted_at";

export const SCHEMA_VERSION_ATTRIBUTE = "schema_version";
export const CLIENT_MIN_VERSION = "client_min_version";
export const LAMBDA_VERSION = "lambda_version";
export const UPDATED_AT = "updated_at";
export const UPDATED_BY = "updated_by";
/** Ours, on the version record: how far a migration has come, a map; and which process does it. */
export const MIGRATING = "migrating";
export const MIGRATION_RUN = "migration_run";
/** Ours: the table was taken over from the original, and `client_min_version` is only there to keep its clients out. */
export const TAKEN_OVER = "taken_over";

/** The attributes of a bucket's item that follow from its key. */
export const PLACE_ATTRIBUTES: ReadonlySet<string> = new Set([
  ...[PK, SK, ENTITY_ID, RESOURCE, GSI1PK, GSI1SK, GSI2PK, GSI2SK, GSI3PK, GSI3SK, GSI4PK, GSI4SK],
]);

/** The attributes of one limit in configuration: whole tokens and seconds. Session windows have a prefix of their own. */
export function configNamesOf(limit: string, prefix: KindStored["prefix"]) {
  const name = (what: string) => `${prefix}_${limit}_${what}`;
  const fields = FIELDS_STORED.map(({ attribute, configured = attribute }) => [attribute, name(configured)]);
  return {
    ...{ cp: name("cp"), ra: name("ra"), rp: name("rp") },
    ...(Object.fromEntries(fields) as Readonly<Record<FieldAttribute, string>>),
  };
}

// Attributes of declared pieces, ours: the apply that may write, what it wrote (JSON), and when (ms).
export const RUN = "run";
export const APPLIED = "applied";
export const APPLIED_AT = "applied_at_ms";

// Attributes of the aggregator's records in the registry's partition.
export const SEQUENCE = "seq";
export const SHARD_END = "shard_end";
export const OWNER = "owner";
/** When a lease ends, in ms. */
export const UNTIL = "until";
export const ARCHIVE_LOCATION = "archive";
export const OBJECT_KEY = "object_key";
export const EVENT_COUNT = "events";

// Attributes of stored leases, ours: the record (JSON), its version and its writer. They are short, because an item is
// charged by the kilobyte.
export const LEASE = "lease";
export const LEASE_VERSION = "lv";
export const LEASE_WRITER = "lw";

// Attributes of rows that processes count in, ours: counts of refusals or of callers (JSON), or single refusals
// (domain/charge/refusal-log.ts), and the number of the row's last write.
export const REFUSALS = "refusals";
export const REFUSAL_LOG = "rl";
export const CALLER_COUNTS = "cc";
export const ROW_VERSION = "rv";

// Attributes of idempotency keys, ours: the holder, the fingerprint of the request, the answer once there is one, and
// the times in ms until which it is under way and remembered.
export const KEY_MARK = "km";
export const KEY_FINGERPRINT = "kf";
export const KEY_ANSWER = "ka";
export const KEY_UNTIL = "ku";
export const KEY_FORGOTTEN = "kt";
