import { ValidationError } from "../domain/names/errors.ts";
import { hintFor } from "../domain/names/known-names.ts";
import { shown } from "../domain/names/names.ts";

/** Properties of a resource as CloudFormation hands them over: every number and boolean is a text. */
export type Properties = Readonly<Record<string, unknown>>;

/** The target of a resource's limits. */
export interface Target {
  /** Absent: the function's own. */
  readonly table: string | undefined;
  readonly namespace: { readonly name: string } | { readonly id: string };
}

/** The namespace and table of a resource, read without looking at what it declares. */
export function targetOf(properties: Properties): Target {
  const { TableName: table, Namespace: name, NamespaceId: id } = properties;
  for (const [key, value] of Object.entries({ TableName: table, Namespace: name, NamespaceId: id })) {
    if (value !== undefined && (typeof value !== "string" || value === "")) throw mustBe(key, "a text", value);
  }
  if (name !== undefined && id !== undefined) throw invalid("has both Namespace and NamespaceId; give one of them");
  const namespace = id === undefined ? { name: (name as string | undefined) ?? "default" } : { id: id as string };
  return { table: table as string | undefined, namespace };
}

/** The declarations of a resource as the text of a manifest without namespace and owner. Throws for an unknown property. */
export function manifestTextOf(properties: Properties): string {
  const { Plans, System, Resources, Entities } = membersOf(properties, TOP, "the resource");
  const document = {
    ...(Plans === undefined ? {} : { plans: eachOf(Plans, "Plans", mapOf, PLAN) }),
    ...(System === undefined ? {} : { system: mapOf(System, SYSTEM, "System") }),
    ...(Resources === undefined ? {} : { resources: eachOf(Resources, "Resources", mapOf, LEVEL) }),
    ...(Entities === undefined ? {} : { entities: eachOf(Entities, "Entities", mapOf, ENTITY) }),
  };
  return JSON.stringify(document);
}

/** True where the resource takes over pieces of other owners. */
export function takesOver({ TakeOver }: Properties): boolean {
  return booleanOf("TakeOver", TakeOver ?? false);
}

/** Pieces that are no longer declared are deleted, or with `Prune: false` stay without an owner. */
export function leftoversOf({ Prune }: Properties): { readonly prune: true } | { readonly keep: true } {
  return booleanOf("Prune", Prune ?? true) ? { prune: true } : { keep: true };
}

function booleanOf(name: string, given: unknown): boolean {
  const value = asBoolean(given);
  if (typeof value === "boolean") return value;
  throw mustBe(name, "true or false", given);
}

type Kind = "text" | "number" | "numbers" | "boolean" | "limits" | "windows" | "resets" | "texts" | "levels";
type Names = Readonly<Record<string, Kind>>;

// The last two are ignored: a manifest's owner is only informative, and an apply always compares everything.
const TOP: readonly string[] = [
  ...["ServiceToken", "ServiceTimeout", "TableName", "Namespace", "NamespaceId", "System", "Resources", "Entities"],
  ...["Plans", "TakeOver", "Prune", "Owner", "FullApply"],
];

// A manifest has the same names in snake case.
const SET: Names = { Limits: "limits", Inherit: "boolean", AppliesTo: "text" };
const TOTALS: Names = { Totals: "limits", TotalsInherit: "boolean", TotalsAppliesTo: "text" };
const SYSTEM: Names = { OnUnavailable: "text", UsageKeptDays: "number", ...SET, ...TOTALS };
const PLAN: Names = { Name: "text", Metadata: "texts", ...SET, ...TOTALS, Resources: "levels" };
const LEVEL: Names = { ...SET, Disabled: "boolean", Access: "text", Cascade: "boolean" };
const ENTITY: Names = {
  Name: "text",
  Parent: "text",
  Cascade: "boolean",
  Plan: "text",
  Metadata: "texts",
  Create: "boolean",
  ...SET,
  ...TOTALS,
  Access: "text",
  Resources: "levels",
};
const LIMIT: Names = {
  Capacity: "number",
  RefillAmount: "number",
  RefillPeriod: "number",
  Burst: "number",
  StrictWindow: "boolean",
  Counts: "text",
  Soft: "boolean",
  Shadow: "boolean",
  Schedule: "windows",
  ResetSchedule: "resets",
  ResetAfterSeconds: "number",
  NotifyAt: "numbers",
  HoldSeconds: "number",
};
const WINDOW: Names = {
  Cron: "text",
  Tz: "text",
  Scale: "number",
  Capacity: "number",
  RefillAmount: "number",
  RefillPeriodSeconds: "number",
};
const RESET: Names = { Cron: "text", Tz: "text" };

type Json = Record<string, unknown>;

/** A map with known names: a level, an entity, a limit, a window. */
function mapOf(value: unknown, names: Names, path: string): Json {
  const members = membersOf(value, Object.keys(names), path);
  return Object.fromEntries(
    Object.entries(members).map(([key, each]) => {
      const name = key.replace(/(?<!^)[A-Z]/g, (letter) => `_${letter}`).toLowerCase();
      return [name, propertyOf(each, names[key] as Kind, `${path}/${key}`)];
    }),
  );
}

function propertyOf(value: unknown, kind: Kind, path: string): unknown {
  switch (kind) {
    case "text":
    case "texts":
      return value;
    case "number":
      return asNumber(value);
    case "boolean":
      return asBoolean(value);
    case "limits":
      // A limit may be a number or a text, too: `1000/min`.
      return eachOf(
        value,
        path,
        (limit, names, at) => (isMap(limit) ? mapOf(limit, names, at) : asNumber(limit)),
        LIMIT,
      );
    case "levels":
      return eachOf(value, path, mapOf, LEVEL);
    case "numbers":
      return Array.isArray(value) ? value.map(asNumber) : value;
    case "windows":
    case "resets":
      return Array.isArray(value)
        ? value.map((each, i) => mapOf(each, kind === "windows" ? WINDOW : RESET, `${path}/${i}`))
        : value;
  }
}

function eachOf(
  value: unknown,
  path: string,
  read: (each: unknown, names: Names, path: string) => unknown,
  names: Names,
): Json {
  const members = membersOf(value, undefined, path);
  return Object.fromEntries(Object.entries(members).map(([key, each]) => [key, read(each, names, `${path}/${key}`)]));
}

function membersOf(value: unknown, known: readonly string[] | undefined, path: string): Json {
  if (!isMap(value)) throw mustBe(path, "a map", value);
  for (const key of Object.keys(value)) {
    if (known !== undefined && !known.includes(key)) {
      throw invalid(`has the unknown property ${shown(key)} in ${path}; ${hintFor(key, known)}`);
    }
  }
  return value;
}

function isMap(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Other values stay as they are; the manifest's own check reports them. */
function asNumber(value: unknown): unknown {
  return typeof value === "string" && /^-?\d+(\.\d+)?$/.test(value) ? Number(value) : value;
}

function asBoolean(value: unknown): unknown {
  if (typeof value !== "string") return value;
  const word = value.toLowerCase();
  if (word === "true" || word === "false") return word === "true";
  return word === "bypass" ? word : value;
}

function mustBe(path: string, what: string, value: unknown): ValidationError {
  return invalid(`has ${shown(value)} for ${path}, which must be ${what}`);
}

function invalid(why: string): ValidationError {
  return new ValidationError("properties_invalid", `The resource ${why}.`);
}
