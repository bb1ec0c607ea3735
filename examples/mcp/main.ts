import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { InMemoryTransport } from "@modelcontextprotocol/sdk/inMemory.js";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { z } from "zod";
import { currentLease, Limit, RateLimiter } from "../../src/entry/index.ts";
import { limitTools } from "../../src/entry/mcp.ts";

const limiter = await RateLimiter.open({ store: "memory" });
await limiter.setResourceDefaults("tool:search", [Limit.perHour("calls", 2), Limit.perHour("pages", 100)]);

const server = limitTools(new McpServer({ name: "web", version: "1.0.0" }), {
  limiter,
  entityId: (extra) => extra.authInfo?.clientId ?? "anonymous",
  consume: { calls: 1, pages: 10 },
});
server.registerTool("search", { inputSchema: { query: z.string() } }, async ({ query }) => {
  const pages = [`A page about ${query}`];
  // Ten pages were the estimate.
  await currentLease()?.adjust({ pages: pages.length - 10 });
  return { content: [{ type: "text", text: pages.join("\n") }] };
});

const client = new Client({ name: "agent", version: "1.0.0" });
const [clientSide, serverSide] = InMemoryTransport.createLinkedPair();
await Promise.all([server.connect(serverSide), client.connect(clientSide)]);
for (let i = 0; i < 3; i++) {
  const { content } = await client.callTool({ name: "search", arguments: { query: "token buckets" } });
  console.log((content as { text: string }[])[0]?.text);
}
for (const { limit, available } of await limiter.available({ entityId: "anonymous", resource: "tool:search" })) {
  console.log(`${limit}: ${available} left`);
}

await client.close();
await limiter.close();
