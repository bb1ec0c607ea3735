import { ValidationError } from "../domain/names/errors.ts";
import { hintFor } from "../domain/names/known-names.ts";
import { shown } from "../domain/names/names.ts";

/** Properties of a resource as CloudFormation hands them over: every number and boolean is a text. */
export type Properties = Readonly<Record<string, unknown>>;

/** Where a resource declares its limits. */
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

/** What a resource declares, as the text of a manifest without namespace and owner. Throws for a property that is not known. */
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

/** Whether what another owns is taken. */
export function takesOver({ TakeOver }: Properties): boolean {
  return booleanOf("TakeOver", TakeOver ?? false);
}

/** What becomes of pieces that are no longer declared: they are deleted, or with `Prune: false` stay and are nobody's. */
export function leftoversOf({ Prune }: Properties): { readonly prune: true } | { readonly keep: true } {
  return booleanOf("Prune", Prune ?? true) ? { prune: true } : { keep: true };
}

function booleanOf(name: string, given: unknown): boolean {
  const value = asBoolean(given);
  if (typeof value === "boolean") return value;
  throw mustBe(name, "true or false", given);
}

type Kind = "text" | "number" | "numbers" | "boolean" | "limits" | "windows" | "resets" | "texts" | "levels";
type Names = Readonly<Record<string, readonly [name: string, kind: Kind]>>;

// The last two: what a manifest says of its owner is kept for whoever reads it, and an apply always compares everything.
const TOP: readonly string[] = [
  ...["ServiceToken", "ServiceTimeout", "TableName", "Namespace", "NamespaceId", "System", "Resources", "Entities"],
  ...["Plans", "TakeOver", "Prune", "Owner", "FullApply"],
];
const SET: Names = {
  Limits: ["limits", "limits"],
  Inherit: ["inherit", "boolean"],
  AppliesTo: ["applies_to", "text"],
};
const TOTALS: Names = {
  Totals: ["totals", "limits"],
  TotalsInherit: ["totals_inherit", "boolean"],
  TotalsAppliesTo: ["totals_applies_to", "text"],
};
const SYSTEM: Names = {
  OnUnavailable: ["on_unavailable", "text"],
  UsageKeptDays: ["usage_kept_days", "number"],
  ...SET,
  ...TOTALS,
};
const PLAN: Names = {
  Name: ["name", "text"],
  Metadata: ["metadata", "texts"],
  ...SET,
  ...TOTALS,
  Resources: ["resources", "levels"],
};
const LEVEL: Names = {
  ...SET,
  Disabled: ["disabled", "boolean"],
  Access: ["access", "text"],
  Cascade: ["cascade", "boolean"],
};
const ENTITY: Names = {
  Name: ["name", "text"],
  Parent: ["parent", "text"],
  Cascade: ["cascade", "boolean"],
  Plan: ["plan", "text"],
  Metadata: ["metadata", "texts"],
  Create: ["create", "boolean"],
  ...SET,
  ...TOTALS,
  Access: ["access", "text"],
  Resources: ["resources", "levels"],
};
const LIMIT: Names = {
  Capacity: ["capacity", "number"],
  RefillAmount: ["refill_amount", "number"],
  RefillPeriod: ["refill_period", "number"],
  Burst: ["burst", "number"],
  Counts: ["counts", "text"],
  Soft: ["soft", "boolean"],
  Shadow: ["shadow", "boolean"],
  Schedule: ["schedule", "windows"],
  ResetSchedule: ["reset_schedule", "resets"],
  ResetAfterSeconds: ["reset_after_seconds", "number"],
  NotifyAt: ["notify_at", "numbers"],
  HoldSeconds: ["hold_seconds", "number"],
};
const WINDOW: Names = {
  Cron: ["cron", "text"],
  Tz: ["tz", "text"],
  Scale: ["scale", "number"],
  Capacity: ["capacity", "number"],
  RefillAmount: ["refill_amount", "number"],
  RefillPeriodSeconds: ["refill_period_seconds", "number"],
};
const RESET: Names = { Cron: ["cron", "text"], Tz: ["tz", "text"] };

type Json = Record<string, unknown>;

/** A map whose names are known at every depth: a level, an entity, a limit, a window. */
function mapOf(value: unknown, names: Names, path: string): Json {
  const members = membersOf(value, Object.keys(names), path);
  return Object.fromEntries(
    Object.entries(members).map(([key, each]) => {
      const [name, kind] = names[key] as Names[string];
      return [name, propertyOf(each, kind, `${path}/${key}`)];
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

/** What is no number stays as it is: the manifest's own check says what is wrong with it. */
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
