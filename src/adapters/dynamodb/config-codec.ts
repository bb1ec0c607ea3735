import {
  type Access,
  type AccessOverride,
  type ConfigScope,
  frozenOf,
  type LevelOptions,
  type OnUnavailable,
  type StoredConfig,
  textOfFrozen,
} from "../../domain/config/config.ts";
import {
  isSameVersion,
  type LimitsVersion,
  versionsFrom,
  versionsText,
  withVersion,
} from "../../domain/config/config-versions.ts";
import { limitsAnything, overrideFrom } from "../../domain/config/overrides.ts";
import type { KindStored } from "../../domain/limits/kinds/kind.ts";
import { STORED, storedOf } from "../../domain/limits/kinds/table.ts";
import { type Limit, zoneOf } from "../../domain/limits/limit.ts";
import type { StoredValue } from "../../domain/limits/limit-field.ts";
import { COMMON_STORED, FIELDS_STORED } from "../../domain/limits/limit-stored.ts";
import { TZ_DEFAULT } from "../../domain/limits/schedule.ts";
import type { Decoded } from "../../domain/limits/schedule-grammar.ts";
import { VersionError } from "../../domain/names/errors.ts";
import { given } from "../../domain/names/given.ts";
import { type Attributes, type AttributeValue, decodeNumber } from "./codec.ts";
import { type RecordWrite, texts, updateRecord } from "./records-write.ts";
import { daysIn } from "./retention.ts";
import {
  APPLIES_TO,
  CASCADE,
  CONFIG_VERSION,
  configIndexKeys,
  configNamesOf,
  configResource,
  DISABLED,
  ENTITY_ID,
  entityConfigRegistryKey,
  FROZEN,
  GSI3PK,
  INHERIT,
  ON_UNAVAILABLE,
  RESOURCE,
  RESOURCES,
  resourceRegistryKey,
  SCHED_TZ,
  systemIndexKeys,
  USAGE_KEPT_DAYS,
} from "./schema.ts";

/**
 * Ours: the names of the limits in the order in which they were set. The original drops the attribute; then limits are
 * sorted by name.
 */
const LIMIT_ORDER = "limit_order";

/** Ours: the versions of the limits (domain/config/config-versions.ts). The original drops the attribute. */
export const LIMIT_HISTORY = "limit_history";

/** Ours: limits and access in place of those of the item until an instant, as JSON (domain/config/overrides.ts). */
const LIMIT_OVERRIDE = "limit_override";
const ACCESS_OVERRIDE = "access_override";

/**
 * Decodes an item of configuration; undefined if nothing is configured there. Throws a `VersionError` for an unreadable
 * item.
 */
export function decodeConfig(item: Attributes | undefined): StoredConfig | undefined {
  if (item === undefined) return undefined;
  const limits = limitsIn(item);
  const access = accessIn(item[DISABLED]);
  const cascade = item[CASCADE]?.BOOL;
  const onUnavailable = item[ON_UNAVAILABLE]?.S as OnUnavailable | undefined;
  const usageKeptDays = daysIn(item, USAGE_KEPT_DAYS);
  const frozen = frozenOf(item[FROZEN]?.S);
  const said = {
    ...optionsIn(item),
    ...given({ onUnavailable, usageKeptDays, access, cascade, frozen }),
    ...overridesIn(item),
  };
  return limits.length === 0 && Object.keys(said).length === 0 ? undefined : { limits, ...said };
}

/** Decodes everything but the limits, which may be unreadable: they are about to be replaced. */
export function decodePolicy(item: Attributes | undefined): StoredConfig | undefined {
  return item === undefined ? undefined : decodeConfig(Object.fromEntries(Object.entries(item).filter(isNoLimit)));
}

/** Whether an item has limits of its own, or an override of them; that counts only while it runs, where a reading of the clock is given. */
export function hasLimits(item: Attributes | undefined, nowMs?: number): boolean {
  if (item === undefined || hasBase(item) || nowMs === undefined) {
    return item !== undefined && (hasBase(item) || item[LIMIT_OVERRIDE] !== undefined);
  }
  return limitsAnything({ limits: [], ...overridesIn(item) }, nowMs);
}

export function hasBase(item: Attributes | undefined): boolean {
  return item !== undefined && Object.keys(item).some((name) => LIMIT_CAPACITY.test(name));
}

