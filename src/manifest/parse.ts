import { LineCounter, parseAllDocuments } from "yaml";
import { type DeclaredPiece, pieceText } from "../domain/config/piece.ts";
import type { CronCheck } from "../domain/limits/calendar.ts";
import { ValidationError } from "../domain/names/errors.ts";
import { checkEntityId, checkNamespace, checkOwner, checkPlanId, checkResource, shown } from "../domain/names/names.ts";
import { type Manifest, ManifestInvalid, type ManifestProblem, type ProblemCode } from "./manifest.ts";
import { readEntity, refuseCycles } from "./read-entity.ts";
import { readLevel, readSystem } from "./read-level.ts";
import { sentence } from "./read-limit.ts";
import { readPlan } from "./read-plan.ts";
import { type DocumentEntry, type Member, Reading } from "./reading.ts";

export const TOP_KEYS = ["namespace", "owner", "plans", "system", "resources", "entities"];

/** What a text declares; throws `ManifestInvalid` with everything that is wrong with it. */
export function parseWith(text: string, file: string | undefined, calendar: CronCheck): Manifest {
  if (typeof text !== "string") {
    throw new ValidationError("manifest_invalid", `A manifest is a string, not ${shown(text)}; read the file first.`);
  }
  const lines = new LineCounter();
  // Keys that stand twice are told with the others, by where they stand.
  const documents = parseAllDocuments(text.replace(/^\uFEFF/, ""), { lineCounter: lines, uniqueKeys: false });
  const [document, second] = "empty" in documents ? [] : documents;
  if (document === undefined) throw new ManifestInvalid(file, [problemAt(1, 1, ["empty", NOTHING])]);
  const broken = document.errors.map(({ pos, message }): ManifestProblem => {
    const { line, col } = lines.linePos(pos[0]);
    const [what = message] = message.split(/ at line \d+/);
    return problemAt(line, col, ["yaml_syntax", what]);
  });
  if (broken.length > 0) throw new ManifestInvalid(file, broken);
  const reading = new Reading(document, lines);
  if (second !== undefined) {
    const at = second.range[0];
    reading.fail("yaml_syntax", at, "", "a second document begins here; a manifest has one");
  }
  const manifest = readTop(reading, calendar);
  if (reading.problems.length > 0) throw new ManifestInvalid(file, reading.problems);
  return { ...manifest, text };
}

const NOTHING = "the manifest declares nothing; to own nothing, write resources: {}";

function problemAt(line: number, column: number, [code, message]: readonly [ProblemCode, string]): ManifestProblem {
  return { line, column, path: "", code, message };
}

function readTop(reading: Reading, calendar: CronCheck): Manifest {
  const root = reading.root();
  const isNothing = !reading.isMap(root) && reading.scalar(root) === null;
  const members = root.node === undefined || isNothing ? [] : reading.members(root, TOP_KEYS, {});
  const found = new Map(members.map((member) => [member.key, member]));
  const declares = ["plans", "system", "resources", "entities"].some((key) => found.has(key));
  const isOther = reading.problems.length > 0;
  if (!declares && !isOther) reading.fail("empty", 0, "", NOTHING);
  const namespace = named(reading, found.get("namespace"), checkNamespace);
  const owner = named(reading, found.get("owner"), checkOwner);
  const pieces = [
    ...plansIn(reading, found.get("plans"), calendar),
    ...entitiesIn(reading, found.get("entities"), calendar),
    ...systemIn(reading, found.get("system"), calendar),
    ...resourcesIn(reading, found.get("resources"), calendar),
  ];
  return {
    ...(namespace === undefined ? {} : { namespace }),
    ...(owner === undefined ? {} : { owner }),
    pieces,
    warnings: warningsOf(pieces),
  };
}

function systemIn(reading: Reading, place: Member | undefined, calendar: CronCheck): readonly DeclaredPiece[] {
  return place === undefined ? [] : readSystem(reading, place, calendar);
}

function plansIn(reading: Reading, place: Member | undefined, calendar: CronCheck): readonly DeclaredPiece[] {
  if (place === undefined) return [];
  return reading
    .members(place, undefined, {})
    .flatMap((member) => (isName(reading, member, checkPlanId) ? readPlan(reading, member, calendar) : []));
}

function resourcesIn(reading: Reading, place: Member | undefined, calendar: CronCheck): readonly DeclaredPiece[] {
  if (place === undefined) return [];
  return reading.members(place, undefined, {}).flatMap((member) => {
    if (!isName(reading, member, checkResource)) return [];
    return readLevel(reading, member, { level: "resource", resource: member.key }, calendar);
  });
}

function entitiesIn(reading: Reading, place: Member | undefined, calendar: CronCheck): readonly DeclaredPiece[] {
  if (place === undefined) return [];
  const read = reading
    .members(place, undefined, {})
    .flatMap((member) => (isName(reading, member, checkEntityId) ? [readEntity(reading, member, calendar)] : []));
  refuseCycles(reading, read);
  return read.flatMap(({ pieces }) => pieces);
}

function named(
  reading: Reading,
  place: DocumentEntry | undefined,
  check: (value: unknown) => string,
): string | undefined {
  if (place === undefined) return undefined;
  const text = reading.text(place);
  if (text === undefined) return undefined;
  try {
    return check(text);
  } catch (error) {
    return reading.invalid(place, sentence(error));
  }
}

function isName(reading: Reading, { key, keyAt, path }: Member, check: (value: unknown) => string): boolean {
  try {
    check(key);
    return true;
  } catch (error) {
    reading.fail("name_invalid", keyAt, path, sentence(error));
    return false;
  }
}

function warningsOf(pieces: readonly DeclaredPiece[]): readonly string[] {
  return pieces.flatMap(({ piece, value }) =>
    piece.what === "access" && value !== "enforce"
      ? [`${pieceText(piece)} is declared as ${String(value)}: every apply sets it again.`]
      : [],
  );
}
