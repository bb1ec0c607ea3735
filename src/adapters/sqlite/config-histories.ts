import type { StoredConfig } from "../../domain/config.ts";
import { type LimitsVersion, versionsFrom, versionsText, withVersion } from "../../domain/config-versions.ts";
import type { Connection, Statement } from "./connection.ts";

/** The place of a scope: whose it is, an entity's, a default's or a plan's, and of which resource; empty: any. */
export type HistoryKey = readonly [of: "entity" | "plan", owner: string, resource: string];

/** What the scopes of one namespace said of limits over time. Inside transactions only. */
export class ConfigHistories {
  readonly #namespaceId: string;
  readonly #get: Statement;
  readonly #put: Statement;

  constructor(connection: Connection, namespaceId: string) {
    this.#namespaceId = namespaceId;
    this.#get = connection.prepare(
      "SELECT versions FROM limit_history WHERE namespace = ? AND of = ? AND owner = ? AND resource = ?",
    );
    this.#put = connection.prepare(
      "INSERT OR REPLACE INTO limit_history (namespace, of, owner, resource, versions) VALUES (?, ?, ?, ?, ?)",
    );
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
