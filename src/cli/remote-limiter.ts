import { bodyFrom } from "../client/answered-body.ts";
import { callsOf } from "../client/client.ts";
import { RemoteHistory } from "../client/history.ts";
import { RemoteLeases } from "../client/leases.ts";
import { RemoteNamespaces } from "../client/namespaces.ts";
import { at } from "../client/path.ts";
import { RemoteLevels } from "../client/scopes.ts";
import type { Namespace } from "../domain/namespace.ts";
import { type ClientOptions, LimiterClient } from "../entry/client.ts";
import type { RateLimiter } from "../entry/rate-limiter.ts";
import type { CommandLimiter, ServiceClient } from "./command-limiter.ts";

type Given<Name extends keyof RateLimiter> = RateLimiter[Name] extends (...given: infer All) => unknown ? All : never;

/** A service as commands see it: the client, and what else commands ask of a service. */
export class RemoteLimiter extends LimiterClient implements CommandLimiter, ServiceClient {
  /** By which a command knows that it asks a service. */
  readonly client: RemoteLimiter = this;
  readonly leases: RemoteLeases;
  readonly namespaces: RemoteNamespaces;
  readonly history: RemoteHistory;
  readonly levels: RemoteLevels;
  /** The address, as messages show it. */
  readonly url: string;

  constructor(options: ClientOptions) {
    super(options);
    const calls = callsOf(this);
    this.url = calls.options.base;
    this.leases = new RemoteLeases(calls);
    this.namespaces = new RemoteNamespaces(calls);
    this.history = new RemoteHistory(calls);
    this.levels = new RemoteLevels(calls);
  }

  static at(options: ClientOptions): RemoteLimiter {
    return new RemoteLimiter(options);
  }

  me(): ReturnType<ServiceClient["me"]> {
    return bodyFrom(callsOf(this), "GET", at`/v1/me`, {});
  }

  async about(): ReturnType<ServiceClient["about"]> {
    const calls = callsOf(this);
    const { body, headers } = await calls.answer<{ readonly info: { readonly version: string } }>(
      "GET",
      at`/openapi.json`,
    );
    const atMs = Date.parse(headers.get("date") ?? "");
    return { version: body.info.version, atMs: Number.isNaN(atMs) ? undefined : atMs };
  }

  resourceCapacity(resource: string, limit: string): ReturnType<RateLimiter["resourceCapacity"]> {
    const calls = callsOf(this);
    return bodyFrom(calls, "GET", at`capacity`, { query: { resource, limit } });
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
}