function overridesIn(item: Attributes): Pick<StoredConfig, "override" | "accessOverride"> {
  const [limits, access] = [item[LIMIT_OVERRIDE]?.S, item[ACCESS_OVERRIDE]?.S];
  try {
    return given({
      override: limits === undefined ? undefined : overrideFrom(JSON.parse(limits)),
      accessOverride: access === undefined ? undefined : (JSON.parse(access) as AccessOverride),
    });
  } catch {
    throw unreadable(item, "an override of it is damaged");
  }
}

/** The versions of an item's limits; undefined if they are unknown, or if limits were set since without recording one. */
export function historyIn(item: Attributes | undefined): readonly LimitsVersion[] | undefined {
  const text = item?.[LIMIT_HISTORY]?.S;
  const versions = text === undefined || item === undefined ? undefined : versionsFrom(text);
  if (item === undefined || versions === undefined) return undefined;
  return isSameVersion(versions.at(-1), { limits: limitsIn(item), ...optionsIn(item) }) ? versions : undefined;
}

/** The versions after the limits were changed at an instant. */
export function historyAfter(
  before: Attributes | undefined,
  config: StoredConfig | undefined,
  atMs: number,
): readonly LimitsVersion[] | undefined {
  // Limits that are replaced may be unreadable; then the time before is unknown.
  const was = before === undefined ? [] : ifReadable(() => limitsIn(before));
  const history = was === undefined ? undefined : historyIn(before);
  const override = before === undefined ? undefined : ifReadable(() => overridesIn(before).override);
  // Encode and decode, because several notations are stored alike.
  const limits = limitsIn(encodedLimits(config?.limits ?? []));
  const said = { limits: was ?? [], ...optionsIn(before), ...given({ override }) };
  return withVersion(history, said, { ...config, limits }, { atMs });
}

/** True for an item without configuration that only keeps former versions. */
export function isHistoryOnly(item: Attributes | undefined): boolean {
  return item?.[LIMIT_HISTORY] !== undefined && item[CONFIG_VERSION] === undefined;
}

/** Undefined instead of a `VersionError` for an item that cannot be read. */
export function ifReadable<Value>(read: () => Value): Value | undefined {
  try {
    return read();
  } catch (error) {
    if (error instanceof VersionError) return undefined;
    throw error;
  }
}

/**
 * The item for a configuration in place of `before`, without its key, one version later. Attributes of other programs
 * are kept. Undefined when nothing is left to store.
 */
export function encodeConfig(
  config: StoredConfig | undefined,
  before: Attributes | undefined,
  { namespaceId, scope }: ConfigPlace,
  history: readonly LimitsVersion[] | undefined,
): Attributes | undefined {
  const others = foreignIn(before);
  const versions = texts(given({ [LIMIT_HISTORY]: history && versionsText(history) }));
  if (config === undefined && Object.keys(others).length === 0) {
    if (history === undefined) return undefined;
    return { ...historyPlace({ namespaceId, scope }), ...versions };
  }
  const {
    limits,
    inherit,
    appliesTo,
    access,
    cascade,
    onUnavailable,
    usageKeptDays,
    override,
    accessOverride,
    frozen,
  } = config ?? EMPTY;
  const version = Number(before?.[CONFIG_VERSION]?.N ?? 0) + 1;
  return {
    ...others,
    ...versions,
    ...configIdentity({ namespaceId, scope }),
    [CONFIG_VERSION]: { N: String(version) },
    ...encodedLimits(limits),
    ...(inherit === true ? { [INHERIT]: { BOOL: true } } : {}),
    ...texts(given({ [APPLIES_TO]: appliesTo, [ON_UNAVAILABLE]: onUnavailable, [FROZEN]: textOfFrozen(frozen) })),
    ...(access === undefined ? {} : { [DISABLED]: encodedAccess(access) }),
    ...(cascade === undefined ? {} : { [CASCADE]: { BOOL: cascade } }),
    ...(usageKeptDays === undefined ? {} : { [USAGE_KEPT_DAYS]: { N: String(usageKeptDays) } }),
    ...texts(given({ [LIMIT_OVERRIDE]: override && JSON.stringify(override) })),
    ...texts(given({ [ACCESS_OVERRIDE]: accessOverride && JSON.stringify(accessOverride) })),
  };
}

