import { DEFAULT_NAMESPACE } from "../domain/config/namespace.ts";
import { ConflictError, LimiterError, NotFoundError, ValidationError } from "../domain/names/errors.ts";
import { shown } from "../domain/names/names.ts";
import type { Limiter } from "../engine/limiter/limiter.ts";
import { applyManifest } from "../manifest/apply.ts";
import { type Manifest, ManifestInvalid } from "../manifest/manifest.ts";
import { type Plan, type PlanOptions, planManifest } from "../manifest/plan.ts";
import { isIdOf, physicalId } from "./physical-id.ts";
import { namespacesOf, registerMissing, TABLE_RESOURCE } from "./prepared-table.ts";
import { leftoversOf, manifestTextOf, type Properties, type Target, takesOver, targetOf } from "./properties.ts";
import type { CustomResourceResponse } from "./response.ts";

/** What CloudFormation asks of a custom resource. */
export interface ProvisionerEvent {
  readonly RequestType: "Create" | "Update" | "Delete";
  /** Absent: it is for limits. */
  readonly ResourceType?: string;
  readonly RequestId: string;
  readonly StackId: string;
  readonly LogicalResourceId: string;
  /** Absent on Create. */
  readonly PhysicalResourceId?: string;
  /** Where the answer is put. */
  readonly ResponseURL: string;
  readonly ResourceProperties?: Properties;
  /** On Update: those before it. */
  readonly OldResourceProperties?: Properties;
}

interface ProvisionerParts {
  /** The table that this function is for. */
  readonly table: string;
  /** Opens a namespace; throws `NotFoundError` where there is none, or no table. */
  readonly open: (namespace: Target["namespace"]) => Promise<Limiter>;
  /** Sets up the table where nobody has; throws where it is none that a limiter can work on. */
  readonly setUp: () => Promise<void>;
  readonly parse: (text: string) => Manifest;
  /** Hands the answer to CloudFormation. */
  readonly put: (url: string, answer: CustomResourceResponse) => Promise<void>;
  /** Ends the work in time for an answer. */
  readonly signal: AbortSignal;
}

/** Does what is asked and answers, whatever happens: CloudFormation waits for it. */
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
  // What failed keeps the id it had: under another, CloudFormation would delete the one before.
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
  // CloudFormation makes limits and the resource of the table in any order, and a table may have no such resource.
  await parts.setUp();
  const limiter = await parts.open(target.namespace);
  try {
    const plan = await applied(limiter, manifest, { owner, takeOver, ...leftovers }, { event, parts });
    return success(owner, plan.summary);
  } finally {
    await limiter.close();
  }
}

/** The table's own resource: its records are there, and the namespaces that were asked for. Deleting it leaves all of that. */
async function prepared(event: ProvisionerEvent, parts: ProvisionerParts): Promise<Result> {
  const { ResourceProperties: properties = {}, PhysicalResourceId: before } = event;
  // One table has one such id, so that no update is ever a replacement.
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

/** Deletes what this very id owns, or lets it be. What was taken over by another, or was never there, is nothing to delete. */
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

/** Undefined where nothing can be owned: the namespace or table is gone, or never was one of ours. */
async function openExisting(event: ProvisionerEvent, parts: ProvisionerParts): Promise<Limiter | undefined> {
  try {
    const target = targetOf(event.ResourceProperties ?? {});
    requireTable(target, parts);
    return await parts.open(target.namespace);
  } catch (error) {
    if (error instanceof NotFoundError) return undefined;
    // With such properties nothing was ever made.
    if (error instanceof ValidationError && PROPERTY_CODES.has(error.code)) return undefined;
    throw error;
  }
}

const PROPERTY_CODES: ReadonlySet<string> = new Set(["properties_invalid", "table_mismatch", "namespace_invalid"]);

const ATTEMPTS_MAX = 3;

/** Plans and applies; again where others changed something in between. */
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

/** What an earlier request for this very resource left behind is its own: a replacement, or an update that failed. */
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

/** An id stands for one resource in one namespace of one table: elsewhere it gets another, and CloudFormation deletes the first. */
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
