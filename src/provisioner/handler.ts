import { createHash } from "node:crypto";
import { DEFAULT_NAMESPACE } from "../domain/config/namespace.ts";
import { ConflictError, LimiterError, NotFoundError, ValidationError } from "../domain/names/errors.ts";
import { shown } from "../domain/names/names.ts";
import type { Limiter } from "../engine/limiter/limiter.ts";
import { applyManifest } from "../manifest/apply.ts";
import { type Manifest, ManifestInvalid } from "../manifest/manifest.ts";
import { type Plan, type PlanOptions, planManifest } from "../manifest/plan.ts";
import { leftoversOf, manifestTextOf, type Properties, type Target, takesOver, targetOf } from "./properties.ts";
import type { CustomResourceResponse } from "./response.ts";

/** Identifies a resource of a stack. */
interface ResourceIdentity {
  readonly StackId: string;
  readonly LogicalResourceId: string;
}

/**
 * The physical id of a resource, which owns its declared pieces. It is derived from the stack, the logical id and the
 * request: a repeated request makes the same id, and a resource that is created again gets another.
 */
function physicalId(identity: ResourceIdentity, requestId: string): string {
  return `${beginning(identity)}${digest(requestId, 12)}`;
}

/** True if the id was made for this resource, by any request. Only such ids may delete in its name. */
function isIdOf(identity: ResourceIdentity, id: string): boolean {
  const begin = beginning(identity);
  return id.startsWith(begin) && /^[0-9a-f]{12}$/.test(id.slice(begin.length));
}

function beginning({ StackId, LogicalResourceId }: ResourceIdentity): string {
  const [, stack = StackId] = /:stack\/([^/]+)\//.exec(StackId) ?? [];
  // The names are for people; the digest is unique.
  const names = [stack, LogicalResourceId].map((name) => name.replace(/[^a-zA-Z0-9_.-]/g, "-").slice(0, 60));
  return `cfn:${names.join(":")}:${digest(JSON.stringify([StackId, LogicalResourceId]), 16)}:`;
}

function digest(text: string, length: number): string {
  return createHash("sha256").update(text).digest("hex").slice(0, length);
}

/** The resource that sets up a table which CloudFormation made. */
const TABLE_RESOURCE = "Custom::ZaeLimiterTable";

/** The namespaces of a table's resource, besides `default`. */
function namespacesOf({ Namespaces: names = [] }: Properties): readonly string[] {
  if (Array.isArray(names) && names.every((name) => typeof name === "string")) return names;
  throw new ValidationError(
    "properties_invalid",
    `The resource has ${shown(names)} for Namespaces, which must be a list of names.`,
  );
}

/** Registers missing namespaces; returns their number. Others stay, because a namespace holds limits and usage. */
async function registerMissing(limiter: Limiter, names: readonly string[], principal: string): Promise<number> {
  const known = new Set<string>();
  for await (const { name } of limiter.listNamespaces({ limit: 100 })) known.add(name);
  const missing = names.filter((name) => !known.has(name));
  for (const name of missing) await limiter.registerNamespace(name, { principal });
  return missing.length;
}

/** A request of CloudFormation for a custom resource. */
export interface ProvisionerEvent {
  readonly RequestType: "Create" | "Update" | "Delete";
  /** Absent: limits. */
  readonly ResourceType?: string;
  readonly RequestId: string;
  readonly StackId: string;
  readonly LogicalResourceId: string;
  /** Absent on Create. */
  readonly PhysicalResourceId?: string;
  /** The address for the answer. */
  readonly ResponseURL: string;
  readonly ResourceProperties?: Properties;
  /** The previous properties, on Update. */
  readonly OldResourceProperties?: Properties;
}

interface ProvisionerParts {
  /** The table that this function is for. */
  readonly table: string;
  /** Opens a namespace; throws `NotFoundError` where there is none, or no table. */
  readonly open: (namespace: Target["namespace"]) => Promise<Limiter>;
  /** Sets up the table if it is not; throws if a limiter cannot use it. */
  readonly setUp: () => Promise<void>;
  readonly parse: (text: string) => Manifest;
  /** Hands the answer to CloudFormation. */
  readonly put: (url: string, answer: CustomResourceResponse) => Promise<void>;
  /** Ends the work in time for an answer. */
  readonly signal: AbortSignal;
}

