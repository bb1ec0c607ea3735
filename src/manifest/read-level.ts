import type { CronCheck } from "../domain/calendar.ts";
import type { Access, ConfigScope } from "../domain/config.ts";
import { ValidationError } from "../domain/errors.ts";
import { checkLimits, type Limit } from "../domain/limit.ts";
import { type DeclaredPiece, pieceIn } from "../domain/piece.ts";
import { readLimit, sentence } from "./read-limit.ts";
import type { Member, Place, Reading } from "./reading.ts";

export const LEVEL_KEYS = ["limits", "disabled", "access", "cascade"];
export const SYSTEM_KEYS = ["on_unavailable", "limits"];
export const ACCESS_WORDS = ["disabled", "bypass", "enforce"];

const NOT_FOR_ALL = "it would concern everybody on everything; declare it for resources or entities";

/** Limits, access and cascade of a resource, or of an entity on one. */
export function readLevel(
  reading: Reading,
  member: Member,
  scope: ConfigScope,
  calendar: CronCheck,
): readonly DeclaredPiece[] {
  const before = reading.problems.length;
  const members = reading.members(member, LEVEL_KEYS, {});
  if (members.length === 0 && reading.problems.length === before) saysNothing(reading, member);
  const found = new Map(members.map((each) => [each.key, each]));
  const cascadePlace = found.get("cascade");
  const cascade = cascadePlace === undefined ? undefined : reading.flag(cascadePlace);
  return [
    ...limitsIn(reading, found.get("limits"), scope, calendar),
    ...accessIn(reading, found, scope),
    ...(cascade === undefined ? [] : [{ piece: pieceIn("cascade", scope), value: cascade }]),
  ];
}

export function readSystem(reading: Reading, member: Member, calendar: CronCheck): readonly DeclaredPiece[] {
  const scope: ConfigScope = { level: "system" };
  const before = reading.problems.length;
  const reasons = { disabled: NOT_FOR_ALL, access: NOT_FOR_ALL, cascade: NOT_FOR_ALL };
  const members = reading.members(member, SYSTEM_KEYS, reasons);
  if (members.length === 0 && reading.problems.length === before) saysNothing(reading, member);
  const found = new Map(members.map((each) => [each.key, each]));
  const place = found.get("on_unavailable");
  const word = place === undefined ? undefined : reading.scalar(place);
  if (place !== undefined && word !== "allow" && word !== "block") {
    reading.invalid(place, `give allow or block, not ${reading.shown(place)}`);
  }
  return [
    ...(word === "allow" || word === "block" ? [{ piece: pieceIn("onUnavailable", scope), value: word } as const] : []),
    ...limitsIn(reading, found.get("limits"), scope, calendar),
  ];
}

export function limitsIn(
  reading: Reading,
  place: Place | undefined,
  scope: ConfigScope,
  calendar: CronCheck,
): readonly DeclaredPiece[] {
  if (place === undefined) return [];
  const before = reading.problems.length;
  const members = reading.members(place, undefined, {});
  if (members.length === 0 && reading.problems.length === before) {
    reading.fail("empty", place.keyAt, place.path, "there are no limits here; leave the key out, or name at least one");
  }
  const limits: readonly Limit[] = members.flatMap((member) => readLimit(reading, member, calendar) ?? []);
  if (reading.problems.length > before) return [];
  try {
    return [{ piece: pieceIn("limits", scope), value: checkLimits(limits, calendar) }];
  } catch (error) {
    if (!(error instanceof ValidationError)) throw error;
    reading.fail("limit_invalid", place.valueAt, place.path, sentence(error));
    return [];
  }
}

/** `disabled: true, false, bypass`, or the word itself under `access`. */
export function accessIn(
  reading: Reading,
  found: ReadonlyMap<string, Place>,
  scope: ConfigScope,
): readonly DeclaredPiece[] {
  const disabled = found.get("disabled");
  const access = found.get("access");
  if (disabled !== undefined && access !== undefined) {
    reading.invalid(access, "access and disabled say the same thing; keep one of them");
    return [];
  }
  const value = disabled === undefined ? access && accessOf(reading, access) : disabledOf(reading, disabled);
  return value === undefined ? [] : [{ piece: pieceIn("access", scope), value }];
}

function disabledOf(reading: Reading, place: Place): Access | undefined {
  const value = reading.scalar(place);
  if (value === "bypass") return "bypass";
  if (typeof value === "boolean") return value ? "disabled" : "enforce";
  return reading.invalid(place, `give true, false or bypass, not ${reading.shown(place)}`);
}

function accessOf(reading: Reading, place: Place): Access | undefined {
  const value = reading.scalar(place);
  if (typeof value === "string" && ACCESS_WORDS.includes(value)) return value as Access;
  return reading.invalid(place, `give disabled, bypass or enforce, not ${reading.shown(place)}`);
}

function saysNothing(reading: Reading, { keyAt, path, key }: Member): void {
  reading.fail("empty", keyAt, path, `"${key}" says nothing; give it limits, or leave it out`);
}
