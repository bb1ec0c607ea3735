import { type Piece, pieceIn, scopeOfPiece } from "../../domain/config/piece.ts";
import { type Attributes, decodeJson, encodeJson } from "./codec.ts";
import { all, isStill, missing, putRecord, type RecordWrite, texts } from "./records-write.ts";
import { configResource, provisionerKey, systemIndexKeys } from "./schema.ts";

interface Managed {
  readonly system: boolean;
  readonly resources: readonly string[];
  /** Resources by entity; `_default_` stands for the entity's default. */
  readonly entities: Readonly<Record<string, readonly string[]>>;
}

/** What the original's provisioner has set in a namespace, by its own record of it. */
export function managedIn(item: Attributes | undefined): Managed {
  const entities = Object.entries(item?.managed_entities?.M ?? {});
  return {
    system: item?.managed_system?.BOOL === true,
    resources: namesIn(decodeJson(item?.managed_resources ?? { L: [] })),
    entities: Object.fromEntries(entities.map(([entityId, own]) => [entityId, namesIn(decodeJson(own))])),
  };
}

/** The owner to whom the original's provisioner's levels belong. */
const PROVISIONER_OWNER = "default";

/**
 * The original's record of what it manages, level by level. What it lists is owned by `default` here, and what `default` owns
 * here is listed there, so that each sees what the other manages.
 */
export class ProvisionerList {
  readonly #namespaceId: string;
  readonly #item: Attributes | undefined;
  readonly #managed: Managed;

  constructor(namespaceId: string, item: Attributes | undefined) {
    this.#namespaceId = namespaceId;
    this.#item = item;
    this.#managed = managedIn(item);
  }

  /** Only limits: access and cascade that a listed level has may be an operator's, and are not taken for declared. */
  pieces(): readonly Piece[] {
    const { system, resources, entities } = this.#managed;
    return [
      ...(system ? [pieceIn("limits", { level: "system" })] : []),
      ...resources.map((resource) => pieceIn("limits", { level: "resource", resource })),
      ...Object.entries(entities).flatMap(([entityId, own]) =>
        own.map((resource) =>
          pieceIn(
            "limits",
            resource === DEFAULT_NAME ? { level: "entityDefault", entityId } : { level: "entity", entityId, resource },
          ),
        ),
      ),
    ];
  }

  ownerOf(piece: Piece): string | undefined {
    return piece.what === "limits" && this.#has(piece) ? PROVISIONER_OWNER : undefined;
  }

  /** The write that lists the level of a piece that `default` owns now, or no longer lists one that another took over. */
  entered(piece: Piece, owner: string): readonly RecordWrite[] {
    if (piece.level === undefined) return [];
    if (owner === PROVISIONER_OWNER) return this.#has(piece) ? [] : this.#changed(piece, true);
    return piece.what === "limits" && this.#has(piece) ? this.#changed(piece, false) : [];
  }

  /** The same for a piece that is struck out. A level stays listed while other pieces of it are still the owner's. */
  struck(piece: Piece, owner: string, others: readonly Piece[]): readonly RecordWrite[] {
    if (piece.level === undefined || owner !== PROVISIONER_OWNER) return [];
    return others.length > 0 || !this.#has(piece) ? [] : this.#changed(piece, false);
  }

  #has(piece: Piece): boolean {
    const scope = scopeOfPiece(piece);
    if (scope === undefined) return false;
    const { system, resources, entities } = this.#managed;
    if (scope.level === "system") return system;
    const name = configResource(scope) ?? "";
    return ("entityId" in scope ? (entities[scope.entityId] ?? []) : resources).includes(name);
  }

  #changed(piece: Piece, isListed: boolean): readonly RecordWrite[] {
    const next = this.#with(piece, isListed);
    const lists = {
      managed_system: { BOOL: next.system },
      managed_resources: encodeJson(next.resources) ?? { L: [] },
      managed_entities: encodeJson(next.entities) ?? { M: {} },
    };
    const before = this.#item;
    const unchanged =
      before === undefined ? missing : all(...Object.keys(lists).map((name) => isStill(name, before[name])));
    const item = { ...before, ...texts(systemIndexKeys(this.#namespaceId)), ...lists };
    return [putRecord(provisionerKey(this.#namespaceId), item, unchanged)];
  }

  #with(piece: Piece, isListed: boolean): Managed {
    const { system, resources, entities } = this.#managed;
    const scope = scopeOfPiece(piece);
    if (scope === undefined) return this.#managed;
    if (scope.level === "system") return { system: isListed, resources, entities };
    const name = configResource(scope) ?? "";
    const changed = (names: readonly string[]) => {
      const others = names.filter((each) => each !== name);
      return isListed ? [...others, name].toSorted() : others;
    };
    if (!("entityId" in scope)) return { system, resources: changed(resources), entities };
    const { [scope.entityId]: own = [], ...rest } = entities;
    const left = changed(own);
    return { system, resources, entities: left.length === 0 ? rest : { ...rest, [scope.entityId]: left } };
  }
}

const DEFAULT_NAME = "_default_";

function namesIn(value: unknown): readonly string[] {
  return Array.isArray(value) ? value.filter((name): name is string => typeof name === "string") : [];
}