const EMPTY: StoredConfig = { limits: [] };

/** The place of an item that keeps former versions: indexed by its namespace, so that it is deleted with it, but not listed as having limits. */
export function historyPlace({ namespaceId, scope }: ConfigPlace): Attributes {
  const { GSI3PK: _, GSI3SK: __, ...index } = configIndexKeys(namespaceId, scope) as Record<string, string>;
  return texts(index);
}

export interface ConfigPlace {
  readonly namespaceId: string;
  readonly scope: ConfigScope;
}

/** The attributes that follow from the level of an item: its place in the indexes, and its names. */
export function configIdentity({ namespaceId, scope }: ConfigPlace): Attributes {
  const entityId = "entityId" in scope ? scope.entityId : undefined;
  return texts({
    ...configIndexKeys(namespaceId, scope),
    ...given({ [ENTITY_ID]: entityId, [RESOURCE]: configResource(scope) }),
  });
}

/** True for the keys of the table and of its indexes. */
export function isKeyAttribute(name: string): boolean {
  return /^(PK|SK|GSI[1-4][PS]K)$/.test(name);
}

/** The attributes with configuration. A change is conditional on each being as it was read. */
export function wordsIn(item: Attributes): Attributes {
  return Object.fromEntries(Object.entries(item).filter(([name]) => isWord(name)));
}

/** The flags of an item of configuration. A change is conditional on the absence of those that were absent. */
export const FLAGS = [
  ...[DISABLED, CASCADE, ON_UNAVAILABLE, USAGE_KEPT_DAYS, SCHED_TZ, CONFIG_VERSION, INHERIT, APPLIES_TO],
  ...[LIMIT_OVERRIDE, ACCESS_OVERRIDE, FROZEN],
] as const;

const PREFIXES = `[l${STORED.map(({ prefix }) => prefix).join("")}]`;
const FIELDS = FIELDS_STORED.map(({ attribute, configured = attribute }) => configured).join("|");
const LIMIT_WORD = new RegExp(`^${PREFIXES}_(.+)_(cp|ra|rp|${FIELDS})$`);
const LIMIT_CAPACITY = new RegExp(`^(${PREFIXES})_(.+)_cp$`);

function isNoLimit([name]: readonly [string, AttributeValue]): boolean {
  return !LIMIT_WORD.test(name) && name !== LIMIT_OVERRIDE;
}

function isWord(name: string): boolean {
  return (
    LIMIT_WORD.test(name) ||
    name === LIMIT_ORDER ||
    name === LIMIT_HISTORY ||
    (FLAGS as readonly string[]).includes(name)
  );
}

function foreignIn(item: Attributes | undefined): Attributes {
  const foreign = Object.entries(item ?? {}).filter(
    ([name]) => !isWord(name) && !isKeyAttribute(name) && name !== ENTITY_ID && name !== RESOURCE,
  );
  return Object.fromEntries(foreign);
}

function encodedLimits(limits: readonly Limit[]): Attributes {
  if (limits.length === 0) return {};
  const attributes: Record<string, AttributeValue> = { [LIMIT_ORDER]: { S: limits.map(({ name }) => name).join(",") } };
  for (const limit of limits) {
    const { name, capacity, refillAmount, refillPeriodMs } = limit;
    const prefix = storedOf(limit)?.prefix ?? "l";
    const zone = zoneOf(limit);
    const names = configNamesOf(name, prefix);
    attributes[names.cp] = { N: String(capacity) };
    if (prefix !== SLOTS) {
      attributes[names.ra] = { N: String(refillAmount) };
      attributes[names.rp] = { N: String(refillPeriodMs / 1000) };
    }
    for (const { attribute, encoded } of FIELDS_STORED) {
      const value = encoded(limit);
      if (value !== undefined) attributes[names[attribute]] = attributeOf(value);
    }
    if (zone !== undefined) attributes[SCHED_TZ] = { S: zone };
  }
  return attributes;
}

function optionsIn(item: Attributes | undefined): LevelOptions {
  return {
    ...(item?.[INHERIT]?.BOOL === true ? { inherit: true as const } : {}),
    ...(item?.[APPLIES_TO]?.S === "callers" ? { appliesTo: "callers" as const } : {}),
  };
}

