import assert from "node:assert/strict";
import { test } from "node:test";
import {
  ConflictError,
  ExistsError,
  LeaseClosed,
  LimiterError,
  NotFoundError,
  RateLimitExceeded,
  RateLimiterUnavailable,
  ResourceDisabled,
  ValidationError,
  VersionError,
} from "./errors.ts";
import type { Status } from "./status.ts";

function status(given: Partial<Status>): Status {
  return {
    entityId: "key-1",
    resource: "gpt-4",
    limit: "rpm",
    available: 0,
    capacity: 100,
    requested: 1,
    exceeded: true,
    kind: "drip",
    soft: false,
    retryAfterMs: 600,
    ...given,
  };
}

test("every error is a LimiterError, has a name of its own and keeps its cause", () => {
  const cause = new Error("disk on fire");
  for (const Kind of [ValidationError, NotFoundError, ExistsError, ConflictError, LeaseClosed, VersionError]) {
    const error = new Kind("some_code", "A sentence.", { cause });
    assert.ok(error instanceof LimiterError && error instanceof Error);
    assert.equal(error.name, Kind.name);
    assert.equal(error.code, "some_code");
    assert.equal(error.cause, cause);
    assert.deepEqual(error.toJSON(), { error: "some_code", message: "A sentence." });
  }
  const unavailable = new RateLimiterUnavailable("No answer within 1000 ms.", { cause });
  assert.deepEqual(
    [unavailable.code, unavailable.cause, unavailable.name],
    ["unavailable", cause, "RateLimiterUnavailable"],
  );
});

test("an error without a cause has none, not an undefined one", () => {
  assert.equal(Object.hasOwn(new ValidationError("c", "m"), "cause"), false);
});

test("a disabled resource names entity, resource and the level that switched it off", () => {
  const error = new ResourceDisabled({ entityId: "key-1", resource: "gpt-4", level: "resource" });
  assert.equal(error.code, "resource_disabled");
  assert.match(error.message, /gpt-4 is disabled for key-1 \(resource\)/);
  assert.deepEqual([error.entityId, error.resource, error.level], ["key-1", "gpt-4", "resource"]);
});

test("a refusal shows every status, and which of them stood in the way, on which level", () => {
  const fine = status({ limit: "tpm", exceeded: false, available: 500, retryAfterMs: 0 });
  const own = status({});
  const parents = status({ entityId: "proj-1", retryAfterMs: 60_001 });
  const error = new RateLimitExceeded({ statuses: [fine, own, parents], primary: parents, retryAfterMs: 60_001 });
  assert.equal(error.code, "rate_limit_exceeded");
  assert.deepEqual(error.statuses, [fine, own, parents]);
  assert.deepEqual(error.violations, [own, parents]);
  assert.equal(error.primary, parents);
  assert.equal(error.message, "Rate limit exceeded for proj-1 on gpt-4: key-1:rpm, rpm; retry after 60001 ms.");
});

test("the Retry-After header is rounded up: nobody is told to come too early, or at once", () => {
  const seconds = (retryAfterMs: number) =>
    new RateLimitExceeded({ statuses: [status({})], primary: status({}), retryAfterMs }).retryAfterSeconds;
  assert.deepEqual([1, 999, 1000, 1001, 60_000].map(seconds), [1, 1, 1, 2, 60]);
});

test("a refusal survives JSON, with never written as null", () => {
  const never = status({ retryAfterMs: Number.POSITIVE_INFINITY });
  const error = new RateLimitExceeded({ statuses: [never], primary: never, retryAfterMs: Number.POSITIVE_INFINITY });
  const json = JSON.parse(JSON.stringify(error));
  assert.equal(json.error, "rate_limit_exceeded");
  assert.deepEqual([json.retryAfterMs, json.retryAfterSeconds, json.primary.retryAfterMs], [null, null, null]);
  assert.deepEqual(json.statuses, [{ ...never, retryAfterMs: null }]);
  assert.match(error.message, /will not fit/);
});

test("the problem document says 429, the sentence and each violated limit once", () => {
  const own = status({});
  const parents = status({ entityId: "proj-1" });
  const problem = new RateLimitExceeded({ statuses: [own, parents], primary: own, retryAfterMs: 600 }).toProblem();
  assert.equal(problem.status, 429);
  assert.match(String(problem.type), /^https:/);
  assert.match(String(problem.detail), /^Rate limit exceeded for key-1 on gpt-4/);
  assert.deepEqual(problem["violated-policies"], ["rpm"]);
  assert.equal(problem.retryAfterMs, 600);
  assert.doesNotThrow(() => JSON.stringify(problem));
});
