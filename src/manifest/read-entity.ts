import type { ConfigScope } from "../domain/config/config.ts";
import { type DeclaredPiece, type EntityValue, pieceKey } from "../domain/config/piece.ts";
import type { CronCheck } from "../domain/limits/calendar.ts";
import { checkEntityId, checkPlanId, checkResource } from "../domain/names/names.ts";
import { accessIn, limitsIn, OPTION_KEYS, readLevel, TOTAL_KEYS, totalsIn } from "./read-level.ts";
import { sentence } from "./read-limit.ts";
import type { DocumentEntry, Member, Reading } from "./reading.ts";

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

export function readEntity(reading: Reading, member: Member, calendar: CronCheck): ReadEntity {
  const id = member.key;
  const before = reading.problems.length;
  const reasons = { disabled: 'write access: disabled, or disabled below "resources"' };
  const members = reading.members(member, ENTITY_KEYS, reasons);
  const found = new Map(members.map((each) => [each.key, each]));
  const everywhere: ConfigScope = { level: "entityDefault", entityId: id };
  const parentEntry = found.get("parent");
  const parentId = idOf(reading, parentEntry, checkEntityId);
  const short = [
    ...limitsIn(reading, found, everywhere, calendar),
    ...accessIn(reading, onlyAccess(found), everywhere),
  ];
  const levels = found.has("resources") ? levelsIn(reading, found.get("resources") as Member, id, calendar) : [];
  const said = new Set(levels.map(({ piece }) => pieceKey(piece)));
  for (const { piece } of short) {
    if (!said.has(pieceKey(piece))) continue;
    const entry = found.get(piece.what) as DocumentEntry;
    const what = `"${piece.what}" is short for that of _default_, which is given too; keep one of them`;
    reading.fail("key_duplicate", entry.keyAt, entry.path, what);
  }
  const totals = totalsIn(reading, found, { level: "entityTotal", entityId: id }, calendar);
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
function ownIn(
  reading: Reading,
  id: string,
  found: ReadonlyMap<string, Member>,
  parentId: string | undefined,
): readonly DeclaredPiece[] {
  const wholeBy = OWN_KEYS.find((key) => found.has(key));
  const createEntry = found.get("create");
  const isCreated = createEntry === undefined || reading.flag(createEntry) !== false;
  if (isCreated) return [{ ...entityIn(reading, id, found, parentId), ...(wholeBy ? {} : { ifAbsent: true }) }];
  if (wholeBy !== undefined && createEntry !== undefined) {
    reading.invalid(createEntry, `"${wholeBy}" declares ${id} itself; leave out one of them`);
  }
  return [];
}

function entityIn(
  reading: Reading,
  id: string,
  found: ReadonlyMap<string, Member>,
  parentId: string | undefined,
): DeclaredPiece {
  const nameEntry = found.get("name");
  const planId = idOf(reading, found.get("plan"), checkPlanId);
  const cascadeEntry = found.get("cascade");
  const metadataEntry = found.get("metadata");
  const name = nameEntry === undefined ? undefined : nameOf(reading, nameEntry);
  const cascade = cascadeEntry === undefined ? undefined : reading.flag(cascadeEntry);
  const metadata = metadataEntry === undefined ? [] : metadataOf(reading, metadataEntry);
  const value: EntityValue = {
    name: name || id,
    ...(parentId === undefined ? {} : { parentId }),
    ...(planId === undefined ? {} : { planId }),
    cascade: cascade ?? parentId !== undefined,
    metadata: Object.fromEntries(metadata),
  };
  return { piece: { what: "entity", entityId: id }, value };
}

function levelsIn(reading: Reading, entry: Member, entityId: string, calendar: CronCheck): readonly DeclaredPiece[] {
  return reading.members(entry, undefined, {}).flatMap((member) => {
    const resource = member.key;
    if (resource === DEFAULT_NAME) return readLevel(reading, member, { level: "entityDefault", entityId }, calendar);
    try {
      checkResource(resource);
    } catch (error) {
      reading.fail("name_invalid", member.keyAt, member.path, sentence(error));
      return [];
    }
    return readLevel(reading, member, { level: "entity", entityId, resource }, calendar);
  });
}

/** An id; null stands for none. */
function idOf(
  reading: Reading,
  place: DocumentEntry | undefined,
  check: (value: unknown) => string,
): string | undefined {
  if (place === undefined || (reading.scalar(place) === null && place.node !== undefined)) return undefined;
  const text = reading.text(place);
  if (text === undefined) return undefined;
  try {
    return check(text);
  } catch (error) {
    return reading.invalid(place, sentence(error));
  }
}

export function nameOf(reading: Reading, entry: DocumentEntry): string | undefined {
  const text = reading.text(entry);
  if (text === undefined || text.length <= NAME_MAX) return text;
  return reading.invalid(entry, `give a name of at most ${NAME_MAX} characters`);
}

export function metadataOf(reading: Reading, entry: DocumentEntry): readonly (readonly [string, string])[] {
  return reading.members(entry, undefined, {}).flatMap((member) => {
    const text = reading.text(member);
    return text === undefined ? [] : [[member.key, text] as const];
  });
}

function onlyAccess(found: ReadonlyMap<string, DocumentEntry>): ReadonlyMap<string, DocumentEntry> {
  const access = found.get("access");
  return new Map(access === undefined ? [] : [["access", access]]);
}
