import type { Access, ConfigScope, LevelOptions } from "../domain/config/config.ts";
import { type DeclaredPiece, limitsValue, type Piece, pieceIn } from "../domain/config/piece.ts";
import { USAGE_KEPT_DAYS_MAX } from "../domain/config/retention.ts";
import { checkLimits, type Limit } from "../domain/limits/limit.ts";
import { ValidationError } from "../domain/names/errors.ts";
import { given } from "../domain/names/given.ts";
import { readLimit } from "./read-limit.ts";
import { type DocumentEntry, type Member, type Members, type Reading, sentence } from "./reading.ts";

/** Options of `limits`. */
export const OPTION_KEYS = ["inherit", "applies_to"] as const;
/** Limits over all resources, and their options. */
export const TOTAL_KEYS = ["totals", "totals_inherit", "totals_applies_to"] as const;
export const LEVEL_KEYS = ["limits", ...OPTION_KEYS, "disabled", "access", "cascade"];
export const SYSTEM_KEYS = ["on_unavailable", "usage_kept_days", "limits", ...OPTION_KEYS, ...TOTAL_KEYS];
const ACCESS_WORDS = ["disabled", "bypass", "enforce"];

const NOT_FOR_ALL = "it would apply to every entity on every resource; declare it for resources or entities";

/** Limits, access and cascade of a resource, or of an entity on one. */
export function readLevel(reading: Reading, member: Member, scope: ConfigScope): readonly DeclaredPiece[] {
  const found = membersOfLevel(reading, member, LEVEL_KEYS);
  const cascadeEntry = found.get("cascade");
  const cascade = cascadeEntry && reading.flag(cascadeEntry);
  return [
    ...limitsIn(reading, found, scope),
    ...accessIn(reading, found, scope),
    ...(cascade === undefined ? [] : [{ piece: pieceIn("cascade", scope), value: cascade }]),
  ];
}

export function readSystem(reading: Reading, member: Member): readonly DeclaredPiece[] {
  const scope: ConfigScope = { level: "system" };
  const reasons = { disabled: NOT_FOR_ALL, access: NOT_FOR_ALL, cascade: NOT_FOR_ALL };
  const found = membersOfLevel(reading, member, SYSTEM_KEYS, reasons);
  const place = found.get("on_unavailable");
  const word = place && reading.scalar(place);
  if (place !== undefined && word !== "allow" && word !== "block") {
    reading.invalid(place, `give allow or block, not ${reading.shown(place)}`);
  }
  return [
    ...(word === "allow" || word === "block" ? [{ piece: pieceIn("onUnavailable", scope), value: word } as const] : []),
    ...keptDaysIn(reading, found.get("usage_kept_days"), scope),
    ...limitsIn(reading, found, scope),
    ...totalsIn(reading, found, { level: "systemTotal" }),
  ];
}

function membersOfLevel(
  reading: Reading,
  member: Member,
  keys: readonly string[],
  reasons: Readonly<Record<string, string>> = {},
): Members {
  const { key, keyAt, path } = member;
  const before = reading.problems.length;
  const found = reading.known(member, keys, reasons);
  if (found.size === 0 && reading.problems.length === before) {
    reading.fail("empty", keyAt, path, `"${key}" is empty; give it limits, or leave it out`);
  }
  return found;
}

function keptDaysIn(reading: Reading, place: DocumentEntry | undefined, scope: ConfigScope): readonly DeclaredPiece[] {
  const days = place && reading.whole(place, "whole days", { least: 1, most: USAGE_KEPT_DAYS_MAX });
  return days === undefined ? [] : [{ piece: pieceIn("usageKeptDays", scope), value: days }];
}

/** `limits`, with `inherit` and `applies_to` beside them. */
export function limitsIn(reading: Reading, found: Members, scope: ConfigScope): readonly DeclaredPiece[] {
  const options = optionsIn(reading, found, ["limits", ...OPTION_KEYS]);
  return setIn(reading, found.get("limits"), { piece: pieceIn("limits", scope), options });
}

/** `totals`, with `totals_inherit` and `totals_applies_to` beside them. */
export function totalsIn(reading: Reading, found: Members, scope: ConfigScope): readonly DeclaredPiece[] {
  const options = optionsIn(reading, found, TOTAL_KEYS);
  return setIn(reading, found.get("totals"), { piece: pieceIn("totals", scope), options });
}

function optionsIn(
  reading: Reading,
  found: Members,
  [limits, inherit, appliesTo]: readonly [string, string, string],
): LevelOptions {
  for (const key of [inherit, appliesTo]) {
    const place = found.get(key);
    if (place !== undefined && !found.has(limits)) reading.invalid(place, `it needs ${limits}, and there are none`);
  }
  const inheritEntry = found.get(inherit);
  const appliesEntry = found.get(appliesTo);
  const word = appliesEntry === undefined ? "everyone" : reading.scalar(appliesEntry);
  if (appliesEntry !== undefined && word !== "everyone" && word !== "callers") {
    reading.invalid(appliesEntry, `give everyone or callers, not ${reading.shown(appliesEntry)}`);
  }
  return given({
    inherit: (inheritEntry && reading.flag(inheritEntry)) || undefined,
    appliesTo: word === "callers" ? ("callers" as const) : undefined,
  });
}

function setIn(
  reading: Reading,
  place: DocumentEntry | undefined,
  { piece, options }: { readonly piece: Piece; readonly options: LevelOptions },
): readonly DeclaredPiece[] {
  if (place === undefined) return [];
  const before = reading.problems.length;
  const members = reading.members(place);
  if (members.length === 0 && reading.problems.length === before) {
    reading.fail("empty", place.keyAt, place.path, "there are no limits here; leave the key out, or name at least one");
  }
  const limits: readonly Limit[] = members.flatMap((member) => readLimit(reading, member) ?? []);
  if (reading.problems.length > before) return [];
  try {
    return [{ piece, value: limitsValue(checkLimits(limits, reading.calendar), options) }];
  } catch (error) {
    if (!(error instanceof ValidationError)) throw error;
    reading.fail("limit_invalid", place.valueAt, place.path, sentence(error));
    return [];
  }
}

/** `disabled: true, false, bypass`, or the word itself under `access`. */
export function accessIn(reading: Reading, found: Members, scope: ConfigScope): readonly DeclaredPiece[] {
  const disabled = found.get("disabled");
  const access = found.get("access");
  if (disabled !== undefined && access !== undefined) {
    reading.invalid(access, "access and disabled set the same thing; keep one of them");
    return [];
  }
  const value = disabled === undefined ? access && accessOf(reading, access) : disabledOf(reading, disabled);
  return value === undefined ? [] : [{ piece: pieceIn("access", scope), value }];
}

function disabledOf(reading: Reading, entry: DocumentEntry): Access | undefined {
  const value = reading.scalar(entry);
  if (value === "bypass") return "bypass";
  if (typeof value === "boolean") return value ? "disabled" : "enforce";
  return reading.invalid(entry, `give true, false or bypass, not ${reading.shown(entry)}`);
}

function accessOf(reading: Reading, entry: DocumentEntry): Access | undefined {
  const value = reading.scalar(entry);
  if (typeof value === "string" && ACCESS_WORDS.includes(value)) return value as Access;
  return reading.invalid(entry, `give disabled, bypass or enforce, not ${reading.shown(entry)}`);
}
