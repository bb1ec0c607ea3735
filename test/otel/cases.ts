import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { describe, type TestContext, test } from "node:test";
import { setImmediate as nextTurn } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { context, metrics, trace } from "@opentelemetry/api";
import { DataPointType } from "@opentelemetry/sdk-metrics";
import { inShadow } from "../../src/engine/refusal/refused.ts";
import { createTable, deleteTable } from "../../src/entry/dynamodb.ts";
import { CHANNELS, Limit, RateLimiter } from "../../src/entry/index.ts";
import { openMemory } from "../../src/entry/memory.ts";
import { instrument } from "../../src/entry/otel.ts";
import { createService } from "../../src/entry/server.ts";
import { FaultStore } from "../../src/testing/fault-store.ts";
import { SimulatedClock } from "../../src/testing/simulated-clock.ts";
import { describeDynamo } from "../dynamodb/dynamodb-local.ts";
import { heard } from "../limiter/listening.ts";
import { tempFile } from "../sqlite/temp-store.ts";
import { keepContext, openMetrics, openTraces } from "./otel-kit.ts";

const NOW_MS = 1_800_000_000_000;
const gpt = { entityId: "key-1", resource: "gpt-4" } as const;
const AT = "namespace=default resource=gpt-4";

interface Versions {
  readonly api: string;
  readonly metrics: string;
  readonly traces: string;
}

