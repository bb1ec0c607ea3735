import type { TokenUsage } from "./meter.ts";

/** Some bytes of an answer, with what was read from them. */
export interface AnswerPiece {
  readonly bytes: Uint8Array;
  readonly usage: TokenUsage | undefined;
  /** The text that the model has written. */
  readonly text: string | undefined;
  readonly isEnd: boolean;
  /** The provider tells of an error. */
  readonly isError: boolean;
}

/** Reads the answers of one call. */
export interface AnswerReader {
  /** The usage of an answer in one piece. */
  usageOf(body: unknown): TokenUsage | undefined;
  /** Reads one event of a streamed answer. */
  eventOf(data: unknown): AnswerEvent;
}

export interface AnswerEvent {
  readonly usage?: TokenUsage | undefined;
  readonly text?: string | undefined;
  readonly isEnd?: boolean;
  /** The provider tells of an error. */
  readonly isError?: boolean;
  /** The caller did not ask for the event, so it is not passed on. */
  readonly isHidden?: boolean;
}

/** Reads an answer in one piece: its bytes pass as they come, and its usage is known with the last of them. */
export function wholePieces(body: ReadableStream<Uint8Array>, reader: AnswerReader): ReadableStream<AnswerPiece> {
  const decoder = new TextDecoder();
  const text = new JsonText();
  const read = (bytes: Uint8Array): AnswerPiece[] => {
    const more = decoder.decode(bytes, { stream: true });
    text.add(more);
    return [{ bytes, usage: undefined, text: more, isEnd: false, isError: false }];
  };
  const end = (): AnswerPiece[] => {
    const usage = reader.usageOf(jsonOf(text.take()));
    return [{ bytes: NOTHING, usage, text: undefined, isEnd: true, isError: false }];
  };
  return converted(body, read, end);
}

/** Reads a stream of server-sent events: each passes whole, as soon as it is there, as it was sent. */
export function eventPieces(body: ReadableStream<Uint8Array>, reader: AnswerReader): ReadableStream<AnswerPiece> {
  const decoder = new TextDecoder();
  const ends = new EventEnds();
  const text = new JsonText();
  /** The bytes of the event that has begun. */
  let begun: Uint8Array[] = [];
  const add = (bytes: Uint8Array) => {
    begun.push(bytes);
    text.add(decoder.decode(bytes, { stream: true }));
  };
  const pieceOf = (): AnswerPiece => {
    const event = reader.eventOf(dataOf(text.take()));
    const { usage, text: written, isEnd = false, isError = false, isHidden = false } = event;
    const bytes = isHidden ? NOTHING : joined(begun);
    begun = [];
    return { bytes, usage, text: written, isEnd, isError };
  };
  const read = (bytes: Uint8Array): AnswerPiece[] => {
    const pieces: AnswerPiece[] = [];
    let from = 0;
    for (const end of ends.of(bytes)) {
      add(bytes.subarray(from, end));
      pieces.push(pieceOf());
      from = end;
    }
    if (from < bytes.length) add(bytes.subarray(from));
    return pieces;
  };
  return converted(body, read, () => (begun.length === 0 ? [] : [pieceOf()]));
}

/** Streams the bytes of the pieces, without those that are empty. */
export function bytesOf(pieces: ReadableStream<AnswerPiece>): ReadableStream<Uint8Array> {
  const read = ({ bytes }: AnswerPiece) => (bytes.length > 0 ? [bytes] : []);
  return converted(pieces, read, () => []);
}

const NOTHING = new Uint8Array(0);

const [LF, CR] = [10, 13];

/** Finds where events end: after an empty line, which stays with them. Each byte is looked at once, however it is cut into chunks. */
class EventEnds {
  /** The last line breaks in a row, at most four; the latest is in the lowest byte. */
  #breaks = 0;

