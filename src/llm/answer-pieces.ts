import type { TokenUsage } from "./kinds.ts";

/** Some bytes of an answer, with what they say. */
export interface AnswerPiece {
  readonly bytes: Uint8Array;
  readonly usage: TokenUsage | undefined;
  /** What the model has written. */
  readonly text: string | undefined;
  readonly isEnd: boolean;
}

/** What is read of the answers of one call. */
export interface AnswerReader {
  /** The usage of an answer in one piece. */
  usageOf(body: unknown): TokenUsage | undefined;
  /** What one event of a streamed answer says. */
  eventOf(data: unknown): AnswerEvent;
}

export interface AnswerEvent {
  readonly usage?: TokenUsage | undefined;
  readonly text?: string | undefined;
  readonly isEnd?: boolean;
  /** The caller did not ask for it: it is not passed on. */
  readonly isHidden?: boolean;
}

/** Reads an answer in one piece: its bytes pass as they come, and its usage is known with the last of them. */
export function wholePieces(body: ReadableStream<Uint8Array>, reader: AnswerReader): ReadableStream<AnswerPiece> {
  const decoder = new TextDecoder();
  let text = "";
  return piecesOf(body, {
    read(bytes) {
      const more = decoder.decode(bytes, { stream: true });
      text += more;
      return [{ bytes, usage: undefined, text: more, isEnd: false }];
    },
    end: () => [{ bytes: NOTHING, usage: reader.usageOf(jsonOf(text)), text: undefined, isEnd: true }],
  });
}

/** Reads a stream of server-sent events: each passes whole, as soon as it is there, as it was sent. */
export function eventPieces(body: ReadableStream<Uint8Array>, reader: AnswerReader): ReadableStream<AnswerPiece> {
  const decoder = new TextDecoder();
  const encoder = new TextEncoder();
  let rest = "";
  const pieceOf = (event: string): AnswerPiece => {
    const { usage, text, isEnd = false, isHidden = false } = reader.eventOf(dataOf(event));
    return { bytes: isHidden ? NOTHING : encoder.encode(event), usage, text, isEnd };
  };
  return piecesOf(body, {
    read(bytes) {
      const events = (rest + decoder.decode(bytes, { stream: true })).split(EVENT_END);
      const last = events.at(-1) ?? "";
      rest = HAS_ENDED.test(last) ? "" : (events.pop() ?? "");
      return events.map(pieceOf);
    },
    end: () => (rest === "" ? [] : [pieceOf(rest)]),
  });
}

/** The bytes of the pieces, without those that are empty. */
export function bytesOf(pieces: ReadableStream<AnswerPiece>): ReadableStream<Uint8Array> {
  const reader = pieces.getReader();
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        for (;;) {
          const { done, value } = await reader.read();
          if (done) return controller.close();
          if (value.bytes.length > 0) return controller.enqueue(value.bytes);
        }
      },
      cancel: (reason) => reader.cancel(reason),
    },
    { highWaterMark: 0 },
  );
}

const NOTHING = new Uint8Array(0);

/** An event ends with an empty line, which stays with it. */
const EVENT_END = /(?<=\r\n\r\n|\n\n|\r\r)/;
const HAS_ENDED = /(\r\n\r\n|\n\n|\r\r)$/;

interface PieceMaker {
  read(bytes: Uint8Array): readonly AnswerPiece[];
  end(): readonly AnswerPiece[];
}

function piecesOf(body: ReadableStream<Uint8Array>, maker: PieceMaker): ReadableStream<AnswerPiece> {
  const reader = body.getReader();
  return new ReadableStream<AnswerPiece>(
    {
      async pull(controller) {
        for (;;) {
          const { done, value } = await reader.read();
          const pieces = done ? maker.end() : maker.read(value);
          for (const piece of pieces) controller.enqueue(piece);
          if (done) return controller.close();
          if (pieces.length > 0) return;
        }
      },
      cancel: (reason) => reader.cancel(reason),
    },
    { highWaterMark: 0 },
  );
}

/** The data of an event: its `data` lines together, as JSON where they are, else as text. */
function dataOf(event: string): unknown {
  const lines = event.split(/\r\n|\n|\r/).flatMap((line) => (line.startsWith("data:") ? [line.slice(5).trim()] : []));
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
