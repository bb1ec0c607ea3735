import assert from "node:assert/strict";
import { test } from "node:test";
import type { Status } from "../charge/status.ts";
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

function status(given: Partial<Status>): Status {
  return {
    entityId: "key-1",
    resource: "gpt-4",
    limit: "rpm",
    counts: "rpm",
    available: 0,
    capacity: 100,
    requested: 1,
    exceeded: true,
    kind: "drip",
    soft: false,
    shadow: false,
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
  assert.equal(error.message, "Rate limit exceeded for proj-1 on gpt-4: key-1:rpm, rpm; retry in 1 minute 1 second.");
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
  const statuses = [status({}), status({ resource: "gpu" }), status({ entityId: "proj-1", capacity: 7_331 })];
  const [own] = statuses as [Status];
  const error = new RateLimitExceeded({ statuses, primary: own, retryAfterMs: 600 });
  const problem = error.toProblem();
  assert.equal(problem.status, 429);
  assert.match(String(problem.type), /^https:/);
  assert.equal(problem.detail, "Rate limit exceeded for key-1 on gpt-4: rpm, gpu/rpm, rpm^1; retry in 1 second.");
  assert.deepEqual(problem["violated-policies"], ["rpm", "gpu/rpm", "rpm^1"]);
  assert.equal(problem.retryAfterMs, 600);
  assert.equal(problem.code, "rate_limit_exceeded");
  assert.doesNotThrow(() => JSON.stringify(problem));
});

test("a total that refused is called so, also where nothing else was asked", () => {
  const total = status({ resource: "*", limit: "usd", kind: "calendar", retryAfterMs: 86_400_000 });
  const parents = { ...total, entityId: "acme" };
  const alone = new RateLimitExceeded({ statuses: [total, parents], primary: total, retryAfterMs: 86_400_000 });
  assert.equal(alone.message, "Rate limit exceeded for key-1 over all resources: usd, acme:usd; retry in 1 day.");
  const problem = alone.toProblem();
  assert.deepEqual(problem["violated-policies"], ["*/usd", "*/usd^1"]);
  assert.equal(problem.detail, "Rate limit exceeded for key-1 over all resources: usd, usd^1; retry in 1 day.");
  const beside = new RateLimitExceeded({ statuses: [status({}), total], primary: total, retryAfterMs: 86_400_000 });
  assert.deepEqual(beside.toProblem()["violated-policies"], ["rpm", "*/usd"]);
});

test("whoever holds a key reads nothing of its parents but which level stood in the way; all is shown on demand", () => {
  const own = status({ limit: "tpm", exceeded: false, available: 40, retryAfterMs: 0 });
  const project = status({ entityId: "proj-1", exceeded: false, capacity: 7_331, available: 5_113, retryAfterMs: 0 });
  const org = status({ entityId: "acme", limit: "tpm", capacity: 9_973, available: -2_887, retryAfterMs: 60_001 });
  const refusal = { statuses: [own, project, org], primary: org, retryAfterMs: 60_001 };
  const error = new RateLimitExceeded(refusal);
  const problem = error.toProblem({ levels: "own" });
  assert.deepEqual(problem, error.toProblem());
  assert.deepEqual(problem.statuses, [own, { resource: "gpt-4", limit: "tpm^2", exceeded: true }]);
  assert.equal(problem.detail, "Rate limit exceeded for key-1 on gpt-4: tpm^2; retry in 1 minute 1 second.");
  assert.doesNotMatch(JSON.stringify(problem), /proj-1|acme|7331|5113|9973|2887/);
  const all = error.toProblem({ levels: "all" });
  assert.deepEqual(all.statuses, [own, project, org]);
  assert.equal(all.detail, error.message);
  assert.match(error.message, /acme/);
  // The bucket of the one that asked may go by newer limits, which do not have the name: its parent is a parent all the same.
  const unseen = new RateLimitExceeded({ ...refusal, statuses: [org], levels: ["key-1", "proj-1", "acme"] });
  assert.doesNotMatch(JSON.stringify(unseen.toProblem()), /proj-1|acme|9973/);
  // Levels are counted from the first that has a limit for the request, as in header fields.
  assert.deepEqual(unseen.toProblem()["violated-policies"], ["tpm"]);
  assert.deepEqual(unseen.toProblem({ levels: "all" })["violated-policies"], ["tpm^2"]);
  assert.throws(() => error.toProblem({ levels: "everything" as never }), { code: "option_invalid" });
});

