import { text } from "node:stream/consumers";
import type { TestContext } from "node:test";
import { handler } from "../../src/entry/provisioner.ts";
import { RateLimiter } from "../../src/entry/rate-limiter.ts";
import type { ProvisionerEvent } from "../../src/provisioner/handler.ts";
import type { CustomResourceResponse } from "../../src/provisioner/response.ts";
import { serve } from "../engines/http-kit.ts";
import type { DynamodbLocal } from "./dynamodb-local.ts";
import { newGround } from "./store-kit.ts";

/** What is told of a resource; the rest is the stack's. */
type Asked = Partial<ProvisionerEvent> & Pick<ProvisionerEvent, "RequestType">;

/** A table, its provisioner as Lambda runs it, and CloudFormation's address for answers. */
export async function newStack(dynamodb: DynamodbLocal, t: TestContext) {
  const ground = await newGround(dynamodb, t);
  const puts: {
    readonly method: string | undefined;
    readonly type: string | undefined;
    readonly answer: CustomResourceResponse;
  }[] = [];
  const replies: number[] = [];
  const { url } = await serve(t, async (request, response) => {
    const body = await text(request);
    const { method, headers } = request;
    puts.push({ method, type: headers["content-type"], answer: JSON.parse(body) as CustomResourceResponse });
    response.statusCode = replies.shift() ?? 200;
    response.end();
  });
  const limiter = await RateLimiter.open({ store: ground.store, timeoutMs: 10_000 });
  let requests = 0;
  const eventOf = (asked: Asked): ProvisionerEvent => ({
    RequestId: `request-${++requests}`,
    StackId: "arn:aws:cloudformation:eu-west-1:123456789012:stack/app/1f3c",
    LogicalResourceId: "TenantLimits",
    ResponseURL: `${url}/answer?signature=x`,
    ...asked,
    ResourceProperties: { ServiceToken: "arn:aws:lambda:x", TableName: ground.table, ...asked.ResourceProperties },
  });
  /** The answer that CloudFormation got. */
  const ask = async (asked: Asked): Promise<CustomResourceResponse> => {
    process.env.TABLE_NAME = ground.table;
    puts.length = 0;
    await handler(eventOf(asked));
    const last = puts.at(-1);
    if (last === undefined) throw new Error("Nothing was answered.");
    return last.answer;
  };
  return { ...ground, limiter, ask, eventOf, puts, replies };
}

/** The settings of Lambda's environment, for this process. */
export function asInLambda({ endpoint }: DynamodbLocal): void {
  Object.assign(process.env, {
    AWS_ENDPOINT_URL_DYNAMODB: endpoint,
    AWS_REGION: "eu-west-1",
    AWS_ACCESS_KEY_ID: "test",
    AWS_SECRET_ACCESS_KEY: "test",
    LOG_LEVEL: "error",
  });
}
