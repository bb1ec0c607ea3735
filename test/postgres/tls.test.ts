import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { inspect } from "node:util";
import pg from "pg";
import { LimiterError } from "../../src/domain/names/errors.ts";
import { Limit, RateLimiter } from "../../src/entry/index.ts";
import { here } from "../cli/in-process.ts";
import { certificate } from "../engines/certificate.ts";
import { describeServers, newSchema } from "./postgres.ts";

const SECRET = "hunter2";

await describeServers("TLS to PostgreSQL", (start) => {
  const folder = mkdtempSync(join(tmpdir(), "zael-tls-"));
  after(() => rmSync(folder, { recursive: true, force: true }));
  const schema = newSchema();
  const ca = certificate(folder, "ca", ["-addext", "basicConstraints=critical,CA:TRUE"]);
  const otherCa = certificate(folder, "other-ca", ["-addext", "basicConstraints=critical,CA:TRUE"]);
  const signed = (name: string, names: string) =>
    certificate(folder, name, ["-CA", ca.cert, "-CAkey", ca.key, "-addext", `subjectAltName=${names}`]);
  const server = signed("server", "DNS:localhost");
  const bob = signed("bob", "DNS:bob");
  let port = 0;
  let plainPort = 0;
  let sockets = "";

  before(async () => {
    const files = {
      "server.crt": readFileSync(server.cert, "utf8"),
      "server.key": readFileSync(server.key, "utf8"),
      "ca.crt": readFileSync(ca.cert, "utf8"),
      "pg_hba.conf": [
        "hostssl all bob 127.0.0.1/32 cert",
        "hostssl all postgres 127.0.0.1/32 trust",
        "hostnossl all all 127.0.0.1/32 reject",
      ].join("\n"),
    };
    ({ port } = await start(["fsync=off", "ssl=on", "ssl_ca_file=ca.crt"], files));
    ({ port: plainPort, sockets } = await start(["fsync=off"]));
    const limiter = await RateLimiter.open({ store: at("postgres", "localhost", "sslmode=require") });
    await limiter.setSystemDefaults([Limit.perMinute("rpm", 1_000)]);
    await limiter.close();
  });

  const at = (user: string, host: string, parameters: string, to = port) =>
    `postgres://${user}:${SECRET}@${host}:${to}/postgres?schema=${schema}&${parameters}`;

  const taken = async (store: string) => {
    const limiter = await RateLimiter.open({ store, create: false, poolMax: 2, timeoutMs: 30_000 });
    const { ok } = await limiter.tryAcquire({ entityId: "a", resource: "api", consume: { rpm: 1 } });
    await limiter.close();
    return ok;
  };

  test("each sslmode connects where libpq would", async () => {
    for (const [host, parameters] of [
      ["localhost", ""],
      ["localhost", "sslmode=prefer"],
      ["localhost", "sslmode=require"],
      ["127.0.0.1", "sslmode=require"],
      ["127.0.0.1", `sslmode=verify-ca&sslrootcert=${ca.cert}`],
      ["127.0.0.1", `sslmode=require&sslrootcert=${ca.cert}`],
      ["localhost", `sslmode=verify-full&sslrootcert=${ca.cert}`],
    ] as const) {
      assert.equal(await taken(at("postgres", host, parameters)), true, parameters);
    }
  });

  test("a certificate of another authority, of another host or of nobody known is refused, with what to do", async () => {
    for (const [host, parameters, why] of [
      ["localhost", `sslmode=verify-full&sslrootcert=${otherCa.cert}`, /not trusted \(.*sslrootcert=FILE/],
      ["127.0.0.1", `sslmode=verify-ca&sslrootcert=${otherCa.cert}`, /not trusted \(/],
      // As libpq: a root certificate that is named is used.
      ["127.0.0.1", `sslmode=require&sslrootcert=${otherCa.cert}`, /not trusted \(/],
      ["localhost", "sslmode=verify-full", /not trusted \(/],
      ["localhost", "sslmode=verify-full&sslrootcert=system", /not trusted \(/],
      ["127.0.0.1", `sslmode=verify-full&sslrootcert=${ca.cert}`, /for another host \(.*sslmode=verify-ca/],
      ["localhost", "sslmode=disable", /refuses this user \(28000\).*sslmode/],
      ["localhost", "sslmode=verify-full&sslrootcert=/no/such/file", /sslrootcert cannot be read/],
    ] as const) {
      await assert.rejects(taken(at("postgres", host, parameters)), (error: unknown) => {
        assert.ok(error instanceof LimiterError && error.code === "store_refused", inspect(error));
        assert.match(error.message, why, parameters);
        assert.ok(!inspect(error, { depth: 9, showHidden: true }).includes(SECRET));
        return true;
      });
    }
  });

  test("a server without TLS: prefer goes without, require says what is the matter", async () => {
    const limiter = await RateLimiter.open({ store: at("postgres", "127.0.0.1", "", plainPort) });
    await limiter.close();
    await assert.rejects(
      RateLimiter.open({ store: at("postgres", "127.0.0.1", "sslmode=require", plainPort) }),
      (error: unknown) => error instanceof LimiterError && /has no TLS.*sslmode=disable/.test(error.message),
    );
  });

  test("a socket of this machine needs no TLS, whatever the mode is", async () => {
    const store = `postgres://postgres@:${plainPort}/postgres?host=${sockets}&schema=${schema}&sslmode=prefer`;
    const { code, stdout, stderr } = await here(["init", "--json", "--store", store]);
    assert.deepEqual([code, stderr], [0, ""]);
    assert.match(JSON.parse(stdout).store, /^postgres:\/\/%2F.*schema=/);
    const { checks } = JSON.parse((await here(["doctor", "--json", "--store", store])).stdout);
    assert.match(checks.find(({ name }: { name: string }) => name === "tls").detail, /on this machine/);
  });

  test("a user is known by its certificate", async () => {
    const owner = new pg.Client({
      ...{ host: "127.0.0.1", port, user: "postgres", database: "postgres", ssl: { rejectUnauthorized: false } },
    });
    await owner.connect();
    await owner.query("CREATE ROLE bob LOGIN");
    await owner.end();
    const own = `sslmode=verify-full&sslrootcert=${ca.cert}&sslcert=${bob.cert}&sslkey=${bob.key}`;
    // It may connect, and has no rights in the schema.
    const doctor = await here(["doctor", "--json", "--store", at("bob", "localhost", own)]);
    const { checks } = JSON.parse(doctor.stdout) as { checks: { name: string; ok: boolean; detail: string }[] };
    const named = (name: string) => checks.find((check) => check.name === name);
    assert.equal(named("permissions")?.ok, false);
    assert.match(named("tls")?.detail ?? "", /^encrypted/);
    const without = await here(["doctor", "--json", "--store", at("bob", "localhost", "sslmode=require")]);
    assert.equal(JSON.parse(without.stdout).checks[0].ok, false);
  });
});
