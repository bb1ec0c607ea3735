import { createHash } from "node:crypto";
import type { ConfigScope, StoredConfig } from "../../domain/config/config.ts";
import type { Entity } from "../../domain/config/entity.ts";
import { type ShownConfig, shownConfig } from "../../domain/config/overrides.ts";
import { canonical } from "../../domain/lease/idempotency.ts";
import { NotFoundError, ValidationError } from "../../domain/names/errors.ts";
import { given } from "../../domain/names/given.ts";
import { shown } from "../../domain/names/names.ts";
import type { Limiter } from "../../engine/limiter/limiter.ts";
import { partsOf } from "../../engine/limiter/limiter-parts.ts";
import type { Caller } from "../caller.ts";
import { Problem, type RouteResponse } from "../problem.ts";
import { givenLimits, invalid } from "../read-input.ts";
import type { levelQuery, limitsBody } from "../schemas/input.ts";
import type { z } from "../vendor.ts";

type LevelQuery = z.output<typeof levelQuery>;
type LevelBody = z.output<typeof limitsBody>;

/** The level of limits on resources that a query names. */
export function levelOf(query: LevelQuery): ConfigScope {
  const { entityId, planId, resource } = oneOwner(query);
  if (entityId !== undefined) {
    return resource === undefined ? { level: "entityDefault", entityId } : { level: "entity", entityId, resource };
  }
  if (planId !== undefined) {
    return resource === undefined ? { level: "planDefault", planId } : { level: "plan", planId, resource };
  }
  return resource === undefined ? { level: "system" } : { level: "resource", resource };
}

/** The level of totals that a query names. */
export function totalOf(query: LevelQuery): ConfigScope {
  const { entityId, planId } = oneOwner(query);
  if (entityId !== undefined) return { level: "entityTotal", entityId };
  return planId === undefined ? { level: "systemTotal" } : { level: "planTotal", planId };
}

function oneOwner(query: LevelQuery): LevelQuery {
  if (query.entityId === undefined || query.planId === undefined) return query;
  throw invalid([{ pointer: "/planId", detail: "entityId is given too; name the entity or the plan" }]);
}

/** The stored configuration of a level: limits, policy and, at the system level, the settings. */
export async function storedAt(limiter: Limiter, level: ConfigScope): Promise<RouteResponse> {
  const { config, shown } = await readAt(limiter, level);
  if (!isSet(config)) throw none(level);
  return { status: 200, body: { ...level, ...shown }, headers: { etag: etagOf(config) } };
}

/** A level as it is stored, by which it is tagged, and as it is shown. */
async function readAt(limiter: Limiter, level: ConfigScope) {
  const { admin, deps } = partsOf(limiter);
  const config = await admin.storedConfig(level);
  return { config, shown: shownConfig(config, deps.clock.now()) };
}

/** The end that a body names, as an instant or in ISO 8601. */
export function endIn({ untilMs, until }: Pick<LevelBody, "untilMs" | "until">): { readonly untilMs?: number } {
  if (until === undefined) return given({ untilMs });
  if (untilMs !== undefined) throw invalid([{ pointer: "/until", detail: "untilMs is given too; name one of them" }]);
  const atMs = ISO_INSTANT.test(until) ? Date.parse(until) : Number.NaN;
  if (!Number.isNaN(atMs)) return { untilMs: atMs };
  throw new ValidationError(
    "instant_invalid",
    `until is ${shown(until)}; give an instant in ISO 8601 with its zone, such as 2026-11-18T15:00Z, or untilMs.`,
  );
}

const ISO_INSTANT = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2}(\.\d{1,3})?)?(Z|[+-]\d{2}:\d{2})$/;

/**
 * The configuration of each level that applies to an entity (and its plan), a plan or a resource. A query for a plan and an entity, or for
 * an entity that does not exist, is no mistake: the answer has the levels that would apply.
 */
