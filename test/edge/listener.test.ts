import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { namesOfCertificate } from "../../src/grpc/listen-grpc.ts";
import { here } from "../cli/in-process.ts";
import { serving } from "../server/serve-kit.ts";
import { tokenOf } from "../server/service-kit.ts";
import { edgeOf, framed, GrpcClient, HEALTH, SHOULD } from "./grpc-kit.ts";
import { EDGE_FILE, tempFile } from "./kit.ts";
import { decoded, encoded } from "./protos.ts";

const ASK = { descriptors: [{ of: { remote_address: "a" } }] };

test("a changed file counts within two seconds, and a wrong one changes nothing and says so", async (t) => {
  t.mock.timers.enable({ apis: ["setInterval"] });
  const { client, edge, log } = await edgeOf(t);
  const overall = async () => (await client.limit({ descriptors: [{ of: { remote_address: "a" } }], hits: 5 })).overall;
  assert.equal(await overall(), 1);
  assert.equal(await overall(), 2);
  writeFileSync(edge, EDGE_FILE.replace("refunds", "refund"));
  t.mock.timers.tick(1_000);
  assert.match(log.at(-1) ?? "", /did you mean "refunds"[\s\S]*The previous edge file stays in use\./);
  assert.equal(await overall(), 2);
  writeFileSync(edge, EDGE_FILE.replace("ip-{", "peer-{"));
  t.mock.timers.tick(1_000);
  assert.match(log.join("\n"), /was reloaded/);
  assert.equal(await overall(), 1);
});

test("those who watch the health hear at once that the service stops, and are told to go", async (t) => {
  const { client, close } = await edgeOf(t);
  const stream = client.session.request({
    ":method": "POST",
    ":path": `${HEALTH}Watch`,
    "content-type": "application/grpc",
  });
  stream.end(framed(encoded("HealthCheckRequest", { service: "" })));
  const next = async () => {
    const [chunk] = (await once(stream, "data")) as [Buffer];
    return decoded("HealthCheckResponse", chunk.subarray(5)).status;
  };
  assert.equal(await next(), 1);
  const gone = once(client.session, "goaway");
  const told = next();
  const closed = close();
  assert.equal(await told, 2);
  const [code] = await gone;
  assert.equal(code, 0);
  await closed;
});

test("a service that is unknown is SERVICE_UNKNOWN to those who watch it", async (t) => {
  const { client } = await edgeOf(t);
  const stream = client.session.request({
    ":method": "POST",
    ":path": `${HEALTH}Watch`,
    "content-type": "application/grpc",
  });
  stream.end(framed(encoded("HealthCheckRequest", { service: "other" })));
  const [chunk] = (await once(stream, "data")) as [Buffer];
  assert.equal(decoded("HealthCheckResponse", chunk.subarray(5)).status, 3);
  stream.close();
});

test("pages of a browser get nothing: neither a preflight nor a form is answered as a call", async (t) => {
  const { client } = await edgeOf(t);
  const ask = async (headers: Record<string, string>) => {
    const stream = client.session.request(headers);
    stream.end();
    const [fields] = await once(stream, "response");
    stream.resume();
    return [fields[":status"], fields["access-control-allow-origin"]];
  };
  const preflight = {
    ":method": "OPTIONS",
    ":path": SHOULD,
    origin: "https://evil.example",
    "access-control-request-method": "POST",
  };
  assert.deepEqual(await ask(preflight), [415, undefined]);
  assert.deepEqual(await ask({ ":method": "POST", ":path": SHOULD, "content-type": "text/plain" }), [415, undefined]);
});

test("calls above --inflight-max are RESOURCE_EXHAUSTED, and nobody waits", async (t) => {
  const { client, limiter } = await edgeOf(t, { inflightMax: 1 });
  await limiter.available({ entityId: "ip-a", resource: "http" });
  const answers = await Promise.all(Array.from({ length: 20 }, () => client.limit(ASK)));
  const codes = answers.map(({ code }) => code);
  assert.ok(codes.includes(0), codes.join());
  assert.ok(
    codes.every((code) => code === 0 || code === 8),
    codes.join(),
  );
});

