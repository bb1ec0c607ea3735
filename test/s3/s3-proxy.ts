import { createServer, type IncomingMessage, request, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { TestContext } from "node:test";

/** What becomes of a request: it goes through, never gets there, or gets there and nobody is told. */
export type Passage = "pass" | "refuse" | "unavailable" | "reset" | "answerLost";

/** A real server in front of S3. Each request meets what the test chooses for it. */
export class S3Proxy {
  readonly endpoint: string;
  readonly requests: { readonly method: string; readonly path: string }[] = [];
  choose: (request: { readonly method: string; readonly path: string }) => Passage = () => "pass";
  /** Where a request goes instead. */
  rewrite: (path: string) => string = (path) => path;
  readonly #target: URL;

  private constructor(target: string, port: number) {
    this.#target = new URL(target);
    this.endpoint = `http://127.0.0.1:${port}`;
  }

  static async open(t: TestContext, target: string): Promise<S3Proxy> {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const proxy = new S3Proxy(target, (server.address() as AddressInfo).port);
    server.on("request", (incoming, outgoing) => void proxy.#cross(incoming, outgoing));
    t.after(() => {
      server.closeAllConnections();
      server.close();
    });
    return proxy;
  }

  async #cross(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of incoming) chunks.push(chunk as Buffer);
    const { method = "GET", url = "/" } = incoming;
    const seen = { method, path: decodeURIComponent(url) };
    this.requests.push(seen);
    const passage = this.choose(seen);
    if (passage === "refuse") return refuse(outgoing, 403, "AccessDenied");
    if (passage === "unavailable") return refuse(outgoing, 503, "SlowDown");
    if (passage === "reset") return void incoming.socket.resetAndDestroy();
    const { host: _, connection: _c, ...headers } = incoming.headers;
    const options = { host: this.#target.hostname, port: this.#target.port, method, path: this.rewrite(url), headers };
    const onward = request(options, (answer) => {
      if (passage === "answerLost") {
        answer.resume();
        answer.on("end", () => incoming.socket.resetAndDestroy());
        return;
      }
      outgoing.writeHead(answer.statusCode ?? 500, answer.headers);
      answer.pipe(outgoing);
    });
    onward.on("error", () => incoming.socket.destroy()).end(Buffer.concat(chunks));
  }
}

function refuse(outgoing: ServerResponse, status: number, code: string): void {
  outgoing.writeHead(status, { "content-type": "application/xml" });
  outgoing.end(`<?xml version="1.0"?><Error><Code>${code}</Code><Message>told: ${code}</Message></Error>`);
}
