import type { Frozen } from "../../domain/config/config.ts";
import { DEFAULT_NAMESPACE, type Namespace, type NamespaceShown } from "../../domain/config/namespace.ts";
import { ConflictError, NotFoundError, ValidationError } from "../../domain/names/errors.ts";
import { given } from "../../domain/names/given.ts";
import { KnownNames, requireOption } from "../../domain/names/known-names.ts";
import { checkNamespace } from "../../domain/names/names.ts";
import { CHANGE_OPTIONS, type ChangeOptions } from "./level-options.ts";
import type { LimiterParts } from "./limiter-parts.ts";

/** Options of `purgeNamespace`. */
export interface PurgeOptions extends ChangeOptions {
  /** Called after each step with the number of records that are gone so far. Default: nothing is called. */
  readonly onProgress?: (recordsDeleted: number) => void;
}

/** Options of `freezeNamespace`. */
export interface FreezeOptions extends ChangeOptions {
  /** Why, in at most 256 characters, for those who are refused. Default: no reason. */
  readonly reason?: string;
}

const REASON_MAX = 256;

const FREEZE_OPTIONS = new KnownNames<FreezeOptions>({ principal: true, reason: true });
const PURGE_OPTIONS = new KnownNames<PurgeOptions>({ principal: true, onProgress: true });

type NamespaceParts = Pick<LimiterParts, "deps" | "settings" | "admin">;

export async function registerNamespace(
  { deps, settings, admin }: NamespaceParts,
  name: string,
  options: ChangeOptions,
): Promise<Namespace> {
  checkNamespace(name);
  CHANGE_OPTIONS.check(options, "The second argument of registerNamespace");
  const event = admin.event("namespace_registered", idOf(name), options, {});
  const id = deps.random.id();
  const namespace: Namespace = { id, name, status: "active", createdAtMs: deps.clock.now() };
  return await deps.store.namespaces.register(namespace, event, await settings.namespaceId());
}

export async function getNamespace(parts: NamespaceParts, name: string): Promise<NamespaceShown> {
  return withFrozen(parts, await activeNamespace(parts, name));
}

/** Reads whether it is frozen, which stands in the namespace itself. */
export async function withFrozen({ deps }: NamespaceParts, namespace: Namespace): Promise<NamespaceShown> {
  const config = await deps.store.scope(namespace.id).config.get({ level: "system" });
  return { ...namespace, ...given({ frozen: config?.frozen }) };
}

async function activeNamespace({ deps }: NamespaceParts, name: string): Promise<Namespace> {
  const namespace = await deps.store.namespaces.get(checkNamespace(name));
  if (namespace === undefined) throw namespaceMissing(name);
  return namespace;
}

export async function deleteNamespace(
  { deps, settings, admin }: NamespaceParts,
  name: string,
  options: ChangeOptions,
): Promise<Namespace> {
  checkNamespace(name);
  CHANGE_OPTIONS.check(options, "The second argument of deleteNamespace");
  if (name === DEFAULT_NAMESPACE) {
    throw new ValidationError(
      "namespace_default",
      "The namespace default cannot be deleted; delete its entities instead.",
    );
  }
  const event = admin.event("namespace_deleted", idOf(name), options, {});
  const nowMs = deps.clock.now();
  const deleted = await deps.store.namespaces.delete(name, nowMs, event, await settings.namespaceId());
  if (deleted === undefined) throw namespaceMissing(name);
  admin.changed(event);
  return deleted;
}

export async function recoverNamespace(
  { deps, settings, admin }: NamespaceParts,
  id: string,
  options: ChangeOptions,
): Promise<Namespace> {
  checkNamespaceId(id);
  CHANGE_OPTIONS.check(options, "The second argument of recoverNamespace");
  const event = admin.event("namespace_recovered", idOf(id), options, {});
  const reply = await deps.store.namespaces.recover(id, event, await settings.namespaceId());
  switch (reply.kind) {
    case "recovered":
      admin.changed(event);
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

export async function purgeNamespace(
  { deps, settings, admin }: NamespaceParts,
  id: string,
  options: PurgeOptions,
): Promise<{ readonly records: number }> {
  checkNamespaceId(id);
  PURGE_OPTIONS.check(options, "The second argument of purgeNamespace");
  const event = admin.event("namespace_purged", idOf(id), options, {});
  const onProgress = options.onProgress ?? (() => {});
  const reply = await deps.store.namespaces.purge(id, event, await settings.namespaceId(), onProgress);
  switch (reply.kind) {
    case "purged":
      admin.changed(event);
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

export async function freezeNamespace(parts: NamespaceParts, name: string, options: FreezeOptions): Promise<boolean> {
  const { reason, ...who } = FREEZE_OPTIONS.check(options, "The second argument of freezeNamespace");
  const isReason = reason === undefined || (typeof reason === "string" && /^\P{Cc}+$/u.test(reason));
  requireOption(
    "reason",
    reason,
    isReason && (reason ?? "").length <= REASON_MAX,
    `1 to ${REASON_MAX} characters of text, or leave it out`,
  );
  return setFrozen(parts, name, given({ reason }), who);
}

export async function unfreezeNamespace(parts: NamespaceParts, name: string, options: ChangeOptions): Promise<boolean> {
  CHANGE_OPTIONS.check(options, "The second argument of unfreezeNamespace");
  return setFrozen(parts, name, null, options);
}

/** The setting, and the event, stand in the namespace itself: they are written together. */
async function setFrozen(
  parts: NamespaceParts,
  name: string,
  frozen: Frozen | null,
  options: ChangeOptions,
): Promise<boolean> {
  const { deps, admin } = parts;
  const { id } = await activeNamespace(parts, name);
  const action = frozen === null ? "namespace_unfrozen" : "namespace_frozen";
  const event = admin.event(action, idOf(name), options, { ...frozen });
  const isWritten = await deps.store.scope(id).config.setPolicy({ level: "system" }, { frozen }, event);
  if (isWritten) admin.changed(event);
  return isWritten;
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
