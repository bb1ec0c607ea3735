import type { Capability, Change, Stack, StackEvent } from "@aws-sdk/client-cloudformation";
import { type AwsConfig, awsFault, openCloudFormation } from "./aws-clients.ts";

type Texts = Readonly<Record<string, string>>;

/** A stack as CloudFormation describes it. */
export interface StackDescription {
  readonly id: string;
  readonly name: string;
  readonly status: string;
  readonly reason: string | undefined;
  readonly parameters: Texts;
  readonly outputs: Texts;
  readonly tags: Texts;
  readonly createdAtMs: number | undefined;
  readonly updatedAtMs: number | undefined;
}

export interface StackInput {
  readonly name: string;
  readonly template: string;
  readonly parameters: Texts;
  readonly tags: Texts;
}

type ChangeSetAnswer =
  | { readonly kind: "none" }
  | { readonly kind: "changes"; readonly id: string; readonly changes: readonly Change[] }
  | { readonly kind: "failed"; readonly reason: string };

type Opened = Awaited<ReturnType<typeof openCloudFormation>>;

/** The calls of CloudFormation that stacks need. An error says in a sentence what could not be done. */
export class CloudFormation {
  readonly #aws: Opened;
  readonly #sleep: (ms: number) => Promise<void>;

  private constructor(aws: Opened, sleep: (ms: number) => Promise<void>) {
    this.#aws = aws;
    this.#sleep = sleep;
  }

  static async open(aws: AwsConfig, sleep: (ms: number) => Promise<void>): Promise<CloudFormation> {
    return new CloudFormation(await openCloudFormation(aws), sleep);
  }

  close(): void {
    this.#aws.client.destroy();
  }

  /** Finds a stack by name, or by id if it may be gone meanwhile. Undefined: there is none. */
  async describe(nameOrId: string): Promise<StackDescription | undefined> {
    const page = await this.#callUnlessMissing(`describe the stack ${nameOrId}`, ({ sdk, client }) =>
      client.send(new sdk.DescribeStacksCommand({ StackName: nameOrId })),
    );
    const [stack] = page?.Stacks ?? [];
    return stack === undefined || (stack.StackStatus === "DELETE_COMPLETE" && nameOrId !== stack.StackId)
      ? undefined
      : descriptionOf(stack);
  }

  /** All stacks of the region, also those that other tools made. */
  async *all(): AsyncGenerator<StackDescription> {
    let NextToken: string | undefined;
    do {
      const input = { NextToken };
      const page = await this.#call("list stacks", ({ sdk, client }) =>
        client.send(new sdk.DescribeStacksCommand(input)),
      );
      for (const stack of page.Stacks ?? []) yield descriptionOf(stack);
      NextToken = page.NextToken;
    } while (NextToken !== undefined);
  }

  /** Reads the deployed template. Undefined: it is no JSON, so another tool made it. */
  async template(name: string): Promise<unknown> {
    const { TemplateBody = "" } = await this.#call(`read the template of ${name}`, ({ sdk, client }) =>
      client.send(new sdk.GetTemplateCommand({ StackName: name, TemplateStage: "Original" })),
    );
    try {
      return JSON.parse(TemplateBody);
    } catch {
      return undefined;
    }
  }

  /** Reads the first page of events, newest first. */
  async events(nameOrId: string): Promise<readonly StackEvent[]> {
    const page = await this.#callUnlessMissing(`read the events of ${nameOrId}`, ({ sdk, client }) =>
      client.send(new sdk.DescribeStackEventsCommand({ StackName: nameOrId })),
    );
    return page?.StackEvents ?? [];
  }

  async create(input: StackInput): Promise<void> {
    await this.#call(`create the stack ${input.name}`, ({ sdk, client }) =>
      client.send(new sdk.CreateStackCommand(stackInput(input))),
    );
  }

  async delete(name: string): Promise<void> {
    await this.#call(`delete the stack ${name}`, ({ sdk, client }) =>
      client.send(new sdk.DeleteStackCommand({ StackName: name })),
    );
  }

  /** Makes a change set and waits until it says what it would change. */
  async changeSet(input: StackInput, changeSetName: string): Promise<ChangeSetAnswer> {
    const what = `make a change set of ${input.name}`;
    const named = { StackName: input.name, ChangeSetName: changeSetName };
    const { Id = changeSetName } = await this.#call(what, ({ sdk, client }) =>
      client.send(new sdk.CreateChangeSetCommand({ ...stackInput(input), ...named, ChangeSetType: "UPDATE" })),
    );
    try {
      return await this.#changesOf(input.name, Id, what);
    } catch (error) {
      // The wait may be interrupted, and must leave no change set behind.
      await this.#abandon(input.name, Id);
      throw error;
    }
  }

  async #changesOf(name: string, id: string, what: string): Promise<ChangeSetAnswer> {
    const changes: Change[] = [];
    for (let NextToken: string | undefined; ; ) {
      const input = { StackName: name, ChangeSetName: id, NextToken };
      const page = await this.#call(what, ({ sdk, client }) => client.send(new sdk.DescribeChangeSetCommand(input)));
      if (page.Status === "FAILED") {
        const { StatusReason: reason = "CloudFormation gives no reason" } = page;
        await this.dropChangeSet(name, id);
        return isEmptyChange(reason) ? { kind: "none" } : { kind: "failed", reason };
      }
      if (page.Status !== "CREATE_COMPLETE") {
        await this.#sleep(CHANGE_SET_POLL_MS);
        continue;
      }
      changes.push(...(page.Changes ?? []));
      NextToken = page.NextToken;
      if (NextToken === undefined) return { kind: "changes", id, changes };
    }
  }

  /** Removes a change set, which fails while it is still being made. Errors here are not reported: the first one is. */
  async #abandon(name: string, id: string): Promise<void> {
    for (let tries = 0; tries < ABANDON_TRIES; tries++) {
      try {
        await this.dropChangeSet(name, id);
        return;
      } catch {
        await new Promise((resolve) => setTimeout(resolve, CHANGE_SET_POLL_MS));
      }
    }
  }

  async execute(name: string, changeSet: string): Promise<void> {
    await this.#call(`change the stack ${name}`, ({ sdk, client }) =>
      client.send(new sdk.ExecuteChangeSetCommand({ StackName: name, ChangeSetName: changeSet })),
    );
  }

  /** Removes a change set that is not executed: it would stay for ever. */
  async dropChangeSet(name: string, changeSet: string): Promise<void> {
    await this.#call(`remove the change set of ${name}`, ({ sdk, client }) =>
      client.send(new sdk.DeleteChangeSetCommand({ StackName: name, ChangeSetName: changeSet })),
    );
  }

  #call<Answer>(what: string, call: (aws: Opened) => Promise<Answer>): Promise<Answer> {
    return call(this.#aws).catch((cause: unknown) => {
      throw awsFault(cause, what);
    });
  }

  /** Returns undefined if there is no such stack: CloudFormation has one exception for every mistake in a request. */
  #callUnlessMissing<Answer>(what: string, call: (aws: Opened) => Promise<Answer>): Promise<Answer | undefined> {
    return call(this.#aws).catch((cause: unknown) => {
      if (cause instanceof Error && /does not exist/i.test(cause.message)) return undefined;
      throw awsFault(cause, what);
    });
  }
}

