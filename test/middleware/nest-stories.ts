import assert from "node:assert/strict";
import { test } from "node:test";
import {
  type ArgumentsHost,
  Catch,
  Get,
  HttpException,
  Injectable,
  NotFoundException,
  Req,
  Sse,
  type Type,
} from "@nestjs/common";
import { Observable } from "rxjs";
import { currentLease, type Lease, Limit, RateLimitExceeded, ValidationError } from "../../src/entry/index.ts";
import {
  CurrentLease,
  type NestRateLimitOptions,
  RateLimit,
  RateLimitModule,
  SkipRateLimit,
} from "../../src/entry/nest.ts";
import { controllerOf, decorate, hangUp, openLimiter, PLATFORMS, startNest } from "./nest-kit.ts";

const limits = [Limit.perMinute("rpm", 2)];
const key = () => "ada";

/** What the guard and the decorators do in an application, over HTTP, on both platforms of Nest. */
export function tellNestStories(version: string): void {
  for (const platform of PLATFORMS) {
    const on = `Nest ${version} on ${platform.platform}`;

    for (const bound of ["application", "controllers"] as const) {
      test(`${on}: a guard of the ${bound} refuses with 429, header fields and a problem`, async (t) => {
        const { limiter } = await openLimiter();
        let calls = 0;
        const cats = catsOf({ all: () => `cats ${++calls}` });
        const { url } = await startNest(t, platform, { limiter, limits, key }, [cats], { bound });
        const first = await fetch(`${url}/cats`);
        assert.equal(first.status, 200);
        assert.equal(first.headers.get("ratelimit"), '"rpm";r=1;t=30');
        assert.equal(first.headers.get("ratelimit-policy"), '"rpm";q=2;w=60');
        assert.equal(await first.text(), "cats 1");
        await fetch(`${url}/cats`);
        const refused = await fetch(`${url}/cats`);
        assert.equal(refused.status, 429);
        assert.match(refused.headers.get("content-type") ?? "", /^application\/problem\+json/);
        assert.equal(refused.headers.get("retry-after"), "30");
        assert.equal(refused.headers.get("ratelimit"), '"rpm";r=0;t=30');
        const problem = (await refused.json()) as Record<string, unknown>;
        assert.equal(problem.status, 429);
        assert.deepEqual(problem["violated-policies"], ["rpm"]);
        assert.equal(calls, 2, "the handler of a refused request does not run");
      });
    }

    test(`${on}: the key is the client's address unless it is given`, async (t) => {
      const { limiter } = await openLimiter();
      const refused: string[] = [];
      const options = {
        limiter,
        limits,
        onRefused: ({ entityId }: { entityId: string }) => void refused.push(entityId),
      };
      const { url } = await startNest(t, platform, options, [catsOf({ all: () => "cats" })]);
      for (let i = 0; i < 3; i++) await fetch(`${url}/cats`);
      assert.deepEqual(refused, ["ip-127.0.0.1"]);
    });

    test(`${on}: decorators of a handler go over those of its controller, and both over forRoot`, async (t) => {
      const { limiter } = await openLimiter();
      const cats = catsOf(
        { all: () => "cats", one: () => "cat", free: () => "free" },
        {
          all: [RateLimit({ consume: { rpm: 2 } })],
          free: [SkipRateLimit()],
        },
        [RateLimit({ resource: "cats" })],
      );
      const dogs = controllerOf("dogs", methods({ all: () => "dogs", paid: () => "paid", again: () => "again" }), [
        SkipRateLimit(),
      ]);
      decorate(dogs, "all", [Get()]);
      decorate(dogs, "paid", [Get("paid"), RateLimit({ resource: "dogs" })]);
      decorate(dogs, "again", [Get("again"), SkipRateLimit(false)]);
      const { url } = await startNest(t, platform, { limiter, limits, key }, [cats, dogs]);
      const left = async (path: string) => (await fetch(`${url}/${path}`)).headers.get("ratelimit");
      assert.equal(await left("cats"), '"rpm";r=0;t=60', "2 of the resource of the controller");
      assert.equal((await fetch(`${url}/cats/one`)).status, 429, "the same resource");
      assert.equal(await left("cats/free"), null);
      assert.equal(await left("dogs"), null);
      assert.equal(await left("dogs/paid"), '"rpm";r=1;t=30');
      assert.equal(await left("dogs/again"), '"rpm";r=1;t=30', "the resource of forRoot");
    });

    test(`${on}: a handler that two controllers inherit is limited by the decorators of each`, async (t) => {
      const { limiter } = await openLimiter();
      class Base {
        all() {
          return "all";
        }
      }
      decorate(Base, "all", [Get()]);
      const cats = controllerOf("cats", class extends Base {}, [RateLimit({ resource: "cats" })]);
      const dogs = controllerOf("dogs", class extends Base {}, [RateLimit({ resource: "dogs", consume: { rpm: 2 } })]);
      const { url } = await startNest(t, platform, { limiter, limits, key }, [cats, dogs]);
      assert.equal((await fetch(`${url}/cats`)).headers.get("ratelimit"), '"rpm";r=1;t=30');
      assert.equal((await fetch(`${url}/dogs`)).headers.get("ratelimit"), '"rpm";r=0;t=60');
    });

    test(`${on}: the lease is at req.lease, @CurrentLease() and currentLease(), also in what the handler awaits`, async (t) => {
      const { limiter } = await openLimiter();
      class Chat {
        async one(lease: Lease, req: { lease?: Lease }) {
          await new Promise((resolve) => setImmediate(resolve));
          await currentLease()?.adjust({ tpm: -400 });
          return { isOne: lease === req.lease && lease === currentLease(), consumed: lease.consumed };
        }
        free(lease: unknown) {
          return { lease: lease === undefined, current: currentLease() === undefined };
        }
      }
      decorate(Chat, "one", [Get()], [CurrentLease(), Req()]);
      decorate(Chat, "free", [Get("free"), SkipRateLimit()], [CurrentLease()]);
      const options = { limiter, key, limits: [Limit.perMinute("tpm", 1_000)], consume: { tpm: 500 } };
      const { url, nextClosed } = await startNest(t, platform, options, [controllerOf("chat", Chat)]);
      assert.deepEqual(await (await fetch(`${url}/chat`)).json(), { isOne: true, consumed: { tpm: 100 } });
      const { lease, outcome } = await nextClosed();
      assert.deepEqual([lease.status, outcome], ["settled", { kind: "finished", status: 200 }]);
      assert.equal(await heldOf(limiter), 900);
      assert.deepEqual(await (await fetch(`${url}/chat/free`)).json(), { lease: true, current: true });
    });

    test(`${on}: a lease is settled below 500 and given back from there on`, async (t) => {
      const { limiter } = await openLimiter();
      const cats = catsOf({
        all: () => "cats",
        lost: () => {
          throw new NotFoundException();
        },
        broken: () => {
          throw new Error("broken");
        },
        shut: () => currentLease()?.rollback(),
      });
      const { url, nextClosed } = await startNest(t, platform, { limiter, limits: [TPM], key }, [cats]);
      for (const [path, status, left] of [
        ["cats", 200, 999],
        ["cats/lost", 404, 998],
        ["cats/broken", 500, 998],
        ["cats/shut", 200, 998],
      ] as const) {
        assert.equal((await fetch(`${url}/${path}`)).status, status);
        assert.deepEqual((await nextClosed()).outcome, { kind: "finished", status });
        assert.equal(await heldOf(limiter), left, path);
      }
    });

    for (const giveBackOn of [["error"], ["error", "disconnect"]] as const) {
      test(`${on}: of a client that left, with giveBackOn ${giveBackOn.join(" and ")}`, async (t) => {
        const { limiter } = await openLimiter();
        let began = () => {};
        const begun = new Promise<void>((resolve) => {
          began = resolve;
        });
        const cats = catsOf({
          all: () => {
            began();
            return new Promise(() => {});
          },
        });
        const { url, nextClosed } = await startNest(t, platform, { limiter, limits: [TPM], key, giveBackOn }, [cats]);
        await hangUp(`${url}/cats`, begun);
        assert.deepEqual((await nextClosed()).outcome, { kind: "disconnected" });
        assert.equal(await heldOf(limiter), giveBackOn.length === 1 ? 999 : 1_000);
      });
    }

    test(`${on}: the lease is open while an event stream runs, and the current one in it`, async (t) => {
      const { limiter } = await openLimiter();
      let statusInside: string | undefined;
      class Events {
        stream() {
          return new Observable((subscriber) => {
            const lease = currentLease();
            subscriber.next({ data: "one" });
            setImmediate(() => {
              statusInside = lease?.status;
              subscriber.next({ data: "two" });
              subscriber.complete();
            });
          });
        }
      }
      decorate(Events, "stream", [Sse()]);
      const { url, nextClosed } = await startNest(t, platform, { limiter, limits, key }, [
        controllerOf("events", Events),
      ]);
      const answer = await fetch(`${url}/events`);
      assert.match(await answer.text(), /data: one[\s\S]*data: two/);
      assert.equal((await nextClosed()).lease.status, "settled");
      assert.equal(statusInside, "open");
    });

    test(`${on}: what is switched off is 403, an outage 503, both as problems`, async (t) => {
      const { limiter, faults } = await openLimiter();
      const cats = catsOf({ all: () => "cats" });
      const { url } = await startNest(t, platform, { limiter, limits, key }, [cats]);
      await fetch(`${url}/cats`);
      faults.failNext("take", "refused");
      const failed = await fetch(`${url}/cats`);
      assert.equal(failed.status, 503);
      assert.equal(failed.headers.get("retry-after"), "1");
      assert.equal(((await failed.json()) as { code: string }).code, "unavailable");
      await limiter.setAccess({ resource: "http" }, "disabled");
      const disabled = await fetch(`${url}/cats`);
      assert.equal(disabled.status, 403);
      assert.match(disabled.headers.get("content-type") ?? "", /^application\/problem\+json/);
      assert.equal(((await disabled.json()) as { code: string }).code, "resource_disabled");
    });

    test(`${on}: onUnavailable "allow" and shadow let requests pass`, async (t) => {
      const { limiter, faults } = await openLimiter();
      const told: boolean[] = [];
      const cats = catsOf({ all: () => "cats", seen: () => "seen" }, { seen: [RateLimit({ shadow: true })] });
      const onRefused = ({ shadow }: { shadow: boolean }) => void told.push(shadow);
      const options = { limiter, limits, key, onUnavailable: "allow" as const, onRefused };
      const { url } = await startNest(t, platform, options, [cats]);
      faults.failNext("take", "refused");
      assert.equal((await fetch(`${url}/cats`)).status, 200);
      for (let i = 0; i < 3; i++) assert.equal((await fetch(`${url}/cats/seen`)).status, 200);
      assert.deepEqual(told, [true]);
      assert.equal((await fetch(`${url}/cats`)).status, 429);
    });

    test(`${on}: without a key 400; what a function of the options throws goes to Nest, and nothing was taken`, async (t) => {
      const { limiter } = await openLimiter();
      const cats = catsOf(
        { none: () => "", thrown: () => "" },
        {
          none: [RateLimit({ key: () => undefined })],
          thrown: [
            RateLimit({
              key: () => {
                throw new HttpException("who are you", 401);
              },
            }),
          ],
        },
      );
      const { url } = await startNest(t, platform, { limiter, limits }, [cats]);
      const missing = await fetch(`${url}/cats/none`);
      assert.equal(missing.status, 400);
      assert.equal(((await missing.json()) as { code: string }).code, "key_missing");
      assert.equal((await fetch(`${url}/cats/thrown`)).status, 401);
      assert.equal((await limiter.listBuckets()).length, 0);
    });

    test(`${on}: a filter of the application gets the refusal as the cause`, async (t) => {
      const { limiter } = await openLimiter();
      class Filter {
        catch(error: HttpException, host: ArgumentsHost) {
          const { cause } = error;
          const response = host.switchToHttp().getResponse();
          const said = cause instanceof RateLimitExceeded ? `wait ${cause.retryAfterSeconds}` : "other";
          (response.raw ?? response).end(said);
        }
      }
      Injectable()(Filter);
      Catch(HttpException)(Filter);
      const cats = catsOf({ all: () => "cats" }, { all: [RateLimit({ consume: { rpm: 2 } })] });
      const { url } = await startNest(t, platform, { limiter, limits, key }, [cats], {
        prepare: (app) => void app.useGlobalFilters(new Filter()),
      });
      await fetch(`${url}/cats`);
      assert.equal(await (await fetch(`${url}/cats`)).text(), "wait 60");
    });

    test(`${on}: a wait ends when the client leaves; the handler does not run and nothing is taken`, async (t) => {
      const { limiter, clock } = await openLimiter();
      let calls = 0;
      const cats = catsOf({ all: () => ++calls });
      let caught = (_: number) => {};
      const status = new Promise<number>((resolve) => {
        caught = resolve;
      });
      class Filter {
        catch(error: HttpException, host: ArgumentsHost) {
          caught(error.getStatus());
          const response = host.switchToHttp().getResponse();
          (response.raw ?? response).end();
        }
      }
      Catch(HttpException)(Filter);
      let came = () => {};
      const arrived = new Promise<void>((resolve) => {
        came = resolve;
      });
      const options = {
        ...{ limiter, limits: [Limit.perMinute("rpm", 1)], wait: { maxMs: 60_000 } },
        key: () => {
          // The second is refused, and begins to wait, before this is told.
          if (calls > 0) setImmediate(came);
          return "ada";
        },
      };
      const { url } = await startNest(t, platform, options, [cats], {
        prepare: (app) => void app.useGlobalFilters(new Filter()),
      });
      assert.equal((await fetch(`${url}/cats`)).status, 200);
      await hangUp(`${url}/cats`, arrived);
      assert.equal(await status, 499);
      await clock.advance(60_000);
      assert.equal((await fetch(`${url}/cats`)).status, 200);
      assert.equal(calls, 2);
    });

    test(`${on}: without limits and consume, here and there, a request is one of the stored limits`, async (t) => {
      const { limiter } = await openLimiter();
      await limiter.setResourceDefaults("cats", [Limit.perMinute("rpm", 1, { counts: "requests" })]);
      const decorated = catsOf({ all: () => "cats" }, { all: [RateLimit({ resource: "cats" })] });
      const stored = await startNest(t, platform, { limiter, key }, [decorated]);
      for (const status of [200, 429]) assert.equal((await fetch(`${stored.url}/cats`)).status, status);
      const whole = catsOf({ all: () => "cats" }, { all: [RateLimit({ limits })] });
      const { url } = await startNest(t, platform, { limiter, key }, [whole]);
      assert.equal((await fetch(`${url}/cats`)).status, 200);
    });
  }

  test(`Nest ${version}: wrong options are refused where they are given`, async () => {
    const { limiter } = await openLimiter();
    const wrong = (options: unknown) => options as NestRateLimitOptions & { limiter: typeof limiter };
    assert.throws(() => RateLimit(wrong({ resorce: "cats" })), { code: "option_unknown" });
    assert.throws(() => RateLimit(wrong({ limits: [] })), { code: "limits_empty" });
    assert.throws(() => RateLimit(wrong(undefined)), ValidationError);
    assert.throws(() => RateLimitModule.forRoot(wrong({ limits })), { code: "limiter_invalid" });
    assert.throws(() => RateLimitModule.forRoot(wrong({ limiter, headers: "draft-3" })), { code: "option_invalid" });
    assert.throws(() => RateLimitModule.forRoot(wrong(undefined)), ValidationError);
  });
}

const TPM = Limit.perMinute("tpm", 1_000);

type Limiter = Awaited<ReturnType<typeof openLimiter>>["limiter"];

async function heldOf(limiter: Limiter): Promise<number | undefined> {
  const [held] = await limiter.available({ entityId: "ada", resource: "http", limits: [TPM] });
  return held?.available;
}

type Handlers = Readonly<Record<string, () => unknown>>;

function methods(handlers: Handlers): Type {
  class Handling {}
  for (const [name, value] of Object.entries(handlers)) {
    Object.defineProperty(Handling.prototype, name, { value, writable: true, configurable: true });
  }
  return Handling;
}

/** A controller of `cats`: `all` is its root, any other handler has its own name. */
function catsOf(
  handlers: Handlers,
  decorators: Readonly<Record<string, readonly MethodDecorator[]>> = {},
  ofClass: readonly ClassDecorator[] = [],
): Type {
  const cats = controllerOf("cats", methods(handlers), ofClass);
  for (const name of Object.keys(handlers)) {
    decorate(cats, name, [Get(name === "all" ? "" : name), ...(decorators[name] ?? [])]);
  }
  return cats;
}
