import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import type { TestContext } from "node:test";

/** A stack as the stub shows it. */
export interface StubStack {
  readonly status: string;
  readonly parameters?: Readonly<Record<string, string>>;
  readonly tags?: Readonly<Record<string, string>>;
  readonly outputs?: Readonly<Record<string, string>>;
}

export interface StubEvent {
  readonly logicalId: string;
  readonly status: string;
  readonly reason?: string;
}

export interface StubChange {
  readonly action: string;
  readonly logicalId: string;
  readonly type: string;
  readonly replacement?: string;
}

const OURS = { ManagedBy: "zae-limiter" };

/**
 * Answers like CloudFormation, in its protocol, over HTTP: what it is asked it notes, and what the stack is goes on with every look at
 * it. Of other services it knows DynamoDB's DescribeTable, which finds nothing.
 */
export class CloudFormationStub {
  readonly endpoint: string;
  /** What was asked for, in order, with its input. */
  readonly calls: { readonly action: string; readonly input: Readonly<Record<string, string>> }[] = [];
  /** What the stack is at each look; the last stays. Empty: there is none. */
  looks: StubStack[] = [];
  /** After what happened, from a call on. */
  after: Readonly<Record<string, readonly StubStack[]>> = {};
  /** Oldest first. */
  events: StubEvent[] = [];
  /** Those that come with a call. */
  eventsAfter: Readonly<Record<string, readonly StubEvent[]>> = {};
  template = "{}";
  changeSet: { readonly status: string; readonly reason?: string; readonly changes?: readonly StubChange[] }[] = [];

  private constructor(endpoint: string) {
    this.endpoint = endpoint;
  }

  static async open(t: TestContext): Promise<CloudFormationStub> {
    const server = createServer(async (request, response) => {
      const body = await textOf(request);
      if (request.headers["x-amz-target"] !== undefined) {
        response.writeHead(400, { "content-type": "application/x-amz-json-1.0" });
        response.end(JSON.stringify({ __type: "com.amazonaws.dynamodb.v20120810#ResourceNotFoundException" }));
        return;
      }
      const { status, text } = stub.#answer(Object.fromEntries(new URLSearchParams(body)));
      response.writeHead(status, { "content-type": "text/xml" }).end(text);
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    t.after(() => {
      server.closeAllConnections();
      server.close();
    });
    const stub = new CloudFormationStub(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
    return stub;
  }

  /** Names of what was asked for, without looks. */
  get writes(): readonly string[] {
    return this.calls.map(({ action }) => action).filter((action) => !/^(Describe|Get|List)/.test(action));
  }

  #answer(input: Readonly<Record<string, string>>): { status: number; text: string } {
    const { Action: action = "" } = input;
    this.calls.push({ action, input });
    const next = this.after[action];
    if (next !== undefined) this.looks = [...next];
    // Another event each time.
    this.events.push(...(this.eventsAfter[action] ?? []).map((event) => ({ ...event })));
    switch (action) {
      case "DescribeStacks":
        return this.#described();
      case "DescribeStackEvents":
        return xml(action, `<StackEvents>${this.events.map(eventXml).toReversed().join("")}</StackEvents>`);
      case "GetTemplate":
        return xml(action, `<TemplateBody>${escaped(this.template)}</TemplateBody>`);
      case "CreateChangeSet":
        return xml(action, "<Id>arn:aws:cloudformation:change-set</Id><StackId>arn:stack</StackId>");
      case "DescribeChangeSet":
        return this.#changeSet();
      default:
        return xml(action, "<StackId>arn:stack</StackId>");
    }
  }

  #described(): { status: number; text: string } {
    const stack = this.looks.length > 1 ? this.looks.shift() : this.looks[0];
    if (stack === undefined) {
      const message = "Stack with id limits does not exist";
      return {
        status: 400,
        text: `<ErrorResponse><Error><Type>Sender</Type><Code>ValidationError</Code><Message>${message}</Message></Error></ErrorResponse>`,
      };
    }
    const { status, parameters = {}, tags = OURS, outputs = {} } = stack;
    const list = (name: string, members: readonly string[]) =>
      `<${name}>${members.map((each) => `<member>${each}</member>`).join("")}</${name}>`;
    const pairs = (from: Readonly<Record<string, string>>, key: string, value: string) =>
      Object.entries(from).map(([k, v]) => `<${key}>${escaped(k)}</${key}><${value}>${escaped(v)}</${value}>`);
    const described =
      `<StackName>limits</StackName><StackId>arn:stack</StackId><StackStatus>${status}</StackStatus>` +
      "<CreationTime>2026-03-15T12:00:00Z</CreationTime>" +
      list("Parameters", pairs(parameters, "ParameterKey", "ParameterValue")) +
      list("Tags", pairs(tags, "Key", "Value")) +
      list("Outputs", pairs(outputs, "OutputKey", "OutputValue"));
    return xml("DescribeStacks", list("Stacks", [described]));
  }

  #changeSet(): { status: number; text: string } {
    const [now] = this.changeSet;
    if (this.changeSet.length > 1) this.changeSet.shift();
    const { status = "CREATE_COMPLETE", reason, changes = [] } = now ?? {};
    const members = changes.map(
      (change) =>
        `<member><Type>Resource</Type><ResourceChange><Action>${change.action}</Action>` +
        `<LogicalResourceId>${change.logicalId}</LogicalResourceId><ResourceType>${change.type}</ResourceType>` +
        `${change.replacement === undefined ? "" : `<Replacement>${change.replacement}</Replacement>`}</ResourceChange></member>`,
    );
    const why = reason === undefined ? "" : `<StatusReason>${escaped(reason)}</StatusReason>`;
    return xml("DescribeChangeSet", `<Status>${status}</Status>${why}<Changes>${members.join("")}</Changes>`);
  }
}

let numbered = 0;
const ids = new WeakMap<StubEvent, number>();

function eventXml(event: StubEvent): string {
  const id = ids.get(event) ?? ++numbered;
  ids.set(event, id);
  const reason =
    event.reason === undefined ? "" : `<ResourceStatusReason>${escaped(event.reason)}</ResourceStatusReason>`;
  return (
    `<member><EventId>event-${id}</EventId><StackId>arn:stack</StackId><StackName>limits</StackName>` +
    `<LogicalResourceId>${event.logicalId}</LogicalResourceId><ResourceType>AWS::Any::Thing</ResourceType>` +
    `<Timestamp>2026-03-15T12:00:00Z</Timestamp><ResourceStatus>${event.status}</ResourceStatus>${reason}</member>`
  );
}

function xml(action: string, inner: string): { status: number; text: string } {
  return {
    status: 200,
    text: `<${action}Response><${action}Result>${inner}</${action}Result></${action}Response>`,
  };
}

function escaped(text: string): string {
  return text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
}

async function textOf(request: IncomingMessage): Promise<string> {
  let text = "";
  for await (const chunk of request) text += chunk;
  return text;
}
