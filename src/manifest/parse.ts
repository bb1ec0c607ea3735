import { Document } from "yaml";
import { type DeclaredPiece, pieceText } from "../domain/config/piece.ts";
import type { CronCheck } from "../domain/limits/schedule.ts";
import { ValidationError } from "../domain/names/errors.ts";
import { given } from "../domain/names/given.ts";
import { checkEntityId, checkNamespace, checkOwner, checkPlanId, checkResource, shown } from "../domain/names/names.ts";
import { type Manifest, ManifestInvalid } from "./manifest.ts";
import { readEntity, readPlan, refuseCycles } from "./read-entity.ts";
import { readLevel, readSystem } from "./read-level.ts";
import { openReading, problemAt, Reading } from "./reading.ts";

export const TOP_KEYS = ["namespace", "owner", "plans", "system", "resources", "entities"];

/** Reads a manifest. Throws `ManifestInvalid` with every problem. */
export function parseWith(text: string, file: string | undefined, calendar: CronCheck): Manifest {
  if (typeof text !== "string") {
    throw new ValidationError("manifest_invalid", `A manifest is a string, not ${shown(text)}; read the file first.`);
  }
  const second = "a second document begins here; a manifest has one";
  const opened = openReading<never>(text, calendar, { nothing: NOTHING, second });
  if (!(opened instanceof Reading)) throw new ManifestInvalid(file, opened);
  return { ...manifestIn(opened, file), text };
}

/** Reads a manifest that was sent as JSON. Its problems have paths and no lines. */
export function readDocument(value: object, calendar: CronCheck): Manifest {
  return manifestIn(new Reading(documentIn(value), undefined, calendar), undefined);
}

function documentIn(value: object): Document {
  try {
    return new Document(value, { aliasDuplicateObjects: false });
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    const message = "maps or lists are nested too deeply";
    throw new ManifestInvalid(undefined, [problemAt(0, 0, ["value_invalid", message])]);
  }
}

function manifestIn(reading: Reading, file: string | undefined): Manifest {
  const manifest = readTop(reading);
  if (reading.problems.length > 0) throw new ManifestInvalid(file, reading.problems);
  return manifest;
}

const NOTHING = "the manifest declares nothing; to own nothing, write resources: {}";

function readTop(reading: Reading): Manifest {
  const root = reading.root();
  const isNothing = !reading.isMap(root) && reading.scalar(root) === null;
  const found = root.node === undefined || isNothing ? new Map() : reading.known(root, TOP_KEYS);
  const declares = ["plans", "system", "resources", "entities"].some((key) => found.has(key));
  if (!declares && reading.problems.length === 0) reading.fail("empty", 0, "", NOTHING);
  const namespace = reading.checked(found.get("namespace"), checkNamespace);
  const owner = reading.checked(found.get("owner"), checkOwner);
  const plans = reading.eachNamed(found.get("plans"), checkPlanId, (member) => readPlan(reading, member));
  const entities = reading.eachNamed(found.get("entities"), checkEntityId, (member) => [readEntity(reading, member)]);
  refuseCycles(reading, entities);
  const system = found.get("system");
  const pieces = [
    ...plans,
    ...entities.flatMap((entity) => entity.pieces),
    ...(system === undefined ? [] : readSystem(reading, system)),
    ...reading.eachNamed(found.get("resources"), checkResource, (member) =>
      readLevel(reading, member, { level: "resource", resource: member.key }),
    ),
  ];
  return { ...given({ namespace, owner }), pieces, warnings: warningsOf(pieces) };
}

function warningsOf(pieces: readonly DeclaredPiece[]): readonly string[] {
  return pieces.flatMap(({ piece, value }) =>
    piece.what === "access" && value !== "enforce"
      ? [`${pieceText(piece)} is declared as ${String(value)}: every apply sets it again.`]
      : [],
  );
}
