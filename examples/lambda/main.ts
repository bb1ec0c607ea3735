// A Lambda function behind API Gateway or a function URL, called as Lambda calls it: `node examples/lambda/main.ts`.
import { Limit, RateLimiter } from "../../src/entry/index.ts";
import { type LambdaHttpEvent, type LambdaResult, rateLimit } from "../../src/entry/lambda.ts";

// In AWS a table is shared by all instances: RateLimiter.open({ store: "dynamodb:limits" }).
const limiter = RateLimiter.open({ store: "memory" });

export const handler = rateLimit(
  async (event: LambdaHttpEvent) => ({ statusCode: 200, body: `lease ${event.lease?.status}` }),
  { limiter, limits: [Limit.perDay("requests", 2)], wait: { maxMs: 1_000 } },
);

for (const sourceIp of ["192.0.2.7", "192.0.2.7", "192.0.2.7", "2001:db8::1"]) {
  const context = { getRemainingTimeInMillis: () => 500 };
  const answer = (await handler({ requestContext: { http: { sourceIp } } }, context)) as LambdaResult;
  const { statusCode, headers, body } = answer;
  console.log(
    sourceIp,
    statusCode,
    headers.ratelimit?.replace(/;t=\d+/, ""),
    body.startsWith("{") ? JSON.parse(body).code : body,
  );
}
await (await limiter).close();
