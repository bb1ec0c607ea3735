import { callsOf } from "../client/client.ts";
import { eventsIn, type RemoteEvent } from "../client/events.ts";
import { at, type Operation, requestOf, type ServiceCalls } from "../client/http.ts";
import { addMethods, deleteLevel, type LevelRoute, list, read, readLevel, setLevel } from "../client/operations.ts";
import type { ConfigScope, OnUnavailable } from "../domain/config/config.ts";
import { isTotal } from "../domain/config/config-scope.ts";
import type { ShownConfig } from "../domain/config/overrides.ts";
import type { Limit } from "../domain/limits/limit.ts";
import { ConflictError } from "../domain/names/errors.ts";
import type { DeleteOptions } from "../engine/limiter/level-options.ts";
import { type ClientOptions, LimiterClient } from "../entry/client.ts";
import type { SetOptions } from "../entry/index.ts";
import type { LeaseView } from "../leases/lease-view.ts";

/** Reads and changes the configuration of one level. */
export interface LevelAccess {
  get(scope: ConfigScope): Promise<ShownConfig>;
  /** Answers whether something was written. */
  set(scope: ConfigScope, limits: readonly Limit[], options: SetOptions): Promise<boolean>;
  /** False where there were none. */
  delete(scope: ConfigScope, options: DeleteOptions): Promise<boolean>;
  /** Settings that the change does not name stay as they are in the store. */
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

/** The leases that are kept in a store, whether it is at hand or behind a service. */
export interface LeaseAccess {
  list(query: {
    readonly entityId?: string;
    readonly resource?: string;
    readonly limit: number;
    readonly cursor?: string;
  }): PromiseLike<readonly LeaseView[] & { readonly cursor?: string }>;
  get(leaseId: string): Promise<LeaseView>;
  settle(leaseId: string, totals: { readonly consumed?: Readonly<Record<string, number>> }): Promise<LeaseView>;
  rollback(leaseId: string): Promise<LeaseView>;
}

const LEASES = {
  list: ["GET leases", list],
  get: ["GET leases/{leaseId}", read],
  settle: ["POST leases/{leaseId}/settle", endLease],
  rollback: ["POST leases/{leaseId}/rollback", endLease],
} as const satisfies { readonly [Name in keyof LeaseAccess]: Operation };

/** A service as commands see it: the limiter, and what else commands ask of a service. */
export class ServiceClient extends LimiterClient {
  /** The address, as messages show it. */
  readonly url: string;
  readonly leases = {} as LeaseAccess;
  readonly levels: LevelAccess;

  constructor(options: ClientOptions) {
    super(options);
    const calls = callsOf(this);
    this.url = calls.options.base;
    this.levels = levelsAt(calls);
    addMethods(this.leases, LEASES, () => calls);
  }

  /** Whose token it is, and what it may do. */
  me(): Promise<{
    readonly id: string;
    readonly namespaces: "*" | readonly string[];
    readonly scopes: readonly string[];
  }> {
    return read(callsOf(this), "GET /v1/me", []);
  }

  /** The version of the service, and its clock as far as it tells it, to the second. */
  async about(): Promise<{ readonly version: string; readonly atMs: number | undefined }> {
    const { body, headers } = await callsOf(this).answer<{ readonly info: { readonly version: string } }>(
      "GET",
      at`/openapi.json`,
    );
    const atMs = Date.parse(headers.get("date") ?? "");
    return { version: body.info.version, atMs: Number.isNaN(atMs) ? undefined : atMs };
  }

  /** The events from now on, or after one that was seen; ends with the stream. */
  async *events(
    query: { readonly types?: string; readonly entityId?: string; readonly resource?: string },
    { signal, lastEventId }: { readonly signal: AbortSignal; readonly lastEventId: string | undefined },
  ): AsyncGenerator<RemoteEvent, void, undefined> {
    const headers: Readonly<Record<string, string>> = lastEventId === undefined ? {} : { "last-event-id": lastEventId };
    const parts = { query, headers, signal, isStream: true, repeats: "never" } as const;
    const { body } = await callsOf(this).answer<Response>("GET", at`events`, parts);
    if (body.body !== null) yield* eventsIn(body.body);
  }
}

/** Ends a lease: settled with what it came to in total, or rolled back. */
async function endLease(calls: ServiceCalls, http: string, given: readonly unknown[]): Promise<unknown> {
  const { method, path, rest } = requestOf(http, given);
  return (await calls.answer(method, path, { body: rest[0], repeats: "lease" })).body;
}

const ATTEMPTS_MAX = 10;

function levelsAt(calls: ServiceCalls): LevelAccess {
  return {
    get: async (scope) => (await readLevel(calls, routeOf(scope))).config,
    set: (scope, limits, options) => setLevel(calls, routeOf(scope), limits, options),
    delete: (scope, options) => deleteLevel(calls, routeOf(scope), options),
    changeSystem: async ({ limits, ...change }, options) => {
      const route = routeOf({ level: "system" });
      if (limits !== undefined) return setLevel(calls, route, limits, { ...change, ...options });
      // The service takes a level as a whole: what is read is written back, if it is still that.
      for (let attempt = 1; ; attempt++) {
        const { config, tag } = await readLevel(calls, route);
        const isOverridden = config.untilMs !== undefined;
        const { limits: stored, inherit, appliesTo } = isOverridden ? (config.then ?? { limits: [] }) : config;
        const kept = {
          ...(inherit === undefined ? {} : { inherit }),
          ...(appliesTo === undefined ? {} : { appliesTo }),
          ...(isOverridden ? { keepOverride: true } : {}),
        };
        try {
          return await setLevel(calls, route, stored, { ...kept, ...change, ...options }, tag);
        } catch (error) {
          if (!(error instanceof ConflictError) || attempt === ATTEMPTS_MAX) throw error;
        }
      }
    },
  };
}

function routeOf(scope: ConfigScope): LevelRoute {
  const { level: _, ...query } = scope;
  return { path: isTotal(scope) ? at`totals` : at`limits`, query };
}
