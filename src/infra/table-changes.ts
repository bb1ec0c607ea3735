import { isDeepStrictEqual } from "node:util";
import { ConflictError } from "../domain/names/errors.ts";

/** As much of a template as says what its table is. */
interface WithTable {
  readonly Resources?: Readonly<Record<string, { readonly Properties?: TableProperties }>>;
}

interface TableProperties {
  readonly KeySchema?: readonly KeyPart[];
  readonly AttributeDefinitions?: readonly { readonly AttributeName: string }[];
  readonly GlobalSecondaryIndexes?: readonly Index[];
}

interface KeyPart {
  readonly AttributeName: string;
}

interface Index {
  readonly IndexName: string;
  readonly KeySchema: readonly KeyPart[];
  readonly Projection?: { readonly ProjectionType?: string };
}

const TABLE = "RateLimitsTable";

/** Throws where an index that is there would be another, or go: DynamoDB changes none, and clients that run rely on each. */
export function refuseIndexChanges(stack: string, before: unknown, after: unknown): void {
  const next = new Map(indexesOf(after).map((index) => [index.IndexName, index]));
  for (const index of indexesOf(before)) {
    const wanted = next.get(index.IndexName);
    // A table that is the stack's no longer: that is refused as its removal.
    if (next.size === 0 || (wanted !== undefined && isDeepStrictEqual(index, wanted))) continue;
    const [from, to] = [index, wanted].map((each) => each?.Projection?.ProjectionType);
    const what =
      wanted === undefined
        ? `the index ${index.IndexName} of its table would be removed`
        : from === to
          ? `the index ${index.IndexName} of its table would have other keys`
          : `the index ${index.IndexName} of its table projects ${from}, and ${to} is requested`;
    throw new ConflictError(
      "change_refused",
      `Nothing was changed in the stack ${stack}: ${what}, and DynamoDB cannot change an existing index. Leave it unchanged` +
        `${from === to ? "" : ` (--projection ${from})`}, or create a stack under another name.`,
    );
  }
}

/**
 * The templates by which a stack gets there, the last being what is wanted: DynamoDB makes one index at a time, and CloudFormation fails on a
 * change that has two.
 */
export function stagesTo<Wanted extends object>(before: unknown, wanted: Wanted): readonly Wanted[] {
  const known = new Set(indexesOf(before).map(({ IndexName }) => IndexName));
  const all = indexesOf(wanted);
  const added = all.filter(({ IndexName }) => !known.has(IndexName));
  if (known.size === 0 || added.length < 2) return [wanted];
  return added.map((_, i) => {
    const later = new Set(added.slice(i + 1).map(({ IndexName }) => IndexName));
    return withIndexes(
      wanted,
      all.filter(({ IndexName }) => !later.has(IndexName)),
    );
  });
}

/** Whether what differs of a table is nothing but indexes that are added, and the attributes they need. */
export function onlyAddsIndexes(from: unknown, to: unknown): boolean {
  const [old, next] = [from, to].map((each) => (each ?? {}) as Readonly<Record<string, unknown>>);
  const names = new Set([...Object.keys(old ?? {}), ...Object.keys(next ?? {})]);
  if (!names.has("GlobalSecondaryIndexes")) return false;
  if ([...names].some((name) => name !== "GlobalSecondaryIndexes" && name !== "AttributeDefinitions")) return false;
  // They have what differs and nothing else: of indexes that only come nothing is left on the old side.
  return [...names].every((name) => ((old?.[name] ?? []) as readonly unknown[]).length === 0);
}

/** DynamoDB refuses definitions of attributes that no key has. */
function withIndexes<Wanted extends object>(wanted: Wanted, indexes: readonly Index[]): Wanted {
  const { Resources } = wanted as WithTable;
  const table = Resources?.[TABLE];
  const properties = table?.Properties ?? {};
  const keys = new Set(
    [properties.KeySchema ?? [], ...indexes.map(({ KeySchema }) => KeySchema)].flat().map((key) => key.AttributeName),
  );
  const Properties = {
    ...properties,
    AttributeDefinitions: (properties.AttributeDefinitions ?? []).filter((each) => keys.has(each.AttributeName)),
    GlobalSecondaryIndexes: indexes,
  };
  return { ...wanted, Resources: { ...Resources, [TABLE]: { ...table, Properties } } };
}

function indexesOf(template: unknown): readonly Index[] {
  return (template as WithTable | undefined)?.Resources?.[TABLE]?.Properties?.GlobalSecondaryIndexes ?? [];
}
