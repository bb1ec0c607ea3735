import type { StoredConfig } from "../../domain/config.ts";
import { type LimitsVersion, versionsFrom, versionsText, withVersion } from "../../domain/config-versions.ts";
import type { Entity } from "../../domain/entity.ts";
import { stintsFrom, stintsText, withStint } from "../../domain/plan-stints.ts";
import type { Connection, Statement } from "./connection.ts";

/** The place of a scope: whose it is, an entity's, a default's or a plan's, and of which resource; empty: any. */
export type HistoryKey = readonly [of: "entity" | "plan", owner: string, resource: string];

/** The place of the plans that an entity had. */
export function stintsKey(entityId: string): readonly [of: "stints", owner: string, resource: string] {
  return ["stints", entityId, ""];
}

/** What the scopes of one namespace said of limits over time. Inside transactions only. */
export class ConfigHistories {
  readonly #namespaceId: string;
  readonly #get: Statement;
  readonly #put: Statement;

  constructor(connection: Connection, namespaceId: string) {
    this.#namespaceId = namespaceId;
    this.#get = connection.prepare(GET);
    this.#put = connection.prepare(PUT);
  }

  of(key: HistoryKey): readonly LimitsVersion[] | undefined {
    const text = this.#get.get(this.#namespaceId, ...key)?.[0];
    return text === undefined ? undefined : knownVersions(text as string);
  }

  note(
    key: HistoryKey,
    change: { readonly before: StoredConfig | undefined; readonly after: StoredConfig | undefined },
    atMs: number,
  ): void {
    const known = this.of(key);
    const versions = withVersion(known, change.before, change.after, atMs);
    if (versions !== undefined && versions !== known) this.#put.run(this.#namespaceId, ...key, versionsText(versions));
  }
}

/** The plans that entities of one namespace had over time. Inside transactions only. */
export class PlanHistories {
  readonly #namespaceId: string;
  readonly #get: Statement;
  readonly #put: Statement;

  constructor(connection: Connection, namespaceId: string) {
    this.#namespaceId = namespaceId;
    this.#get = connection.prepare(GET);
    this.#put = connection.prepare(PUT);
  }

  note(before: Entity | undefined, { id, planId }: Entity, atMs: number): void {
    if (before?.planId === planId) return;
    const text = this.#get.get(this.#namespaceId, ...stintsKey(id))?.[0];
    const stints = withStint(text === undefined ? undefined : stintsFrom(text), before?.planId, planId, atMs);
    if (stints !== undefined) this.#put.run(this.#namespaceId, ...stintsKey(id), stintsText(stints));
  }
}

const GET = "SELECT versions FROM limit_history WHERE namespace = ? AND of = ? AND owner = ? AND resource = ?";
const PUT = "INSERT OR REPLACE INTO limit_history (namespace, of, owner, resource, versions) VALUES (?, ?, ?, ?, ?)";

/** The same list for the same text: sets of limits are made once for a list. */
export function knownVersions(text: string): readonly LimitsVersion[] | undefined {
  let versions = byText.get(text);
  if (versions === undefined) {
    versions = versionsFrom(text);
    if (versions === undefined) return undefined;
    if (byText.size >= TEXTS_MAX) byText.clear();
    byText.set(text, versions);
  }
  return versions;
}

const TEXTS_MAX = 1_000;
const byText = new Map<string, readonly LimitsVersion[]>();
