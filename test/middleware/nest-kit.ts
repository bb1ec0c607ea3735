import "reflect-metadata";
import { request as httpRequest } from "node:http";
import type { AddressInfo } from "node:net";
import type { TestContext } from "node:test";
import { Controller, type INestApplication, Module, type Type, UseGuards } from "@nestjs/common";
import { APP_GUARD, NestFactory } from "@nestjs/core";
import { ExpressAdapter } from "@nestjs/platform-express";
import { FastifyAdapter } from "@nestjs/platform-fastify";
import { RateLimiter } from "../../src/entry/index.ts";
import { openMemory } from "../../src/entry/memory.ts";
import { type ClosedRequest, type NestModuleOptions, RateLimitGuard, RateLimitModule } from "../../src/entry/nest.ts";
import { FaultStore } from "../../src/testing/fault-store.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { T0 } from "../kit/contract-kit.ts";

/** What Nest runs on. */
export const PLATFORMS = [
  { platform: "Express", adapter: () => new ExpressAdapter() },
  { platform: "Fastify", adapter: () => new FastifyAdapter() },
] as const;

export type Platform = (typeof PLATFORMS)[number];

type ParameterDecorators = readonly ParameterDecorator[];

/** Decorators of one method, and of its arguments: syntax for them cannot run unbuilt. */
export function decorate(
  target: Type,
  method: string,
  decorators: readonly (MethodDecorator | PropertyDecorator)[],
  ofArguments: ParameterDecorators = [],
): void {
  const descriptor = Object.getOwnPropertyDescriptor(target.prototype, method) as PropertyDescriptor;
  for (const apply of decorators) (apply as MethodDecorator)(target.prototype, method, descriptor);
  ofArguments.forEach((apply, i) => {
    apply(target.prototype, method, i);
  });
}

/** A controller of the path; its class may have decorators of its own. */
export function controllerOf(path: string, target: Type, decorators: readonly ClassDecorator[] = []): Type {
  Controller(path)(target);
  for (const apply of decorators) apply(target);
  return target;
}

/** A limiter in memory on a simulated clock, whose store can fail. */
export async function openLimiter() {
  const clock = new SimulatedClock(T0);
  const faults = new FaultStore(openMemory(), {});
  const limiter = await RateLimiter.open({ store: faults, clock });
  return { clock, faults, limiter };
}

export interface NestApp {
  readonly app: INestApplication;
  readonly url: string;
  /** Each lease that was closed, in the order in which that happened; waits for it. */
  nextClosed(): Promise<ClosedRequest>;
}

/** Starts an application: the guard is bound to all handlers, or to the controllers alone. */
export async function startNest(
  t: TestContext,
  { adapter }: Platform,
  options: NestModuleOptions,
  controllers: readonly Type[],
  { bound = "application" as "application" | "controllers", prepare = (_: INestApplication): void => {} } = {},
): Promise<NestApp> {
  const closed: ClosedRequest[] = [];
  const waiting: ((one: ClosedRequest) => void)[] = [];
  class AppModule {}
  if (bound === "controllers") for (const each of controllers) UseGuards(RateLimitGuard)(each);
  Module({
    imports: [
      RateLimitModule.forRoot({
        onClosed: (one) => {
          const next = waiting.shift();
          if (next === undefined) closed.push(one);
          else next(one);
        },
        ...options,
      }),
    ],
    controllers: [...controllers],
    providers: bound === "application" ? [{ provide: APP_GUARD, useClass: RateLimitGuard }] : [],
  })(AppModule);
  const app = await NestFactory.create(AppModule, adapter() as ExpressAdapter, { logger: false, abortOnError: false });
  prepare(app);
  await app.listen(0, "127.0.0.1");
  t.after(async () => {
    const server = app.getHttpServer();
    server.closeAllConnections();
    await app.close();
  });
  const { port } = app.getHttpServer().address() as AddressInfo;
  return {
    app,
    url: `http://127.0.0.1:${port}`,
    nextClosed: () =>
      new Promise((resolve) => {
        const one = closed.shift();
        if (one === undefined) waiting.push(resolve);
        else resolve(one);
      }),
  };
}

/** A request whose client hangs up as soon as the server has it. */
export function hangUp(url: string, begun: Promise<unknown>): Promise<void> {
  return new Promise((resolve) => {
    const request = httpRequest(url);
    request.on("error", () => resolve());
    request.end();
    void begun.then(() => request.destroy());
  });
}
