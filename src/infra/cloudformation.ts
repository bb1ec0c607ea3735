import type { Capability, Change, CloudFormationClient, Stack, StackEvent } from "@aws-sdk/client-cloudformation";
import { type AwsConfig, awsFault, openCloudFormation } from "./aws-clients.ts";

type Sdk = typeof import("@aws-sdk/client-cloudformation");
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

/** What a change set came to. */
type ChangeSetAnswer =
  | { readonly kind: "none" }
  | { readonly kind: "changes"; readonly id: string; readonly changes: readonly Change[] }
  | { readonly kind: "failed"; readonly reason: string };

/** As much of CloudFormation as stacks of ours need; what it refuses is told in a sentence. */
export class CloudFormation {
  readonly #sdk: Sdk;
  readonly #client: CloudFormationClient;
  readonly #sleep: (ms: number) => Promise<void>;

  private constructor(sdk: Sdk, client: CloudFormationClient, sleep: (ms: number) => Promise<void>) {
    this.#sdk = sdk;
    this.#client = client;
    this.#sleep = sleep;
  }

  static async open(aws: AwsConfig, sleep: (ms: number) => Promise<void>): Promise<CloudFormation> {
    const { sdk, client } = await openCloudFormation(aws);
    return new CloudFormation(sdk, client, sleep);
  }

  close(): void {
    this.#client.destroy();
  }

  /** By name, or by id where it may be gone meanwhile; undefined: there is none. */
  async describe(nameOrId: string): Promise<StackDescription | undefined> {
    try {
      const { Stacks = [] } = await this.#client.send(new this.#sdk.DescribeStacksCommand({ StackName: nameOrId }));
      const [stack] = Stacks;
      return stack === undefined || (stack.StackStatus === "DELETE_COMPLETE" && nameOrId !== stack.StackId)
        ? undefined
        : describedBy(stack);
    } catch (cause) {
      if (isMissing(cause)) return undefined;
      throw awsFault(cause, `describe the stack ${nameOrId}`);
    }
  }

  /** All stacks of the region, of whoever they are. */
  async *all(): AsyncGenerator<StackDescription> {
    let token: string | undefined;
    do {
      const input = token === undefined ? {} : { NextToken: token };
      const page = await this.#told("list stacks", () => this.#client.send(new this.#sdk.DescribeStacksCommand(input)));
      for (const stack of page.Stacks ?? []) yield describedBy(stack);
      token = page.NextToken;
    } while (token !== undefined);
  }

