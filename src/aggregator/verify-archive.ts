import { LimiterError } from "../domain/names/errors.ts";
import { identityOf } from "./archive-line.ts";
import type { ObjectStore } from "./objects.ts";
import { daysOf, linesIn } from "./read-archive.ts";
import type { Receipt, Receipts } from "./receipts.ts";

/** One day of an archive, compared with the receipts in the table. */
export interface VerifiedDay {
  /** YYYY-MM-DD, UTC. */
  readonly day: string;
  /** Whether nothing is missing or damaged. */
  readonly ok: boolean;
  /** Events that were archived, by the receipts; a replay counts each time. */
  readonly recorded: number;
  /** Events in the objects that the receipts name. Equal to `recorded` if nothing is missing. */
  readonly found: number;
  /** Different events in all objects of the day, as readers see them. */
  readonly events: number;
  /** Objects of the day. */
  readonly objects: number;
  /** Objects that have a receipt and are gone. */
  readonly missing: readonly string[];
  /** Objects that cannot be read, or have another number of events than their receipt says. */
  readonly damaged: readonly string[];
}

/** Reads the whole archive, day by day, newest first. */
export async function* verifyArchive(objects: ObjectStore, receipts: Receipts): AsyncGenerator<VerifiedDay> {
  const expected = new Map<string, Receipt[]>();
  for await (const receipt of receipts.list(objects.location)) {
    expected.set(receipt.day, [...(expected.get(receipt.day) ?? []), receipt]);
  }
  for await (const { day, folder } of daysOf(objects)) {
    const keys: string[] = [];
    for await (const key of objects.keys(folder)) keys.push(key);
    yield await verifyDay(objects, { day, keys, receipts: expected.get(day) ?? [] });
    expected.delete(day);
  }
  // Days of which nothing is left.
  for (const [day, of] of [...expected].sort().reverse())
    yield await verifyDay(objects, { day, keys: [], receipts: of });
}

async function verifyDay(
  objects: ObjectStore,
  {
    day,
    keys,
    receipts,
  }: { readonly day: string; readonly keys: readonly string[]; readonly receipts: readonly Receipt[] },
): Promise<VerifiedDay> {
  const recordedOf = new Map(receipts.map(({ key, events }) => [key, events]));
  const identities = new Set<string>();
  const damaged: string[] = [];
  let found = 0;
  for (const key of keys) {
    const lines = await linesIn(objects, key).catch((error: unknown) => {
      if (error instanceof LimiterError && error.code === "archive_unreadable") return undefined;
      throw error;
    });
    const recorded = recordedOf.get(key);
    if (lines === undefined || (recorded !== undefined && recorded !== lines.length)) damaged.push(key);
    for (const line of lines ?? []) identities.add(identityOf(line));
    if (recorded !== undefined) found += lines?.length ?? 0;
  }
  const present = new Set(keys);
  const missing = [...recordedOf.keys()].filter((key) => !present.has(key));
  return {
    ...{ day, ok: missing.length === 0 && damaged.length === 0, found, events: identities.size },
    recorded: receipts.reduce((sum, { events }) => sum + events, 0),
    ...{ objects: keys.length, missing, damaged },
  };
}
