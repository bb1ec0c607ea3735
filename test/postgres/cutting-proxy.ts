import { connect, createServer, type Server, type Socket } from "node:net";

/** What becomes of an answer of the server. */
export type Cut = "pass" | "beforeSending" | "afterSending";

/**
 * A proxy in front of a server that cuts connections: before a statement is sent on, or after the server has answered and before the
 * client has seen it. `decide` is asked for every message of a client that may be a statement of a take.
 */
export class CuttingProxy {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  port = 0;
  cuts = 0;

  private constructor(server: Server) {
    this.#server = server;
  }

  /** `mark`: what messages of takes have in them. */
  static async before(port: number, decide: () => Cut, mark = ".take_"): Promise<CuttingProxy> {
    const server = createServer();
    const proxy = new CuttingProxy(server);
    server.on("connection", (client) => {
      const upstream = connect(port, "127.0.0.1");
      let isCutting = false;
      for (const socket of [client, upstream]) {
        proxy.#sockets.add(socket);
        socket.on("error", () => {});
        socket.on("close", () => {
          proxy.#sockets.delete(socket);
          client.destroy();
          upstream.destroy();
        });
      }
      const cut = () => {
        proxy.cuts++;
        client.resetAndDestroy();
        upstream.destroy();
      };
      client.on("data", (bytes) => {
        const what = bytes.includes(mark) ? decide() : "pass";
        if (what === "beforeSending") return cut();
        if (what === "afterSending") isCutting = true;
        upstream.write(bytes);
      });
      upstream.on("data", (bytes) => {
        if (isCutting) cut();
        else client.write(bytes);
      });
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const address = server.address();
    proxy.port = typeof address === "object" && address !== null ? address.port : 0;
    return proxy;
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}
