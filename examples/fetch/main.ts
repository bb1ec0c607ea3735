// A handler of the web platform, as Next, Remix, Bun, Deno and workers have them: `node examples/fetch/main.ts`.
import { rateLimit } from "../../src/entry/fetch.ts";
import { currentLease, Limit, RateLimiter } from "../../src/entry/index.ts";

const limiter = await RateLimiter.open({ store: "memory" });

/** Somewhere below the handler, where no request is at hand. */
async function callModel(prompt: string): Promise<string> {
  await currentLease()?.adjust({ tokens: prompt.length - 100 });
  return prompt.toUpperCase();
}

/** In a file `app/chat/route.ts` of Next this is all there is. */
export const POST = rateLimit(async (request) => new Response(await callModel(await request.text())), {
  ...{ limiter, limits: [Limit.perDay("tokens", 250)], resource: "chat", consume: { tokens: 100 } },
  key: (request) => request.headers.get("x-api-key"),
});

for (const prompt of ["hello", "a".repeat(140), "one more", "and another"]) {
  const headers = { "x-api-key": "alice" };
  const answer = await POST(new Request("http://localhost/chat", { method: "POST", headers, body: prompt }));
  const text = await answer.text();
  console.log(answer.status, answer.headers.get("ratelimit")?.replace(/;t=\d+/, ""), text.slice(0, 8));
}
await limiter.close();