  /** The template that is deployed, parsed where it is JSON. */
  async template(name: string): Promise<unknown> {
    const { TemplateBody = "" } = await this.#told(`read the template of ${name}`, () =>
      this.#client.send(new this.#sdk.GetTemplateCommand({ StackName: name, TemplateStage: "Original" })),
    );
    try {
      return JSON.parse(TemplateBody);
    } catch {
      // YAML: it is none of ours.
      return undefined;
    }
  }

  /** Newest first, to the end of the first page or as far as `until` holds back. */
  async events(nameOrId: string): Promise<readonly StackEvent[]> {
    try {
      const { StackEvents = [] } = await this.#client.send(
        new this.#sdk.DescribeStackEventsCommand({ StackName: nameOrId }),
      );
      return StackEvents;
    } catch (cause) {
      if (isMissing(cause)) return [];
      throw awsFault(cause, `read the events of ${nameOrId}`);
    }
  }

  async create(input: StackInput): Promise<void> {
    await this.#told(`create the stack ${input.name}`, () =>
      this.#client.send(new this.#sdk.CreateStackCommand(stackInput(input))),
    );
  }

  async delete(name: string): Promise<void> {
    await this.#told(`delete the stack ${name}`, () =>
      this.#client.send(new this.#sdk.DeleteStackCommand({ StackName: name })),
    );
  }

  /** Makes a change set and waits until it says what it would change. */
  async changeSet(input: StackInput, changeSetName: string): Promise<ChangeSetAnswer> {
    const what = `make a change set of ${input.name}`;
    const named = { StackName: input.name, ChangeSetName: changeSetName };
    const { Id = changeSetName } = await this.#told(what, () =>
      this.#client.send(
        new this.#sdk.CreateChangeSetCommand({ ...stackInput(input), ...named, ChangeSetType: "UPDATE" }),
      ),
    );
    try {
      return await this.#made(input.name, Id, what);
    } catch (error) {
      // Whoever interrupts the wait for it leaves nothing behind.
      await this.#abandon(input.name, Id);
      throw error;
    }
  }

  async #made(name: string, id: string, what: string): Promise<ChangeSetAnswer> {
    const changes: Change[] = [];
    for (let token: string | undefined; ; ) {
      const more = token === undefined ? {} : { NextToken: token };
      const page = await this.#told(what, () =>
        this.#client.send(new this.#sdk.DescribeChangeSetCommand({ StackName: name, ChangeSetName: id, ...more })),
      );
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
      token = page.NextToken;
      if (token === undefined) return { kind: "changes", id, changes };
    }
  }

  /** One that is still being made cannot be removed yet. What goes wrong here is not what is told. */
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
    await this.#told(`change the stack ${name}`, () =>
      this.#client.send(new this.#sdk.ExecuteChangeSetCommand({ StackName: name, ChangeSetName: changeSet })),
    );
  }

  /** One that is not executed would be in the way of nobody, but remain for ever. */
  async dropChangeSet(name: string, changeSet: string): Promise<void> {
    await this.#told(`remove the change set of ${name}`, () =>
      this.#client.send(new this.#sdk.DeleteChangeSetCommand({ StackName: name, ChangeSetName: changeSet })),
    );
  }

  async #told<Answer>(what: string, call: () => Promise<Answer>): Promise<Answer> {
    try {
      return await call();
    } catch (cause) {
      throw awsFault(cause, what);
    }
  }
}

const CHANGE_SET_POLL_MS = 1_000;
const ABANDON_TRIES = 30;

/** Roles and policies have names of our choice. */
const CAPABILITIES: Capability[] = ["CAPABILITY_NAMED_IAM"];

/** Every parameter by its value: what is left out, or sent as the previous one, is up to whoever answers. */
function stackInput({ name, template, parameters, tags }: StackInput) {
  return {
    StackName: name,
    TemplateBody: template,
    Parameters: Object.entries(parameters).map(([ParameterKey, ParameterValue]) => ({ ParameterKey, ParameterValue })),
    Tags: Object.entries(tags).map(([Key, Value]) => ({ Key, Value })),
    Capabilities: CAPABILITIES,
  };
}

function describedBy(stack: Stack): StackDescription {
  const { StackId: id = "", StackName: name = "", StackStatus: status = "", StackStatusReason: reason } = stack;
  const texts = (pairs: readonly (readonly [string | undefined, string | undefined])[]): Texts =>
    Object.fromEntries(pairs.filter(([key]) => key !== undefined).map(([key, value]) => [key, value ?? ""]));
  return {
    ...{ id, name, status, reason },
    parameters: texts((stack.Parameters ?? []).map((each) => [each.ParameterKey, each.ParameterValue])),
    outputs: texts((stack.Outputs ?? []).map((each) => [each.OutputKey, each.OutputValue])),
    tags: texts((stack.Tags ?? []).map((each) => [each.Key, each.Value])),
    createdAtMs: stack.CreationTime?.getTime(),
    updatedAtMs: stack.LastUpdatedTime?.getTime(),
  };
}

/** CloudFormation has one exception for whatever is wrong with a request. */
function isMissing(cause: unknown): boolean {
  return cause instanceof Error && /does not exist/i.test(cause.message);
}

function isEmptyChange(reason: string): boolean {
  return /didn't contain changes|no updates are to be performed/i.test(reason);
}