/** Handles a request and always answers, because CloudFormation waits for it. */
export async function handle(event: ProvisionerEvent, parts: ProvisionerParts): Promise<CustomResourceResponse> {
  requireRequest(event);
  const { StackId, RequestId, LogicalResourceId, ResponseURL } = event;
  const result = await resultOf(event, parts);
  const answer: CustomResourceResponse = { ...result, StackId, RequestId, LogicalResourceId };
  await parts.put(ResponseURL, answer);
  return answer;
}

type Result = Pick<CustomResourceResponse, "Status" | "Reason" | "PhysicalResourceId" | "Data">;

async function resultOf(event: ProvisionerEvent, parts: ProvisionerParts): Promise<Result> {
  const { PhysicalResourceId: before, RequestId } = event;
  // A failed resource keeps its id: after a new id CloudFormation would delete the old one.
  const idFailed = before ?? physicalId(event, RequestId);
  try {
    if (event.ResourceType === TABLE_RESOURCE) return await prepared(event, parts);
    return event.RequestType === "Delete" ? await deleted(event, parts) : await declared(event, parts);
  } catch (error) {
    return { Status: "FAILED", Reason: sentenceOf(error), PhysicalResourceId: idFailed };
  }
}

async function declared(event: ProvisionerEvent, parts: ProvisionerParts): Promise<Result> {
  const { ResourceProperties: properties = {} } = event;
  const target = targetOf(properties);
  const takeOver = takesOver(properties);
  const leftovers = leftoversOf(properties);
  const manifest = parts.parse(manifestTextOf(properties));
  requireTable(target, parts);
  const owner = isSamePlace(event, target) ? (event.PhysicalResourceId as string) : physicalId(event, event.RequestId);
  // CloudFormation creates limits and the resource of the table in any order, and a table may have no such resource.
  await parts.setUp();
  const limiter = await parts.open(target.namespace);
  try {
    const plan = await applied(limiter, manifest, { owner, takeOver, ...leftovers }, { event, parts });
    return success(owner, plan.summary);
  } finally {
    await limiter.close();
  }
}

/** The table's own resource: its records and the requested namespaces. Deleting it leaves both. */
async function prepared(event: ProvisionerEvent, parts: ProvisionerParts): Promise<Result> {
  const { ResourceProperties: properties = {}, PhysicalResourceId: before } = event;
  // One id per table, so that no update is a replacement.
  const id = `zae-limiter-table:${parts.table}`;
  if (event.RequestType === "Delete") return { Status: "SUCCESS", PhysicalResourceId: before ?? id, Data: {} };
  requireTable(targetOf(properties), parts);
  const names = namespacesOf(properties);
  await parts.setUp();
  if (names.length === 0) return { Status: "SUCCESS", PhysicalResourceId: id, Data: { registered: 0 } };
  const limiter = await parts.open({ name: DEFAULT_NAMESPACE });
  try {
    const registered = await registerMissing(limiter, names, principalOf(event));
    return { Status: "SUCCESS", PhysicalResourceId: id, Data: { registered } };
  } finally {
    await limiter.close();
  }
}

/** Deletes or releases the pieces of this id. Pieces that another owner took over, or that never existed, are ignored. */
async function deleted(event: ProvisionerEvent, parts: ProvisionerParts): Promise<Result> {
  const { PhysicalResourceId: owner = "" } = event;
  if (!isIdOf(event, owner)) return success(owner, NOTHING_DONE);
  const limiter = await openExisting(event, parts);
  if (limiter === undefined) return success(owner, NOTHING_DONE);
  try {
    const nothing: Manifest = { pieces: [], warnings: [] };
    const leftovers = leftoversOf(event.ResourceProperties ?? {});
    const plan = await applied(limiter, nothing, { owner, takeOver: false, ...leftovers }, { event, parts });
    return success(owner, plan.summary);
  } finally {
    await limiter.close();
  }
}

/** Undefined if nothing can be owned: the namespace or table is gone, or was never ours. */
async function openExisting(event: ProvisionerEvent, parts: ProvisionerParts): Promise<Limiter | undefined> {
  try {
    const target = targetOf(event.ResourceProperties ?? {});
    requireTable(target, parts);
    return await parts.open(target.namespace);
  } catch (error) {
    if (error instanceof NotFoundError) return undefined;
    // With such properties nothing was ever created.
    if (error instanceof ValidationError && PROPERTY_CODES.has(error.code)) return undefined;
    throw error;
  }
}

