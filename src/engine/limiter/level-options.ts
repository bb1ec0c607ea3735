import {
  type AppliesTo,
  auditIdOf,
  type ConfigScope,
  type LevelOptions,
  type SystemSettings,
} from "../../domain/config/config.ts";
import { checkUsageKeptDays } from "../../domain/config/retention.ts";
import { ValidationError } from "../../domain/names/errors.ts";
import { KnownNames } from "../../domain/names/known-names.ts";
import { checkEntityId, checkPlanId, checkResource, shown } from "../../domain/names/names.ts";

/** Options of every change. */
export interface ChangeOptions {
  /** Who makes the change, for the audit trail. Default: not recorded. */
  readonly principal?: string;
}

/** The options of a change that has no others. */
export const CHANGE_OPTIONS = new KnownNames<ChangeOptions>({ principal: true });

/** Of a change that may be conditional on a version. */
export const UPDATE_OPTIONS = new KnownNames<ChangeOptions & { version?: number }>({ principal: true, version: true });

/** Options of every call that sets limits, defaults or totals. */
export interface SetOptions extends ChangeOptions {
  /**
   * Whether limits of more general levels apply besides these. A limit of the same name replaces theirs. Default:
   * `false`, only these limits apply.
   */
  readonly inherit?: boolean;
  /**
   * `"callers"`: the limits apply to the entity that asks. `"everyone"`: also to parents that are charged with it.
   * Default: `"everyone"`.
   */
  readonly appliesTo?: AppliesTo;
  /** Whether to set them only if there are none, so that a restart does not undo an operator's change. Default: `false`. */
  readonly ifAbsent?: boolean;
}

type AnySetOptions = SetOptions & SystemSettings & { readonly resource?: string };

const SET = { principal: true, inherit: true, appliesTo: true, ifAbsent: true } as const;
const PLAIN_OPTIONS = new KnownNames<SetOptions>(SET);
/** Limits of an entity or a plan: the resource is named among the options. */
const OWNED_OPTIONS = new KnownNames<SetOptions & { resource?: string }>({ ...SET, resource: true });
const RESOURCE_OPTION = new KnownNames<ChangeOptions & { resource?: string }>({ principal: true, resource: true });
const SYSTEM_OPTIONS = new KnownNames<SetOptions & SystemSettings>({
  ...{ ...SET, onUnavailable: true, usageKeptDays: true },
});

const WHAT = "The options of the stored limits";

export function checkSetOptions({ level }: ConfigScope, options: object): void {
  if (level === "system") SYSTEM_OPTIONS.check(options, WHAT);
  else if (hasResourceOption(level)) OWNED_OPTIONS.check(options, WHAT);
  else PLAIN_OPTIONS.check(options, WHAT);
}

/** Of a call that reads or deletes. */
export function checkScopeOptions({ level }: ConfigScope, options: object): void {
  if (hasResourceOption(level)) RESOURCE_OPTION.check(options, WHAT);
  else CHANGE_OPTIONS.check(options, WHAT);
}

function hasResourceOption(level: ConfigScope["level"]): boolean {
  return level === "entity" || level === "entityDefault" || level === "plan" || level === "planDefault";
}

/** What is stored beside the limits of a level. */
export function checkLevelOptions({ inherit, appliesTo, ifAbsent }: AnySetOptions): LevelOptions & { ifAbsent?: true } {
  if (appliesTo !== undefined && appliesTo !== "everyone" && appliesTo !== "callers") {
    throw new ValidationError("applies_to_invalid", `appliesTo is ${shown(appliesTo)}; give "everyone" or "callers".`);
  }
  return {
    ...(checkFlag("inherit", inherit) ? { inherit: true } : {}),
    ...(appliesTo === "callers" ? { appliesTo } : {}),
    ...(checkFlag("ifAbsent", ifAbsent) ? { ifAbsent: true } : {}),
  };
}

function checkFlag(name: "inherit" | "ifAbsent", value: unknown): boolean {
  if (value === undefined || typeof value === "boolean") return value === true;
  throw new ValidationError("option_invalid", `${name} is ${shown(value)}; give true or false.`);
}

/** The version that a change is conditional on. */
export function checkVersion(version: unknown, of: "entity" | "plan"): void {
  if (version === undefined || Number.isSafeInteger(version)) return;
  throw new ValidationError(
    "version_invalid",
    `version is ${shown(version)}; give the version of the ${of} that was read.`,
  );
}

export function checkSettings({ onUnavailable, usageKeptDays }: SystemSettings): SystemSettings {
  if (onUnavailable !== undefined && onUnavailable !== "allow" && onUnavailable !== "block") {
    throw new ValidationError(
      "on_unavailable_invalid",
      `onUnavailable is ${shown(onUnavailable)}; give "allow" or "block".`,
    );
  }
  return {
    ...(onUnavailable === undefined ? {} : { onUnavailable }),
    ...(usageKeptDays === undefined ? {} : { usageKeptDays: checkUsageKeptDays(usageKeptDays) }),
  };
}

/** The scope's id in the audit log, its names checked. */
export function auditIdOfScope(scope: ConfigScope): string {
  checkScope(scope);
  return auditIdOf(scope);
}

export function checkScope(scope: ConfigScope): void {
  if ("entityId" in scope) checkEntityId(scope.entityId);
  if ("planId" in scope) checkPlanId(scope.planId);
  if ("resource" in scope) checkResource(scope.resource);
}

export function resourceIn(scope: ConfigScope): string | undefined {
  return "resource" in scope ? scope.resource : undefined;
}
