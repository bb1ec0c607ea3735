import { createServer, request as httpRequest, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import type { TestContext } from "node:test";

/** What becomes of a request on its way: cut before the service hears of it, in or after the answer; or answered otherwise. */
export type Fate = "passes" | "cutBefore" | "cutInHeaders" | "cutInBody" | "cutAfter" | "hangs" | "is502" | "is504";

export interface Seen {
  readonly method: string;
  readonly path: string;
  readonly key: string | undefined;
  readonly body: string;
}

/** A real proxy in front of a service. What it cuts, it cuts at the socket. */
export async function lossyProxy(t: TestContext, url: string, fateOf: (seen: Seen) => Fate) {
  const seen: Seen[] = [];
  const hanging: (() => void)[] = [];
  let forwarding = 0;
  const proxy = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const { method = "GET", url: path = "/", headers } = request;
    const one: Seen = { method, path, key: keyOf(request), body: Buffer.concat(chunks).toString() };
    seen.push(one);
    const fate = fateOf(one);
    if (fate === "cutBefore") return void request.socket.destroy();
    forwarding++;
    const answer = await forward(url, { method, path, headers, body: Buffer.concat(chunks) }, request);
    forwarding--;
    if (answer === undefined) return;
    if (fate === "cutAfter") return void request.socket.destroy();
    if (fate === "hangs") return void hanging.push(() => request.socket.destroy());
    if (fate === "is502" || fate === "is504")
      return void response.writeHead(Number(fate.slice(2))).end("<h1>gateway</h1>");
    const { "transfer-encoding": _, connection: __, ...kept } = answer.headers;
    const head = Object.entries({ ...kept, "content-length": String(answer.body.length) })
      .map(([name, value]) => `${name}: ${value}\r\n`)
      .join("");
    if (fate === "cutInHeaders" || fate === "cutInBody") {
      const whole = Buffer.concat([Buffer.from(`HTTP/1.1 ${answer.status} X\r\n${head}\r\n`), answer.body]);
      const end = fate === "cutInHeaders" ? 20 : whole.length - Math.max(1, answer.body.length >> 1);
      return void request.socket.end(whole.subarray(0, end));
    }
    response.writeHead(answer.status, { ...kept, "content-length": answer.body.length }).end(answer.body);
  });
  await new Promise<void>((resolve) => proxy.listen(0, "127.0.0.1", resolve));
  t.after(() => {
    for (const end of hanging) end();
    proxy.closeAllConnections();
    proxy.close();
  });
  return { url: `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`, seen, inService: () => forwarding };
}

function keyOf({ headers }: IncomingMessage): string | undefined {
  const key = headers["idempotency-key"];
  return Array.isArray(key) ? key[0] : key;
}

interface Forwarded {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingMessage["headers"];
  readonly body: Buffer;
}

/** Undefined: whoever asked has left, and then so does the proxy. */
function forward(url: string, { method, path, headers, body }: Forwarded, asked: IncomingMessage) {
  const { host: _, connection: __, ...kept } = headers;
  type Answer = { readonly status: number; readonly headers: IncomingMessage["headers"]; readonly body: Buffer };
  return new Promise<Answer | undefined>((resolve) => {
    const onward = httpRequest(new URL(path, url), { method, headers: kept, agent: false }, async (answer) => {
      const chunks: Buffer[] = [];
      for await (const chunk of answer) chunks.push(chunk as Buffer);
      resolve({ status: answer.statusCode ?? 0, headers: answer.headers, body: Buffer.concat(chunks) });
    });
    const leave = () => void onward.destroy();
    asked.socket.once("close", leave);
    onward
      .on("close", () => asked.socket.off("close", leave))
      .on("error", () => resolve(undefined))
      .end(body);
  });
}
