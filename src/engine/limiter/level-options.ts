import {
  type AppliesTo,
  auditIdOf,
  type ConfigScope,
  type LevelOptions,
  type LimitsChange,
  type SystemSettings,
} from "../../domain/config/config.ts";
import type { DeletedPart } from "../../domain/config/config-change.ts";
import { checkUntil } from "../../domain/config/overrides.ts";
import { checkUsageKeptDays } from "../../domain/config/retention.ts";
import { ValidationError } from "../../domain/names/errors.ts";
import { given } from "../../domain/names/given.ts";
import { KnownNames } from "../../domain/names/known-names.ts";
import { checkEntityId, checkPlanId, checkResource, shown } from "../../domain/names/names.ts";

/** Options of every change. */
export interface ChangeOptions {
  /** Who makes the change, for the audit trail. Default: not recorded. */
  readonly principal?: string;
}

/** The options of a change that has no others. */
export const CHANGE_OPTIONS = new KnownNames<ChangeOptions>({ principal: true });

/** The options of a change that may depend on a version. */
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
  /**
   * The limits count until then, in ms since 1970, at most 366 days ahead, and hide what was set before; from then on that
   * counts again. Default: they have no end, and take the place of limits that have one.
   */
  readonly untilMs?: number;
  /** Whether limits that have an end go on to it, and these count afterwards. Default: `false`. */
  readonly keepOverride?: boolean;
}

/** Options of every call that deletes limits, defaults or totals. */
export interface DeleteOptions extends ChangeOptions {
  /** Whether only limits that have an end are deleted, so that those without one count again. Default: `false`, all are. */
  readonly override?: boolean;
}

/** Options of a change of access. */
export interface AccessOptions extends ChangeOptions {
  /** Until then, in ms since 1970, and what the scope said before counts again. Default: there is no end. */
  readonly untilMs?: number;
}

export const ACCESS_OPTIONS = new KnownNames<AccessOptions>({ principal: true, untilMs: true });

type AnySetOptions = SetOptions & SystemSettings & { readonly resource?: string };

const SET = {
  ...{ principal: true, inherit: true, appliesTo: true, ifAbsent: true },
  ...{ untilMs: true, keepOverride: true },
} as const;
const PLAIN_OPTIONS = new KnownNames<SetOptions>(SET);
/** Limits of an entity or a plan: the resource is named among the options. */
const OWNED_OPTIONS = new KnownNames<SetOptions & { resource?: string }>({ ...SET, resource: true });
const RESOURCE_OPTION = new KnownNames<ChangeOptions & { resource?: string }>({ principal: true, resource: true });
const DELETE = { principal: true, override: true } as const;
const DELETE_OPTIONS = new KnownNames<DeleteOptions>(DELETE);
const DELETE_OWNED_OPTIONS = new KnownNames<DeleteOptions & { resource?: string }>({ ...DELETE, resource: true });
const SYSTEM_OPTIONS = new KnownNames<SetOptions & SystemSettings>({
  ...{ ...SET, onUnavailable: true, usageKeptDays: true },
});

const WHAT = "The options of the stored limits";

export function checkSetOptions({ level }: ConfigScope, options: object): void {
  if (level === "system") SYSTEM_OPTIONS.check(options, WHAT);
  else if (hasResourceOption(level)) OWNED_OPTIONS.check(options, WHAT);
  else PLAIN_OPTIONS.check(options, WHAT);
}

/** Checks the options of a call that reads. */
export function checkScopeOptions({ level }: ConfigScope, options: object): void {
  if (hasResourceOption(level)) RESOURCE_OPTION.check(options, WHAT);
  else CHANGE_OPTIONS.check(options, WHAT);
}

/** Checks the options of a call that deletes, and answers what is deleted. */
export function checkDeleteOptions({ level }: ConfigScope, options: DeleteOptions): DeletedPart {
  if (hasResourceOption(level)) DELETE_OWNED_OPTIONS.check(options, WHAT);
  else DELETE_OPTIONS.check(options, WHAT);
  return checkFlag("override", options.override) ? "override" : "all";
}

function hasResourceOption(level: ConfigScope["level"]): boolean {
  return level === "entity" || level === "entityDefault" || level === "plan" || level === "planDefault";
}

/** Checks the options that are stored beside the limits of a level, and those that say what is set there. */
export function checkLevelOptions(
  options: AnySetOptions,
  nowMs: number,
): Pick<LimitsChange, keyof LevelOptions | "ifAbsent" | "keepOverride" | "untilMs"> {
  const { inherit, appliesTo, ifAbsent, untilMs, keepOverride } = options;
  if (appliesTo !== undefined && appliesTo !== "everyone" && appliesTo !== "callers") {
    throw new ValidationError("applies_to_invalid", `appliesTo is ${shown(appliesTo)}; give "everyone" or "callers".`);
  }
  const isKept = checkFlag("keepOverride", keepOverride);
  if (untilMs !== undefined) {
    checkUntil(untilMs, nowMs);
    const other = isKept ? "keepOverride" : SETTINGS.find((name) => options[name] !== undefined);
    if (other !== undefined) {
      throw new ValidationError("option_invalid", `${other} is given with untilMs (${untilMs}); give one of them.`);
    }
  }
  return {
    ...(checkFlag("inherit", inherit) ? { inherit: true } : {}),
    ...(appliesTo === "callers" ? { appliesTo } : {}),
    ...(checkFlag("ifAbsent", ifAbsent) ? { ifAbsent: true } : {}),
    ...given({ untilMs, keepOverride: isKept ? (true as const) : undefined }),
  };
}

/** Settings have no end. */
const SETTINGS = ["onUnavailable", "usageKeptDays"] as const;

function checkFlag(name: "inherit" | "ifAbsent" | "keepOverride" | "override", value: unknown): boolean {
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
    ...given({ onUnavailable }),
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
