import type { Attributes, AttributeValue } from "../../src/adapters/dynamodb/codec.ts";

// Tables of earlier releases of the original, written down from its documents: keys and attributes as they stood there.

/** When the last of it was written: an hour has begun ten minutes ago. */
export const T0 = Date.UTC(2026, 2, 15, 12, 10);

const S = (text: string): AttributeValue => ({ S: text });
const N = (value: number): AttributeValue => ({ N: String(value) });

/** One limit on a bucket, as every layout means it. */
export interface FilledLimit {
  readonly name: string;
  readonly tokensMilli: number;
  readonly refilledAtMs: number;
  readonly capacity: number;
  readonly burst: number;
  readonly refillAmount: number;
  readonly refillPeriodS: number;
}

interface FilledBucket {
  readonly entityId: string;
  readonly resource: string;
  readonly limits: readonly FilledLimit[];
}

interface FilledConfig {
  readonly entityId?: string;
  readonly resource?: string;
  readonly limits: readonly Pick<FilledLimit, "name" | "capacity" | "burst" | "refillAmount" | "refillPeriodS">[];
}

interface FilledUsage {
  readonly entityId: string;
  readonly resource: string;
  readonly window: "hourly" | "daily";
  readonly start: string;
  readonly counters: Readonly<Record<string, number>>;
  readonly events: number;
}

const rpm = { name: "rpm", capacity: 100, burst: 100, refillAmount: 100, refillPeriodS: 60 };
const tpm = { name: "tpm", capacity: 1000, burst: 1500, refillAmount: 1000, refillPeriodS: 60 };
const slow = { name: "day", capacity: 10, burst: 10, refillAmount: 10, refillPeriodS: 86_400 };

/** The same story in every layout. */
export const STORY = {
  entities: [
    { id: "proj-1", name: "Production", cascade: false, metadata: { tier: "gold" } },
    { id: "key-1", name: "key-1", parentId: "proj-1", cascade: true, metadata: {} },
  ],
  buckets: [
    {
      entityId: "key-1",
      resource: "openai/gpt-4",
      limits: [
        { ...rpm, tokensMilli: 12_345, refilledAtMs: T0 - 7_777 },
        { ...tpm, tokensMilli: -250_001, refilledAtMs: T0 - 1_234 },
        { ...slow, tokensMilli: 7, refilledAtMs: T0 - 50_000_003 },
      ],
    },
    { entityId: "proj-1", resource: "openai/gpt-4", limits: [{ ...rpm, tokensMilli: 0, refilledAtMs: T0 - 1 }] },
    { entityId: "loner", resource: "api", limits: [{ ...rpm, tokensMilli: 99_000, refilledAtMs: T0 - 20 }] },
  ] satisfies readonly FilledBucket[],
  configs: [
    { limits: [rpm] },
    { resource: "openai/gpt-4", limits: [rpm, tpm, slow] },
    { entityId: "key-1", resource: "openai/gpt-4", limits: [rpm, tpm, slow] },
    { entityId: "key-1", resource: "_default_", limits: [{ ...rpm, capacity: 5, burst: 7, refillAmount: 5 }] },
    { entityId: "proj-1", resource: "openai/gpt-4", limits: [rpm] },
  ] satisfies readonly FilledConfig[],
  usage: [
    ...hourly("key-1", "openai/gpt-4", "2026-03-14T09:00:00Z", { rpm: 3, tpm: 900 }, 6),
    ...hourly("key-1", "openai/gpt-4", "2026-03-14T17:00:00Z", { rpm: 1 }, 1),
    // The day itself, too: its hours say the same.
    ...daily("key-1", "openai/gpt-4", "2026-03-14T00:00:00Z", { rpm: 4, tpm: 900 }, 7),
    ...daily("key-1", "openai/gpt-4", "2026-02-01T00:00:00Z", { rpm: 40 }, 40),
    // The hour in which the table is migrated.
    ...hourly("key-1", "openai/gpt-4", "2026-03-15T12:00:00Z", { rpm: 2 }, 2),
    ...hourly("proj-1", "openai/gpt-4", "2026-03-14T09:00:00Z", { rpm: 3 }, 3),
  ],
  audit: [
    { entityId: "key-1", id: "01ARZ3NDEKTSV4RRFFQ69G5FAV", action: "entity_created", at: "2026-03-01T10:00:00Z" },
    { entityId: "key-1", id: "01BX5ZZKBKACTAV9WEVGEMMVRZ", action: "limits_set", at: "2026-03-02T10:00:00Z" },
  ],
} as const;

