// An Express application with one limiter in front of a route: `node examples/express/main.ts`.
import type { AddressInfo } from "node:net";
import express from "express";
import { rateLimit } from "../../src/entry/express.ts";
import { Limit, RateLimiter } from "../../src/entry/index.ts";

const limiter = await RateLimiter.open({ store: "memory" });
const limits = [Limit.perDay("requests", 3), Limit.perDay("tokens", 1_800)];

const app = express();
app.use(
  "/chat",
  rateLimit({
    ...{ limiter, limits, resource: "chat", consume: { requests: 1, tokens: 500 } },
    key: (req) => req.get("x-api-key"),
  }),
);
app.get("/chat", async (req, res) => {
  // The answer was longer than estimated.
  await req.lease?.adjust({ tokens: 200 });
  res.json({ text: "Hello!" });
});

const server = app.listen(0, "127.0.0.1", async () => {
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/chat`;
  for (const key of ["alice", "alice", "alice", "bob", undefined]) {
    const answer = await fetch(url, { headers: key === undefined ? {} : { "x-api-key": key } });
    await answer.text();
    const left = answer.headers.get("ratelimit")?.replaceAll(/;t=\d+/g, "");
    console.log(key ?? "nobody", answer.status, left ?? "");
  }
  server.close();
  await limiter.close();
});
