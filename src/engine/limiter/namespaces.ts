import { DEFAULT_NAMESPACE, type Namespace } from "../../domain/config/namespace.ts";
import { ConflictError, NotFoundError, ValidationError } from "../../domain/names/errors.ts";
import { KnownNames } from "../../domain/names/known-names.ts";
import { checkNamespace } from "../../domain/names/names.ts";
import type { Administration } from "./administration.ts";
import { CHANGE_OPTIONS, type ChangeOptions } from "./level-options.ts";
import type { EngineDeps, Settings } from "./settings.ts";

/** Options of `purgeNamespace`. */
export interface PurgeOptions extends ChangeOptions {
  /** Called after each step with the number of records that are gone so far. Default: nothing is called. */
  readonly onProgress?: (recordsDeleted: number) => void;
}

const PURGE_OPTIONS = new KnownNames<PurgeOptions>({ principal: true, onProgress: true });

/** Tenants of the store: register, hide, bring back, remove for good. */
export class Namespaces {
  readonly #deps: EngineDeps;
  readonly #settings: Settings;
  readonly #admin: Administration;

  constructor(deps: EngineDeps, settings: Settings, admin: Administration) {
    this.#deps = deps;
    this.#settings = settings;
    this.#admin = admin;
  }

  async register(name: string, options: ChangeOptions): Promise<Namespace> {
    checkNamespace(name);
    CHANGE_OPTIONS.check(options, "The second argument of registerNamespace");
    const event = this.#admin.event("namespace_registered", idOf(name), options, {});
    const id = this.#deps.random.id();
    const namespace: Namespace = { id, name, status: "active", createdAtMs: this.#deps.clock.now() };
    return await this.#deps.store.namespaces.register(namespace, event, await this.#settings.namespaceId());
  }

  async get(name: string): Promise<Namespace> {
    const namespace = await this.#deps.store.namespaces.get(checkNamespace(name));
    if (namespace === undefined) throw namespaceMissing(name);
    return namespace;
  }

  async delete(name: string, options: ChangeOptions): Promise<Namespace> {
    checkNamespace(name);
    CHANGE_OPTIONS.check(options, "The second argument of deleteNamespace");
    if (name === DEFAULT_NAMESPACE) {
      throw new ValidationError(
        "namespace_default",
        "The namespace default cannot be deleted; delete its entities instead.",
      );
    }
    const event = this.#admin.event("namespace_deleted", idOf(name), options, {});
    const nowMs = this.#deps.clock.now();
    const deleted = await this.#deps.store.namespaces.delete(name, nowMs, event, await this.#settings.namespaceId());
    if (deleted === undefined) throw namespaceMissing(name);
    this.#admin.changed(event);
    return deleted;
  }

  async recover(id: string, options: ChangeOptions): Promise<Namespace> {
    checkNamespaceId(id);
    CHANGE_OPTIONS.check(options, "The second argument of recoverNamespace");
    const event = this.#admin.event("namespace_recovered", idOf(id), options, {});
    const reply = await this.#deps.store.namespaces.recover(id, event, await this.#settings.namespaceId());
    switch (reply.kind) {
      case "recovered":
        this.#admin.changed(event);
        return reply.namespace;
      case "missing":
        throw namespaceIdMissing(id);
      case "nameTaken":
        throw new ConflictError(
          "namespace_name_taken",
          `The name ${reply.name} is in use again; delete that namespace before recovering ${id}.`,
        );
      case "notDeleted":
        throw new ConflictError(
          "namespace_not_deleted",
          `The namespace ${id} is ${reply.status}; only deleted namespaces can be recovered.`,
        );
    }
  }

  async purge(id: string, options: PurgeOptions): Promise<{ readonly records: number }> {
    checkNamespaceId(id);
    PURGE_OPTIONS.check(options, "The second argument of purgeNamespace");
    const event = this.#admin.event("namespace_purged", idOf(id), options, {});
    const onProgress = options.onProgress ?? (() => {});
    const reply = await this.#deps.store.namespaces.purge(id, event, await this.#settings.namespaceId(), onProgress);
    switch (reply.kind) {
      case "purged":
        this.#admin.changed(event);
        return { records: reply.records };
      case "missing":
        throw namespaceIdMissing(id);
      case "active":
        throw new ConflictError(
          "namespace_active",
          (ways) =>
            `The namespace ${reply.name} (${id}) is active; delete it with ${ways.deleteNamespace} before purging.`,
        );
    }
  }
}

export function namespaceMissing(name: string): NotFoundError {
  return new NotFoundError(
    "namespace_not_found",
    (ways) => `There is no namespace ${name}; register it with ${ways.registerNamespace}.`,
  );
}

function namespaceIdMissing(id: string): NotFoundError {
  return new NotFoundError(
    "namespace_not_found",
    (ways) => `There is no deleted namespace with the id ${id}; ${ways.listOrphans} lists them.`,
  );
}

function checkNamespaceId(id: unknown): void {
  if (typeof id !== "string" || !/^[A-Za-z0-9_-]{1,64}$/.test(id)) {
    throw new ValidationError(
      "namespace_id_invalid",
      (ways) => `${JSON.stringify(id)} is not a namespace id; ${ways.listOrphans} lists deleted namespaces.`,
    );
  }
}

function idOf(nameOrId: string): string {
  return `$NAMESPACE:${nameOrId}`;
}
