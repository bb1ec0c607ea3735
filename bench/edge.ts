import { once } from "node:events";
import { type ClientHttp2Session, connect } from "node:http2";
import { fileURLToPath } from "node:url";
import { load as loadHttp, type Server, startServer, type Told } from "./http-load.ts";
import { type BenchTable, type Cost, median, type Pair, pairedRounds, quantile, ratiosOf } from "./measure.ts";

const WORKER = fileURLToPath(new URL("edge-worker.ts", import.meta.url));
const ROUNDS = 7;
const WARM_UP = 20_000;
const CALLS = 10_000;
const AT_ONCE = 32;

/** The token and the edge file of the measured service. */
export const TOKEN = "zael_bench";
export const EDGE = `domains:
  envoy:
    namespace: default
    rules:
      - { match: { tenant: "*", model: [gpt-4] }, entity: "{tenant}", resource: "{model}", consume: { requests: 1, tpm: hits } }
    http:
      entries: { tenant: header x-tenant, model: text gpt-4 }
`;

/**
 * A call of Envoy with one descriptor against a bare answer of `node:http2`, 32 at once over one connection. Compared by the processor time of the
 * server's own process; each takes turns with the bare answer.
 */
export async function benchEdge(): Promise<BenchTable[]> {
  return [...(await benchGrpc()), ...(await benchForwardAuth())];
}

async function benchGrpc(): Promise<BenchTable[]> {
  const servers = await Promise.all([
    startServer(WORKER, { name: "bare answer of node:http2", owner: "peer", args: ["bare"] }),
    startServer(WORKER, { name: "ShouldRateLimit on memory, with tokens", owner: "ours", args: ["memory"] }),
  ]);
  try {
    for (const server of servers) await load(server, WARM_UP);
    const [base, ...others] = servers as [Server, ...Server[]];
    const pairs = await pairedRounds({ base, others }, ROUNDS, (server) => load(server, CALLS));
    const ofBase = pairs.flat().map(({ base: cost }) => ({ base: cost, own: cost }));
    const rows = [rowOf(base.name, ofBase), ...others.map(({ name }, i) => rowOf(name, pairs[i] as Pair<Told>[]))];
    return [{ title: `a call over gRPC, ${AT_ONCE} at once`, rows, followed: [] }];
  } finally {
    for (const { child } of servers) child.kill();
  }
}

/** The requests that are compared over HTTP: an acquire that holds nothing, and the question of a proxy that takes the same. */
const ASKED = {
  "POST acquire, holdMs 0": (port: number, i: number) => {
    const body = JSON.stringify({ entityId: `key-${i}`, resource: "gpt-4", consume: { tpm: 1 }, holdMs: 0 });
    return requestText("POST /v1/namespaces/default/acquire", port, `Authorization: Bearer ${TOKEN}`, body);
  },
  "forward auth": (port: number, i: number) =>
    requestText("GET /v1/edge/envoy/auth", port, `Zael-Token: ${TOKEN}\r\nX-Tenant: key-${i}\r\nX-Original-URI: /page`),
} as const;

function requestText(line: string, port: number, fields: string, body = ""): string {
  const ofBody = body === "" ? "" : `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n`;
  return `${line} HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\n${fields}\r\n${ofBody}\r\n${body}`;
}

/** Forward auth against a plain acquire of the same service, which it may cost 1.2 of: of one process, so that both are as warm. */
async function benchForwardAuth(): Promise<BenchTable[]> {
  const server = await startServer(WORKER, { name: "service", owner: "ours", args: ["memory", "http"] });
  const send = async (name: keyof typeof ASKED, calls: number) => {
    const { cost } = await loadHttp(server, { connections: AT_ONCE, requestOf: ASKED[name] }, calls);
    return cost;
  };
  try {
    const [base, ...others] = Object.keys(ASKED) as [keyof typeof ASKED, ...(keyof typeof ASKED)[]];
    for (const name of [base, ...others]) await send(name, WARM_UP);
    const pairs = await pairedRounds({ base, others }, ROUNDS, (name) => send(name, CALLS));
    const ofBase = pairs.flat().map(({ base: cost }) => ({ base: cost, own: cost }));
    const rows = [rowOf(base, ofBase), ...others.map((name, i) => rowOf(name, pairs[i] as Pair<Told>[]))];
    return [{ title: `forward auth, ${AT_ONCE} connections`, rows, followed: [] }];
  } finally {
    server.child.kill();
  }
}

function rowOf(name: string, pairs: readonly Pair<Told>[]): object {
  const byCpu = ratiosOf(pairs, "process CPU");
  const rounded = (value: number) => Math.round(value * 100) / 100;
  return {
    name,
    "cpu µs a call": rounded(median(pairs.map(({ own }) => own["process CPU"]))),
    "ratio by cpu": rounded(median(byCpu)),
    "middle half": `${rounded(quantile(byCpu, 0.25))} to ${rounded(quantile(byCpu, 0.75))}`,
  };
}

async function load({ child, port }: Server, calls: number): Promise<Cost<Told>> {
  const session = connect(`http://127.0.0.1:${port}`);
  const cpu = async () => {
    child.send("cpu");
    const [told] = (await once(child, "message")) as [{ cpu: NodeJS.CpuUsage }];
    return told.cpu.user + told.cpu.system;
  };
  const before = await cpu();
  const startedMs = performance.now();
  let left = calls;
  const one = async (i: number) => {
    const message = messageOf(`key-${i}`);
    while (left-- > 0) await call(session, message);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, (_, i) => one(i)));
  const time = ((performance.now() - startedMs) * 1000) / calls;
  const cost = { "process CPU": ((await cpu()) - before) / calls, time };
  session.destroy();
  return cost;
}

const HEADERS = {
  ":method": "POST",
  ":path": "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit",
  "content-type": "application/grpc",
  te: "trailers",
  "grpc-timeout": "250m",
  authorization: `Bearer ${TOKEN}`,
};

function call(session: ClientHttp2Session, message: Buffer): Promise<void> {
  return new Promise((resolve, reject) => {
    const stream = session.request(HEADERS);
    stream.on("trailers", (fields) => {
      if (fields["grpc-status"] !== "0") reject(new Error(`gRPC answered ${String(fields["grpc-status"])}.`));
    });
    stream.on("error", reject);
    stream.on("close", resolve);
    stream.resume();
    stream.end(message);
  });
}

/** A request of one descriptor with two entries, as Envoy sends it. */
function messageOf(tenant: string): Buffer {
  const part = (field: number, bytes: Buffer) => Buffer.concat([Buffer.from([field * 8 + 2, bytes.length]), bytes]);
  const entry = (key: string, value: string) =>
    part(1, Buffer.concat([part(1, Buffer.from(key)), part(2, Buffer.from(value))]));
  const descriptor = part(2, Buffer.concat([entry("tenant", tenant), entry("model", "gpt-4")]));
  const message = Buffer.concat([part(1, Buffer.from("envoy")), descriptor]);
  const head = Buffer.alloc(5);
  head.writeUInt32BE(message.length, 1);
  return Buffer.concat([head, message]);
}