const PROPERTY_CODES: ReadonlySet<string> = new Set(["properties_invalid", "table_mismatch", "namespace_invalid"]);

const ATTEMPTS_MAX = 3;

/** Plans and applies, again if others changed something in between. */
async function applied(
  limiter: Limiter,
  manifest: Manifest,
  options: PlanOptions & { readonly takeOver: boolean },
  { event, parts }: { readonly event: ProvisionerEvent; readonly parts: ProvisionerParts },
): Promise<Plan> {
  let done = 0;
  for (let attempt = 1; ; attempt++) {
    const plan = await planFor(limiter, manifest, options, event);
    try {
      const onChange = () => {
        done += 1;
      };
      return await applyManifest(limiter, plan, { principal: principalOf(event), signal: parts.signal, onChange });
    } catch (error) {
      if (parts.signal.aborted) throw outOfTime(done);
      if (!(error instanceof ConflictError) || error.code !== "plan_outdated" || attempt === ATTEMPTS_MAX) throw error;
    }
  }
}

/** Pieces of earlier requests for this resource are its own: after a replacement, or an update that failed. */
async function planFor(
  limiter: Limiter,
  manifest: Manifest,
  options: PlanOptions,
  event: ProvisionerEvent,
): Promise<Plan> {
  const plan = await planManifest(limiter, manifest, options);
  const isOwn = plan.conflicts.length > 0 && plan.conflicts.every(({ owner }) => isIdOf(event, owner));
  return isOwn ? planManifest(limiter, manifest, { ...options, takeOver: true }) : plan;
}

/**
 * An id stands for one resource in one namespace of one table: in another place it gets a new id, and CloudFormation
 * deletes the first.
 */
function isSamePlace(event: ProvisionerEvent, { namespace }: Target): boolean {
  const { PhysicalResourceId: id, OldResourceProperties: before } = event;
  if (id === undefined || !isIdOf(event, id)) return false;
  if (before === undefined) return true;
  try {
    return JSON.stringify(targetOf(before).namespace) === JSON.stringify(namespace);
  } catch {
    return false;
  }
}

function requireTable({ table }: Target, parts: ProvisionerParts): void {
  if (table === undefined || table === parts.table) return;
  throw new ValidationError(
    "table_mismatch",
    `The resource is for the table ${shown(table)}, and this function is for ${shown(parts.table)}; use the function of that stack.`,
  );
}

function requireRequest(event: ProvisionerEvent): void {
  const texts = ["RequestId", "StackId", "LogicalResourceId", "ResponseURL"] as const;
  const isRequest =
    ["Create", "Update", "Delete"].includes(event?.RequestType) &&
    texts.every((name) => typeof event[name] === "string" && event[name] !== "");
  if (isRequest) return;
  throw new ValidationError(
    "event_invalid",
    "This function answers requests of CloudFormation for Custom::ZaeLimiterTable and Custom::ZaeLimiterLimits; to apply a manifest by hand, " +
      "use `zae-limiter limits plan` and `limits apply`.",
  );
}

function principalOf({ StackId }: ProvisionerEvent): string {
  return /^arn:[\x21-\x7e]+$/.test(StackId) ? StackId : "cloudformation";
}

const NOTHING_DONE: Plan["summary"] = { create: 0, update: 0, delete: 0, adopt: 0, release: 0, unchanged: 0 };

function success(PhysicalResourceId: string, summary: Plan["summary"]): Result {
  return { Status: "SUCCESS", PhysicalResourceId, Data: { ...summary } };
}

function outOfTime(done: number): LimiterError {
  return new LimiterError(
    "out_of_time",
    `The function timed out after ${done} changes, which stay; the next update continues.`,
  );
}

function sentenceOf(error: unknown): string {
  if (error instanceof ManifestInvalid) {
    const [{ path, message } = { path: "", message: error.message }, ...others] = error.problems;
    const more = others.length === 0 ? "" : ` (and ${others.length} more)`;
    return `The declared limits are invalid: ${path === "" ? "" : `${path}: `}${message}${more}.`;
  }
  return error instanceof Error ? error.message : String(error);
}