/** Every row of the table of instruments, with the packages of the SDK that are imported here. */
export async function otelCases(versions: Versions | "those installed"): Promise<void> {
  if (versions !== "those installed") {
    test("the packages are those that are meant", () => {
      const oldest = createRequire(new URL("../oldest/package.json", import.meta.url));
      const versionOf = (name: string) => {
        const file = oldest.resolve(name).replace(/\/build\/.*$/, "/package.json");
        assert.equal(oldest.resolve(name).startsWith(new URL("../oldest/", import.meta.url).pathname), true, file);
        return oldest(file).version;
      };
      assert.deepEqual(
        {
          api: versionOf("@opentelemetry/api"),
          metrics: versionOf("@opentelemetry/sdk-metrics"),
          traces: versionOf("@opentelemetry/sdk-trace-base"),
        },
        versions,
      );
      assert.equal(trace, oldest("@opentelemetry/api").trace);
    });
  }

  describe("what requests come to, on every store", () => {
    test("in memory", async (t) => {
      await story(t, "memory", { store: "memory" });
    });

    test("on SQLite", async (t) => {
      const store = `sqlite:${tempFile(t)}`;
      await story(t, store, { store });
    });
  });

  await describeDynamo("OpenTelemetry on DynamoDB", ({ endpoint }) => {
    const way = { region: "eu-west-1", endpoint, credentials: { accessKeyId: "test", secretAccessKey: "test" } };

    test("requests, tokens and leases are counted as on other stores", async (t) => {
      const stack = `test-otel-${process.pid}`;
      await createTable({ ...way, stack });
      t.after(() => deleteTable({ ...way, stack }));
      const store = `dynamodb:${stack}`;
      const limiter = await RateLimiter.open({ store, ...way, timeoutMs: 10_000 });
      t.after(() => limiter.close());
      await limiter.setResourceDefaults("gpt-4", [Limit.perDay("rpd", 3), Limit.perDay("tpd", 6_000)]);
      const { meterProvider, read } = openMetrics(t);
      const instruments = instrument({ meterProvider });
      await limiter.withLease({ ...gpt, consume: { rpd: 1, tpd: 500 } }, (lease) => lease.adjust({ tpd: 250 }));
      await (await limiter.acquire({ ...gpt, consume: { rpd: 1, tpd: 100 } })).rollback();
      const open = await limiter.acquire({ ...gpt, consume: { rpd: 2 } });
      assert.equal((await limiter.tryAcquire({ ...gpt, consume: { rpd: 1 } })).ok, false);
      assert.equal((await read())["zae_limiter.active_leases"]?.[AT], 1);
      await open.settle();
      instruments.stop();
      const all = await read();
      assert.deepEqual(all["zae_limiter.requests"], {
        [`${AT} result=acquired`]: 3,
        [`level=0 limit=rpd ${AT} result=refused`]: 1,
      });
      assert.deepEqual(all["zae_limiter.tokens"], {
        [`direction=taken limit=rpd ${AT}`]: 4,
        [`direction=taken limit=tpd ${AT}`]: 850,
        [`direction=given_back limit=rpd ${AT}`]: 1,
        [`direction=given_back limit=tpd ${AT}`]: 100,
      });
      assert.equal(all["zae_limiter.active_leases"]?.[AT], 0);
      const took = all["zae_limiter.acquire.duration"] ?? {};
      assert.deepEqual(Object.keys(took), [`result=acquired store=${store}`, `result=refused store=${store}`]);
      for (const reading of Object.values(took)) assert.ok(((reading as readonly number[])[1] as number) > 0);
      assert.equal(all["aws.dynamodb.consumed_capacity"], undefined);
    });

    test("what calls cost is asked for and recorded only if somebody wants it: one unit for a take", async (t) => {
      const stack = `test-otel-cost-${process.pid}`;
      await createTable({ ...way, stack });
      t.after(() => deleteTable({ ...way, stack }));
      const limiter = await RateLimiter.open({ store: `dynamodb:${stack}`, ...way, timeoutMs: 10_000 });
      t.after(() => limiter.close());
      await limiter.setResourceDefaults("gpt-4", [Limit.perMinute("rpm", 60)]);
      for (let i = 0; i < 2; i++) await limiter.acquire({ ...gpt, consume: { rpm: 1 } });
      const { meterProvider, read } = openMetrics(t);
      const instruments = instrument({ meterProvider, consumedCapacity: true });
      const calls = heard(t, CHANNELS.consumedCapacity);
      await limiter.acquire({ ...gpt, consume: { rpm: 1 } });
      assert.deepEqual(calls, [{ operation: "UpdateItem", table: stack, units: 1 }]);
      instruments.stop();
      assert.deepEqual((await read())["aws.dynamodb.consumed_capacity"], {
        [`aws.dynamodb.table_names=${stack}`]: [1, 1],
      });
    });
  });

  test("an outage is counted by what the limiter did: blocked, or let through and degraded", async (t) => {
    const { meterProvider, read } = openMetrics(t);
    const instruments = instrument({ meterProvider });
    t.after(() => instruments.stop());
    const store = new FaultStore(openMemory(), {});
    const blocking = await RateLimiter.open({ store });
    await blocking.setSystemDefaults([Limit.perMinute("rpm", 60)]);
    const allowing = await RateLimiter.open({ store, onUnavailable: "allow" });
    await Promise.all([blocking.available(gpt), allowing.available(gpt)]);
    store.failNext("take", "refused");
    await assert.rejects(blocking.acquire({ ...gpt, consume: { rpm: 1 } }), { code: "unavailable" });
    store.failNext("take", "refused");
    await allowing.withLease({ ...gpt, consume: { rpm: 1 } }, () => {});
    const all = await read();
    assert.deepEqual(all["zae_limiter.requests"], {
      [`${AT} result=unavailable`]: 1,
      [`${AT} result=acquired`]: 1,
    });
    assert.deepEqual(all["zae_limiter.degraded"], { "reason=store_unavailable": 1 });
    assert.deepEqual(all["zae_limiter.active_leases"], { [AT]: 0 });
  });

  test("the instruments have the units of the table, and histograms the bounds of /metrics", async (t) => {
    const { meterProvider, collect } = openMetrics(t);
    const { limiter, clock } = await openLimiter();
    t.after(() => limiter.close());
    const instruments = instrument({ meterProvider });
    t.after(() => instruments.stop());
    await limiter.setAccess({ resource: "off" }, "disabled");
    await play(limiter, clock);
    const [scope] = await collect();
    assert.equal(scope?.scope.name, "zae-limiter");
    assert.match(scope?.scope.version ?? "", /^\d+\.\d+\.\d+/);
    const units = scope?.metrics.map((metric) => {
      const { name, unit } = metric.descriptor;
      const isSum = metric.dataPointType === DataPointType.SUM;
      return [name, unit, !isSum ? "histogram" : metric.isMonotonic ? "counter" : "up-down counter"].join(" ");
    });
    assert.deepEqual(units?.sort(), [
      "zae_limiter.acquire.duration s histogram",
      "zae_limiter.active_leases {lease} up-down counter",
      "zae_limiter.lease.duration s histogram",
      "zae_limiter.queued_requests {request} up-down counter",
      "zae_limiter.request.time_in_queue s histogram",
      "zae_limiter.requests {request} counter",
      "zae_limiter.tokens {token} counter",
    ]);
    const duration = scope?.metrics.find(({ descriptor }) => descriptor.name === "zae_limiter.acquire.duration");
    const value = duration?.dataPoints[0]?.value as
      | { readonly buckets?: { readonly boundaries: number[] } }
      | undefined;
    assert.equal(value?.buckets?.boundaries[0], 0.0005);
  });

  test("a refusal in shadow mode has a result of its own", async (t) => {
    const { meterProvider, read } = openMetrics(t);
    const { limiter } = await openLimiter();
    t.after(() => limiter.close());
    await limiter.tryAcquire({ ...gpt, consume: { rpm: 60 } });
    const instruments = instrument({ meterProvider });
    t.after(() => instruments.stop());
    await limiter.tryAcquire(inShadow({ ...gpt, consume: { rpm: 1 } }));
    assert.deepEqual((await read())["zae_limiter.requests"], {
      [`level=0 limit=rpm ${AT} result=shadow_refused`]: 1,
    });
  });

  test("the limit that refused is told with its level: of the parent it is 1", async (t) => {
    const { meterProvider, read } = openMetrics(t);
    const instruments = instrument({ meterProvider });
    t.after(() => instruments.stop());
    await using limiter = await RateLimiter.open({ store: "memory", clock: new SimulatedClock(NOW_MS) });
    await limiter.createEntity({ id: "org" });
    await limiter.createEntity({ id: "key-1", parentId: "org", cascade: true });
    await limiter.setResourceDefaults("gpt-4", [Limit.perMinute("rpm", 60)]);
    await limiter.setLimits("org", [Limit.perMinute("rpm", 1)], { resource: "gpt-4" });
    await limiter.acquire({ ...gpt, consume: { rpm: 1 } });
    await limiter.tryAcquire({ ...gpt, consume: { rpm: 1 } });
    assert.equal((await read())["zae_limiter.requests"]?.[`level=1 limit=rpm ${AT} result=refused`], 1);
  });

  test("ids of entities are attributes only where they were asked for", async (t) => {
    for (const [entityId, expected] of [
      [false, { [`${AT} result=acquired`]: 2 }],
      [true, { [`entity_id=key-1 ${AT} result=acquired`]: 1, [`entity_id=key-2 ${AT} result=acquired`]: 1 }],
    ] as const) {
      const { meterProvider, read } = openMetrics(t);
      const { limiter } = await openLimiter();
      const instruments = instrument({ meterProvider, entityId });
      for (const id of ["key-1", "key-2"]) await limiter.acquire({ ...gpt, entityId: id, consume: { rpm: 1 } });
      instruments.stop();
      await limiter.close();
      assert.deepEqual((await read())["zae_limiter.requests"], expected);
    }
  });

  test("after 200 resources further ones are other: whoever makes up names floods no collector", async (t) => {
    const { meterProvider, read } = openMetrics(t);
    const instruments = instrument({ meterProvider });
    t.after(() => instruments.stop());
    await using limiter = await RateLimiter.open({ store: "memory" });
    await limiter.setSystemDefaults([Limit.perMinute("rpm", 60)]);
    for (let i = 0; i < 230; i++) {
      await limiter.acquire({ entityId: "key-1", resource: `r-${i}`, consume: { rpm: 1 } });
    }
    const requests = (await read())["zae_limiter.requests"] ?? {};
    assert.equal(Object.keys(requests).length, 201);
    assert.equal(requests["namespace=default resource=other result=acquired"], 30);
    assert.equal(requests["namespace=default resource=r-199 result=acquired"], 1);
  });

  test("a lease that is dropped without being closed is no longer active once it is collected", async (t) => {
    const { meterProvider, read } = openMetrics(t);
    const { limiter } = await openLimiter();
    t.after(() => limiter.close());
    const instruments = instrument({ meterProvider });
    t.after(() => instruments.stop());
    const active = async () => (await read())["zae_limiter.active_leases"]?.[AT];
    await (async () => {
      for (let i = 0; i < 10; i++) await limiter.acquire({ ...gpt, consume: { rpm: 1 } });
    })();
    const kept = await limiter.acquire({ ...gpt, consume: { rpm: 1 } });
    setFlagsFromString("--expose-gc");
    const gc = runInNewContext("gc") as () => void;
    while ((await active()) !== 1) {
      gc();
      await nextTurn();
    }
    await kept.settle();
    assert.equal(await active(), 0);
  });

  test("a lease from before is not counted as ended, and after stop nothing is counted or left open", async (t) => {
    const { meterProvider, read } = openMetrics(t);
    const { limiter, clock } = await openLimiter();
    t.after(() => limiter.close());
    const before = await limiter.acquire({ ...gpt, consume: { rpm: 1 } });
    const instruments = instrument({ meterProvider });
    await before.settle();
    const kept = await limiter.acquire({ ...gpt, consume: { rpm: 59 } });
    assert.equal((await read())["zae_limiter.active_leases"]?.[AT], 1);
    const waiting = limiter.acquire({ ...gpt, consume: { rpm: 1 }, wait: { maxMs: 5_000 } });
    await clock.advance(0);
    assert.equal((await read())["zae_limiter.queued_requests"]?.[AT], 1);
    instruments.stop();
    instruments.stop();
    const stopped = await read();
    assert.equal(stopped["zae_limiter.active_leases"]?.[AT], 0);
    assert.equal(stopped["zae_limiter.queued_requests"]?.[AT], 0);
    await kept.settle();
    await clock.advance(5_000);
    await waiting;
    assert.deepEqual(await read(), stopped);
  });

  test("a service in the same process: its leases are told by id, those charged at once are not left open", async (t) => {
    const { meterProvider, read } = openMetrics(t);
    const instruments = instrument({ meterProvider });
    t.after(() => instruments.stop());
    const { limiter, clock } = await openLimiter();
    const service = await createService({ limiter, open: true });
    t.after(async () => {
      await service.close();
      await limiter.close();
    });
    const post = (path: string, body: object) =>
      service
        .fetch(
          new Request(`http://localhost/v1/namespaces/default/${path}`, {
            method: "POST",
            headers: { "content-type": "application/json" },
            body: JSON.stringify(body),
          }),
        )
        .then((answer) => answer.json() as Promise<{ leaseId: string }>);
    await post("acquire", { ...gpt, consume: { rpm: 1 }, holdMs: 0 });
    const { leaseId } = await post("acquire", { ...gpt, consume: { rpm: 1 }, holdMs: 60_000 });
    assert.equal((await read())["zae_limiter.active_leases"]?.[AT], 1);
    await clock.advance(2_000);
    await post(`leases/${leaseId}/settle`, {});
    const all = await read();
    assert.equal(all["zae_limiter.active_leases"]?.[AT], 0);
    assert.deepEqual(all["zae_limiter.lease.duration"], { [`${AT} status=settled`]: [2, 2] });
    assert.deepEqual(all["zae_limiter.requests"], { [`${AT} result=acquired`]: 2 });
  });

  test("without a provider the registered one is used", async (t) => {
    const { meterProvider, read } = openMetrics(t);
    metrics.setGlobalMeterProvider(meterProvider);
    t.after(() => metrics.disable());
    const { limiter } = await openLimiter();
    t.after(() => limiter.close());
    const instruments = instrument();
    t.after(() => instruments.stop());
    await limiter.acquire({ ...gpt, consume: { rpm: 1 } });
    assert.deepEqual((await read())["zae_limiter.requests"], { [`${AT} result=acquired`]: 1 });
  });

  test("spans are made only with a tracer provider, below what is active, and a refusal is no error", async (t) => {
    keepContext(t);
    const { tracerProvider, spans } = openTraces(t);
    const { meterProvider } = openMetrics(t);
    const { limiter, clock } = await openLimiter();
    t.after(() => limiter.close());
    const silent = instrument({ meterProvider });
    await limiter.acquire({ ...gpt, consume: { rpm: 1 } });
    silent.stop();
    assert.deepEqual(spans(), []);
    const instruments = instrument({ meterProvider, tracerProvider });
    t.after(() => instruments.stop());
    const parent = tracerProvider.getTracer("test").startSpan("a request");
    await context.with(trace.setSpan(context.active(), parent), async () => {
      await limiter.acquire({ ...gpt, consume: { rpm: 59 }, requestId: "r1" });
      const waiting = limiter.tryAcquire({ ...gpt, consume: { rpm: 2 }, wait: { maxMs: 500 } });
      await clock.advance(500);
      await waiting;
    });
    const seen = spans().map(({ name, attributes, status, duration, spanContext, ...span }) => {
      const { parentSpanId } = span as { parentSpanId?: string };
      const { parentSpanContext } = span as { parentSpanContext?: { spanId: string } };
      const above = parentSpanId ?? parentSpanContext?.spanId;
      return { name, attributes, code: status.code, seconds: duration[0] + duration[1] / 1e9, above };
    });
    const shared = {
      "zae_limiter.resource": "gpt-4",
      "zae_limiter.namespace": "default",
      "zae_limiter.store": "memory",
    };
    const above = parent.spanContext().spanId;
    const span = { name: "zae_limiter.acquire", code: 0, above };
    assert.deepEqual(seen, [
      {
        ...span,
        seconds: 0,
        attributes: { ...shared, "zae_limiter.result": "acquired", "zae_limiter.request_id": "r1" },
      },
      { ...span, seconds: 0.5, attributes: { ...shared, "zae_limiter.result": "refused" } },
    ]);
  });

  test("the span of an outage is an error, with its type", async (t) => {
    const { tracerProvider, spans } = openTraces(t);
    const { meterProvider } = openMetrics(t);
    const instruments = instrument({ meterProvider, tracerProvider, entityId: true });
    t.after(() => instruments.stop());
    const store = new FaultStore(openMemory(), {});
    const limiter = await RateLimiter.open({ store });
    await limiter.setSystemDefaults([Limit.perMinute("rpm", 60)]);
    await limiter.available(gpt);
    store.failNext("take", "refused");
    await assert.rejects(limiter.acquire({ ...gpt, consume: { rpm: 1 } }), { code: "unavailable" });
    const [span] = spans();
    assert.equal(span?.status.code, 2);
    assert.equal(span?.attributes["error.type"], "RateLimiterUnavailable");
    assert.equal(span?.attributes["zae_limiter.entity_id"], "key-1");
  });

  test("wrong options are refused with the remedy", () => {
    for (const [options, code] of [
      [{ meter: {} }, "option_unknown"],
      [{ meterProvider: {} }, "option_invalid"],
      [{ tracerProvider: null }, "option_invalid"],
      [{ entityId: "yes" }, "option_invalid"],
      [undefined as never, undefined],
    ] as const) {
      if (code === undefined) instrument(options).stop();
      else assert.throws(() => instrument(options as never), { code });
    }
  });
}

