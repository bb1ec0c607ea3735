import {
  createServer,
  Agent as HttpAgent,
  type IncomingMessage,
  request,
  type Server,
  type ServerResponse,
} from "node:http";
import type { AddressInfo, Socket } from "node:net";
import type { TestContext } from "node:test";
import { crc32 } from "node:zlib";

/** An answer of DynamoDB, or one in its place. */
export interface ProxyAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
}

/** One request on its way through the proxy, and what became of it. */
export interface Passage {
  readonly operation: string;
  readonly input: Readonly<Record<string, unknown>>;
  /** What DynamoDB said to it, once it was let through. */
  readonly said: ProxyAnswer | undefined;
}

/** What a fault may do with a request. One that does nothing leaves it hanging. */
export interface Crossing extends Passage {
  /** Lets DynamoDB do it; what it said has not been passed on then. */
  forward(): Promise<ProxyAnswer>;
  answer(answer: ProxyAnswer): void;
  /** The first so many bytes of an answer, and then nothing more of it. */
  cut(answer: ProxyAnswer, bytes: number): void;
  /** A TCP reset. */
  reset(): void;
}

export type Fault = (crossing: Crossing) => Promise<void>;

/** Everything goes through. */
export const passing: Fault = async (crossing) => crossing.answer(await crossing.forward());

/** Never reaches DynamoDB. */
export const BEFORE = {
  "the request is dropped": async () => {},
  "the connection is reset before the request got through": async ({ reset }) => reset(),
  "the item is throttled": async ({ answer }) => answer(exception(400, "ProvisionedThroughputExceededException")),
  "the account is throttled": async ({ answer }) => answer(exception(400, "ThrottlingException")),
  "a transaction is in the way": async ({ answer }) => answer(exception(400, "TransactionConflictException")),
  "the server fails before it does anything": async ({ answer }) => answer(exception(500, "InternalServerError")),
  "the service is unavailable": async ({ answer }) => answer(exception(503, "ServiceUnavailable")),
} as const satisfies Record<string, Fault>;

/** Done by DynamoDB, but nobody is told. */
export const AFTER = {
  "the answer is dropped": async ({ forward }) => void (await forward()),
  "the connection is reset before the answer got through": async ({ forward, reset }) => {
    await forward();
    reset();
  },
  "the server fails after it was done": async ({ forward, answer }) => {
    await forward();
    answer(exception(500, "InternalServerError"));
  },
  "a gateway gives up after it was done": async ({ forward, answer }) => {
    await forward();
    answer({ status: 502, headers: { "content-type": "text/html" }, body: Buffer.from("<h1>Bad Gateway</h1>") });
  },
  "the answer is cut off": async ({ forward, cut }) => {
    const whole = await forward();
    cut(whole, whole.body.length >> 1);
  },
  "the answer is damaged": async ({ forward, answer }) => answer(damaged(await forward())),
} as const satisfies Record<string, Fault>;

/** What is never a reason to let anybody in. */
export const HOPELESS = {
  "access is denied": async ({ answer }) => answer(exception(400, "AccessDeniedException")),
  "the request is called invalid": async ({ answer }) => answer(exception(400, "ValidationException")),
  "the table is gone": async ({ answer }) => answer(exception(400, "ResourceNotFoundException")),
} as const satisfies Record<string, Fault>;

/** The request is held up on its way to DynamoDB. */
export function requestHeldUntil(released: Promise<unknown>): Fault {
  return async (crossing) => {
    await released;
    await passing(crossing);
  };
}

/** Done at once, but the answer is held up. */
export function answerHeldUntil(released: Promise<unknown>): Fault {
  return async ({ forward, answer }) => {
    const held = await forward();
    await released;
    answer(held);
  };
}

/** A refusal as DynamoDB words it. */
export function exception(status: number, code: string): ProxyAnswer {
  const body = Buffer.from(
    JSON.stringify({ __type: `com.amazonaws.dynamodb.v20120810#${code}`, message: `told: ${code}` }),
  );
  const headers = { "content-type": "application/x-amz-json-1.0", "x-amzn-errortype": code, ...checked(body) };
  return { status, headers, body };
}

/** A real server in front of DynamoDB. Each request meets the fault that the test chooses for it. */
export class FaultProxy {
  readonly endpoint: string;
  /** Every request that came, in order. */
  readonly passages: Passage[] = [];
  /** Undefined: it goes through. */
  choose: (passage: Passage) => Fault | undefined = () => undefined;
  readonly #target: URL;
  readonly #port: number;
  readonly #onward = new HttpAgent({ keepAlive: true });
  readonly #sockets = new Set<Socket>();
  readonly #watchers = new Set<() => void>();
  readonly #crossings = new Set<Promise<void>>();
  #server: Server;
  #isOver = false;

