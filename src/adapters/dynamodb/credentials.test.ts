import assert from "node:assert/strict";
import { test } from "node:test";
import { LimiterError } from "../../domain/names/errors.ts";
import { type Credentials, CredentialsCache, type CredentialsProvider, defaultProvider } from "./credentials.ts";
import { notInstalled } from "./transport-peer.ts";

const MINUTE_MS = 60_000;

test("keys that never expire are asked for once, however many ask at once", async () => {
  const { cache, asked } = scripted({ accessKeyId: "a" });
  const all = await Promise.all([cache.current(), cache.current(), cache.current()]);
  assert.deepEqual(new Set(all).size, 1);
  assert.equal(cache.current(), all[0]);
  assert.equal(asked.length, 1);
});

test("five minutes before they expire new ones are fetched, and nobody waits for them", async () => {
  const { cache, asked, clock } = scripted(
    { accessKeyId: "old", expiresMs: 60 * MINUTE_MS },
    { accessKeyId: "new", expiresMs: 120 * MINUTE_MS },
  );
  await cache.current();
  clock.ms = 54 * MINUTE_MS;
  assert.equal(at(cache).accessKeyId, "old");
  assert.equal(asked.length, 1);
  clock.ms = 55 * MINUTE_MS;
  assert.equal(at(cache).accessKeyId, "old");
  assert.equal(at(cache).accessKeyId, "old");
  assert.equal(asked.length, 2);
  await settled();
  assert.equal(at(cache).accessKeyId, "new");
});

test("expired ones are waited for", async () => {
  const { cache, clock } = scripted(
    { accessKeyId: "old", expiresMs: 60 * MINUTE_MS },
    { accessKeyId: "new", expiresMs: 120 * MINUTE_MS },
  );
  await cache.current();
  clock.ms = 60 * MINUTE_MS;
  const waiting = cache.current();
  assert.ok(waiting instanceof Promise);
  assert.equal((await waiting).accessKeyId, "new");
});

test("a provider that fails in the background does no harm while the old ones are good, and is asked again after 10 s", async () => {
  const { cache, asked, clock } = scripted(
    { accessKeyId: "old", expiresMs: 60 * MINUTE_MS },
    new Error("metadata service is away"),
    { accessKeyId: "new", expiresMs: 120 * MINUTE_MS },
  );
  await cache.current();
  clock.ms = 56 * MINUTE_MS;
  assert.equal(at(cache).accessKeyId, "old");
  await settled();
  clock.ms += 9_999;
  assert.equal(at(cache).accessKeyId, "old");
  assert.equal(asked.length, 2);
  clock.ms += 1;
  assert.equal(at(cache).accessKeyId, "old");
  await settled();
  assert.equal(at(cache).accessKeyId, "new");
});

test("a provider that only has expired ones is not asked for every call; the service may judge them", async () => {
  const { cache, asked, clock } = scripted(
    { accessKeyId: "stale", expiresMs: 1 },
    { accessKeyId: "stale", expiresMs: 1 },
  );
  clock.ms = MINUTE_MS;
  await cache.current();
  assert.equal(at(cache).accessKeyId, "stale");
  assert.equal(asked.length, 1);
  clock.ms += 10_000;
  assert.ok(cache.current() instanceof Promise);
  assert.equal(asked.length, 2);
});

test("after the service has called them expired, fresh ones are forced, once", async () => {
  const { cache, asked } = scripted({ accessKeyId: "revoked" }, { accessKeyId: "new" });
  const revoked = await cache.current();
  cache.refuse(revoked);
  const [first, second] = await Promise.all([cache.current(), cache.current()]);
  assert.equal(first?.accessKeyId, "new");
  assert.equal(second, first);
  cache.refuse(revoked);
  assert.equal(at(cache), first);
  assert.deepEqual(asked, [undefined, { forceRefresh: true }]);
});

test("no credentials is an error with a code, the cause and a remedy; the next caller asks again", async () => {
  const cause = new Error("The chain is empty.");
  const { cache } = scripted(cause, { accessKeyId: "" }, { accessKeyId: "a" });
  await assert.rejects(
    async () => cache.current(),
    unavailable(/requests to http:\/\/localhost:8000: The chain is empty\. Set AWS_PROFILE/, cause),
  );
  await assert.rejects(async () => cache.current(), unavailable(/returned no keys/, undefined));
  assert.equal((await cache.current()).accessKeyId, "a");
});

test("the SDK's own chain is a provider", async () => {
  const before = { ...process.env };
  Object.assign(process.env, {
    AWS_ACCESS_KEY_ID: "AKID",
    AWS_SECRET_ACCESS_KEY: "secret",
    AWS_SESSION_TOKEN: "token",
  });
  delete process.env.AWS_PROFILE;
  try {
    const { accessKeyId, secretAccessKey, sessionToken } = await (await defaultProvider("eu-west-1"))();
    assert.deepEqual([accessKeyId, secretAccessKey, sessionToken], ["AKID", "secret", "token"]);
  } finally {
    process.env = before;
  }
});

test("a package that is not installed is named, with the command that installs it", async () => {
  const name: string = "@aws-sdk/no-such-package";
  const cause = await import(name).catch((error: unknown) => error);
  const error = notInstalled(name, "it is needed", cause);
  assert.ok(error instanceof LimiterError);
  assert.equal(error.code, "package_missing");
  assert.ok(error.message.includes("`npm install @aws-sdk/no-such-package`"));
  const broken = new Error("something else");
  assert.equal(notInstalled(name, "it is needed", broken), broken);
});

interface Keys {
  readonly accessKeyId: string;
  readonly expiresMs?: number;
}

/** A provider that gives these in turn, and a clock at 0. */
function scripted(...answers: readonly (Keys | Error)[]) {
  const clock = { ms: 0 };
  const asked: unknown[] = [];
  const provider: CredentialsProvider = async (hint) => {
    const answer = answers[asked.length];
    asked.push(hint);
    assert.ok(answer !== undefined, "asked once too often");
    if (answer instanceof Error) throw answer;
    const { accessKeyId, expiresMs } = answer;
    return {
      accessKeyId,
      secretAccessKey: "secret",
      ...(expiresMs === undefined ? {} : { expiration: new Date(expiresMs) }),
    };
  };
  return {
    cache: new CredentialsCache({ provider, origin: "http://localhost:8000", now: () => clock.ms }),
    asked,
    clock,
  };
}

/** What is there at once. */
function at(cache: CredentialsCache): Credentials {
  const current = cache.current();
  assert.ok(!(current instanceof Promise), "had to wait");
  return current;
}

function settled(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

function unavailable(message: RegExp, cause: unknown): (error: unknown) => boolean {
  return (error) =>
    error instanceof LimiterError &&
    error.code === "credentials_unavailable" &&
    message.test(error.message) &&
    (cause === undefined || error.cause === cause);
}
