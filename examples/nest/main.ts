// A Nest application with a guard in front of its controllers: `node examples/nest/main.ts`. Decorators are applied by calls,
// since Node runs TypeScript without them; a program that is compiled writes @Controller("chat") and so on.
import type { AddressInfo } from "node:net";
import { Controller, Get, Headers, Module } from "@nestjs/common";
import { APP_GUARD, NestFactory } from "@nestjs/core";
import { type Lease, Limit, RateLimiter } from "../../src/entry/index.ts";
import { CurrentLease, RateLimit, RateLimitGuard, RateLimitModule, SkipRateLimit } from "../../src/entry/nest.ts";

const limiter = await RateLimiter.open({ store: "memory" });

class ChatController {
  async chat(lease: Lease, key: string) {
    // The answer was longer than estimated.
    await lease.adjust({ tokens: 200 });
    return { text: `Hello, ${key}!` };
  }

  health() {
    return "fine";
  }
}
const { prototype } = ChatController;
const chat = Object.getOwnPropertyDescriptor(prototype, "chat") as PropertyDescriptor;
const health = Object.getOwnPropertyDescriptor(prototype, "health") as PropertyDescriptor;
Controller("chat")(ChatController);
Get()(prototype, "chat", chat);
RateLimit({ resource: "chat", consume: { requests: 1, tokens: 500 } })(prototype, "chat", chat);
CurrentLease()(prototype, "chat", 0);
Headers("x-api-key")(prototype, "chat", 1);
Get("health")(prototype, "health", health);
SkipRateLimit()(prototype, "health", health);

class AppModule {}
Module({
  imports: [
    RateLimitModule.forRoot({
      limiter,
      limits: [Limit.perDay("requests", 3), Limit.perDay("tokens", 1_800)],
      key: (request) => String(request.headers["x-api-key"] ?? ""),
    }),
  ],
  controllers: [ChatController],
  providers: [{ provide: APP_GUARD, useClass: RateLimitGuard }],
})(AppModule);

const app = await NestFactory.create(AppModule, { logger: false });
await app.listen(0, "127.0.0.1");
const url = `http://127.0.0.1:${(app.getHttpServer().address() as AddressInfo).port}/chat`;
for (const [key, path] of [
  ["alice", ""],
  ["alice", ""],
  ["alice", ""],
  ["alice", "/health"],
  ["bob", ""],
  ["", ""],
] as const) {
  const answer = await fetch(url + path, { headers: { "x-api-key": key } });
  await answer.text();
  const left = answer.headers.get("ratelimit")?.replaceAll(/;t=\d+/g, "");
  console.log(key || "nobody", `/chat${path}`, answer.status, left ?? "");
}
await app.close();
await limiter.close();
