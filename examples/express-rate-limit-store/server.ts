import express from "express";
import { rateLimit } from "express-rate-limit";
import { LimiterStore } from "../../src/entry/express-rate-limit-store.ts";
import { RateLimiter } from "../../src/entry/index.ts";

// One process of an application: its middleware is express-rate-limit, as it was; its counts are in the store that is named.

const limiter = await RateLimiter.open({ store: process.argv[2] ?? "memory" });

const app = express();
app.use(
  rateLimit({
    windowMs: 60_000,
    limit: 5,
    standardHeaders: "draft-7",
    legacyHeaders: false,
    keyGenerator: (req) => String(req.headers["x-api-key"]),
    store: new LimiterStore({ limiter }),
  }),
);
app.get("/", (_req, res) => {
  res.send("hello");
});

const server = app.listen(0, "127.0.0.1", () => process.send?.(server.address()));

process.once("disconnect", () => {
  server.closeAllConnections();
  server.close(() => limiter.close());
});
