import type { ChangeTime } from "../../domain/change-number.ts";
import type { ConfigScope, StoredConfig } from "../../domain/config.ts";
import { type LimitsVersion, withVersion } from "../../domain/config-versions.ts";

interface History {
  readonly scope: ConfigScope;
  readonly versions: readonly LimitsVersion[];
}

/** A change of what a scope says. */
interface ScopeChange {
  readonly before: StoredConfig | undefined;
  readonly after: StoredConfig | undefined;
  readonly time: ChangeTime;
}

/** Of so many scopes whose limits were deleted it is known that they had some: nobody may fill the memory with them. */
const DELETED_MAX = 10_000;

/** What the scopes of a namespace said of limits over time, by the keys of the scopes. */
export class ConfigHistories {
  readonly #histories = new Map<string, History>();
  /** Of those, whose limits were deleted: the longest ago first. */
  readonly #deleted = new Set<string>();

  of(key: string): readonly LimitsVersion[] | undefined {
    return this.#histories.get(key)?.versions;
  }

  note(key: string, scope: ConfigScope, { before, after, time }: ScopeChange): void {
    const versions = withVersion(this.of(key), before, after, time);
    if (versions === undefined) return;
    this.#histories.set(key, { scope, versions });
    this.#deleted.delete(key);
    if ((after?.limits.length ?? 0) > 0) return;
    this.#deleted.add(key);
    const [longest] = this.#deleted;
    if (this.#deleted.size > DELETED_MAX && longest !== undefined) this.#drop(longest);
  }

  /** The entity was deleted, and its buckets with it. */
  forgetEntity(entityId: string): void {
    for (const [key, { scope }] of this.#histories) {
      if ("entityId" in scope && scope.entityId === entityId) this.#drop(key);
    }
  }

  get size(): number {
    return this.#histories.size;
  }

  clear(): void {
    this.#histories.clear();
    this.#deleted.clear();
  }

  #drop(key: string): void {
    this.#histories.delete(key);
    this.#deleted.delete(key);
  }
}
