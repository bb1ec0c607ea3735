import { wholeTokens } from "../../bucket/level.ts";
import { bucketKey } from "../../domain/bucket/bucket-key.ts";
import { type Tokens, tokensByName, topUpAmounts, topUpTooLarge } from "../../domain/charge/amounts.ts";
import { noLimits } from "../../domain/charge/charge-errors.ts";
import type { AuditAction } from "../../domain/config/audit.ts";
import type { Access, ConfigScope, PolicyChange } from "../../domain/config/config.ts";
import { canonical } from "../../domain/lease/canonical.ts";
import { checkIdempotencyKey, keyReused } from "../../domain/lease/idempotency.ts";
import { rulesOf } from "../../domain/limits/kinds/table.ts";
import { ValidationError } from "../../domain/names/errors.ts";
import { KnownNames } from "../../domain/names/known-names.ts";
import { shown } from "../../domain/names/names.ts";
import type { Operation, OperationReply } from "../../ports/bucket-store.ts";
import type { Administration } from "../limiter/administration.ts";
import { auditIdOfScope, CHANGE_OPTIONS, type ChangeOptions, resourceIn } from "../limiter/level-options.ts";
import type { EngineDeps } from "../limiter/settings.ts";
import type { Acquirer } from "./acquirer.ts";
import type { ChainLink } from "./config-cache.ts";

/** What a policy is about: an entity on a resource, an entity on all resources, or a resource for all entities. */
export interface PolicyScope {
  /** The entity. Default: all of them. */
  readonly entityId?: string;
  /** The resource. Default: all of them. */
  readonly resource?: string;
}

/** What is set at one scope. The next scope decides about a member that is absent. */
export interface Policy {
  /** Whether the limits apply there. */
  readonly access?: Access;
  /** Whether parents are charged, in place of the entity's own `cascade`. */
  readonly cascade?: boolean;
}

/** What `topUp` takes. */
export interface TopUpRequest extends ChangeOptions {
  /** Whose bucket. */
  readonly entityId: string;
  /** The resource of the bucket. */
  readonly resource: string;
  /** Whole tokens to add, by the name of the limit. */
  readonly amounts: Tokens;
  /** A second call with the same key within 30 days changes nothing. Default: a new key. */
  readonly idempotencyKey?: string;
}

/** What `resetBucket` takes. */
export interface ResetRequest extends ChangeOptions {
  /** Whose bucket. */
  readonly entityId: string;
  /** The resource of the bucket. */
  readonly resource: string;
  /** Names of the limits to reset. Default: all limits of the bucket. */
  readonly limits?: readonly string[];
  /** A second call with the same key within 30 days changes nothing. Default: a new key. */
  readonly idempotencyKey?: string;
}

/** What a top-up or a reset did. */
export interface OperationResult {
  /** Whose bucket. */
  readonly entityId: string;
  /** The resource of the bucket. */
  readonly resource: string;
  /** Whole tokens, rounded down, that each limit gained by a top-up. A limit that drips has no room above its capacity. */
  readonly amounts: Readonly<Record<string, number>>;
  /** True: the key was used before, and this call changed nothing. */
  readonly repeated: boolean;
}

const POLICY_SCOPE = new KnownNames<PolicyScope>({ entityId: true, resource: true });
const TOP_UP = new KnownNames<TopUpRequest>({
  ...{ entityId: true, resource: true, amounts: true, idempotencyKey: true, principal: true },
});
const RESET = new KnownNames<ResetRequest>({
  ...{ entityId: true, resource: true, limits: true, idempotencyKey: true, principal: true },
});

/** What an operator decides about entities and resources besides their limits. */
export class Policies {
  readonly #deps: EngineDeps;
  readonly #acquirer: Acquirer;
  readonly #admin: Administration;

  constructor(deps: EngineDeps, acquirer: Acquirer, admin: Administration) {
    this.#deps = deps;
    this.#acquirer = acquirer;
    this.#admin = admin;
  }

