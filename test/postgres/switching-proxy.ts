import { connect, createServer, type Server, type Socket } from "node:net";

/** One address for servers that take each other's place, as DNS or a proxy of a cluster has it. */
export class SwitchingProxy {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #target: number;
  port = 0;

  private constructor(server: Server, target: number) {
    this.#server = server;
    this.#target = target;
  }

  static async to(target: number): Promise<SwitchingProxy> {
    const server = createServer();
    const proxy = new SwitchingProxy(server, target);
    server.on("connection", (client) => {
      const upstream = connect(proxy.#target, "127.0.0.1");
      for (const socket of [client, upstream]) {
        proxy.#sockets.add(socket);
        socket.on("error", () => {});
        socket.on("close", () => {
          proxy.#sockets.delete(socket);
          client.destroy();
          upstream.destroy();
        });
      }
      client.pipe(upstream);
      upstream.pipe(client);
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const address = server.address();
    proxy.port = typeof address === "object" && address !== null ? address.port : 0;
    return proxy;
  }

  /** From now on connections lead there; those that are open stay where they lead. */
  leadTo(target: number): void {
    this.#target = target;
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}
