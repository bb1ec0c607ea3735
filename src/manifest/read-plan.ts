import type { DeclaredPiece, PlanValue } from "../domain/config/piece.ts";
import type { CronCheck } from "../domain/limits/calendar.ts";
import { checkResource } from "../domain/names/names.ts";
import { metadataOf, nameOf } from "./read-entity.ts";
import { limitsIn, OPTION_KEYS, TOTAL_KEYS, totalsIn } from "./read-level.ts";
import { sentence } from "./read-limit.ts";
import type { Member, Reading } from "./reading.ts";

const PLAN_KEYS = ["name", "metadata", "limits", ...OPTION_KEYS, ...TOTAL_KEYS, "resources"];
const PLAN_LEVEL_KEYS = ["limits", ...OPTION_KEYS];

/** A plan, which is declared by its id alone; its limits, on resources too, and its totals. */
export function readPlan(reading: Reading, member: Member, calendar: CronCheck): readonly DeclaredPiece[] {
  const planId = member.key;
  const found = new Map(reading.members(member, PLAN_KEYS, {}).map((each) => [each.key, each]));
  const nameEntry = found.get("name");
  const metadataEntry = found.get("metadata");
  const value: PlanValue = {
    name: (nameEntry === undefined ? undefined : nameOf(reading, nameEntry)) || planId,
    metadata: Object.fromEntries(metadataEntry === undefined ? [] : metadataOf(reading, metadataEntry)),
  };
  return [
    { piece: { what: "plan", planId }, value },
    ...limitsIn(reading, found, { level: "planDefault", planId }, calendar),
    ...totalsIn(reading, found, { level: "planTotal", planId }, calendar),
    ...resourcesIn(reading, found.get("resources"), planId, calendar),
  ];
}

function resourcesIn(
  reading: Reading,
  place: Member | undefined,
  planId: string,
  calendar: CronCheck,
): readonly DeclaredPiece[] {
  if (place === undefined) return [];
  return reading.members(place, undefined, {}).flatMap((member) => {
    const resource = member.key;
    try {
      checkResource(resource);
    } catch (error) {
      reading.fail("name_invalid", member.keyAt, member.path, sentence(error));
      return [];
    }
    const before = reading.problems.length;
    const found = new Map(reading.members(member, PLAN_LEVEL_KEYS, {}).map((each) => [each.key, each]));
    if (!found.has("limits") && reading.problems.length === before) {
      reading.fail("empty", member.keyAt, member.path, `"${resource}" is empty; give it limits, or leave it out`);
    }
    return limitsIn(reading, found, { level: "plan", planId, resource }, calendar);
  });
}