export async function levelsOf(limiter: Limiter, { entityId, planId: asked, resource }: LevelQuery) {
  const planId = asked ?? (entityId === undefined ? undefined : (await entityIfKnown(limiter, entityId))?.planId);
  const owners: readonly LevelQuery[] = [
    ...(entityId === undefined ? [] : [{ entityId }]),
    ...(planId === undefined ? [] : [{ planId }]),
    {},
  ];
  const onResources = owners.flatMap((owner) =>
    resource === undefined ? [levelOf(owner)] : [levelOf({ ...owner, resource }), levelOf(owner)],
  );
  const items = [...onResources, ...owners.map(totalOf)].map(async (level) => {
    const { config, shown } = await readAt(limiter, level);
    return { ...level, ...shown, ...(isSet(config) ? { etag: etagOf(config) } : {}) };
  });
  return { ...given({ planId }), items: await Promise.all(items) };
}

/** A page of the defaults that have limits: of the system and its totals, then of each resource. */
export async function defaultsOf(limiter: Limiter, page: { readonly limit: number; readonly cursor?: string }) {
  const resources = await limiter.listResources(page);
  const levels: readonly ConfigScope[] = [
    ...(page.cursor === undefined ? ([{ level: "system" }, { level: "systemTotal" }] as const) : []),
    ...resources.map((resource) => ({ level: "resource" as const, resource })),
  ];
  const stored = await Promise.all(
    levels.map(async (level) => ({ ...level, ...(await readAt(limiter, level)).shown })),
  );
  const items = stored.filter(({ limits }) => limits.length > 0);
  return Object.assign(items, given({ cursor: resources.cursor }));
}

/** An entity; undefined: it was never created, or is deleted. It has limits and usage nevertheless, and no parent or plan. */
export async function entityIfKnown(limiter: Limiter, id: string): Promise<Entity | undefined> {
  try {
    return await limiter.getEntity(id);
  } catch (error) {
    if (error instanceof NotFoundError && error.code === "entity_not_found") return undefined;
    throw error;
  }
}

interface LevelCall {
  readonly limiter: Limiter;
  readonly caller: Caller;
  readonly request: Request;
}

/** Sets the limits of a level; the answer says whether something was written. */
export async function setAt(call: LevelCall, level: ConfigScope, body: LevelBody): Promise<RouteResponse> {
  const { limiter, caller } = call;
  const { limits, untilMs, until, ...options } = body;
  for (const name of ["onUnavailable", "usageKeptDays"] as const) {
    if (options[name] === undefined || level.level === "system") continue;
    throw invalid([{ pointer: `/${name}`, detail: "only the system level has it; leave entityId and resource out" }]);
  }
  const definitions = givenLimits(limiter, limits);
  const settings = { principal: caller.id, ...given(options), ...endIn({ untilMs, until }) };
  const { admin } = partsOf(limiter);
  const outcome = await admin.setConfigIf(level, definitions, settings, await expectedOf(call, level));
  if (outcome === "conflict") throw await conflictAt(limiter, level);
  const { body: stored, ...answer } = await storedAt(limiter, level);
  return { ...answer, body: { ...(stored as object), changed: outcome === "written" } };
}

/** Deletes the limits of a level, or only those of them that have an end. */
export async function deleteAt(call: LevelCall, level: ConfigScope, override: boolean): Promise<void> {
  const { limiter, caller } = call;
  const expected = await expectedOf(call, level);
  const options = { principal: caller.id, ...(override ? { override } : {}) };
  const absent = override ? noOverride : none;
  if (expected === undefined) {
    if (!(await partsOf(limiter).admin.deleteConfig(level, options))) throw absent(level);
    return;
  }
  const outcome = await partsOf(limiter).admin.deleteConfigIf(level, options, expected);
  if (outcome === "conflict") throw await conflictAt(limiter, level);
  if (outcome === "unchanged") throw absent(level);
}