  async setAccess(where: PolicyScope, mode: Access | "inherit", options: ChangeOptions): Promise<boolean> {
    if (mode !== "disabled" && mode !== "bypass" && mode !== "enforce" && mode !== "inherit") {
      throw new ValidationError(
        "access_invalid",
        `Access is ${shown(mode)}; give "disabled", "bypass", "enforce" or "inherit".`,
      );
    }
    return this.#setPolicy(
      "access_set",
      where,
      { access: mode === "inherit" ? null : mode },
      { access: mode },
      options,
    );
  }

  async setCascade(where: PolicyScope, cascade: boolean | "inherit", options: ChangeOptions): Promise<boolean> {
    if (typeof cascade !== "boolean" && cascade !== "inherit") {
      throw new ValidationError("cascade_invalid", `cascade is ${shown(cascade)}; give true, false or "inherit".`);
    }
    const change = { cascade: cascade === "inherit" ? null : cascade };
    return this.#setPolicy("cascade_set", where, change, { cascade }, options);
  }

  async getPolicy(where: PolicyScope): Promise<Policy> {
    const scope = scopeOf(where);
    auditIdOfScope(scope);
    const { access, cascade } = (await this.#deps.scope.config.get(scope)) ?? {};
    return { ...(access === undefined ? {} : { access }), ...(cascade === undefined ? {} : { cascade }) };
  }

  async topUp(request: TopUpRequest): Promise<OperationResult> {
    const link = await this.#link(TOP_UP.check(request, "The request of topUp"));
    const amounts = topUpAmounts(request.amounts, link.bucket, link.set.limits);
    const asks = { topUp: request.amounts };
    const operation = this.#operation("bucket_topped_up", request, link, { amounts: tokensByName(amounts) }, asks);
    const reply = await this.#acquirer.client.topUp(operation, amounts);
    if (reply.kind !== "tooLarge") return resultOf(request, operation, reply);
    throw topUpTooLarge(reply.limit, link.bucket, request.amounts[reply.limit]);
  }

  async resetBucket(request: ResetRequest): Promise<OperationResult> {
    const link = await this.#link(RESET.check(request, "The request of resetBucket"));
    const { limits } = request;
    if (limits !== undefined && !Array.isArray(limits)) {
      throw new ValidationError("limits_invalid", `limits is ${shown(limits)}; give a list of names, such as ["rpm"].`);
    }
    const known = link.set.limits.map(({ name }) => name);
    // What is at once still runs: it is forgotten only by name.
    const reset = limits ?? link.set.limits.filter((limit) => !rulesOf(limit).holdsSlots).map(({ name }) => name);
    const unknown = limits?.find((name) => !known.includes(name));
    if (unknown !== undefined) {
      throw new ValidationError(
        "limit_unknown",
        `No limit "${unknown}" applies to ${request.entityId} on ${request.resource}; known limits: ${known.join(", ")}.`,
      );
    }
    const asks = { reset: limits ?? null };
    const operation = this.#operation("bucket_reset", request, link, { limits: reset }, asks);
    return resultOf(request, operation, await this.#acquirer.client.reset(operation, limits));
  }

  async #setPolicy(
    action: AuditAction,
    where: PolicyScope,
    change: PolicyChange,
    details: Readonly<Record<string, unknown>>,
    options: ChangeOptions,
  ): Promise<boolean> {
    CHANGE_OPTIONS.check(options, "The last argument of a policy");
    const scope = scopeOf(where);
    auditIdOfScope(scope);
    // What an entity that is gone once said may always be taken away.
    const created = Object.values(change).includes(null) ? undefined : this.#admin.requireCreated(scope);
    if (created !== undefined) await created;
    const event = this.#admin.event(action, auditIdOfScope(scope), options, details, resourceIn(scope));
    const isWritten = await this.#deps.scope.config.setPolicy(scope, change, event);
    if (isWritten) this.#admin.changed(event);
    return isWritten;
  }

  async #link({ entityId, resource }: { entityId: string; resource: string }): Promise<ChainLink> {
    const [link] = await this.#acquirer.planner.chain({ entityId, resource }, this.#deps.clock.now(), "write");
    if (link === undefined || link.set.limits.length === 0) throw noLimits([{ bucket: bucketKey(entityId, resource) }]);
    return link;
  }

  #operation(
    action: AuditAction,
    request: TopUpRequest | ResetRequest,
    { bucket, set, origin }: ChainLink,
    details: Readonly<Record<string, unknown>>,
    asks: object,
  ): Operation {
    const { idempotencyKey: given } = request;
    const idempotencyKey = given === undefined ? this.#deps.random.id() : checkIdempotencyKey(given);
    const event = this.#admin.event(action, bucket.entityId, request, { ...details, idempotencyKey }, bucket.resource);
    return { bucket, set, origin, nowMs: event.atMs, idempotencyKey, asks: canonical(asks), event };
  }
}

function scopeOf(where: PolicyScope): ConfigScope {
  const { entityId, resource } = where === undefined ? {} : POLICY_SCOPE.check(where, "The scope of a policy");
  if (entityId !== undefined) {
    return resource === undefined ? { level: "entityDefault", entityId } : { level: "entity", entityId, resource };
  }
  if (resource !== undefined) return { level: "resource", resource };
  throw new ValidationError("scope_missing", "Neither entityId nor resource is given; give one or both.");
}

function resultOf(
  { entityId, resource }: TopUpRequest | ResetRequest,
  operation: Operation,
  { repeated, amounts, ...first }: OperationReply,
): OperationResult {
  const asked = "asks" in first ? first.asks : undefined;
  if (repeated && asked !== undefined && asked !== operation.asks) throw keyReused(operation.idempotencyKey);
  // What a limit that drips has room for need not be whole.
  const gained = amounts.map(({ limit, milli }) => [limit, wholeTokens(milli)] as const);
  return { entityId, resource, amounts: Object.fromEntries(gained), repeated };
}
