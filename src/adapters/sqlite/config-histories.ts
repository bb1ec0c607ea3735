import { type ChangeTime, numberOfGeneration } from "../../domain/change-number.ts";
import type { ConfigScope, StoredConfig } from "../../domain/config.ts";
import { type LimitsVersion, versionsText, withVersion } from "../../domain/config-versions.ts";
import type { Entity } from "../../domain/entity.ts";
import { stintsFrom, stintsText, withStint } from "../../domain/plan-stints.ts";
import { type HistoryKey, historyKey, type StintsKey, stintsKey } from "../../stored/config-keys.ts";
import { knownVersions } from "../../stored/known-versions.ts";
import type { Connection, Statement } from "./connection.ts";

/** What the scopes of one namespace said of limits over time, and which plans its entities had. Inside transactions only. */
export class Histories {
  readonly #namespaceId: string;
  readonly #get: Statement;
  readonly #put: Statement;
  readonly #generation: Statement;

  constructor(connection: Connection, namespaceId: string) {
    this.#namespaceId = namespaceId;
    this.#get = connection.prepare(GET);
    this.#put = connection.prepare(PUT);
    this.#generation = connection.prepare("SELECT value FROM generation");
  }

  of(key: HistoryKey): readonly LimitsVersion[] | undefined {
    const text = this.#textOf(key);
    return text === undefined ? undefined : knownVersions(text);
  }

  note(
    scope: ConfigScope,
    change: { readonly before: StoredConfig | undefined; readonly after: StoredConfig | undefined },
    atMs: number,
  ): void {
    const key = historyKey(scope);
    const known = this.of(key);
    const versions = withVersion(known, change.before, change.after, this.#time(atMs));
    if (versions !== undefined && versions !== known) this.#put.run(this.#namespaceId, ...key, versionsText(versions));
  }

  /** An entity was made, or changed: it may have come to another plan. */
  notePlan(before: Entity | undefined, { id, planId }: Entity, atMs: number): void {
    if (before?.planId === planId) return;
    const key = stintsKey(id);
    const text = this.#textOf(key);
    const stints = withStint(
      text === undefined ? undefined : stintsFrom(text),
      before?.planId,
      planId,
      this.#time(atMs),
    );
    if (stints !== undefined) this.#put.run(this.#namespaceId, ...key, stintsText(stints));
  }

  /** The change under way makes the next generation. */
  #time(atMs: number): ChangeTime {
    return { atMs, number: numberOfGeneration((this.#generation.get()?.[0] as number) + 1) };
  }

  #textOf(key: HistoryKey | StintsKey): string | undefined {
    return this.#get.get(this.#namespaceId, ...key)?.[0] as string | undefined;
  }
}

const GET = "SELECT versions FROM limit_history WHERE namespace = ? AND of = ? AND owner = ? AND resource = ?";
const PUT = "INSERT OR REPLACE INTO limit_history (namespace, of, owner, resource, versions) VALUES (?, ?, ?, ?, ?)";
