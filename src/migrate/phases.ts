import type { Attributes } from "../adapters/dynamodb/codec.ts";
import { CHILD_LINK } from "../adapters/dynamodb/entities-record.ts";
import { chunksOf, groupedBy } from "../adapters/dynamodb/paging.ts";
import {
  deleteRecord,
  exists,
  keyIn,
  missing,
  putRecord,
  texts,
  updateRecord,
} from "../adapters/dynamodb/records-write.ts";
import {
  entityConfigRegistryKey,
  itemTableKey,
  parseItemKey,
  RESOURCES,
  RF,
  resourceRegistryKey,
  SHARD_COUNT,
  SK,
  STATE_SK,
  systemIndexKeys,
  TTL,
} from "../adapters/dynamodb/schema.ts";
import type { Calendar } from "../domain/limits/schedule.ts";
import { ConflictError } from "../domain/names/errors.ts";
import { given } from "../domain/names/given.ts";
import type { Ledger, Migration } from "./ledger.ts";
import { type Partition, partitionOf } from "./old-items.ts";
import { planShards, type ShardsPlan } from "./plan-bucket.ts";
import { planPartition } from "./plan-partition.ts";
import {
  addCounts,
  type ConfigOf,
  type NewItem,
  NO_COUNTS,
  newItemOf,
  type PartitionPlan,
  type StepCounts,
} from "./planned.ts";
import { deleteByReceipt, isReceipt, isSameItem, writeReceipt } from "./receipts.ts";
import type { MigratedTable } from "./table.ts";
import { type Cursors, FROM_THE_BEGINNING, walk } from "./walk.ts";

export interface PhaseContext {
  readonly table: MigratedTable;
  readonly calendar: Calendar;
  readonly startedMs: number;
  readonly defaultNamespaceId: string;
  /** True if the original may have written buckets in our layout. */
  readonly hasBuckets: boolean;
  readonly signal: AbortSignal;
  /** Called with the number of items visited so far. */
  readonly onItems: (count: number) => void;
}

/** Counts what there is to do, and changes nothing. */
export async function countItems(context: PhaseContext): Promise<StepCounts> {
  let counts = NO_COUNTS;
  await visitAll(
    context,
    FROM_THE_BEGINNING,
    async () => {},
    async (_, own) => {
      counts = addCounts(counts, own);
    },
  );
  return counts;
}

/** Makes every new item that is not there yet. */
export async function copy(context: PhaseContext, ledger: Ledger): Promise<void> {
  await visitAll(
    context,
    ledger.migration.cursors,
    async (plan) => {
      for (const some of chunksOf(plan.makes, PUTS_AT_ONCE)) {
        await Promise.all(some.map((item) => context.table.putNew(item)));
      }
    },
    (cursors, counts) => ledger.save({ cursors, counts: addCounts(ledger.migration.counts, counts) }),
  );
}

/** Bounds the puts of one partition: some have thousands of events. */
const PUTS_AT_ONCE = 4;
const ROUNDS_MAX = 3;

/**
 * Reads everything a second time, old and new, and mends what differs; then writes the registries. Ends when a whole round
 * found nothing: something that keeps changing is still in use.
 */
export async function check(context: PhaseContext, ledger: Ledger): Promise<void> {
  for (let round = 1; ; round++) {
    const configs: ConfigOf[] = [];
    let mended = 0;
    await visitAll(context, FROM_THE_BEGINNING, async (plan, partition, { pk, found }) => {
      configs.push(...plan.configs);
      // Partitions are visited side by side: one expression would add to the sum from before the wait.
      const own = await mend(context, ledger, plan.makes, partition);
      mended += own;
      const { removes } = plan;
      if (own === 0 && removes.length > 0) {
        await writeReceipt(context.table, { pk, found, removes, startedMs: context.startedMs });
      }
    });
    if (mended === 0) return writeRegistries(context.table, ledger, configs);
    if (round === ROUNDS_MAX) throw stillInUse(context.table.name, mended);
  }
}

/**
 * Deletes old items as they were compared, and changes those that stay. Nothing is copied from here on: half of a group would be merged.
 */
export async function clean(context: PhaseContext, ledger: Ledger): Promise<void> {
  const { table } = context;
  await visitAll(
    context,
    ledger.migration.cursors,
    async (plan, _, { pk, found, shards }) => {
      for (const { key, set, remove } of plan.changes) {
        await table.records.transact([updateRecord(key, { set, remove }, exists)]);
      }
      if (shards?.kind === "joins") await joinShards(table, shards);
      await deleteByReceipt(table, { pk, found, removes: plan.removes, startedMs: context.startedMs });
    },
    (cursors) => ledger.save({ cursors }),
  );
}