export type Layout = "0.4" | "0.6" | "0.8" | "0.9";

/** All items of the story in one of the layouts. `namespaceId`: of 0.9. */
export function itemsOf(layout: Layout, namespaceId = "Ab3dEf6hIj9"): readonly Attributes[] {
  const filler = new Filler(layout, namespaceId);
  return [
    ...STORY.entities.map((entity) => filler.entity(entity)),
    ...STORY.buckets.flatMap((bucket) => filler.bucket(bucket)),
    ...STORY.configs.flatMap((config) => filler.config(config)),
    ...STORY.usage.map((usage) => filler.usage(usage)),
    ...STORY.audit.map((event) => filler.audit(event)),
    ...filler.registries(),
    ...filler.version(),
  ];
}

/** The indexes that a table of the layout has. */
export const INDEXES: Readonly<Record<Layout, readonly string[]>> = {
  "0.4": ["GSI1", "GSI2"],
  "0.6": ["GSI1", "GSI2"],
  "0.8": ["GSI1", "GSI2", "GSI3"],
  "0.9": ["GSI1", "GSI2", "GSI3", "GSI4"],
};

class Filler {
  readonly #layout: Layout;
  readonly #namespaceId: string;

  constructor(layout: Layout, namespaceId: string) {
    this.#layout = layout;
    this.#namespaceId = namespaceId;
  }