/** The configuration that the client has seen and that must still be stored. Undefined: there is no condition. */
async function expectedOf({ limiter, request }: LevelCall, level: ConfigScope): Promise<StoredConfig | undefined> {
  const precondition = preconditionOf(request);
  if (precondition.kind === "absent") return undefined;
  const { config, shown } = await readAt(limiter, level);
  if (isMet(precondition, config)) return config;
  throw changedMeanwhile(level, config, shown);
}

async function conflictAt(limiter: Limiter, level: ConfigScope): Promise<Problem> {
  const { config, shown } = await readAt(limiter, level);
  return changedMeanwhile(level, config, shown);
}

function changedMeanwhile(level: ConfigScope, config: StoredConfig, shown: ShownConfig): Problem {
  const isThere = isSet(config);
  const detail = isThere
    ? `The limits of this level (${level.level}) were changed in the meantime. Read them again before you change them.`
    : `This level (${level.level}) has no limits any more: they were deleted in the meantime, or never set.`;
  return new Problem("limits_changed", detail, {
    ...(isThere ? { headers: { etag: etagOf(config) } } : {}),
    members: { current: { ...level, ...shown } },
  });
}

function noOverride({ level }: ConfigScope): Problem {
  return new Problem(
    "override_not_found",
    `No limits of this level (${level}) have an end; leave override out to delete them all.`,
  );
}

function none({ level }: ConfigScope): Problem {
  return new Problem("limits_not_found", `This level (${level}) has no limits; set them with PUT.`);
}

/** The condition of a request on the stored configuration. `some`: there is any; `none`: there is none. */
type Precondition =
  | { readonly kind: "absent" }
  | { readonly kind: "some" }
  | { readonly kind: "none" }
  | { readonly kind: "tags"; readonly tags: readonly string[] };

/** `If-Match` and `If-None-Match: *` (RFC 9110). */
function preconditionOf({ headers }: Request): Precondition {
  const match = headers.get("if-match")?.trim();
  const noneMatch = headers.get("if-none-match")?.trim();
  if (match !== undefined && noneMatch !== undefined)
    throw preconditionInvalid("If-Match and If-None-Match are both given; send one");
  if (noneMatch !== undefined) {
    if (noneMatch === "*") return { kind: "none" };
    throw preconditionInvalid(`If-None-Match is ${noneMatch}; send *, which means that nothing is stored yet`);
  }
  if (match === undefined) return { kind: "absent" };
  if (match === "*") return { kind: "some" };
  if (TAGS.test(match)) return { kind: "tags", tags: match.match(TAG) ?? [] };
  throw preconditionInvalid(`If-Match is ${match}; send the ETag of GET, quotes included`);
}

const TAG = /(?:W\/)?"[\x21\x23-\x7e]*"/g;
const TAGS = /^(?:W\/)?"[\x21\x23-\x7e]*"(?:\s*,\s*(?:W\/)?"[\x21\x23-\x7e]*")*$/;

/** Whether the stored configuration meets the condition. A weak tag (`W/`) never does: it need not mean the same bytes. */
function isMet(precondition: Precondition, config: StoredConfig): boolean {
  switch (precondition.kind) {
    case "absent":
      return true;
    case "some":
      return isSet(config);
    case "none":
      return !isSet(config);
    case "tags":
      return isSet(config) && precondition.tags.includes(etagOf(config));
  }
}

/** Whether anything is stored for a level; a level without anything has no representation. */
function isSet({ limits, ...rest }: StoredConfig): boolean {
  return limits.length > 0 || Object.keys(rest).length > 0;
}

/** The same for the same limits, in whatever order they were set, and the same options, policy and settings. */
function etagOf({ limits, ...rest }: StoredConfig): string {
  const sorted = limits.toSorted((a, b) => (a.name < b.name ? -1 : 1));
  const hash = createHash("sha256").update(canonical({ ...rest, limits: sorted }));
  return `"${hash.digest("base64url").slice(0, 22)}"`;
}

function preconditionInvalid(what: string): Problem {
  return new Problem("request_invalid", `${what}.`);
}
