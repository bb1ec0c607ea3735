import { wholeTokens } from "../../bucket/level.ts";
import { bucketKey } from "../../domain/bucket/bucket-key.ts";
import { type Tokens, tokensByName, topUpAmounts, topUpTooLarge } from "../../domain/charge/amounts.ts";
import { noLimits } from "../../domain/charge/charge-errors.ts";
import type { AuditAction } from "../../domain/config/audit.ts";
import type { Access, ConfigScope, Frozen, PolicyChange } from "../../domain/config/config.ts";
import { checkUntil, runningAccess } from "../../domain/config/overrides.ts";
import { canonical, checkIdempotencyKey, keyReused } from "../../domain/lease/idempotency.ts";
import { rulesOf } from "../../domain/limits/kinds/table.ts";
import { ValidationError } from "../../domain/names/errors.ts";
import { given } from "../../domain/names/given.ts";
import { KnownNames } from "../../domain/names/known-names.ts";
import { shown } from "../../domain/names/names.ts";
import type { Operation, OperationReply } from "../../ports/bucket-store.ts";
import {
  ACCESS_OPTIONS,
  type AccessOptions,
  auditIdOfScope,
  CHANGE_OPTIONS,
  type ChangeOptions,
  resourceIn,
} from "../limiter/level-options.ts";
import type { LimiterParts } from "../limiter/limiter-parts.ts";
import { type ChainLink, frozenError } from "./chain-link.ts";

/** The scope of a policy: an entity on a resource, an entity on all resources, or a resource for all entities. */
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
  /** `access` counts until then, in ms since 1970. Absent: it has no end. */
  readonly accessUntilMs?: number;
  /** What the scope says of access from then on. Absent: nothing, or `access` has no end. */
  readonly accessThen?: Access;
  /** Whether parents are charged, in place of the entity's own `cascade`. */
  readonly cascade?: boolean;
  /** The namespace is frozen (`freezeNamespace`): whatever is set here, nothing is taken. Absent: it is not. */
  readonly frozen?: Frozen;
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
const KEYED = { entityId: true, resource: true, idempotencyKey: true, principal: true } as const;
const TOP_UP = new KnownNames<TopUpRequest>({ ...KEYED, amounts: true });
const RESET = new KnownNames<ResetRequest>({ ...KEYED, limits: true });

export async function setAccess(
  parts: LimiterParts,
  where: PolicyScope,
  mode: Access | "inherit",
  options: AccessOptions,
): Promise<boolean> {
  ACCESS_OPTIONS.check(options, "The last argument of a policy");
  if (mode !== "disabled" && mode !== "bypass" && mode !== "enforce" && mode !== "inherit") {
    throw new ValidationError(
      "access_invalid",
      `Access is ${shown(mode)}; give "disabled", "bypass", "enforce" or "inherit".`,
    );
  }
  const { untilMs, ...who } = options;
  if (untilMs !== undefined) checkAccessEnd(mode, untilMs, parts.deps.clock.now());
  const change = { access: mode === "inherit" ? null : mode, ...given({ untilMs }) };
  return setPolicy(parts, "access_set", where, change, { access: mode, ...given({ untilMs }) }, who);
}

/** Sets what a scope says without an end: an override of access that runs goes on. For manifests. */
export function setBaseAccess(
  parts: LimiterParts,
  where: PolicyScope,
  mode: Access | "inherit",
  options: ChangeOptions,
): Promise<boolean> {
  const change = { access: mode === "inherit" ? null : mode, keepOverride: true } as const;
  return setPolicy(parts, "access_set", where, change, { access: mode }, options);
}

function checkAccessEnd(mode: Access | "inherit", untilMs: number, nowMs: number): void {
  checkUntil(untilMs, nowMs);
  if (mode !== "inherit") return;
  throw new ValidationError(
    "option_invalid",
    `untilMs (${untilMs}) is given with "inherit"; give a mode, or leave untilMs out.`,
  );
}

export async function setCascade(
  parts: LimiterParts,
  where: PolicyScope,
  cascade: boolean | "inherit",
  options: ChangeOptions,
): Promise<boolean> {
  if (typeof cascade !== "boolean" && cascade !== "inherit") {
    throw new ValidationError("cascade_invalid", `cascade is ${shown(cascade)}; give true, false or "inherit".`);
  }
  const change = { cascade: cascade === "inherit" ? null : cascade };
  return setPolicy(parts, "cascade_set", where, change, { cascade }, options);
}