test("a customer reads its own names and a time in words, and can tell a budget that is used up from a slow-down", () => {
  const about = { entityId: "text:auth0_7C42", resource: "text:GET_20/users", retryAfterMs: 1_209_600_000 };
  const month = status({ ...about, limit: "month", kind: "calendar" });
  const rpm = status({ ...about, retryAfterMs: 600 });
  const session = status({ ...about, entityId: "acme", limit: "chat", kind: "session" });
  const error = new RateLimitExceeded({ statuses: [month, rpm, session], primary: month, retryAfterMs: 1_209_600_000 });
  const problem = error.toProblem();
  assert.equal(problem.detail, "Rate limit exceeded for auth0|42 on GET /users: month, rpm, chat^1; retry in 14 days.");
  const violations = [
    { limit: "month", kind: "quota" },
    { limit: "rpm", kind: "rate" },
    { limit: "chat^1", kind: "session" },
  ];
  assert.deepEqual(problem.violations, violations);
  assert.doesNotMatch(JSON.stringify(problem), /text:|acme/);
  // Logs, and readers who may know everything, have what was stored and the exact time.
  assert.match(error.message, /^Rate limit exceeded for text:auth0_7C42 on text:GET_20\/users: .*retry in 14 days\.$/);
  const all = error.toProblem({ levels: "all" });
  assert.deepEqual([all.detail, all.violations, all.statuses], [error.message, violations, [month, rpm, session]]);
  const disabled = new ResourceDisabled({ ...about, level: "resource" });
  assert.equal(disabled.toProblem().detail, "GET /users is disabled.");
});

test("every error has a status for HTTP, and a body that does not tell what is wrong with the service", () => {
  const answers: readonly (readonly [LimiterError, number])[] = [
    [new ValidationError("limit_unknown", "No limit."), 400],
    [new ValidationError("amount_above_capacity", "Too much."), 413],
    [new ValidationError("closed", "The store on /srv/limits.db is closed."), 503],
    [new NotFoundError("entity_not_found", "No entity."), 404],
    [new NotFoundError("table_not_found", "No table limits-prod in eu-west-1."), 503],
    [new ExistsError("entity_exists", "Exists."), 409],
    [new ConflictError("entity_changed", "Changed."), 409],
    [new LeaseClosed("lease_closed", "Closed."), 409],
    [new VersionError("schema_newer", "The file /srv/limits.db is newer."), 503],
    [new RateLimiterUnavailable("No answer of http://10.0.0.7:8000."), 503],
    [new LimiterError("access_denied", "arn:aws:iam::42:user/ada may not."), 503],
    [new ResourceDisabled({ entityId: "acme", resource: "gpt-4", level: "entity" }), 403],
    [new RateLimitExceeded({ statuses: [status({})], primary: status({}), retryAfterMs: 600 }), 429],
  ];
  for (const [error, httpStatus] of answers) {
    assert.equal(error.httpStatus, httpStatus, error.code);
    const problem = error.toProblem();
    assert.equal(problem.status, httpStatus);
    assert.equal(problem.code, error.code);
    assert.equal(typeof problem.title, "string");
    assert.doesNotMatch(JSON.stringify(problem), /acme|srv|limits-prod|10\.0\.0\.7|arn:/);
    if (httpStatus < 500 && httpStatus !== 403 && httpStatus !== 429) assert.equal(problem.detail, error.message);
    assert.equal(error.toProblem({ levels: "all" }).detail, error.message);
  }
});