  private constructor(target: string, server: Server) {
    this.#target = new URL(target);
    this.#server = server;
    this.#port = (server.address() as AddressInfo).port;
    this.endpoint = `http://127.0.0.1:${this.#port}`;
    this.#attend(server);
  }

  static async open(t: TestContext, target: string): Promise<FaultProxy> {
    const proxy = new FaultProxy(target, await listening(0));
    t.after(async () => {
      proxy.#isOver = true;
      await proxy.stop();
      proxy.#onward.destroy();
    });
    return proxy;
  }

  /** Nobody is there any more: connections end, new ones are refused. */
  async stop(): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve));
    for (const socket of this.#sockets) socket.destroy();
    await closed;
  }

  /** Where it was before. */
  async start(): Promise<void> {
    this.#server = await listening(this.#port);
    this.#attend(this.#server);
  }

  /** Resolves as soon as so many such requests have come and, where they were let through, have been done. */
  async until(count: number, is: (passage: Passage) => boolean): Promise<void> {
    while (this.passages.filter(is).length < count) {
      await new Promise<void>((resolve) => {
        const told = () => {
          this.#watchers.delete(told);
          resolve();
        };
        this.#watchers.add(told);
      });
    }
  }

  /** Resolves when nothing is on its way through here any more; what hangs is not. */
  async idle(): Promise<void> {
    while (this.#crossings.size > 0) await Promise.allSettled([...this.#crossings]);
  }

  /** What came meanwhile. */
  async during(work: () => Promise<unknown>): Promise<readonly Passage[]> {
    const before = this.passages.length;
    await work();
    return this.passages.slice(before);
  }

  #attend(server: Server): void {
    server.on("connection", (socket) => {
      this.#sockets.add(socket);
      socket.on("close", () => this.#sockets.delete(socket)).on("error", () => {});
    });
    server.on("request", (incoming, outgoing) => {
      const crossing = this.#cross(incoming, outgoing)
        .catch((error: unknown) => {
          // What is still on its way when the test is over may fail; nothing else may.
          if (!this.#isOver) throw error;
        })
        .finally(() => this.#crossings.delete(crossing));
      this.#crossings.add(crossing);
    });
  }

  async #cross(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const bytes = await wholeOf(incoming).catch(() => undefined);
    if (bytes === undefined) return;
    const operation = String(incoming.headers["x-amz-target"]).replace(/^.*\./, "");
    const passage = {
      operation,
      input: JSON.parse(bytes.toString("utf8")),
      said: undefined as ProxyAnswer | undefined,
    };
    this.passages.push(passage);
    const crossing: Crossing = Object.assign(passage, {
      forward: async () => {
        passage.said = await this.#forward(incoming, bytes);
        this.#tell();
        return passage.said;
      },
      answer: ({ status, headers, body }: ProxyAnswer) => {
        if (!outgoing.destroyed) outgoing.writeHead(status, { ...headers, "content-length": body.length }).end(body);
      },
      cut: ({ status, headers, body }: ProxyAnswer, count: number) => {
        outgoing.writeHead(status, { ...headers, "content-length": body.length });
        outgoing.write(body.subarray(0, count), () => incoming.socket.destroy());
      },
      reset: () => void incoming.socket.resetAndDestroy(),
    });
    const fault = this.choose(passage) ?? passing;
    this.#tell();
    await fault(crossing);
  }

  #forward(incoming: IncomingMessage, bytes: Buffer): Promise<ProxyAnswer> {
    const { connection: _, ...headers } = incoming.headers;
    return new Promise((resolve, reject) => {
      const onward = request(this.#target, { method: "POST", headers, agent: this.#onward }, (answer) => {
        wholeOf(answer).then((body) => {
          const { "transfer-encoding": _t, connection: _c, ...kept } = answer.headers;
          resolve({ status: answer.statusCode ?? 0, headers: kept as Record<string, string>, body });
        }, reject);
      });
      onward.on("error", reject).end(bytes);
    });
  }

  #tell(): void {
    for (const told of this.#watchers) told();
  }
}

function listening(port: number): Promise<Server> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.on("error", reject).listen(port, "127.0.0.1", () => resolve(server));
  });
}

async function wholeOf(message: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of message) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}

function checked(body: Buffer): Record<string, string> {
  return { "x-amz-crc32": String(crc32(body)) };
}

/** Still JSON, and with the checksum of what it was; one without a digit is no JSON any more. */
function damaged({ status, headers, body }: ProxyAnswer): ProxyAnswer {
  const text = body.toString("utf8");
  const other = /"\d/.test(text) ? text.replace(/"(\d)/g, (_, digit) => `"${9 - Number(digit)}`) : `${text}}`;
  return { status, headers: { ...headers, ...checked(body) }, body: Buffer.from(other) };
}