function limitsIn(item: Attributes): readonly Limit[] {
  const found = new Map<string, Limit>();
  for (const attribute in item) {
    const [, prefix, name] = LIMIT_CAPACITY.exec(attribute) ?? [];
    if (prefix === undefined || name === undefined) continue;
    if (found.has(name)) throw unreadable(item, `limit "${name}" is stored as limits of two kinds`);
    found.set(name, limitIn(item, name, prefix as Prefix));
  }
  const listed = item[LIMIT_ORDER]?.S?.split(",") ?? [];
  const rank = (name: string) => (listed.includes(name) ? listed.indexOf(name) : listed.length);
  return [...found.values()].sort((a, b) => rank(a.name) - rank(b.name) || (a.name < b.name ? -1 : 1));
}

type Prefix = KindStored["prefix"];

/** The prefix of concurrency limits, which do not refill. */
const SLOTS: Prefix = "p";

function limitIn(item: Attributes, name: string, prefix: Prefix): Limit {
  const names = configNamesOf(name, prefix);
  const whole = (attribute: string): number => {
    const text = item[attribute]?.N;
    if (text === undefined) throw unreadable(item, `"${attribute}" is missing`);
    return decodeNumber(text, attribute);
  };
  const zone = item[SCHED_TZ]?.S ?? TZ_DEFAULT;
  const fields = [...COMMON_STORED, ...STORED.filter((kind) => kind.prefix === prefix)].map((field) => {
    const attribute = names[field.attribute];
    const value =
      field.type === "number" ? whole(attribute) : field.type === "flag" ? item[attribute]?.BOOL : item[attribute]?.S;
    return value === undefined || value === false ? {} : readable(item, field.decoded(value, { zone, attribute }));
  });
  return Object.freeze({
    name,
    capacity: whole(names.cp),
    refillAmount: prefix === SLOTS ? 0 : whole(names.ra),
    refillPeriodMs: prefix === SLOTS ? 1000 : whole(names.rp) * 1000,
    ...Object.assign({}, ...fields),
  });
}

function attributeOf(value: StoredValue): AttributeValue {
  if (value === true) return { BOOL: true };
  return typeof value === "number" ? { N: String(value) } : { S: value };
}

function accessIn(disabled: AttributeValue | undefined): Access | undefined {
  if (disabled?.BOOL !== undefined) return disabled.BOOL ? "disabled" : "enforce";
  return disabled?.S === "bypass" ? "bypass" : undefined;
}

function encodedAccess(access: Access): AttributeValue {
  return access === "bypass" ? { S: "bypass" } : { BOOL: access === "disabled" };
}

function readable<Value>(item: Attributes, decoded: Decoded<Value>): Value {
  if (decoded.kind === "decoded") return decoded.value;
  throw unreadable(item, decoded.problem);
}

function unreadable(item: Attributes, problem: string): VersionError {
  const { PK: pk, SK: sk } = item;
  return new VersionError(
    "config_unreadable",
    `The configuration at ${pk?.S ?? "?"} ${sk?.S ?? "?"} cannot be read: ${problem}. Set the limits there again.`,
  );
}

/** Updates the number of entities' configuration items, by resource. */
export function countConfigs(namespaceId: string, changes: Readonly<Record<string, number>>): readonly RecordWrite[] {
  const add = Object.entries(changes).filter(([, change]) => change !== 0);
  if (add.length === 0) return [];
  const counts = Object.fromEntries(add.map(([resource, change]) => [resource, { N: String(change) }]));
  const set = texts(systemIndexKeys(namespaceId));
  return [updateRecord(entityConfigRegistryKey(namespaceId), { set, add: counts }, undefined)];
}

/** Adds a resource to the list of those with defaults, or removes it. */
export function listResource(namespaceId: string, resource: string, isListed: boolean): RecordWrite {
  const names: Attributes = { [RESOURCES]: { SS: [resource] } };
  const set = texts(systemIndexKeys(namespaceId));
  return updateRecord(
    resourceRegistryKey(namespaceId),
    isListed ? { set, add: names } : { set, without: names },
    undefined,
  );
}

/** True if the item was counted when it was created: the original's provisioner does not count. */
export function isCounted(item: Attributes | undefined): boolean {
  return item?.[GSI3PK] !== undefined;
}
