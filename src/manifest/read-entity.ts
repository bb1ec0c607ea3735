import type { ConfigScope } from "../domain/config/config.ts";
import { type DeclaredPiece, type EntityValue, type PlanValue, pieceKey } from "../domain/config/piece.ts";
import { given } from "../domain/names/given.ts";
import { checkEntityId, checkPlanId, checkResource } from "../domain/names/names.ts";
import { accessIn, limitsIn, OPTION_KEYS, readLevel, TOTAL_KEYS, totalsIn } from "./read-level.ts";
import type { DocumentEntry, Member, Members, Reading } from "./reading.ts";

export const ENTITY_KEYS = [
  ...["name", "parent", "plan", "cascade", "metadata", "create", "limits", ...OPTION_KEYS, ...TOTAL_KEYS, "access"],
  "resources",
];

/** Any of these declares the entity as a whole: what is absent has its default. Without them it is created if it is missing. */
const OWN_KEYS = ["name", "parent", "plan", "cascade", "metadata"];

const DEFAULT_NAME = "_default_";
const NAME_MAX = 256;

interface ReadEntity {
  readonly id: string;
  readonly pieces: readonly DeclaredPiece[];
  readonly parentId: string | undefined;
  readonly parentEntry: DocumentEntry | undefined;
}

export function readEntity(reading: Reading, member: Member): ReadEntity {
  const id = member.key;
  const before = reading.problems.length;
  const reasons = { disabled: 'write access: disabled, or disabled below "resources"' };
  const found = reading.known(member, ENTITY_KEYS, reasons);
  const everywhere: ConfigScope = { level: "entityDefault", entityId: id };
  const parentEntry = found.get("parent");
  const parentId = idOf(reading, parentEntry, checkEntityId);
  const short = [...limitsIn(reading, found, everywhere), ...accessIn(reading, found, everywhere)];
  const levels = reading.eachNamed(found.get("resources"), checkLevelName, (level) => {
    const resource = level.key;
    return readLevel(
      reading,
      level,
      resource === DEFAULT_NAME ? everywhere : { level: "entity", entityId: id, resource },
    );
  });
  const declared = new Set(levels.map(({ piece }) => pieceKey(piece)));
  for (const { piece } of short) {
    if (!declared.has(pieceKey(piece))) continue;
    const entry = found.get(piece.what) as DocumentEntry;
    const what = `"${piece.what}" is short for that of _default_, which is given too; keep one of them`;
    reading.fail("key_duplicate", entry.keyAt, entry.path, what);
  }
  const totals = totalsIn(reading, found, { level: "entityTotal", entityId: id });
  const pieces = [...ownIn(reading, id, found, parentId), ...short, ...totals, ...levels];
  if (pieces.length === 0 && reading.problems.length === before) {
    reading.fail("empty", member.keyAt, member.path, `"${id}" is empty; give it limits, or leave out create: false`);
  }
  return { id, pieces, parentId, parentEntry };
}

/** An entity cannot be below itself; parents that are not declared are asked of the store. */
export function refuseCycles(reading: Reading, entities: readonly ReadEntity[]): void {
  const parents = new Map(entities.map(({ id, parentId }) => [id, parentId]));
  for (const { id, parentEntry } of entities) {
    const path = [id];
    for (let above = parents.get(id); above !== undefined; above = parents.get(above)) {
      path.push(above);
      if (above === id && parentEntry !== undefined) {
        reading.invalid(parentEntry, `${id} cannot be its own ancestor: ${path.join(" -> ")}`);
      }
      if (path.indexOf(above) < path.length - 1) break;
    }
  }
}

/** The entity itself; none where the file says that it is not to create it. */
function ownIn(reading: Reading, id: string, found: Members, parentId: string | undefined): readonly DeclaredPiece[] {
  const wholeBy = OWN_KEYS.find((key) => found.has(key));
  const createEntry = found.get("create");
  const isCreated = createEntry === undefined || reading.flag(createEntry) !== false;
  if (isCreated) return [{ ...entityIn(reading, id, found, parentId), ...(wholeBy ? {} : { ifAbsent: true }) }];
  if (wholeBy !== undefined && createEntry !== undefined) {
    reading.invalid(createEntry, `"${wholeBy}" declares ${id} itself; leave out one of them`);
  }
  return [];
}

function entityIn(reading: Reading, id: string, found: Members, parentId: string | undefined): DeclaredPiece {
  const planId = idOf(reading, found.get("plan"), checkPlanId);
  const cascadeEntry = found.get("cascade");
  const cascade = (cascadeEntry && reading.flag(cascadeEntry)) ?? parentId !== undefined;
  const { name, metadata } = labelsIn(reading, id, found);
  const value: EntityValue = { name, ...given({ parentId, planId }), cascade, metadata };
  return { piece: { what: "entity", entityId: id }, value };
}

function checkLevelName(name: string): void {
  if (name !== DEFAULT_NAME) checkResource(name);
}

/** An id. Undefined: it is null, or there is none. */
function idOf(reading: Reading, place: DocumentEntry | undefined, check: (text: string) => string): string | undefined {
  const isNull = place?.node !== undefined && reading.scalar(place) === null;
  return isNull ? undefined : reading.checked(place, check);
}

/** The name, which is the id by default, and the metadata. */
function labelsIn(reading: Reading, id: string, found: Members): PlanValue {
  const nameEntry = found.get("name");
  const metadataEntry = found.get("metadata");
  const name = nameEntry && nameOf(reading, nameEntry);
  return { name: name || id, metadata: metadataEntry === undefined ? {} : metadataOf(reading, metadataEntry) };
}

function nameOf(reading: Reading, entry: DocumentEntry): string | undefined {
  const text = reading.text(entry);
  if (text === undefined || text.length <= NAME_MAX) return text;
  return reading.invalid(entry, `give a name of at most ${NAME_MAX} characters`);
}

function metadataOf(reading: Reading, entry: DocumentEntry): Readonly<Record<string, string>> {
  const texts = reading.members(entry).map((member) => [member.key, reading.text(member)]);
  return given(Object.fromEntries(texts));
}

const PLAN_KEYS = ["name", "metadata", "limits", ...OPTION_KEYS, ...TOTAL_KEYS, "resources"];
const PLAN_LEVEL_KEYS = ["limits", ...OPTION_KEYS];

/** A plan, which is declared by its id alone; its limits, on resources too, and its totals. */
export function readPlan(reading: Reading, member: Member): readonly DeclaredPiece[] {
  const planId = member.key;
  const found = reading.known(member, PLAN_KEYS);
  return [
    { piece: { what: "plan", planId }, value: labelsIn(reading, planId, found) },
    ...limitsIn(reading, found, { level: "planDefault", planId }),
    ...totalsIn(reading, found, { level: "planTotal", planId }),
    ...reading.eachNamed(found.get("resources"), checkResource, (level) => readPlanLevel(reading, level, planId)),
  ];
}

function readPlanLevel(reading: Reading, member: Member, planId: string): readonly DeclaredPiece[] {
  const { key: resource, keyAt, path } = member;
  const before = reading.problems.length;
  const found = reading.known(member, PLAN_LEVEL_KEYS);
  if (!found.has("limits") && reading.problems.length === before) {
    reading.fail("empty", keyAt, path, `"${resource}" is empty; give it limits, or leave it out`);
  }
  return limitsIn(reading, found, { level: "plan", planId, resource });
}