  of(bytes: Uint8Array): readonly number[] {
    const ends: number[] = [];
    const nextOf = (byte: number, from: number) => {
      const at = bytes.indexOf(byte, from);
      return at < 0 ? bytes.length : at;
    };
    let [lf, cr] = [nextOf(LF, 0), nextOf(CR, 0)];
    for (let seen = 0; seen < bytes.length; ) {
      const at = Math.min(lf, cr);
      if (at > seen) this.#breaks = 0;
      if (at === bytes.length) break;
      this.#breaks = (this.#breaks << 8) | (at === lf ? LF : CR);
      const two = this.#breaks & 0xffff;
      if (two === 0x0a0a || two === 0x0d0d || this.#breaks === 0x0d0a0d0a) ends.push(at + 1);
      seen = at + 1;
      if (at === lf) lf = nextOf(LF, seen);
      else cr = nextOf(CR, seen);
    }
    return ends;
  }
}

/** From longer JSON, long strings are left out: an image would be parsed for the few numbers beside it. */
const WHOLE_MAX = 1_000_000;
const STRING_MAX = 1_000;

/** JSON that comes in pieces. */
class JsonText {
  #parts: string[] = [];
  #length = 0;
  /** The length of the open string so far; undefined outside of strings. */
  #quoted: number | undefined;
  /** The first character of the next piece comes after a backslash. */
  #isEscaped = false;

  add(text: string): void {
    const isLong = this.#length > WHOLE_MAX;
    this.#length += text.length;
    this.#parts.push(isLong ? this.#shortened(text) : text);
    // From here on, strings are followed: read what was kept so far, to know whether one is open.
    if (!isLong && this.#length > WHOLE_MAX) this.#shortened(this.#parts.join(""));
  }

  /** Returns the text and starts the next one. */
  take(): string {
    const text = this.#parts.join("");
    this.#parts = [];
    this.#length = 0;
    this.#quoted = undefined;
    this.#isEscaped = false;
    return text;
  }

  #shortened(text: string): string {
    const kept: string[] = [];
    let from = 0;
    let escaped = this.#isEscaped ? 0 : -1;
    const keepTo = (to: number) => {
      if (this.#quoted !== undefined) this.#quoted += to - from;
      if (this.#quoted === undefined || this.#quoted <= STRING_MAX) kept.push(text.slice(from, to));
      from = to;
    };
    for (const { 0: found, index } of text.matchAll(/[\\"]/g)) {
      if (index === escaped) continue;
      if (found === "\\") {
        escaped = index + 1;
        continue;
      }
      keepTo(index);
      kept.push('"');
      this.#quoted = this.#quoted === undefined ? 0 : undefined;
      from = index + 1;
    }
    keepTo(text.length);
    this.#isEscaped = escaped === text.length;
    return kept.join("");
  }
}

function joined(parts: readonly Uint8Array[]): Uint8Array {
  const [first = NOTHING] = parts;
  if (parts.length <= 1) return first;
  const whole = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

/** Converts a stream chunk by chunk, without reading ahead; `end` makes the last chunks. */
function converted<From, To>(
  source: ReadableStream<From>,
  read: (chunk: From) => readonly To[],
  end: () => readonly To[],
): ReadableStream<To> {
  const reader = source.getReader();
  return new ReadableStream<To>(
    {
      async pull(controller) {
        for (;;) {
          const { done, value } = await reader.read();
          const chunks = done ? end() : read(value);
          for (const chunk of chunks) controller.enqueue(chunk);
          if (done) return controller.close();
          if (chunks.length > 0) return;
        }
      },
      cancel: (reason) => reader.cancel(reason),
    },
    { highWaterMark: 0 },
  );
}

/** The data of an event: its `data` lines together, as JSON where they are, else as text. */
function dataOf(event: string): unknown {
  const lines = event
    .split(event.includes("\n") ? "\n" : "\r")
    .flatMap((line) => (line.startsWith("data:") ? [line.slice(5).trim()] : []));
  const text = lines.join("\n");
  return jsonOf(text) ?? text;
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
