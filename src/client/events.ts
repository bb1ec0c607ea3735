/** Something that happened, as the service tells it. */
export interface RemoteEvent {
  readonly id: string | undefined;
  readonly type: string;
  /** With `atMs` and `namespace`. */
  readonly data: Readonly<Record<string, unknown>>;
}

/** The events of a `text/event-stream`, one after the other, until it ends. */
export async function* eventsIn(body: ReadableStream<Uint8Array>): AsyncGenerator<RemoteEvent, void, undefined> {
  const decoder = new TextDecoder();
  let text = "";
  for await (const bytes of body as unknown as AsyncIterable<Uint8Array>) {
    text += decoder.decode(bytes, { stream: true });
    const frames = text.split(/\r?\n\r?\n/);
    text = frames.pop() ?? "";
    for (const frame of frames) {
      const event = eventOf(frame);
      if (event !== undefined) yield event;
    }
  }
}

/** Undefined for what is no event: a comment that says that the service lives, or how soon to come again. */
function eventOf(frame: string): RemoteEvent | undefined {
  let id: string | undefined;
  let type: string | undefined;
  const data: string[] = [];
  for (const line of frame.split(/\r?\n/)) {
    const [, name, value = ""] = /^([a-z]+): ?(.*)$/.exec(line) ?? [];
    if (name === "id") id = value;
    else if (name === "event") type = value;
    else if (name === "data") data.push(value);
  }
  if (type === undefined || data.length === 0) return undefined;
  return { id, type, data: JSON.parse(data.join("\n")) };
}
