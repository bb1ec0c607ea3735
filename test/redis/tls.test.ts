import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { promisify } from "node:util";
import { isDeep } from "../depth.ts";
import { plainEnvironment } from "../docs/readme.ts";
import { certificate } from "../engines/certificate.ts";
import { freePort } from "../postgres/postgres-process.ts";
import { newPrefix } from "./kit.ts";
import { describeRedisServers } from "./redis-server.ts";

const run = promisify(execFile);

/** Takes by the address that it is given, and prints whether it was granted, or the error. The CA of a process is given when it starts. */
const PROGRAM = `
import { Limit, RateLimiter } from ${JSON.stringify(new URL("../../src/entry/index.ts", import.meta.url).href)};
try {
  const limiter = await RateLimiter.open({ store: process.argv[1], timeoutMs: 20_000 });
  await limiter.setSystemDefaults([Limit.perMinute("rpm", 1_000)]);
  const { ok } = await limiter.tryAcquire({ entityId: "a", resource: "api", consume: { rpm: 1 } });
  await limiter.close();
  console.log(String(ok));
} catch (error) {
  console.log([error.code, error.message, error.cause?.message].join(" "));
}
process.exit();
`;

describeRedisServers("TLS to Redis", (start) => {
  test("a certificate is verified: by a CA of one's own, for the host that was named, and nobody goes on without", async () => {
    const folder = mkdtempSync(join(tmpdir(), "zael-tls-"));
    after(() => rmSync(folder, { recursive: true, force: true }));
    const ca = certificate(folder, "ca", ["-addext", "basicConstraints=critical,CA:TRUE"]);
    const signedBy = ["-CA", ca.cert, "-CAkey", ca.key, "-addext", "subjectAltName=DNS:localhost"];
    const { cert, key } = certificate(folder, "server", signedBy);
    const port = await freePort();
    const files = ["--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", ca.cert];
    const server = await start(["--tls-port", String(port), "--tls-auth-clients", "no", ...files]);
    const told = async (address: string, trusted: string | undefined): Promise<string> => {
      const env = { ...plainEnvironment(), ...(trusted === undefined ? {} : { NODE_EXTRA_CA_CERTS: trusted }) };
      const store = `${address}?prefix=${newPrefix()}`;
      const { stdout } = await run(process.execPath, ["--input-type=module", "-e", PROGRAM, store], { env });
      return stdout.trim();
    };
    assert.equal(await told(`rediss://localhost:${port}`, ca.cert), "true");
    assert.match(await told(`rediss://localhost:${port}`, undefined), /certificate|self-signed/i);
    if (!isDeep) return;
    assert.equal(await told(`valkeys://localhost:${port}`, ca.cert), "true");
    assert.match(await told(`rediss://127.0.0.1:${port}`, ca.cert), /altnames|certificate/i);
    // The other port speaks no TLS.
    assert.match(await told(`rediss://localhost:${server.port}`, ca.cert), /^store_unavailable|unavailable|TLS|SSL/i);
  });
});
