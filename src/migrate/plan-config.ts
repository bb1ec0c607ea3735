import type { Attributes, AttributeValue } from "../adapters/dynamodb/codec.ts";
import { texts } from "../adapters/dynamodb/records-write.ts";
import {
  CONFIG_VERSION,
  configIndexKeys,
  configKey,
  configNamesOf,
  configResource,
  ENTITY_ID,
  RESOURCE,
} from "../adapters/dynamodb/schema.ts";
import type { ConfigScope } from "../domain/config/config.ts";
import { unreadable, wholeIn } from "./old-items.ts";
import { type NewItem, newItemOf } from "./planned.ts";

/** One limit of a level in an item of its own. */
interface OldConfigLimit {
  readonly limit: string;
  readonly item: Attributes;
}

/** The limits of one level in one item: `composite`, where there is one, tells; items of single limits before that. */
export function planConfig(
  namespaceId: string,
  scope: ConfigScope,
  composite: Attributes | undefined,
  limits: readonly OldConfigLimit[],
): NewItem {
  const own = composite === undefined ? {} : withoutBurst(withoutKeys(composite));
  const hasLimits = Object.keys(own).some((name) => /^[lw]_.+_cp$/.test(name));
  const attributes = {
    ...own,
    ...(hasLimits ? {} : Object.assign({}, ...limits.map(limitAttributes))),
    ...identityOf(namespaceId, scope),
    [CONFIG_VERSION]: own[CONFIG_VERSION] ?? { N: "1" },
  };
  return newItemOf(configKey(namespaceId, scope), attributes);
}

/** What tells which level an item is of: its place in the indexes, and its names. */
export function identityOf(namespaceId: string, scope: ConfigScope): Attributes {
  const resource = configResource(scope);
  return texts({
    ...configIndexKeys(namespaceId, scope),
    ...("entityId" in scope ? { [ENTITY_ID]: scope.entityId } : {}),
    ...(resource === undefined ? {} : { [RESOURCE]: resource }),
  });
}

/** The capacity was the rate, and the burst what may be held: now that is the capacity. */
export function withoutBurst(item: Attributes): Attributes {
  const entries = Object.entries(item).filter(([name]) => !BURST.test(name));
  const bursts = Object.entries(item).flatMap(([name, value]): [string, AttributeValue][] => {
    const [, limit] = BURST.exec(name) ?? [];
    return limit === undefined ? [] : [[`l_${limit}_cp`, value]];
  });
  return { ...Object.fromEntries(entries), ...Object.fromEntries(bursts) };
}

export function burstNames(item: Attributes): readonly string[] {
  return Object.keys(item).filter((name) => BURST.test(name));
}

const BURST = /^l_(.+)_bx$/;

function withoutKeys(item: Attributes): Attributes {
  return Object.fromEntries(Object.entries(item).filter(([name]) => !/^(PK|SK|GSI[1-4][PS]K)$/.test(name)));
}

function limitAttributes({ limit, item }: OldConfigLimit): Attributes {
  const names = configNamesOf(limit, "l");
  const numbers = {
    [names.cp]: wholeIn(item, Number(item.burst?.N) > 0 ? "burst" : "capacity"),
    [names.ra]: wholeIn(item, "refill_amount"),
    [names.rp]: wholeIn(item, "refill_period_seconds"),
  };
  if (Object.values(numbers).some((value) => value <= 0)) {
    throw unreadable(item, `its limit "${limit}" has no capacity, refill or period`);
  }
  return Object.fromEntries(Object.entries(numbers).map(([name, value]) => [name, { N: String(value) }]));
}