  entity({ id, name, cascade, metadata, parentId }: (typeof STORY.entities)[number] & { parentId?: string }) {
    const keys = {
      ...(parentId === undefined ? {} : { GSI1PK: S(this.#pk(`PARENT#${parentId}`)), GSI1SK: S(`CHILD#${id}`) }),
      ...this.#inNamespace(`ENTITY#${id}`),
    };
    const map = Object.fromEntries(Object.entries(metadata).map(([key, value]) => [key, S(value as string)]));
    return this.#item(`ENTITY#${id}`, "#META", keys, {
      ...{ entity_id: S(id), name: S(name), cascade: { BOOL: cascade }, metadata: { M: map } },
      parent_id: parentId === undefined ? { NULL: true } : S(parentId),
      created_at: S("2026-03-01T10:00:00+00:00"),
    });
  }

  bucket({ entityId, resource, limits }: FilledBucket): readonly Attributes[] {
    const keys = { GSI2PK: S(this.#pk(`RESOURCE#${resource}`)), ttl: N(Math.floor(T0 / 1000) + 900_000) };
    if (this.#layout === "0.4" || this.#layout === "0.6") {
      return limits.map((limit) =>
        this.#item(
          `ENTITY#${entityId}`,
          `#BUCKET#${resource}#${limit.name}`,
          { ...keys, GSI2SK: S(`BUCKET#${entityId}#${limit.name}`), entity_id: S(entityId) },
          {
            ...{ resource: S(resource), limit_name: S(limit.name) },
            ...{ tokens_milli: N(limit.tokensMilli), last_refill_ms: N(limit.refilledAtMs) },
            ...{ capacity_milli: N(limit.capacity * 1000), burst_milli: N(limit.burst * 1000) },
            ...{ refill_amount_milli: N(limit.refillAmount * 1000), refill_period_ms: N(limit.refillPeriodS * 1000) },
            total_consumed_milli: N(5_000),
          },
        ),
      );
    }
    const rf = sharedRefill(limits);
    const own = limits.flatMap((limit) => {
      const at = (what: string) => `b_${limit.name}_${what}`;
      return [
        [at("tk"), N(limit.tokensMilli)],
        [at("cp"), N((this.#layout === "0.8" ? limit.capacity : limit.burst) * 1000)],
        ...(this.#layout === "0.8" ? [[at("bx"), N(limit.burst * 1000)]] : []),
        [at("ra"), N(limit.refillAmount * 1000)],
        [at("rp"), N(limit.refillPeriodS * 1000)],
        [at("tc"), N(5_000)],
      ] as [string, AttributeValue][];
    });
    const index = { ...keys, GSI2SK: S(`BUCKET#${entityId}`), ...this.#inNamespace(`ENTITY#${entityId}`) };
    return [
      this.#item(`ENTITY#${entityId}`, `#BUCKET#${resource}`, index, {
        ...{ entity_id: S(entityId), resource: S(resource), rf: N(rf) },
        ...Object.fromEntries(own),
      }),
    ];
  }

  config({ entityId, resource, limits }: FilledConfig): readonly Attributes[] {
    const owner =
      entityId !== undefined ? `ENTITY#${entityId}` : resource === undefined ? "SYSTEM#" : `RESOURCE#${resource}`;
    if (this.#layout === "0.4" || this.#layout === "0.6") {
      const prefix = entityId === undefined ? "#LIMIT#" : `#LIMIT#${resource}#`;
      return limits.map((limit) =>
        this.#item(
          owner,
          `${prefix}${limit.name}`,
          {},
          {
            ...(entityId === undefined ? {} : { entity_id: S(entityId) }),
            ...(resource === undefined ? {} : { resource: S(resource) }),
            ...{ limit_name: S(limit.name), capacity: N(limit.capacity), burst: N(limit.burst) },
            ...{ refill_amount: N(limit.refillAmount), refill_period_seconds: N(limit.refillPeriodS) },
          },
        ),
      );
    }
    const own = limits.flatMap((limit) => [
      [`l_${limit.name}_cp`, N(this.#layout === "0.8" ? limit.capacity : limit.burst)],
      ...(this.#layout === "0.8" ? [[`l_${limit.name}_bx`, N(limit.burst)]] : []),
      [`l_${limit.name}_ra`, N(limit.refillAmount)],
      [`l_${limit.name}_rp`, N(limit.refillPeriodS)],
    ]) as [string, AttributeValue][];
    const keys =
      entityId === undefined || resource === undefined
        ? {}
        : { GSI3PK: S(this.#pk(`ENTITY_CONFIG#${resource}`)), GSI3SK: S(entityId) };
    return [
      this.#item(
        owner,
        entityId === undefined ? "#CONFIG" : `#CONFIG#${resource}`,
        {
          ...keys,
          ...this.#inNamespace(owner),
        },
        {
          ...(entityId === undefined ? {} : { entity_id: S(entityId) }),
          ...(resource === undefined ? { on_unavailable: S("allow") } : { resource: S(resource) }),
          config_version: N(1),
          ...Object.fromEntries(own),
        },
      ),
    ];
  }

  usage({ entityId, resource, window, start, counters, events }: FilledUsage): Attributes {
    const owner = `ENTITY#${entityId}`;
    // Flat in every release.
    return {
      ...{
        PK: S(this.#pk(owner)),
        SK: S(`#USAGE#${resource}#${start}`),
        entity_id: S(entityId),
        resource: S(resource),
      },
      ...{ window: S(window), window_start: S(start), total_events: N(events) },
      ...Object.fromEntries(Object.entries(counters).map(([limit, tokens]) => [limit, N(tokens)])),
      ...{ GSI2PK: S(this.#pk(`RESOURCE#${resource}`)), GSI2SK: S(`USAGE#${start}#${entityId}`) },
      ...{ ttl: N(Math.floor(T0 / 1000) + 7_000_000), ...this.#inNamespace(owner) },
    };
  }

  audit({ entityId, id, action, at }: (typeof STORY.audit)[number]): Attributes {
    const owner = `AUDIT#${entityId}`;
    const keys = { entity_id: S(entityId), ttl: N(2_000_000_000), ...this.#inNamespace(owner) };
    return this.#item(owner, `#AUDIT#${id}`, keys, {
      ...{ event_id: S(id), timestamp: S(at), action: S(action), principal: S("ops"), resource: { NULL: true } },
      details: { M: { limits: { L: [{ M: { name: S("rpm"), capacity: N(100) } }] } } },
    });
  }

  registries(): readonly Attributes[] {
    if (this.#layout === "0.4") return [];
    const resources = { resources: { SS: ["openai/gpt-4"] } };
    const index = this.#inNamespace("SYSTEM#");
    const listed = this.#item("SYSTEM#", "#RESOURCES", index, resources);
    if (this.#layout === "0.6") return [listed];
    const counts = { "openai/gpt-4": N(2), _default_: N(1) };
    return [listed, this.#item("SYSTEM#", "#ENTITY_CONFIG_RESOURCES", index, counts)];
  }

  version(): readonly Attributes[] {
    const said = {
      ...{ schema_version: S(`${this.#layout}.0`), lambda_version: S("0.7.1"), client_min_version: S("0.0.0") },
      ...{ updated_at: S("2026-03-01T10:00:00Z"), updated_by: S("cli:0.7.1") },
    };
    if (this.#layout !== "0.9") return [this.#item("SYSTEM#", "#VERSION", {}, said)];
    const registry = { GSI4PK: S("_"), GSI4SK: S("_/SYSTEM#") };
    const namespace = {
      ...{ namespace_id: S(this.#namespaceId), namespace_name: S("default"), status: S("active"), ...registry },
      created_at: S("2026-03-01T10:00:00Z"),
    };
    const at = (sk: string) => ({ PK: S("_/SYSTEM#"), SK: S(sk) });
    return [
      { ...at("#VERSION"), ...said, ...registry },
      { ...at("#NAMESPACE#default"), ...namespace },
      { ...at(`#NSID#${this.#namespaceId}`), ...namespace },
    ];
  }

  #pk(owner: string): string {
    return this.#layout === "0.9" ? `${this.#namespaceId}/${owner}` : owner;
  }

  #inNamespace(owner: string): Attributes {
    return this.#layout === "0.9" ? { GSI4PK: S(this.#namespaceId), GSI4SK: S(this.#pk(owner)) } : {};
  }

  /** Until 0.5 all but keys stands in a map. */
  #item(owner: string, sk: string, keys: Attributes, own: Attributes): Attributes {
    const place = { PK: S(this.#pk(owner)), SK: S(sk), ...keys };
    return this.#layout === "0.4" && sk !== "#RESOURCES" ? { ...place, data: { M: own } } : { ...place, ...own };
  }
}

/** Layouts with one item a bucket have one time of refill. */
export function sharedRefill(limits: readonly FilledLimit[]): number {
  return Math.max(...limits.map(({ refilledAtMs }) => refilledAtMs));
}

/** What the original says a limit holds: the rules of its token bucket, in whole numbers of any size. */
export function originalLevel(limit: FilledLimit, refilledAtMs: number, atMs: number): number {
  const elapsedMs = BigInt(atMs - refilledAtMs);
  const gained = (elapsedMs * BigInt(limit.refillAmount * 1000)) / BigInt(limit.refillPeriodS * 1000);
  if (elapsedMs <= 0n || gained === 0n) return limit.tokensMilli;
  const level = BigInt(limit.tokensMilli) + gained;
  const most = BigInt(limit.burst * 1000);
  return Number(level < most ? level : most);
}

function hourly(entityId: string, resource: string, start: string, counters: FilledUsage["counters"], events: number) {
  return [{ entityId, resource, window: "hourly" as const, start, counters, events }];
}

function daily(entityId: string, resource: string, start: string, counters: FilledUsage["counters"], events: number) {
  return [{ entityId, resource, window: "daily" as const, start, counters, events }];
}