async function openLimiter() {
  const clock = new SimulatedClock(NOW_MS);
  const limiter = await RateLimiter.open({ store: "memory", clock });
  await limiter.setResourceDefaults("gpt-4", [Limit.perMinute("rpm", 60), Limit.perMinute("tpm", 6_000)]);
  return { limiter, clock };
}

/** Requests with every result that needs no fault, leases that end in every way, and a wait of two seconds. */
async function play(limiter: RateLimiter, clock: SimulatedClock): Promise<void> {
  await limiter.withLease({ ...gpt, consume: { rpm: 1, tpm: 500 } }, async (lease) => {
    await clock.advance(3_000);
    await lease.adjust({ tpm: 250 });
  });
  const back = await limiter.acquire({ ...gpt, consume: { rpm: 1, tpm: 100 } });
  await back.rollback();
  const emptied = await limiter.acquire({ ...gpt, consume: { rpm: 60 } });
  assert.equal((await limiter.tryAcquire({ ...gpt, consume: { rpm: 1 } })).ok, false);
  const waiting = limiter.acquire({ ...gpt, consume: { rpm: 2 }, wait: { maxMs: 10_000 } });
  await clock.advance(2_000);
  const waited = await waiting;
  const leaving = new AbortController();
  const gone = limiter.acquire({ ...gpt, consume: { rpm: 9 }, wait: { maxMs: 10_000 }, signal: leaving.signal });
  await clock.advance(1_000);
  leaving.abort();
  await assert.rejects(gone, { name: "AbortError" });
  const off = { ...gpt, resource: "off", consume: { rpm: 1 } };
  await assert.rejects(limiter.acquire(off), { code: "resource_disabled" });
  await emptied.settle();
  await waited.settle();
}

