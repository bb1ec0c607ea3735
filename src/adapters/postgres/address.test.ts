import assert from "node:assert/strict";
import { test } from "node:test";
import { inspect } from "node:util";
import { openPostgres } from "../../entry/postgres.ts";
import { RateLimiter } from "../../entry/rate-limiter.ts";
import { addressOf, nameOf } from "./address.ts";

test("an address is taken apart, and the name of the store has neither user nor password", () => {
  const address = addressOf("postgres://bob:s%40fe@db.internal:6543/app?schema=limits&sslmode=require");
  assert.deepEqual(
    [address.host, address.port, address.user, address.password, address.database, address.schema, address.ssl],
    ["db.internal", 6543, "bob", "s@fe", "app", "limits", "require"],
  );
  assert.equal(nameOf(address), "postgres://db.internal:6543/app?schema=limits");
  assert.equal(addressOf("postgresql://[::1]/app").host, "::1");
  assert.equal(addressOf("postgres://bob@h").database, "bob");
});

test("a folder of sockets stands in the place of the host, as libpq has it", () => {
  for (const url of [
    "postgres:///app?host=/run/postgresql",
    "postgres://bob@:5433/app?host=%2Frun%2Fpostgresql",
    "postgres://%2Frun%2Fpostgresql/app",
  ]) {
    assert.equal(addressOf(url).host, "/run/postgresql");
    assert.match(nameOf(addressOf(url)), /^postgres:\/\/%2Frun%2Fpostgresql:543[23]\/app\?schema=zae_limiter$/);
  }
  for (const url of ["postgres://h/app?host=/run/postgresql", "postgres:///app?host=h", "postgres:///app"]) {
    assert.throws(() => addressOf(url), { code: "option_invalid" });
  }
  assert.equal(nameOf(addressOf("postgres://[::1]/app")), "postgres://[::1]:5432/app?schema=zae_limiter");
});

test("what libpq means by a parameter is kept, or refused with a sentence", () => {
  assert.equal(addressOf("postgres://h/app?sslmode=require").ssl, "require");
  assert.equal(addressOf("postgres://h/app?sslmode=require&sslrootcert=ca.crt").ssl, "verify-ca");
  assert.equal(
    addressOf("postgres://h/app?options=-c%20statement_timeout%3D5s").sessionOptions,
    "-c statement_timeout=5s",
  );
  assert.equal(addressOf("postgres://h/app?channel_binding=prefer").bindsChannel, true);
  assert.throws(() => addressOf("postgres://h/app?channel_binding=require"), /sslmode=verify-full/);
  assert.throws(() => addressOf("postgres://h/app?sslrootcert=system"), /goes with sslmode=verify-full/);
});

const SECRET = "hunter2%21/x";
const PLAIN = "hunter2!/x";
const WRONG = [
  `postgres://bob:${SECRET}@host/db`,
  `postgres://bob:${PLAIN}@host/db`,
  "postgres://bob:hunter2?x@host/db",
  "postgres://bob:hunter2#x@host/db",
  "postgres://bob:hunter2%zz@host/db",
  "postgres://bob:hunter2@host:99999/db",
  "postgres://bob:hunter2@host:port/db",
  "postgres://bob:hunter2@a,b/db",
  "postgres://bob:hunter2@/db",
  "postgres://bob:hunter2@host/db?schema=Upper",
  "postgres://bob:hunter2@host/db?schema=pg_x",
  "postgres://bob:hunter2@host/db?shcema=x",
  "postgres://bob:hunter2@host/db?sslmode=maybe",
  "postgres://bob:hunter2@host/%zz",
  "postgres://bob:hunter2@host/db?sslmode=verify-full&sslrootcert=/no/such/file",
  "postgres://bob:hunter2@127.0.0.1:1/db",
  "postgres://bob:hunter2@127.0.0.1:1/db?sslmode=disable",
  "postgress://bob:hunter2@host/db",
  "bob:hunter2@host/db",
];

test("no message, cause or property of an error has anything of the user or the password", async () => {
  for (const url of WRONG) {
    for (const open of [
      () => openPostgres({ url, adminTimeoutMs: 2_000 }),
      () => RateLimiter.open({ store: url, adminTimeoutMs: 2_000 }),
    ]) {
      const error = await open().then(
        () => assert.fail(`${url} was opened`),
        (thrown: unknown) => thrown,
      );
      const told = inspect(error, { depth: 9, showHidden: true }) + JSON.stringify(error);
      // What stands before the first ":" of any other text is shown: it says what was meant.
      const user = url.startsWith("bob") ? "hunter2" : "bob";
      for (const secret of ["hunter2", Buffer.from("hunter2").toString("base64").slice(0, 8), user]) {
        assert.ok(!told.includes(secret), `${url}: ${told}`);
      }
    }
  }
});
