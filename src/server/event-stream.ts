import type { TokenEntry } from "./tokens.ts";

/** An event of one namespace. */
export interface ServiceEvent {
  readonly n: number;
  readonly type: string;
  /** With `atMs` and `namespace`. */
  readonly data: Readonly<Record<string, unknown>>;
}

export interface EventFilter {
  /** Undefined: all. */
  readonly types: ReadonlySet<string> | undefined;
  readonly entityId: string | undefined;
  readonly resource: string | undefined;
}

/** The most bytes that a client may leave unread. */
const UNREAD_MAX = 1_048_576;

const encoder = new TextEncoder();

interface StreamOptions {
  readonly filter: EventFilter;
  /** Undefined: the service is open. */
  readonly token: TokenEntry | undefined;
  readonly instance: string;
  /** Called when the client left, or the stream was ended. */
  readonly onEnd: () => void;
  /** Ends the connection of a client that does not read. */
  readonly cutOff: (() => void) | undefined;
}

/** One client that listens: `text/event-stream` as a stream of bytes. */
export class EventStream {
  readonly options: StreamOptions;
  readonly body: ReadableStream<Uint8Array>;
  #controller: ReadableStreamDefaultController<Uint8Array> | undefined;

  constructor(options: StreamOptions) {
    this.options = options;
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

  /** Sends an event that passes the filter. */
  offer(event: ServiceEvent): void {
    if (isWanted(this.options.filter, event)) this.send(event);
  }

  send({ n, type, data }: ServiceEvent): void {
    this.#write(`id: ${this.options.instance}-${n}\nevent: ${type}\ndata: ${JSON.stringify(data)}\n\n`);
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
    const { cutOff } = this.options;
    if (cutOff !== undefined) cutOff();
    else controller.error(new Error("The client does not read its events; the connection was closed."));
  }

  #ended(): void {
    this.#controller = undefined;
    this.options.onEnd();
  }
}

function isWanted({ types, entityId, resource }: EventFilter, { type, data }: ServiceEvent): boolean {
  if (types !== undefined && !types.has(type)) return false;
  // A change of limits above entities ("$SYSTEM", "$RESOURCE:gpt-4") concerns each of them.
  const isOfAll = typeof data.entityId === "string" && data.entityId.startsWith("$");
  if (entityId !== undefined && data.entityId !== entityId && !isOfAll) return false;
  return resource === undefined || data.resource === undefined || data.resource === resource;
}

/** The least number of events that a feed keeps for clients that reconnect with `Last-Event-ID`. */
const EVENTS_KEPT = 1_000;

/** The events of one namespace since the first stream, and its streams. */
export class EventFeed {
  readonly streams = new Set<EventStream>();
  readonly #kept: ServiceEvent[] = [];
  /** Every event with a larger number is kept. */
  #completeAfter: number;

  constructor(lastN: number) {
    this.#completeAfter = lastN;
  }

  add(event: ServiceEvent): void {
    this.#kept.push(event);
    // Drop many at once: dropping one at a time would move all the others every time.
    if (this.#kept.length >= 2 * EVENTS_KEPT) {
      const [last] = this.#kept.splice(0, this.#kept.length - EVENTS_KEPT).slice(-1);
      this.#completeAfter = last?.n ?? this.#completeAfter;
    }
    for (const stream of this.streams) stream.offer(event);
  }

  /** The events after that number; undefined where some of them are gone. */
  after(n: number): readonly ServiceEvent[] | undefined {
    return n < this.#completeAfter ? undefined : this.#kept.filter((event) => event.n > n);
  }
}
