import { isDeepStrictEqual } from "node:util";
import type { Change } from "@aws-sdk/client-cloudformation";
import { ConflictError } from "../domain/names/errors.ts";
import { given } from "../domain/names/given.ts";

/** One change of a stack: of a resource, of a value, of a tag, or of a function's code. */
export interface StackChange {
  readonly action: "Add" | "Modify" | "Remove" | "Import" | "Dynamic";
  /** The logical id of a resource, or the name of a parameter. */
  readonly logicalId: string;
  /** The type of the resource; absent for other changes. */
  readonly type?: string;
  /** `True`: the resource is made anew, and its contents are left behind. */
  readonly replacement?: "True" | "False" | "Conditional";
  /** The value before and after, if it is known. */
  readonly from?: unknown;
  readonly to?: unknown;
}

type Texts = Readonly<Record<string, string>>;

/** Lists resources that would be there for the first time. */
export function additions(resources: Readonly<Record<string, { readonly Type: string }>>): readonly StackChange[] {
  return Object.entries(resources).map(([logicalId, { Type }]) => ({ action: "Add", logicalId, type: Type }));
}

/** Lists everything that a change set would change: values, tags, resources, and outputs of the template. */
export function differencesOf(
  before: { readonly parameters: Texts; readonly tags: Texts },
  after: { readonly parameters: Texts; readonly tags: Texts },
  set: {
    readonly resources: readonly Change[];
    readonly templates: { readonly before: unknown; readonly after: unknown };
  },
): readonly StackChange[] {
  const found = [
    ...valueChanges(before.parameters, after.parameters),
    ...valueChanges(before.tags, after.tags),
    ...resourceChanges(set.resources, set.templates),
  ];
  if (found.length > 0 || isDeepStrictEqual(set.templates.before, set.templates.after)) return found;
  return [{ action: "Modify", logicalId: "Outputs" }];
}

/** Values that change, by name. */
function valueChanges(before: Texts, after: Texts): readonly StackChange[] {
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])].sort();
  return names
    .filter((name) => before[name] !== after[name])
    .map((name) => ({
      action: before[name] === undefined ? "Add" : after[name] === undefined ? "Remove" : "Modify",
      logicalId: name,
      ...given({ from: before[name], to: after[name] }),
    }));
}

/** Lists resources that change, as CloudFormation says; values of properties come from the two templates. */
function resourceChanges(
  changes: readonly Change[],
  templates: { readonly before: unknown; readonly after: unknown },
): readonly StackChange[] {
  return changes.flatMap(({ ResourceChange: change }) => {
    if (change === undefined) return [];
    const { Action: action = "Modify", LogicalResourceId: logicalId = "", ResourceType, Replacement } = change;
    return [
      {
        action: action as StackChange["action"],
        logicalId,
        ...given({ type: ResourceType, replacement: Replacement as StackChange["replacement"] }),
        ...(action === "Modify" ? propertyChanges(logicalId, templates) : {}),
      },
    ];
  });
}

/** The properties that differ, as they are written in the templates. */
function propertyChanges(logicalId: string, { before, after }: { before: unknown; after: unknown }) {
  const [old, next] = [propertiesIn(before, logicalId), propertiesIn(after, logicalId)];
  if (old === undefined || next === undefined) return {};
  const names = [...new Set([...Object.keys(old), ...Object.keys(next)])].filter(
    (name) => JSON.stringify(old[name]) !== JSON.stringify(next[name]),
  );
  if (names.length === 0) return {};
  const only = (own: Record<string, unknown>, other: Record<string, unknown>) =>
    Object.fromEntries(names.filter((name) => name in own).map((name) => [name, differing(own[name], other[name])]));
  return { from: only(old, next), to: only(next, old) };
}

/** Keeps the elements of a list that the other lacks: two long lists that differ in one element look the same to a reader. */
function differing(own: unknown, other: unknown): unknown {
  if (!Array.isArray(own) || !Array.isArray(other)) return own;
  return own.filter((each) => !other.some((there) => isDeepStrictEqual(each, there)));
}

function propertiesIn(template: unknown, logicalId: string): Record<string, unknown> | undefined {
  const { Resources } = (template ?? {}) as { Resources?: Record<string, { Properties?: Record<string, unknown> }> };
  return Resources?.[logicalId]?.Properties;
}

/** Types that hold data, or are attached to roles that the stack does not know. */
const KEPT_TYPES: readonly string[] = ["AWS::DynamoDB::Table", "AWS::S3::Bucket", "AWS::IAM::ManagedPolicy"];

/** Throws if a resource that others rely on would be removed or replaced. `--yes` does not agree to that. */
export function refuseLosses(stack: string, changes: readonly StackChange[]): void {
  const lost = changes.filter(
    ({ action, type, replacement, from, to }) =>
      type !== undefined &&
      KEPT_TYPES.includes(type) &&
      (action === "Remove" ||
        replacement === "True" ||
        // CloudFormation says `Conditional` for every change of indexes. Adding one loses nothing.
        (replacement === "Conditional" && !(type === "AWS::DynamoDB::Table" && onlyAddsIndexes(from, to)))),
  );
  if (lost.length === 0) return;
  const named = lost.map(
    ({ logicalId, action, replacement }) =>
      `${logicalId} would be ${action === "Remove" ? "removed" : replacement === "True" ? "replaced" : "replaced, perhaps"}`,
  );
  throw new ConflictError(
    "change_refused",
    `Nothing was changed in the stack ${stack}: ${named.join("; ")}, and its contents or attachments would be lost. ` +
      "Keep the old value of the option that causes it, or create another stack.",
  );
}

/** The part of a template that defines its table. */
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

/** Throws if an index would change or go: DynamoDB cannot change one, and running clients rely on each. */
export function refuseIndexChanges(stack: string, before: unknown, after: unknown): void {
  const next = new Map(indexesOf(after).map((index) => [index.IndexName, index]));
  for (const index of indexesOf(before)) {
    const wanted = next.get(index.IndexName);
    // Without indexes the table is no longer the stack's, which is refused as its removal.
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
 * Lists the templates on the way to the wanted one, which is the last. DynamoDB makes one index at a time, and CloudFormation fails on a
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

/** True if a table differs only by added indexes and the attributes that they need. */
function onlyAddsIndexes(from: unknown, to: unknown): boolean {
  const [old, next] = [from, to].map((each) => (each ?? {}) as Readonly<Record<string, unknown>>);
  const names = new Set([...Object.keys(old ?? {}), ...Object.keys(next ?? {})]);
  if (!names.has("GlobalSecondaryIndexes")) return false;
  if ([...names].some((name) => name !== "GlobalSecondaryIndexes" && name !== "AttributeDefinitions")) return false;
  // Both sides have only what differs, so the old side is empty if indexes are only added.
  return [...names].every((name) => ((old?.[name] ?? []) as readonly unknown[]).length === 0);
}

/** Sets the indexes of the table, and drops attributes that no key has: DynamoDB refuses them. */
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