export async function getPolicy({ deps }: LimiterParts, where: PolicyScope): Promise<Policy> {
  const scope = scopeOf(where);
  auditIdOfScope(scope);
  const { config } = deps.scope;
  const [own, system] = await Promise.all([config.get(scope), config.get({ level: "system" })]);
  const running = runningAccess(own, deps.clock.now());
  const { access, cascade } = own ?? {};
  const rest = given({ cascade, frozen: system?.frozen });
  if (running === undefined) return { ...given({ access }), ...rest };
  return { access: running.access, accessUntilMs: running.untilMs, ...given({ accessThen: access }), ...rest };
}

export async function topUp(parts: LimiterParts, request: TopUpRequest): Promise<OperationResult> {
  const link = await linkOf(parts, TOP_UP.check(request, "The request of topUp"));
  const amounts = topUpAmounts(request.amounts, link.bucket, link.set.limits);
  const asks = { topUp: request.amounts };
  const operation = operationOf(parts, "bucket_topped_up", request, link, { amounts: tokensByName(amounts) }, asks);
  const { buckets } = parts.deps.scope;
  const reply = await parts.acquirer.client.operate(link.bucket, () => buckets.topUp(operation, amounts));
  if (reply.kind !== "tooLarge") return resultOf(request, operation, reply);
  throw topUpTooLarge(reply.limit, link.bucket, request.amounts[reply.limit]);
}

export async function resetBucket(parts: LimiterParts, request: ResetRequest): Promise<OperationResult> {
  const link = await linkOf(parts, RESET.check(request, "The request of resetBucket"));
  const { limits } = request;
  if (limits !== undefined && !Array.isArray(limits)) {
    throw new ValidationError("limits_invalid", `limits is ${shown(limits)}; give a list of names, such as ["rpm"].`);
  }
  const known = link.set.limits.map(({ name }) => name);
  // The work that holds slots still runs: they are reset only by name.
  const reset = limits ?? link.set.limits.filter((limit) => !rulesOf(limit).holdsSlots).map(({ name }) => name);
  const unknown = limits?.find((name) => !known.includes(name));
  if (unknown !== undefined) {
    throw new ValidationError(
      "limit_unknown",
      `No limit "${unknown}" applies to ${request.entityId} on ${request.resource}; known limits: ${known.join(", ")}.`,
    );
  }
  const asks = { reset: limits ?? null };
  const operation = operationOf(parts, "bucket_reset", request, link, { limits: reset }, asks);
  const { buckets } = parts.deps.scope;
  const reply = await parts.acquirer.client.operate(link.bucket, () => buckets.reset(operation, limits));
  return resultOf(request, operation, reply);
}

async function setPolicy(
  { deps, admin }: LimiterParts,
  action: AuditAction,
  where: PolicyScope,
  change: PolicyChange,
  details: Readonly<Record<string, unknown>>,
  options: ChangeOptions,
): Promise<boolean> {
  CHANGE_OPTIONS.check(options, "The last argument of a policy");
  const scope = scopeOf(where);
  auditIdOfScope(scope);
  // A policy may be removed even if its entity is gone.
  const created = Object.values(change).includes(null) ? undefined : admin.requireCreated(scope);
  if (created !== undefined) await created;
  const event = admin.event(action, auditIdOfScope(scope), options, details, resourceIn(scope));
  const isWritten = await deps.scope.config.setPolicy(scope, change, event);
  if (isWritten) admin.changed(event);
  return isWritten;
}

async function linkOf(
  { deps, acquirer }: LimiterParts,
  { entityId, resource }: { entityId: string; resource: string },
): Promise<ChainLink> {
  const [link] = await acquirer.planner.chain({ entityId, resource }, deps.clock.now(), "write");
  // An operation is no request: what is only disabled may be topped up.
  if (link?.frozen !== undefined) throw frozenError(link.bucket, link.frozen);
  if (link === undefined || link.set.limits.length === 0) throw noLimits([{ bucket: bucketKey(entityId, resource) }]);
  return link;
}

function operationOf(
  { deps, admin }: LimiterParts,
  action: AuditAction,
  request: TopUpRequest | ResetRequest,
  { bucket, set, origin }: ChainLink,
  details: Readonly<Record<string, unknown>>,
  asks: object,
): Operation {
  const { idempotencyKey: key } = request;
  const idempotencyKey = key === undefined ? deps.random.id() : checkIdempotencyKey(key);
  const event = admin.event(action, bucket.entityId, request, { ...details, idempotencyKey }, bucket.resource);
  return { bucket, set, origin, nowMs: event.atMs, idempotencyKey, asks: canonical(asks), event };
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
  // The room of a limit that drips need not be a whole number.
  const gained = amounts.map(({ limit, milli }) => [limit, wholeTokens(milli)] as const);
  return { entityId, resource, amounts: Object.fromEntries(gained), repeated };
}
