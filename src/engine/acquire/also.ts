import { bucketKey } from "../../domain/bucket/bucket-key.ts";
import type { Also, AlsoPart, Tokens } from "../../domain/charge/amounts.ts";
import { ValidationError } from "../../domain/names/errors.ts";
import { KnownNames } from "../../domain/names/known-names.ts";
import { checkEntityId, checkResource, shown } from "../../domain/names/names.ts";

/** A part of `also` with its entity. */
export interface FurtherPart {
  readonly entityId: string;
  readonly resource: string;
  readonly consume: Tokens | undefined;
}

/** Checks `also` and returns its parts; none is named twice, nor is the request's own. */
export function alsoOf({
  entityId,
  resource,
  also,
}: {
  readonly entityId: string;
  readonly resource: string;
  readonly also?: Also | undefined;
}): readonly FurtherPart[] {
  if (also === undefined) return [];
  const parts = furtherParts(also, entityId);
  if (parts.length >= PARTS_MAX) {
    throw new ValidationError(
      "also_invalid",
      `The request names ${parts.length + 1} parts, its own and those of also; at most ${PARTS_MAX} are allowed.`,
    );
  }
  const named = new Set([bucketKey(entityId, resource).id]);
  for (const part of parts) {
    const { id } = bucketKey(checkEntityId(part.entityId), checkResource(part.resource));
    if (named.has(id)) throw namedTwice(part, { entityId, resource });
    named.add(id);
  }
  return parts;
}

const PART = new KnownNames<AlsoPart>({ entityId: true, resource: true, consume: true });

/** The parts of `also` in their order; their names are not checked. */
function furtherParts(also: unknown, entityId: string): readonly FurtherPart[] {
  if (Array.isArray(also)) {
    return also.map((part: AlsoPart) => {
      PART.check(part, "A part of also");
      return { entityId: part.entityId ?? entityId, resource: part.resource, consume: part.consume };
    });
  }
  if (typeof also === "object" && also !== null) {
    return Object.entries(also as Readonly<Record<string, Tokens>>).map(([resource, consume]) => {
      return { entityId, resource, consume };
    });
  }
  throw new ValidationError(
    "also_invalid",
    `also is ${shown(also)}; give resources, { "gpu": { slots: 1 } }, or a list, [{ entityId: "team-1", resource: "gpu", consume: { slots: 1 } }].`,
  );
}

function namedTwice(
  { entityId, resource }: FurtherPart,
  own: { readonly entityId: string; readonly resource: string },
): ValidationError {
  const isOwn = entityId === own.entityId && resource === own.resource;
  const where = isOwn ? "is what the request itself is for, and in also" : "is in also twice";
  return new ValidationError("also_invalid", `${entityId} on ${resource} ${where}; name it once.`);
}

/** At most this many parts in one request, with its own. */
const PARTS_MAX = 16;
