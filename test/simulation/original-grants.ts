import { divFloor } from "../../src/bucket/integers.ts";
import type { Limit } from "../../src/domain/limits/limit.ts";
import type { Calendar } from "../../src/domain/limits/schedule.ts";
import type { Clause, Item, ItemKey, ItemWrite } from "../../src/ports/item-store.ts";
import { namesOf, RF, SHARD_COUNT } from "../../src/protocol/item/attributes.ts";
import type { OriginalLine } from "./original-line.ts";
import { capacityInForce, freshShareMilli, isOn, lastEdgeMs, numberIn, shardCountIn } from "./original-terms.ts";
import { asSeen, change } from "./original-words.ts";
import { raiseWrite } from "./original-writes.ts";

/** What quotas begin with on a shard that has none of them yet, and whom it is taken from. */
export interface Grants {
  /** Per limit, in millitokens. */
  readonly levels: ReadonlyMap<string, number>;
  /** In the same transaction as the shard's own write. */
  readonly debits: readonly ItemWrite[];
}

export const NO_GRANTS: Grants = { levels: new Map(), debits: [] };

/** After a move was lost twice: nothing, until the next period. */
export function emptyGrants(quotas: readonly Limit[]): Grants {
  return { levels: new Map(quotas.map(({ name }) => [name, 0])), debits: [] };
}

/**
 * Unlike a drip, a quota is not minted on a new shard but moved there, from the sibling whose grant covers it: one
 * granted when there were g shards covers every g-th. Where none does, the shard has a grant of its own to come.
 */
export async function planGrants(
  line: OriginalLine,
  key: ItemKey,
  quotas: readonly Limit[],
  count: number,
  nowMs: number,
  calendar: Calendar,
): Promise<Grants> {
  const siblings = await siblingsOf(line, key, count);
  const levels = new Map<string, number>();
  const debits = new Map<number, ItemWrite>();
  for (const quota of quotas) {
    const shareMilli = freshShareMilli(quota, count, nowMs, calendar);
    const donor = donorOf(siblings, key.shard, quota, nowMs, calendar);
    if (donor === undefined) {
      levels.set(quota.name, shareMilli);
      await raiseLagging(line, siblings, count, quotas, nowMs, calendar);
      continue;
    }
    const movedMilli = Math.max(0, Math.min(shareMilli, numberIn(donor.item, namesOf(quota.name).tk)));
    levels.set(quota.name, movedMilli);
    if (movedMilli === 0) continue;
    const debit = debitOf(donor, quota, movedMilli, nowMs, calendar);
    debits.set(donor.key.shard, joined(debits.get(donor.key.shard), debit));
  }
  return { levels, debits: [...debits.values()] };
}

/** Should the shards have been doubled while one was made, it has to hear of it. */
export async function repairCreated(line: OriginalLine, key: ItemKey, made: Item, quotas: readonly Limit[]) {
  const [first] = await line.read([{ bucket: key.bucket, shard: 0 }], true);
  const count = first === undefined ? 1 : shardCountIn(first);
  if (count <= shardCountIn(made)) return;
  const frozen = Object.fromEntries(quotas.map(({ name }) => [namesOf(name).gc, shardCountIn(made)]));
  await line.writeThrough(raiseWrite(key, count, frozen));
}

interface Sibling {
  readonly key: ItemKey;
  readonly item: Item;
}

async function siblingsOf(line: OriginalLine, key: ItemKey, count: number): Promise<Sibling[]> {
  // By an index first, and then the items.
  await line.readElsewhere();
  const keys = Array.from({ length: count }, (_, shard) => ({ bucket: key.bucket, shard }));
  const items = await line.read(keys, false);
  return keys.flatMap((other, i) => {
    const item = items[i];
    return item === undefined || other.shard === key.shard ? [] : [{ key: other, item }];
  });
}

function donorOf(
  siblings: readonly Sibling[],
  shard: number,
  quota: Limit,
  nowMs: number,
  calendar: Calendar,
): Sibling | undefined {
  const edgeMs = lastEdgeMs(quota, nowMs, calendar);
  let best: { readonly sibling: Sibling; readonly granted: number } | undefined;
  for (const sibling of siblings) {
    if (!isOn(sibling.item, quota.name) || numberIn(sibling.item, RF) < edgeMs) continue;
    const granted = grantedAt(sibling.item, quota, nowMs, calendar);
    if (shard % granted !== sibling.key.shard % granted) continue;
    if (best === undefined || granted > best.granted) best = { sibling, granted };
  }
  return best?.sibling;
}

/** How many shards there were when the quota was granted; guessed for items that do not say. */
function grantedAt(item: Item, quota: Limit, nowMs: number, calendar: Calendar): number {
  const names = namesOf(quota.name);
  if (names.gc in item) return numberIn(item, names.gc);
  const capacityMilli = capacityInForce(item, quota, nowMs, calendar);
  let granted = shardCountIn(item);
  while (granted > 1 && numberIn(item, names.tk) > divFloor(capacityMilli, granted)) granted = divFloor(granted, 2);
  return granted;
}

function debitOf({ key, item }: Sibling, quota: Limit, milli: number, nowMs: number, calendar: Calendar): ItemWrite {
  const { tk, gc } = namesOf(quota.name);
  const edgeMs = lastEdgeMs(quota, nowMs, calendar);
  const when: Clause[] = [[{ name: tk, is: ">=", value: milli }], asSeen(item, gc)];
  if (!(gc in item)) when.push(asSeen(item, SHARD_COUNT));
  if (Number.isFinite(edgeMs)) when.push([{ name: RF, is: ">=", value: edgeMs }]);
  return change(key, { when, add: { [tk]: -milli } });
}

function joined(one: ItemWrite | undefined, other: ItemWrite): ItemWrite {
  if (one === undefined) return other;
  return { ...one, when: [...one.when, ...other.when], add: { ...one.add, ...other.add } };
}

/** A sibling that has not heard of the new count would reset to a larger share. */
async function raiseLagging(
  line: OriginalLine,
  siblings: readonly Sibling[],
  count: number,
  quotas: readonly Limit[],
  nowMs: number,
  calendar: Calendar,
): Promise<void> {
  for (const { key, item } of siblings) {
    if (shardCountIn(item) >= count) continue;
    const unsaid = quotas.filter(({ name }) => isOn(item, name) && !(namesOf(name).gc in item));
    const frozen = unsaid.map((quota) => [namesOf(quota.name).gc, grantedAt(item, quota, nowMs, calendar)]);
    await line.writeThrough(raiseWrite(key, count, Object.fromEntries(frozen)));
  }
}