/** Certificates of one authority, for a server and its clients. */
function certificates(t: TestContext) {
  const folder = mkdtempSync(join(tmpdir(), "zael-certs-"));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const at = (name: string) => join(folder, name);
  const openssl = (...args: string[]) => execFileSync("openssl", args, { stdio: "ignore" });
  const key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1"];
  openssl("req", "-x509", ...key, "-keyout", at("ca.key"), "-out", at("ca.crt"), "-subj", "/CN=authority");
  const signed = (name: string, san: string) => {
    writeFileSync(at(`${name}.ext`), `subjectAltName=${san}\n`);
    openssl(
      "req",
      ...key.slice(0, 4),
      "-nodes",
      "-keyout",
      at(`${name}.key`),
      "-out",
      at(`${name}.csr`),
      "-subj",
      `/CN=${name}`,
    );
    const by = ["-CA", at("ca.crt"), "-CAkey", at("ca.key"), "-CAcreateserial", "-days", "1"];
    openssl("x509", "-req", "-in", at(`${name}.csr`), ...by, "-extfile", at(`${name}.ext`), "-out", at(`${name}.crt`));
    return { cert: at(`${name}.crt`), key: at(`${name}.key`) };
  };
  return { ca: at("ca.crt"), signed };
}

test("a client certificate of the authority is demanded, and its name stands for a token where an entry has it", async (t) => {
  const { ca, signed } = certificates(t);
  const server = signed("server", "DNS:localhost,IP:127.0.0.1");
  const envoy = signed("envoy", "URI:spiffe://example.org/envoy,DNS:envoy.example.org");
  const stranger = signed("stranger", "URI:spiffe://example.org/stranger");
  const named = {
    id: "envoy",
    san: "URI:spiffe://example.org/envoy",
    namespaces: ["default"],
    scopes: ["acquire"],
  } as const;
  const { token, entry } = tokenOf("other", { scopes: ["acquire"] });
  const { grpcUrl } = await edgeOf(t, {
    ...{ tlsCert: server.cert, tlsKey: server.key, grpcClientCa: ca, tokens: [named, entry] },
  });
  assert.match(grpcUrl, /^grpcs:\/\/127\.0\.0\.1:\d+$/);
  const as = (pair: { cert: string; key: string } | undefined) => {
    const own = pair && { cert: readFileSync(pair.cert), key: readFileSync(pair.key) };
    const client = new GrpcClient(grpcUrl, { ca: readFileSync(ca), ...own });
    t.after(() => client.close());
    return client;
  };
  assert.equal((await as(envoy).limit(ASK)).code, 0);
  assert.equal((await as(stranger).limit(ASK)).code, 16);
  assert.equal((await as(stranger).limit(ASK, { authorization: `Bearer ${token}` })).code, 0);
  assert.equal((await as(undefined).limit(ASK)).code, -1);
});

test("names of certificates are told apart, also where one has a comma in it", () => {
  assert.deepEqual(namesOfCertificate("URI:spiffe://a/b, DNS:c.d, IP Address:127.0.0.1"), [
    ...["URI:spiffe://a/b", "DNS:c.d", "IP Address:127.0.0.1"],
  ]);
  assert.deepEqual(namesOfCertificate('URI:"spiffe://a/b, URI:spiffe://evil", DNS:c'), [
    ...["URI:spiffe://a/b, URI:spiffe://evil", "DNS:c"],
  ]);
  assert.deepEqual(namesOfCertificate(undefined), []);
});

test("serve says where gRPC listens, and refuses wrong options before it opens a store", {
  timeout: 60_000,
}, async (t) => {
  const file = tempFile(t, "edge.yaml", EDGE_FILE);
  const wrong = tempFile(t, "wrong.yaml", EDGE_FILE.replace("refunds", "refund"));
  const serve = (...args: string[]) => here(["serve", "--store", `sqlite:${file}.db`, "--json", ...args]);
  for (const [args, message] of [
    [["--grpc-port", "0"], /edge is missing/],
    [["--grpc-host", "127.0.0.1"], /grpcPort is missing/],
    [["--edge", wrong], /did you mean \\"refunds\\"/],
    [["--edge", `${file}.none`], /cannot be read/],
    [["--edge", file, "--grpc-port", "0", "--grpc-client-ca", file], /tlsCert is missing/],
    [["--edge", file, "--grpc-port", "0", "--grpc-host", "0.0.0.0"], /Without tokens/],
  ] as const) {
    const { code, stderr } = await serve(...args);
    assert.equal(code, 2, stderr);
    assert.match(stderr, message);
  }
  const { line, child, ended, said } = await serving(t, ["--store", `sqlite:${file}.db`, "--grpc-port", "0"], {
    ZAEL_EDGE: file,
  });
  const { grpcUrl } = line as unknown as { grpcUrl: string };
  assert.match(grpcUrl, /^grpc:\/\/127\.0\.0\.1:\d+$/);
  const client = new GrpcClient(grpcUrl);
  assert.equal((await client.limit(ASK)).code, 0);
  child.kill("SIGTERM");
  await ended;
  assert.match(said.stdout, /"event":"stopped"/);
  client.close();
});
