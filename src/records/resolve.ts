import { type ConfigScope, type LevelConfig, scopesOf } from "../domain/config/config.ts";
import { type LimitsVersion, resolveChanges, saidOver } from "../domain/config/config-versions.ts";
import { namespaceNotActive } from "../domain/config/namespace.ts";
import { formerPlans, stintsFrom } from "../domain/config/plan-stints.ts";
import { run, type Steps, waitFor } from "../domain/steps.ts";
import type { MaybePromise } from "../ports/bucket-store.ts";
import type { RecordKey, StoredRecord } from "../ports/record-store.ts";
import { configOf, entityOf, namespaceOf, textOf } from "./bodies.ts";
import { versionsIn } from "./histories.ts";
import { configKey, entityKey, historyOf, namespaceKey, stintsOf } from "./keys.ts";

const ENTITIES_MAX = 10_000;
const TRIES_MAX = 50;

/**
 * Resolves one level of a chain in one question, where the plans of an entity are known: what they say must be asked for in the same one,
 * and who has them is in its answer. So an entity that has a plan is asked for twice by a process, the first time.
 */
export class Resolver {
  readonly #namespaceId: string;
  readonly #get: (keys: readonly RecordKey[]) => MaybePromise<readonly (StoredRecord | undefined)[]>;
  readonly #plansOf = new Map<string, readonly string[]>();

  constructor(
    namespaceId: string,
    get: (keys: readonly RecordKey[]) => MaybePromise<readonly (StoredRecord | undefined)[]>,
  ) {
    this.#namespaceId = namespaceId;
    this.#get = get;
  }

  resolve(entityId: string, resource: string): MaybePromise<LevelConfig> {
    return run(this.#resolved(entityId, resource));
  }

  *#resolved(entityId: string, resource: string): Steps<LevelConfig> {
    let asked = this.#plansOf.get(entityId) ?? [];
    for (let tries = 1; ; tries++) {
      const found = yield* this.#found(entityId, resource, asked);
      const entity = found.entity && entityOf(found.entity);
      const stints = found.stints && stintsFrom(textOf(found.stints));
      const wanted = [...(entity?.planId === undefined ? [] : [entity.planId]), ...formerPlans(stints)];
      if (wanted.every((planId) => asked.includes(planId)) || tries === TRIES_MAX) {
        return resolved(found, { entityId, resource, entity, stints });
      }
      this.#remember(entityId, wanted);
      asked = wanted;
    }
  }

  *#found(entityId: string, resource: string, planIds: readonly string[]): Steps<Found> {
    const scopes = [
      ...scopesOf(entityId, resource, undefined),
      ...planIds.flatMap((planId) => scopesOf(entityId, resource, planId).filter((scope) => "planId" in scope)),
    ];
    const [namespace, entity, stints, ...rest] = yield* waitFor(
      this.#get([
        ...[namespaceKey(this.#namespaceId), entityKey(entityId), stintsOf(entityId)],
        ...scopes.map(configKey),
        ...scopes.map(historyOf),
      ]),
    );
    if (namespace === undefined || namespaceOf(namespace).status !== "active") {
      throw namespaceNotActive(this.#namespaceId);
    }
    const places = new Map(scopes.map((scope, i) => [placeOf(scope), i]));
    const at = (scope: ConfigScope, offset: number) => {
      const i = places.get(placeOf(scope));
      return i === undefined ? undefined : rest[offset + i];
    };
    return {
      entity,
      stints,
      configAt: (scope) => at(scope, 0),
      versionsAt: (scope) => versionsIn(at(scope, scopes.length)),
    };
  }

  #remember(entityId: string, planIds: readonly string[]): void {
    if (this.#plansOf.size >= ENTITIES_MAX) this.#plansOf.clear();
    this.#plansOf.set(entityId, planIds);
  }
}

interface Found {
  readonly entity: StoredRecord | undefined;
  readonly stints: StoredRecord | undefined;
  configAt(scope: ConfigScope): StoredRecord | undefined;
  versionsAt(scope: ConfigScope): readonly LimitsVersion[] | undefined;
}

function resolved(
  { configAt, versionsAt }: Found,
  about: {
    readonly entityId: string;
    readonly resource: string;
    readonly entity: ReturnType<typeof entityOf> | undefined;
    readonly stints: ReturnType<typeof stintsFrom>;
  },
): LevelConfig {
  const { entityId, resource, entity, stints } = about;
  const scopesWith = (planId: string | undefined) => scopesOf(entityId, resource, planId);
  const configIn = (scope: ConfigScope) => {
    const record = configAt(scope);
    return record && configOf(record);
  };
  const scopes = scopesWith(entity?.planId);
  const isNow = new Set(scopes.map(placeOf));
  // What a plan of before says now counts as what it always said, where no change of it is known.
  const overTime = (scope: ConfigScope) =>
    isNow.has(placeOf(scope)) ? versionsAt(scope) : saidOver(versionsAt(scope), configIn(scope));
  const past = stints === undefined ? undefined : { stints, scopesWith, historyOf: overTime };
  return resolveChanges(scopes.map(configIn), scopes.map(versionsAt), scopes, entity, past);
}

function placeOf(scope: ConfigScope): string {
  return JSON.stringify(configKey(scope).key);
}
