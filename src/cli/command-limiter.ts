import type { RemoteHistory } from "../client/history.ts";
import type { RemoteLeases } from "../client/leases.ts";
import type { RemoteLevels } from "../client/scopes.ts";
import type { ConfigScope, OnUnavailable, StoredConfig } from "../domain/config.ts";
import { ConflictError } from "../domain/errors.ts";
import type { Limit } from "../domain/limit.ts";
import type { Listing } from "../engine/listing.ts";
import type { LimiterClient } from "../entry/client.ts";
import type { SetOptions } from "../entry/index.ts";
import type { RateLimiter } from "../entry/rate-limiter.ts";

/** What commands call of a limiter, whether it works on a store or asks a service. */
export type CommandLimiter = { readonly [Name in Called]: Loosened<RateLimiter[Name]> } & {
  setAccess(...given: Parameters<RateLimiter["setAccess"]>): Promise<unknown>;
  setCascade(...given: Parameters<RateLimiter["setCascade"]>): Promise<unknown>;
  close(): Promise<void>;
};

/** What commands ask of a service besides. */
export interface ServiceClient extends LimiterClient {
  /** The address, as messages show it. */
  readonly url: string;
  readonly leases: RemoteLeases;
  readonly history: RemoteHistory;
  readonly levels: RemoteLevels;
  /** Whose token it is, and what it may do. */
  me(): Promise<{
    readonly id: string;
    readonly namespaces: "*" | readonly string[];
    readonly scopes: readonly string[];
  }>;
  /** The version of the service, and its clock as far as it tells it, to the second. */
  about(): Promise<{ readonly version: string; readonly atMs: number | undefined }>;
}

type Called =
  | ("available" | "explain" | "timeUntilAvailable" | "listBuckets" | "resourceCapacity" | "auditEvents" | "getPolicy")
  | ("createEntity" | "ensureEntity" | "getEntity" | "updateEntity" | "deleteEntity" | "listEntities" | "getChildren")
  | ("createPlan" | "ensurePlan" | "getPlan" | "updatePlan" | "deletePlan" | "listPlans" | "topUp" | "resetBucket")
  | ("getLimits" | "deleteLimits" | "listLimits" | "getResourceDefaults" | "deleteResourceDefaults" | "listResources")
  | ("listEntitiesWithLimits" | "listResourcesWithEntityLimits" | "getSystemDefaults" | "deleteSystemDefaults")
  | ("listNamespaces" | "getNamespace" | "registerNamespace" | "deleteNamespace" | "listOrphanNamespaces")
  | ("recoverNamespace" | "purgeNamespace" | "usage" | "usageSummary" | "usageTotals" | "exportUsage" | "refusals")
  | "refusalTotals";

/** A list is awaited for a page, or walked through; which class it is, does not matter. */
type Loosened<Method> = Method extends (...given: infer Given) => Listing<infer Item, infer Shown>
  ? (...given: Given) => PromiseLike<Shown> & AsyncIterable<Item>
  : Method;

/** What one level stores, and how that is changed. */
interface LevelAccess {
  get(scope: ConfigScope): Promise<StoredConfig>;
  /** Answers whether something was written. */
  set(scope: ConfigScope, limits: readonly Limit[], options: SetOptions): Promise<boolean>;
  /** False where there were none. */
  delete(scope: ConfigScope, options: { readonly principal?: string }): Promise<boolean>;
  /** What is absent of the change stays as it is in the store. */
  changeSystem(
    change: {
      readonly limits?: readonly Limit[];
      readonly inherit?: true;
      readonly appliesTo?: "callers";
      readonly onUnavailable?: OnUnavailable;
      readonly usageKeptDays?: number;
    },
    options: { readonly principal?: string; readonly ifAbsent?: true },
  ): Promise<boolean>;
}

export async function levelsOf(limiter: CommandLimiter): Promise<LevelAccess> {
  const client = clientOf(limiter);
  if (client !== undefined) return remoteLevels(client);
  const { partsOf } = await import("../engine/limiter-parts.ts");
  const { admin } = partsOf(limiter);
  return {
    get: (scope) => admin.getConfig(scope, {}),
    set: (scope, limits, options) => admin.setConfig(scope, limits, options),
    delete: (scope, options) => admin.deleteConfig(scope, options),
    changeSystem: (change, options) => admin.changeSystem(change, options),
  };
}

/** The client of a service, where the limiter is one. */
export function clientOf(limiter: CommandLimiter): ServiceClient | undefined {
  return "client" in limiter ? (limiter.client as ServiceClient) : undefined;
}

const ATTEMPTS_MAX = 10;

function remoteLevels({ levels }: ServiceClient): LevelAccess {
  return {
    get: async (scope) => (await levels.read(scope)).config,
    set: (scope, limits, options) => levels.set(scope, limits, options),
    delete: (scope, options) => levels.delete(scope, options),
    changeSystem: async ({ limits, ...change }, options) => {
      const scope = { level: "system" } as const;
      if (limits !== undefined) return levels.set(scope, limits, { ...change, ...options });
      // The service takes a level as a whole: what is read is written back, if it is still that.
      for (let attempt = 1; ; attempt++) {
        const { config, tag } = await levels.read(scope);
        const { limits: stored, inherit, appliesTo } = config;
        const kept = {
          ...(inherit === undefined ? {} : { inherit }),
          ...(appliesTo === undefined ? {} : { appliesTo }),
        };
        try {
          return await levels.set(scope, stored, { ...kept, ...change, ...options }, tag);
        } catch (error) {
          if (!(error instanceof ConflictError) || attempt === ATTEMPTS_MAX) throw error;
        }
      }
    },
  };
}
