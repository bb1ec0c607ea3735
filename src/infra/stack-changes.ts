import { isDeepStrictEqual } from "node:util";
import type { Change } from "@aws-sdk/client-cloudformation";
import { ConflictError } from "../domain/names/errors.ts";
import { onlyAddsIndexes } from "./table-changes.ts";

/** One change of a stack: of a resource, of a value, of a tag, or of a function's code. */
export interface StackChange {
  readonly action: "Add" | "Modify" | "Remove" | "Import" | "Dynamic";
  /** Of a resource, or the name of a parameter. */
  readonly logicalId: string;
  /** Of the resource; absent: it is no resource. */
  readonly type?: string;
  /** Whether it is made anew, and what was in it is left behind. */
  readonly replacement?: "True" | "False" | "Conditional";
  /** Before and after, where it is known. */
  readonly from?: unknown;
  readonly to?: unknown;
}

type Texts = Readonly<Record<string, string>>;

/** What would be there for the first time. */
export function additions(resources: Readonly<Record<string, { readonly Type: string }>>): readonly StackChange[] {
  return Object.entries(resources).map(([logicalId, { Type }]) => ({ action: "Add", logicalId, type: Type }));
}

/** All that a change set would change: values, tags, resources, and what else is in the template. */
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
      ...(before[name] === undefined ? {} : { from: before[name] }),
      ...(after[name] === undefined ? {} : { to: after[name] }),
    }));
}

/** Resources that change, as CloudFormation says it; values of properties from the two templates. */
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
        ...(ResourceType === undefined ? {} : { type: ResourceType }),
        ...(Replacement === undefined ? {} : { replacement: Replacement as "True" | "False" | "Conditional" }),
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

/** Of a list what the other does not have: two long ones that differ in one element look the same to whoever is asked. */
function differing(own: unknown, other: unknown): unknown {
  if (!Array.isArray(own) || !Array.isArray(other)) return own;
  return own.filter((each) => !other.some((there) => isDeepStrictEqual(each, there)));
}

function propertiesIn(template: unknown, logicalId: string): Record<string, unknown> | undefined {
  const { Resources } = (template ?? {}) as { Resources?: Record<string, { Properties?: Record<string, unknown> }> };
  return Resources?.[logicalId]?.Properties;
}

/** What holds data, or is attached to roles that we do not know of. */
const KEPT_TYPES: readonly string[] = ["AWS::DynamoDB::Table", "AWS::S3::Bucket", "AWS::IAM::ManagedPolicy"];

/** Throws where something would go, or be made anew, that others rely on. Nobody can agree to that by `--yes`. */
export function refuseLosses(stack: string, changes: readonly StackChange[]): void {
  const lost = changes.filter(
    ({ action, type, replacement, from, to }) =>
      type !== undefined &&
      KEPT_TYPES.includes(type) &&
      (action === "Remove" ||
        replacement === "True" ||
        // Of indexes CloudFormation says so whatever becomes of them; those that are added cost nothing that is there.
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
