import type { ServiceEvent } from "./service-event.ts";
import type { TokenEntry } from "./token-entry.ts";

/** Which events a stream wants. */
export interface EventFilter {
  /** Undefined: all. */
  readonly types: ReadonlySet<string> | undefined;
  readonly entityId: string | undefined;
  readonly resource: string | undefined;
}

/** What a client may leave unread. */
const UNREAD_MAX = 1_048_576;

const encoder = new TextEncoder();

/** One client that listens: `text/event-stream` as a stream of bytes. */
export class EventStream {
  readonly filter: EventFilter;
  /** Undefined: the service is open. */
  readonly token: TokenEntry | undefined;
  readonly body: ReadableStream<Uint8Array>;
  readonly #instance: string;
  readonly #onEnd: () => void;
  readonly #cutOff: (() => void) | undefined;
  #controller: ReadableStreamDefaultController<Uint8Array> | undefined;

  constructor(given: {
    readonly filter: EventFilter;
    readonly token: TokenEntry | undefined;
    readonly instance: string;
    /** The client left, or the stream was ended. */
    readonly onEnd: () => void;
    /** Ends the connection of a client that does not read. */
    readonly cutOff: (() => void) | undefined;
  }) {
    this.filter = given.filter;
    this.token = given.token;
    this.#instance = given.instance;
    this.#onEnd = given.onEnd;
    this.#cutOff = given.cutOff;
    this.body = new ReadableStream<Uint8Array>(
      {
        start: (controller) => {
          this.#controller = controller;
        },
        cancel: () => this.#ended(),
      },
      new ByteLengthQueuingStrategy({ highWaterMark: UNREAD_MAX }),
    );
    this.#write("retry: 2000\n\n");
  }

  /** Sends it where the client wants it. */
  offer(event: ServiceEvent): void {
    if (isWanted(this.filter, event)) this.send(event);
  }

  send({ n, type, data }: ServiceEvent): void {
    this.#write(`id: ${this.#instance}-${n}\nevent: ${type}\ndata: ${JSON.stringify(data)}\n\n`);
  }

  /** A sign of life. */
  comment(): void {
    this.#write(":\n\n");
  }

  end(): void {
    const controller = this.#controller;
    if (controller === undefined) return;
    this.#ended();
    controller.close();
  }

  #write(text: string): void {
    const controller = this.#controller;
    if (controller === undefined) return;
    controller.enqueue(encoder.encode(text));
    if ((controller.desiredSize ?? 0) > 0) return;
    this.#ended();
    if (this.#cutOff === undefined)
      controller.error(new Error("The client does not read its events; the connection was closed."));
    else this.#cutOff();
  }

  #ended(): void {
    this.#controller = undefined;
    this.#onEnd();
  }
}

function isWanted({ types, entityId, resource }: EventFilter, { type, data }: ServiceEvent): boolean {
  if (types !== undefined && !types.has(type)) return false;
  // A change of limits above entities ("$SYSTEM", "$RESOURCE:gpt-4") concerns each of them.
  const isOfAll = typeof data.entityId === "string" && data.entityId.startsWith("$");
  if (entityId !== undefined && data.entityId !== entityId && !isOfAll) return false;
  return resource === undefined || data.resource === undefined || data.resource === resource;
}
