import { type ClientOptions, LimiterClient } from "../client/client.ts";
import type { Namespace } from "../domain/namespace.ts";
import type { RateLimiter } from "../entry/rate-limiter.ts";
import type { CommandLimiter } from "./command-limiter.ts";

type Given<Name extends keyof RateLimiter> = RateLimiter[Name] extends (...given: infer All) => unknown ? All : never;

/** A service as commands see it: the client, with the names of the library for what the client has in parts. */
export class RemoteLimiter extends LimiterClient implements CommandLimiter {
  /** By which a command knows that it asks a service. */
  readonly client: LimiterClient = this;

  static at(options: ClientOptions): RemoteLimiter {
    return new RemoteLimiter(options);
  }

  listNamespaces(...[page = {}]: Given<"listNamespaces">) {
    return this.namespaces.list(page);
  }

  getNamespace(name: string): Promise<Namespace> {
    return this.namespaces.get(name);
  }

  listOrphanNamespaces(...[page = {}]: Given<"listOrphanNamespaces">) {
    return this.namespaces.orphans(page);
  }

  registerNamespace(name: string): Promise<Namespace> {
    return this.namespaces.register(name);
  }

  deleteNamespace(name: string): Promise<Namespace> {
    return this.namespaces.delete(name);
  }

  recoverNamespace(id: string): Promise<Namespace> {
    return this.namespaces.recover(id);
  }

  purgeNamespace(...[id, options = {}]: Given<"purgeNamespace">): Promise<{ readonly records: number }> {
    return this.namespaces.purge(id, options.onProgress ?? (() => {}));
  }

  usage(...[query]: Given<"usage">) {
    return this.history.usage(query);
  }

  usageSummary(...[query]: Given<"usageSummary">) {
    return this.history.usageSummary(query);
  }

  usageTotals(...[query]: Given<"usageTotals">) {
    return this.history.usageTotals(query);
  }

  exportUsage(...[query]: Given<"exportUsage">) {
    return this.history.exportUsage(query);
  }

  refusals(...[query]: Given<"refusals">) {
    return this.history.refusals(query);
  }

  refusalTotals(...[query]: Given<"refusalTotals">) {
    return this.history.refusalTotals(query);
  }

  async getSystemDefaults() {
    return this.getLevel({ level: "system" });
  }

  deleteSystemDefaults(...[options = {}]: Given<"deleteSystemDefaults">): Promise<boolean> {
    return this.deleteLevel({ level: "system" }, options);
  }

  deleteResourceDefaults(...[resource, options = {}]: Given<"deleteResourceDefaults">): Promise<boolean> {
    return this.deleteLevel({ level: "resource", resource }, options);
  }

  deleteLimits(...[entityId, options = {}]: Given<"deleteLimits">): Promise<boolean> {
    const { resource, ...change } = options;
    const scope = resource === undefined ? undefined : ({ level: "entity", entityId, resource } as const);
    return this.deleteLevel(scope ?? { level: "entityDefault", entityId }, change);
  }
}