const CHANGE_SET_POLL_MS = 1_000;
const ABANDON_TRIES = 30;

/** The stack names its roles and policies itself. */
const CAPABILITIES: Capability[] = ["CAPABILITY_NAMED_IAM"];

/** Sends every parameter by value: the server would decide about one that is left out, or sent as the previous value. */
function stackInput({ name, template, parameters, tags }: StackInput) {
  return {
    StackName: name,
    TemplateBody: template,
    Parameters: Object.entries(parameters).map(([ParameterKey, ParameterValue]) => ({ ParameterKey, ParameterValue })),
    Tags: Object.entries(tags).map(([Key, Value]) => ({ Key, Value })),
    Capabilities: CAPABILITIES,
  };
}

function descriptionOf(stack: Stack): StackDescription {
  const { StackId: id = "", StackName: name = "", StackStatus: status = "", StackStatusReason: reason } = stack;
  const texts = (pairs: readonly (readonly [string | undefined, string | undefined])[]): Texts =>
    Object.fromEntries(pairs.filter(([key]) => key !== undefined).map(([key, value]) => [key, value ?? ""]));
  return {
    id,
    name,
    status,
    reason,
    parameters: texts((stack.Parameters ?? []).map((each) => [each.ParameterKey, each.ParameterValue])),
    outputs: texts((stack.Outputs ?? []).map((each) => [each.OutputKey, each.OutputValue])),
    tags: texts((stack.Tags ?? []).map((each) => [each.Key, each.Value])),
    createdAtMs: stack.CreationTime?.getTime(),
    updatedAtMs: stack.LastUpdatedTime?.getTime(),
  };
}

function isEmptyChange(reason: string): boolean {
  return /didn't contain changes|no updates are to be performed/i.test(reason);
}

/** The condition of a stack, by its status. */
type StackCondition =
  /** It works, whatever became of its last change. */
  | "ready"
  /** Another change is under way. */
  | "busy"
  /** It was never made, and can only be deleted. */
  | "unmade"
  /** A change could not be taken back, or a deletion not finished. */
  | "stuck"
  | "gone";

export function conditionOf(status: string): StackCondition {
  switch (status) {
    case "CREATE_COMPLETE":
    case "UPDATE_COMPLETE":
    case "UPDATE_ROLLBACK_COMPLETE":
    case "IMPORT_COMPLETE":
    case "IMPORT_ROLLBACK_COMPLETE":
      return "ready";
    case "ROLLBACK_COMPLETE":
    case "ROLLBACK_FAILED":
    case "CREATE_FAILED":
    case "REVIEW_IN_PROGRESS":
      return "unmade";
    case "DELETE_COMPLETE":
      return "gone";
    default:
      return status.endsWith("_IN_PROGRESS") ? "busy" : "stuck";
  }
}
