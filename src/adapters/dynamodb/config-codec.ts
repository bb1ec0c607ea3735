import type { Access, ConfigScope, LevelOptions, OnUnavailable, StoredConfig } from "../../domain/config/config.ts";
import {
  isSameVersion,
  type LimitsVersion,
  versionsFrom,
  versionsText,
  withVersion,
} from "../../domain/config/config-versions.ts";
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
import { texts } from "./records-write.ts";
import {
  APPLIES_TO,
  CASCADE,
  CONFIG_VERSION,
  configIndexKeys,
  configNamesOf,
  configResource,
  DISABLED,
  ENTITY_ID,
  INHERIT,
  ON_UNAVAILABLE,
  RESOURCE,
  SCHED_TZ,
  USAGE_KEPT_DAYS,
} from "./schema.ts";
import { usageKeptDaysIn } from "./usage-kept.ts";

/** Ours: the names of the limits in the order in which they were set. The original drops it; then they are sorted by name. */
const LIMIT_ORDER = "limit_order";

/** Ours: what the item said of limits over time (domain/config/config-versions.ts). The original drops it. */
const LIMIT_HISTORY = "limit_history";

/** What an item of configuration says; undefined where it says nothing. Throws a `VersionError` for one that is unreadable. */
export function decodeConfig(item: Attributes | undefined): StoredConfig | undefined {
  if (item === undefined) return undefined;
  const limits = limitsIn(item);
  const access = accessIn(item[DISABLED]);
  const cascade = item[CASCADE]?.BOOL;
  const onUnavailable = item[ON_UNAVAILABLE]?.S as OnUnavailable | undefined;
  const usageKeptDays = usageKeptDaysIn(item);
  const said = {
    ...optionsIn(item),
    ...given({ onUnavailable, usageKeptDays, access, cascade }),
  };
  return limits.length === 0 && Object.keys(said).length === 0 ? undefined : { limits, ...said };
}

/** The same but for its limits, which need not be readable: they are to be replaced. */
export function decodePolicy(item: Attributes | undefined): StoredConfig | undefined {
  return item === undefined ? undefined : decodeConfig(Object.fromEntries(Object.entries(item).filter(isNoLimit)));
}

export function hasLimits(item: Attributes | undefined): boolean {
  return item !== undefined && Object.keys(item).some((name) => LIMIT_CAPACITY.test(name));
}

/** What an item said of limits over time; undefined where nothing is known of that, or limits were set without it since. */
export function historyIn(item: Attributes | undefined): readonly LimitsVersion[] | undefined {
  const text = item?.[LIMIT_HISTORY]?.S;
  const versions = text === undefined || item === undefined ? undefined : versionsFrom(text);
  if (item === undefined || versions === undefined) return undefined;
  return isSameVersion(versions.at(-1), { limits: limitsIn(item), ...optionsIn(item) }) ? versions : undefined;
}

/** The same after the limits were changed at an instant. */
export function historyAfter(
  before: Attributes | undefined,
  config: StoredConfig | undefined,
  atMs: number,
): readonly LimitsVersion[] | undefined {
  const was = readableLimits(before);
  const history = was === undefined ? undefined : historyIn(before);
  // As they are read from the item: what is written in several ways is the same there.
  const limits = limitsIn(encodedLimits(config?.limits ?? []));
  return withVersion(history, { limits: was ?? [], ...optionsIn(before) }, { ...config, limits }, { atMs });
}

/** Whether an item says nothing any more, and is there for what it said. */
export function isHistoryOnly(item: Attributes | undefined): boolean {
  return item?.[LIMIT_HISTORY] !== undefined && item[CONFIG_VERSION] === undefined;
}

// Limits that are replaced need not be legible; then nothing is known of the time before.
function readableLimits(item: Attributes | undefined): readonly Limit[] | undefined {
  try {
    return item === undefined ? [] : limitsIn(item);
  } catch (error) {
    if (error instanceof VersionError) return undefined;
    throw error;
  }
}

/**
 * The item for a configuration in place of `before`, without its key, one version later. What another program keeps there is
 * kept. Undefined when nothing is left to say.
 */
export function encodeConfig(
  config: StoredConfig | undefined,
  before: Attributes | undefined,
  place: { readonly namespaceId: string; readonly scope: ConfigScope },
  history: readonly LimitsVersion[] | undefined,
): Attributes | undefined {
  const others = foreignIn(before);
  const said: Attributes = history === undefined ? {} : { [LIMIT_HISTORY]: { S: versionsText(history) } };
  const { namespaceId, scope } = place;
  if (config === undefined && Object.keys(others).length === 0) {
    if (history === undefined) return undefined;
    // Found by its namespace, so that it is removed with it, and in no list of those that have limits.
    const { GSI3PK: _, GSI3SK: __, ...index } = configIndexKeys(namespaceId, scope) as Record<string, string>;
    return { ...texts(index), ...said };
  }
  const resource = configResource(scope);
  const { limits, inherit, appliesTo, access, cascade, onUnavailable, usageKeptDays } = config ?? { limits: [] };
  const version = Number(before?.[CONFIG_VERSION]?.N ?? 0) + 1;
  return {
    ...others,
    ...said,
    ...texts(configIndexKeys(namespaceId, scope)),
    ...("entityId" in scope ? { [ENTITY_ID]: { S: scope.entityId } } : {}),
    ...(resource === undefined ? {} : { [RESOURCE]: { S: resource } }),
    [CONFIG_VERSION]: { N: String(version) },
    ...encodedLimits(limits),
    ...(inherit === true ? { [INHERIT]: { BOOL: true } } : {}),
    ...(appliesTo === undefined ? {} : { [APPLIES_TO]: { S: appliesTo } }),
    ...(access === undefined ? {} : { [DISABLED]: encodedAccess(access) }),
    ...(cascade === undefined ? {} : { [CASCADE]: { BOOL: cascade } }),
    ...(onUnavailable === undefined ? {} : { [ON_UNAVAILABLE]: { S: onUnavailable } }),
    ...(usageKeptDays === undefined ? {} : { [USAGE_KEPT_DAYS]: { N: String(usageKeptDays) } }),
  };
}

/** Attributes that say what is configured. A change of them is conditional on each being as it was read. */
export function wordsIn(item: Attributes): Attributes {
  return Object.fromEntries(Object.entries(item).filter(([name]) => isWord(name)));
}

/** The flags of an item of configuration: what is not there must still not be there. */
export const FLAGS = [
  ...[DISABLED, CASCADE, ON_UNAVAILABLE, USAGE_KEPT_DAYS, SCHED_TZ, CONFIG_VERSION, INHERIT, APPLIES_TO],
] as const;

const PREFIXES = `[l${STORED.map(({ prefix }) => prefix).join("")}]`;
const FIELDS = FIELDS_STORED.map(({ attribute, configured = attribute }) => configured).join("|");
const LIMIT_WORD = new RegExp(`^${PREFIXES}_(.+)_(cp|ra|rp|${FIELDS})$`);
const LIMIT_CAPACITY = new RegExp(`^(${PREFIXES})_(.+)_cp$`);
const KEYS = /^(PK|SK|GSI[1-4][PS]K)$/;

function isNoLimit([name]: readonly [string, AttributeValue]): boolean {
  return !LIMIT_WORD.test(name);
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
    ([name]) => !isWord(name) && !KEYS.test(name) && name !== ENTITY_ID && name !== RESOURCE,
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

/** Of limits on how many are at once, to which nothing comes back by time. */
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
