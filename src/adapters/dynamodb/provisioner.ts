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

/** The levels that the original's provisioner manages in a namespace, from its own record. */
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
 * The original's record of the levels that it manages. The owner `default` owns the levels listed there, and pieces
 * that `default` owns are listed there, so that each library sees what the other manages.
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

  /** Limits only: access and cascade of a listed level may have been set by an operator. */
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

  /** The write that lists the level of a piece which `default` now owns, or removes one that another owner took over. */
  entered(piece: Piece, owner: string): readonly RecordWrite[] {
    if (piece.level === undefined) return [];
    if (owner === PROVISIONER_OWNER) return this.#has(piece) ? [] : this.#changed(piece, true);
    return piece.what === "limits" && this.#has(piece) ? this.#changed(piece, false) : [];
  }

  /** The write for a piece that is struck out. A level stays listed while `default` owns other pieces of it. */
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
