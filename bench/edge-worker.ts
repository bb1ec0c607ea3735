import { createHash } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http2";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { RateLimiter } from "../src/entry/index.ts";
import { startService } from "../src/entry/server.ts";
import { EDGE, TOKEN } from "./edge.ts";
import { roomyLimit } from "./roomy.ts";

// One server in a process of its own: `bare` answers each call with the same bytes, anything else is a store of ours, with tokens and the edge file, over gRPC or `http`.

const [kind = "bare", protocol = "grpc"] = process.argv.slice(2);

process.on("message", () => process.send?.({ cpu: process.cpuUsage() }));
process.send?.({ port: await started() });

async function started(): Promise<number> {
  if (kind === "bare") return bare();
  const limiter = await RateLimiter.open({ store: kind });
  await limiter.setResourceDefaults("gpt-4", [{ ...roomyLimit("rpm"), counts: "requests" }, roomyLimit("tpm")]);
  const folder = mkdtempSync(join(tmpdir(), "zae-limiter-bench-"));
  const edge = join(folder, "edge.yaml");
  writeFileSync(edge, EDGE);
  process.once("exit", () => rmSync(folder, { recursive: true, force: true }));
  const sha256 = createHash("sha256").update(TOKEN).digest("hex");
  const tokens = [{ id: "envoy", sha256, namespaces: ["default"], scopes: ["acquire"] }] as const;
  const service = await startService({ limiter, dashboard: false, edge, grpcPort: 0, tokens, log: () => {} }, true);
  const { grpcUrl = "", port } = await service.listen({ port: 0 });
  return protocol === "http" ? port : Number(grpcUrl.split(":").at(-1));
}

function bare(): Promise<number> {
  const answer = Buffer.from("000000000408011200", "hex");
  const server = createServer();
  server.on("stream", (stream) => {
    stream.resume();
    stream.once("end", () => {
      stream.once("wantTrailers", () => stream.sendTrailers({ "grpc-status": "0" }));
      stream.respond({ ":status": 200, "content-type": "application/grpc" }, { waitForTrailers: true });
      stream.end(answer);
    });
  });
  return new Promise((resolve) => {
    server.listen(0, "127.0.0.1", () => resolve((server.address() as AddressInfo).port));
  });
}