async function story(
  t: TestContext,
  store: string,
  options: NonNullable<Parameters<typeof RateLimiter.open>[0]>,
): Promise<void> {
  const { meterProvider, read } = openMetrics(t);
  const clock = new SimulatedClock(NOW_MS);
  const limiter = await RateLimiter.open({ ...options, clock });
  t.after(() => limiter.close());
  await limiter.setResourceDefaults("gpt-4", [Limit.perMinute("rpm", 60), Limit.perMinute("tpm", 6_000)]);
  await limiter.setAccess({ resource: "off" }, "disabled");
  const instruments = instrument({ meterProvider });
  await play(limiter, clock);
  instruments.stop();
  const { "zae_limiter.acquire.duration": took = {}, ...others } = await read();
  assert.deepEqual(others, {
    "zae_limiter.requests": {
      [`${AT} result=acquired`]: 4,
      [`level=0 limit=rpm ${AT} result=refused`]: 1,
      [`${AT} result=canceled`]: 1,
      "namespace=default resource=off result=disabled": 1,
    },
    "zae_limiter.tokens": {
      [`direction=taken limit=rpm ${AT}`]: 64,
      [`direction=taken limit=tpm ${AT}`]: 850,
      [`direction=given_back limit=rpm ${AT}`]: 1,
      [`direction=given_back limit=tpm ${AT}`]: 100,
    },
    "zae_limiter.active_leases": { [AT]: 0 },
    "zae_limiter.lease.duration": { [`${AT} status=settled`]: [3, 7], [`${AT} status=rolledBack`]: [1, 0] },
    "zae_limiter.queued_requests": { [AT]: 0 },
    "zae_limiter.request.time_in_queue": { [AT]: [2, 3] },
  });
  const counts = Object.entries(took).map(([series, reading]) => [series, (reading as readonly number[])[0]]);
  assert.deepEqual(Object.fromEntries(counts), {
    [`result=acquired store=${store}`]: 4,
    [`result=refused store=${store}`]: 1,
    [`result=canceled store=${store}`]: 1,
    [`result=disabled store=${store}`]: 1,
  });
}
