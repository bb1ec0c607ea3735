import type { StackEvent } from "@aws-sdk/client-cloudformation";
import { LimiterError } from "../domain/names/errors.ts";
import { type CloudFormation, conditionOf, type StackDescription } from "./cloudformation.ts";

/** Something that happened to a resource of a stack. */
export interface StackProgress {
  readonly atMs: number | undefined;
  readonly logicalId: string;
  readonly type: string;
  readonly status: string;
  readonly reason: string | undefined;
}

export interface Waiting {
  readonly cloudFormation: CloudFormation;
  readonly sleep: (ms: number) => Promise<void>;
  /** Throws if the caller no longer waits. */
  readonly requireWanted: () => void;
  readonly onProgress: (event: StackProgress) => void;
}

const POLL_MS = 2_000;
/** CloudFormation itself gives up earlier on every resource of the stack. */
const POLLS_MAX = 3_600_000 / POLL_MS;
/** After this many polls the status is believed even without an event. */
const UNBEGUN_POLLS_MAX = 5;

/** The events of a stack from some moment on. */
export class EventTrail {
  readonly #waiting: Waiting;
  readonly #seen = new Set<string>();
  readonly failures: StackProgress[] = [];
  /** True if anything has happened since. */
  hasNew = false;

  private constructor(waiting: Waiting) {
    this.#waiting = waiting;
  }

  /** Starts after the events so far; for a stack that is not there yet, with the first event. */
  static async from(waiting: Waiting, stack: StackDescription | undefined): Promise<EventTrail> {
    const trail = new EventTrail(waiting);
    if (stack === undefined) return trail;
    for (const { EventId = "" } of await waiting.cloudFormation.events(stack.id)) trail.#seen.add(EventId);
    return trail;
  }

  async tellNew(nameOrId: string): Promise<void> {
    const events = await this.#waiting.cloudFormation.events(nameOrId);
    for (const event of events.toReversed()) {
      const { EventId = "" } = event;
      if (this.#seen.has(EventId)) continue;
      this.#seen.add(EventId);
      this.hasNew = true;
      const progress = progressOf(event);
      if (isFailure(progress)) this.failures.push(progress);
      this.#waiting.onProgress(progress);
    }
  }
}

/** Waits until nothing is changing the stack any more; undefined: it is gone. */
export async function untilSettled(
  waiting: Waiting,
  nameOrId: string,
  trail: EventTrail,
): Promise<StackDescription | undefined> {
  for (let poll = 0; poll < POLLS_MAX; poll++) {
    const stack = await waiting.cloudFormation.describe(nameOrId);
    await trail.tellNew(nameOrId);
    if (stack === undefined) return undefined;
    // For a moment after a change has begun, the old status may still be shown. A new event proves that it has begun.
    if (conditionOf(stack.status) !== "busy" && (trail.hasNew || poll >= UNBEGUN_POLLS_MAX)) return stack;
    await waiting.sleep(POLL_MS);
    waiting.requireWanted();
  }
  throw new LimiterError("stack_busy", `The stack ${nameOrId} is still changing after an hour; check its events.`);
}

/** Says why a change failed, by the first failures: later ones are only cancelled because of them. */
export function failureText(failures: readonly StackProgress[]): string {
  const own = failures.filter(({ reason }) => reason !== undefined && !/cancelled|initiated by user/i.test(reason));
  if (own.length === 0) return "its events give no reason";
  return own
    .slice(0, 3)
    .map(({ logicalId, reason }) => `${logicalId}: ${reason}`)
    .join("; ");
}

/** Reads earlier failures of a stack, oldest first. */
export async function pastFailures(cloudFormation: CloudFormation, id: string): Promise<readonly StackProgress[]> {
  return (await cloudFormation.events(id)).map(progressOf).filter(isFailure).toReversed();
}

function isFailure({ status }: StackProgress): boolean {
  return status.endsWith("_FAILED");
}

function progressOf(event: StackEvent): StackProgress {
  return {
    atMs: event.Timestamp?.getTime(),
    logicalId: event.LogicalResourceId ?? "",
    type: event.ResourceType ?? "",
    status: event.ResourceStatus ?? "",
    reason: event.ResourceStatusReason,
  };
}
