import type { ConfigScope, StoredConfig } from "../domain/config.ts";
import { isTotal } from "../domain/config-scope.ts";
import type { Limit } from "../domain/limit.ts";
import type { SetOptions } from "../engine/level-options.ts";
import type { ServiceCalls } from "./http.ts";
import { deleteLevel, type LevelRoute, readLevel, setLevel } from "./levels.ts";
import { at } from "./path.ts";

/** What each level of a service stores, by its scope: for the command line. */
export class RemoteLevels {
  readonly #calls: ServiceCalls;

  constructor(calls: ServiceCalls) {
    this.#calls = calls;
  }

  /** What a level says itself, with its tag, where the service has one: `set` with it changes only what was read. */
  read(scope: ConfigScope): Promise<{ readonly config: StoredConfig; readonly tag?: string | null }> {
    return readLevel(this.#calls, routeOfScope(scope));
  }

  /** Sets the limits of a level; answers whether that changed something. */
  set(scope: ConfigScope, limits: readonly Limit[], options: SetOptions, ifTag?: string | null): Promise<boolean> {
    return setLevel(this.#calls, routeOfScope(scope), limits, options, ifTag);
  }

  /** Answers whether there were any. */
  delete(scope: ConfigScope, options: { readonly principal?: string }): Promise<boolean> {
    return deleteLevel(this.#calls, routeOfScope(scope), options);
  }
}

function routeOfScope(scope: ConfigScope): LevelRoute {
  const { level: _, ...query } = scope;
  return { path: isTotal(scope) ? at`totals` : at`limits`, query };
}