/** Removes what was copied; returns the number of items. */
export async function uncopy(context: PhaseContext, ledger: Ledger): Promise<number> {
  const { table } = context;
  let removed = 0;
  await visitAll(context, FROM_THE_BEGINNING, async ({ makes }, _, { found }) => {
    const own = await copiedOf(table, makes);
    await table.records.deleteAll([...own.map(({ key }) => key), ...found.filter(isReceipt).map(keyIn)]);
    removed += own.length;
  });
  await visitMade(context, ledger.migration, async (items) => {
    await table.records.deleteAll(items.map(keyIn));
    removed += items.length;
  });
  return removed;
}

/** Counts the items that `uncopy` would remove. */
export async function countCopied(context: PhaseContext, migration: Migration): Promise<number> {
  const { madeNamespace, namespaceId } = migration;
  let count = 0;
  await visitAll(context, FROM_THE_BEGINNING, async ({ makes }) => {
    // Items of the namespace that the migration made are counted with it.
    const others = madeNamespace ? makes.filter(({ key }) => !key.pk.startsWith(`${namespaceId}/`)) : makes;
    const own = await copiedOf(context.table, others);
    count += own.length;
  });
  await visitMade(context, migration, async (items) => {
    count += items.length;
  });
  return count;
}

/** Selects items that are stored as they were copied: others have been written since. Child links may have been there before. */
async function copiedOf(table: MigratedTable, makes: readonly NewItem[]): Promise<readonly NewItem[]> {
  const stored = await storedAt(table, makes);
  return makes.filter(
    ({ key, attributes }, i) =>
      stored[i] !== undefined && isSameItem(stored[i], attributes) && !key.sk.startsWith(CHILD_LINK),
  );
}

/** Visits the namespace that the migration made, partition by partition. */
async function visitMade(
  { table, signal }: PhaseContext,
  { madeNamespace, namespaceId }: Migration,
  visit: (items: readonly Attributes[]) => Promise<void>,
): Promise<void> {
  if (!madeNamespace) return;
  const visitOne = async (pk: string) => {
    if (pk.startsWith(`${namespaceId}/`)) await visit(await table.partition(pk));
    return NO_COUNTS;
  };
  await walk(table, { from: FROM_THE_BEGINNING, signal, visit: visitOne });
}

interface Visited {
  readonly pk: string;
  /** All items of the partition. */
  readonly found: readonly Attributes[];
  readonly shards: ShardsPlan | undefined;
}

type Visit = (plan: PartitionPlan, partition: Partition, visited: Visited) => Promise<void>;

async function visitAll(
  context: PhaseContext,
  from: Cursors,
  visit: Visit,
  onPage?: (cursors: Cursors, counts: StepCounts) => Promise<void>,
): Promise<void> {
  const { table, signal, onItems, hasBuckets } = context;
  let items = 0;
  const visitOne = async (pk: string) => {
    const partition = partitionOf(pk);
    if (partition === undefined || (partition.kind === "bucket" && !hasBuckets)) return NO_COUNTS;
    const found = await table.partition(pk);
    const shards = partition.kind === "bucket" ? await shardsOf(context, partition, found) : undefined;
    const plan =
      partition.kind === "bucket" ? bucketPlan(shards) : planPartition(partition, withoutReceipts(found), context);
    await visit(plan, partition, { pk, found, shards });
    const before = items;
    items += found.length;
    if (Math.floor(items / 1000) > Math.floor(before / 1000)) onItems(items);
    return plan.counts;
  };
  await walk(table, { from, signal, visit: visitOne, ...given({ onPage }) });
}

function withoutReceipts(found: readonly Attributes[]): readonly Attributes[] {
  return found.some(isReceipt) ? found.filter((item) => !isReceipt(item)) : found;
}

function bucketPlan(shards: ShardsPlan | undefined): PartitionPlan {
  const changes = shards === undefined || shards.kind === "stays" ? 0 : 1;
  const change = shards?.kind === "changes" ? [shards.change] : [];
  return { makes: [], removes: [], changes: change, configs: [], counts: { ...NO_COUNTS, changes } };
}

