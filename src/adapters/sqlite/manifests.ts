import type { ConfigScope, StoredConfig } from "../../domain/config.ts";
import type { Page, PageRequest } from "../../domain/paging.ts";
import { type OwnedPiece, type Piece, type PieceValue, pieceKey, pieceOfKey } from "../../domain/piece.ts";
import type { EnterReply, ManifestStore, OwnerRecord, OwnerRight, StrikeReply } from "../../ports/manifest-store.ts";
import { scopeOfPlanRow, scopeOfRow } from "../../stored/config-keys.ts";
import { keyAfter, keyCursor, pageOf, textAfter } from "../../stored/cursor.ts";
import { readableJson } from "../../stored/row-damage.ts";
import type { Changes } from "./changes.ts";
import { CONFIG_COLUMNS, configOf, PLAN_CONFIG_COLUMNS } from "./config-rows.ts";
import type { Connection, Row, Statement } from "./connection.ts";

/** Records of owners change no configuration: they are written without an audit event and without a new generation. */
export class SqliteManifests implements ManifestStore {
  readonly #connection: Connection;
  readonly #changes: Changes;
  readonly #namespaceId: string;
  #made: Statements | undefined;

  constructor(parts: { readonly connection: Connection; readonly changes: Changes }, namespaceId: string) {
    this.#connection = parts.connection;
    this.#changes = parts.changes;
    this.#namespaceId = namespaceId;
  }

  setRun({ owner, run, appliedAtMs }: OwnerRecord): Promise<void> {
    return this.#changes.makeIn(this.#namespaceId, () => {
      this.#sql.setRun.run(this.#namespaceId, owner, run, appliedAtMs);
    });
  }

  getRun(owner: string): OwnerRecord | undefined {
    const row = this.#connection.read(() => this.#sql.getRun.get(this.#namespaceId, owner));
    return row === undefined ? undefined : { owner, run: row[0] as string, appliedAtMs: row[1] as number };
  }

  enter(owned: OwnedPiece, { run, takeOver }: OwnerRight): Promise<EnterReply> {
    const { owner, atMs } = owned;
    const key = pieceKey(owned.piece);
    const applied = owned.state === "applied" ? JSON.stringify(owned.value) : null;
    return this.#changes.makeIn(this.#namespaceId, (): EnterReply => {
      const known = (this.#sql.ownerOf.get(this.#namespaceId, key)?.[0] ?? owner) as string;
      if (known !== owner && !takeOver) return { kind: "ownedByOther", owner: known };
      if (!this.#isRun(owner, run)) return { kind: "superseded" };
      this.#sql.put.run(this.#namespaceId, key, owner, atMs, applied);
      return { kind: "entered" };
    });
  }

  strike(piece: Piece, owner: string, { run }: Pick<OwnerRight, "run">): Promise<StrikeReply> {
    return this.#changes.makeIn(this.#namespaceId, (): StrikeReply => {
      if (!this.#isRun(owner, run)) return { kind: "superseded" };
      this.#sql.strike.run(this.#namespaceId, pieceKey(piece), owner);
      return { kind: "struck" };
    });
  }

  list({ limit, cursor }: PageRequest): Page<OwnedPiece> {
    const rows = this.#connection.read(() => this.#sql.list.all(this.#namespaceId, textAfter(cursor), limit + 1));
    const page = pageOf(rows, limit, ([piece]) => keyCursor(piece as string));
    return { ...page, items: page.items.map(ownedOf) };
  }

  listConfigs(
    { entityId }: { readonly entityId?: string },
    { limit, cursor }: PageRequest,
  ): Page<{ readonly scope: ConfigScope; readonly config: StoredConfig }> {
    // Those of plans first, with an empty entity; those of one entity are never among them.
    const [plan = "", entity = "", resource] = keyAfter(cursor, 3) ?? [];
    const isEntity = entityId !== undefined;
    const { configs, configsOf, planConfigs } = this.#sql;
    const rows = this.#connection.read(() => {
      const wanted = limit + 1;
      // A cursor past the plans has no plan in it; there is always a resource, which may be empty.
      const isPastPlans = isEntity || (resource !== undefined && plan === "");
      const ofPlans = isPastPlans ? [] : planConfigs.all(this.#namespaceId, plan, resource ?? "", wanted);
      const left = wanted - ofPlans.length;
      const after = isPastPlans && resource !== undefined ? [entity, resource] : undefined;
      const { first, next } = isEntity ? configsOf : configs;
      const owner = isEntity ? [entityId] : [];
      const others =
        after === undefined
          ? first.all(this.#namespaceId, ...owner, left)
          : next.all(this.#namespaceId, ...owner, ...after, left);
      return [...ofPlans, ...others];
    });
    const page = pageOf(rows, limit, ([, , , , , , ...place]) => keyCursor(...(place as string[])));
    return { ...page, items: page.items.map((row) => ({ scope: scopeOf(row), config: configOf(row) })) };
  }

  // Most processes never ask: they need not wait for statements that nobody uses.
  get #sql(): Statements {
    this.#made ??= statementsOn(this.#connection);
    return this.#made;
  }

  #isRun(owner: string, run: string | undefined): boolean {
    return run === undefined || this.#sql.getRun.get(this.#namespaceId, owner)?.[0] === run;
  }
}

function ownedOf([key, owner, atMs, applied]: Row): OwnedPiece {
  const entry = { piece: pieceOfKey(key as string), owner: owner as string, atMs: atMs as number };
  if (applied === null) return { ...entry, state: "pending" };
  return {
    ...entry,
    state: "applied",
    value: readableJson<PieceValue>(applied, { table: "owned", column: "applied", of: key as string }),
  };
}

function scopeOf(row: Row): ConfigScope {
  const [plan, entityId, resource] = row.slice(6) as [string, string, string];
  return plan === "" ? scopeOfRow(entityId, resource) : scopeOfPlanRow(plan, resource);
}

type Statements = ReturnType<typeof statementsOn>;

function statementsOn(connection: Connection) {
  const configs = (which: string): { readonly first: Statement; readonly next: Statement } => {
    const from = `SELECT ${CONFIG_COLUMNS}, '' AS plan, entity, resource FROM config WHERE namespace = ?${which}`;
    const order = "ORDER BY entity, resource LIMIT ?";
    return {
      first: connection.prepare(`${from} ${order}`),
      next: connection.prepare(`${from} AND (entity, resource) > (?, ?) ${order}`),
    };
  };
  return {
    setRun: connection.prepare("INSERT OR REPLACE INTO owner VALUES (?, ?, ?, ?)"),
    getRun: connection.prepare("SELECT run, applied_at_ms FROM owner WHERE namespace = ? AND owner = ?"),
    ownerOf: connection.prepare("SELECT owner FROM owned WHERE namespace = ? AND piece = ?"),
    put: connection.prepare("INSERT OR REPLACE INTO owned VALUES (?, ?, ?, ?, ?)"),
    strike: connection.prepare("DELETE FROM owned WHERE namespace = ? AND piece = ? AND owner = ?"),
    list: connection.prepare(
      "SELECT piece, owner, at_ms, applied FROM owned WHERE namespace = ? AND piece > ? ORDER BY piece LIMIT ?",
    ),
    planConfigs: connection.prepare(
      `SELECT ${PLAN_CONFIG_COLUMNS}, plan, '' AS entity, resource FROM plan_config
       WHERE namespace = ? AND (plan, resource) > (?, ?) ORDER BY plan, resource LIMIT ?`,
    ),
    configs: configs(""),
    configsOf: configs(" AND entity = ?"),
  };
}