/** Plans all shards of a bucket when its first one is visited; undefined at the others. */
async function shardsOf(
  { table, calendar }: PhaseContext,
  { namespaceId = "" }: Partition,
  found: readonly Attributes[],
): Promise<ShardsPlan | undefined> {
  const state = found.find((item) => item[SK]?.S === STATE_SK);
  const parsed = state === undefined ? undefined : parseItemKey(keyIn(state));
  if (state === undefined || parsed === undefined) return undefined;
  const { bucket, shard } = parsed.key;
  const count = Math.max(shard + 1, Number(state[SHARD_COUNT]?.N ?? 1));
  const numbers = Array.from({ length: count }, (_, i) => i);
  const items =
    count === 1
      ? [state]
      : await table.records.getAll(numbers.map((each) => itemTableKey(namespaceId, { bucket, shard: each })));
  const shards = numbers.flatMap((each) => (items[each] === undefined ? [] : [{ shard: each, item: items[each] }]));
  return shards[0]?.shard === shard ? planShards(namespaceId, bucket, shards, calendar) : undefined;
}

async function joinShards(table: MigratedTable, plan: Extract<ShardsPlan, { kind: "joins" }>): Promise<void> {
  const { made, gone, asRead } = plan;
  const put = putRecord(made.key, made.attributes, asRead.get(made.key.pk) ?? missing);
  const reply = await table.records.transact([put, ...gone.map((key) => deleteRecord(key, asRead.get(key.pk)))]);
  if (reply.kind === "failed") throw stillInUse(table.name, 1);
}

async function mend(
  { table, startedMs }: PhaseContext,
  ledger: Ledger,
  makes: readonly NewItem[],
  { namespaceId }: Partition,
): Promise<number> {
  const stored = await storedAt(table, makes);
  let mended = 0;
  for (const [i, item] of makes.entries()) {
    const found = stored[i];
    if (found !== undefined && isSameItem(found, item.attributes)) continue;
    // An expired event may be removed from its new place before it is removed from the old one.
    const isExpired = Number(item.attributes[TTL]?.N ?? Number.POSITIVE_INFINITY) * 1000 <= startedMs;
    if (found === undefined && isExpired) continue;
    // In a layout with namespaces a newer bucket may exist. The one that was refilled later counts.
    if (found !== undefined && namespaceId !== undefined && refilledMs(found) > refilledMs(item.attributes)) continue;
    await ledger.guarded([putRecord(item.key, item.attributes, undefined)]);
    mended += 1;
  }
  return mended;
}

function storedAt(table: MigratedTable, makes: readonly NewItem[]): Promise<readonly (Attributes | undefined)[]> {
  return table.records.getAll(makes.map(({ key }) => key));
}

function refilledMs(item: Attributes): number {
  return Number(item[RF]?.N ?? 0);
}

/** Writes which resources have defaults, and how many entities have a configuration of their own, by resource. */
async function writeRegistries(table: MigratedTable, ledger: Ledger, configs: readonly ConfigOf[]): Promise<void> {
  for (const [namespaceId, own] of groupedBy(configs, (each) => each.namespaceId)) {
    const index = texts(systemIndexKeys(namespaceId));
    const resources = own.filter(({ of }) => of === "resource").map(({ resource }) => resource);
    const counts = groupedBy(
      own.filter(({ of }) => of === "entity"),
      ({ resource }) => resource,
    );
    const numbers = [...counts].map(([resource, all]) => [resource, { N: String(all.length) }] as const);
    const listed = { ...index, [RESOURCES]: { SS: [...new Set(resources)].sort() } };
    const counted = { ...Object.fromEntries(numbers), ...index };
    const wanted = [
      ...(resources.length === 0 ? [] : [newItemOf(resourceRegistryKey(namespaceId), listed)]),
      ...(numbers.length === 0 ? [] : [newItemOf(entityConfigRegistryKey(namespaceId), counted)]),
    ];
    const stored = await storedAt(table, wanted);
    const changed = wanted.filter(({ attributes }, i) => stored[i] === undefined || !isSameItem(stored[i], attributes));
    const writes = changed.map(({ key, attributes }) => putRecord(key, attributes, undefined));
    if (writes.length > 0) await ledger.guarded(writes);
  }
}

function stillInUse(table: string, count: number): ConflictError {
  return new ConflictError(
    "table_in_use",
    `The table "${table}" is still written to by clients of its old version: ${count} of its items changed while it was ` +
      "migrated. Stop all of them, then run migrate again to resume.",
  );
}
