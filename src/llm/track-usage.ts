import type { Tokens } from "../domain/charge/amounts.ts";
import { closeTracked, type TrackableLease } from "../engine/lease/track.ts";
import { type StreamEnd, trackedStream } from "../engine/lease/tracked-stream.ts";
import type { WorkEnd } from "../engine/lease/work-end.ts";
import { tokensOfCharacters } from "./estimate-tokens.ts";
import { outputTokens, type TokenUsage } from "./kinds.ts";

/** What a streamed call came to, and how that is known. */
export interface StreamedUsage {
  readonly end: StreamEnd;
  /** `failed`: the provider answered an error and nothing else. */
  readonly work: WorkEnd;
  /** By kind; where neither was reported nor counted, what was estimated. */
  readonly usage: TokenUsage;
  /** `reported`: input and output as the provider says. `counted`: in part by the text that came. `estimated`: the stream ended and said nothing. */
  readonly by: "reported" | "counted" | "estimated";
}

/** A streamed call of a model. */
export interface StreamedCall<Chunk> {
  /** What the call was estimated at, and charged. */
  readonly estimated: TokenUsage;
  /** What the call has come to in total by kind, as far as the chunk tells. The last number of each kind counts. */
  readonly usageOf: (chunk: Chunk) => TokenUsage | undefined;
  /** The text of a chunk that the model has written, reasoning too; counted where the stream is left before its usage is told. */
  readonly outputOf: (chunk: Chunk) => string | undefined;
  /** Whether the chunk is the last that matters. A reader that leaves after it has read to the end. */
  readonly isEnd?: (chunk: Chunk) => boolean;
  /** Whether the chunk says that the provider has failed. */
  readonly isError?: (chunk: Chunk) => boolean;
  /** Whether the answer is not streamed: its text is more than what the model wrote, and counts for no more output than was estimated. */
  readonly isWhole?: boolean;
  /** What a usage comes to by measure: the same function that the estimate was charged by. */
  readonly amountsOf: (usage: TokenUsage) => Tokens;
  /** Once, before the lease is settled. */
  readonly closed: (streamed: StreamedUsage) => void;
}

/** Passes a streamed call on and settles its lease once: by the usage that was reported, else by the best known number. */
export function trackUsage<Chunk>(
  lease: TrackableLease,
  stream: ReadableStream<Chunk>,
  call: StreamedCall<Chunk>,
): ReadableStream<Chunk>;
export function trackUsage<Chunk>(
  lease: TrackableLease,
  stream: AsyncIterable<Chunk>,
  call: StreamedCall<Chunk>,
): AsyncIterableIterator<Chunk>;
export function trackUsage<Chunk>(
  lease: TrackableLease,
  stream: ReadableStream<Chunk> | AsyncIterable<Chunk>,
  { estimated, usageOf, outputOf, isEnd, isError, isWhole = false, amountsOf, closed }: StreamedCall<Chunk>,
): ReadableStream<Chunk> | AsyncIterableIterator<Chunk> {
  let reported: TokenUsage = {};
  let characters = 0;
  let hasEnded = false;
  let hasFailed = false;
  return trackedStream(stream, {
    signal: lease.signal,
    observer: {
      chunk(chunk) {
        const told = usageOf(chunk);
        if (told !== undefined) reported = { ...reported, ...onlyTold(told) };
        characters += outputOf(chunk)?.length ?? 0;
        if (isEnd?.(chunk)) hasEnded = true;
        if (isError?.(chunk)) hasFailed = true;
      },
      async closed(how) {
        const end: StreamEnd = hasEnded ? { kind: "ended" } : how;
        const isAnswered = characters > 0 || Object.keys(reported).length > 0;
        const work: WorkEnd = hasFailed && !isAnswered ? "failed" : end.kind === "ended" ? "answered" : "abandoned";
        const streamed = { end, work, ...bestKnown({ end, estimated, reported, characters, isWhole }) };
        closed(streamed);
        await closeTracked(lease, {
          ...{ end, work },
          totals: streamed.by === "estimated" ? {} : amountsOf(streamed.usage),
        });
      },
    },
  });
}

interface Known {
  readonly end: StreamEnd;
  readonly estimated: TokenUsage;
  readonly reported: TokenUsage;
  /** Of the text that came. */
  readonly characters: number;
  readonly isWhole: boolean;
}

/** What a call came to, as well as it is known: input and output each as reported, else the estimated input and the text that came. */
export function bestKnown({
  end,
  estimated,
  reported,
  characters,
  isWhole,
}: Known): Pick<StreamedUsage, "usage" | "by"> {
  const hasInput = isTold(reported.input) || isTold(reported.cachedInput) || isTold(reported.cacheWrite);
  const hasOutput = isTold(reported.output) || isTold(reported.reasoning);
  if (!hasInput && !hasOutput && end.kind === "ended") return { usage: estimated, by: "estimated" };
  const { requests, input, cachedInput, cacheWrite } = estimated;
  const counted = tokensOfCharacters(characters);
  const usage: TokenUsage = {
    requests,
    ...(hasInput ? {} : { input, cachedInput, cacheWrite }),
    ...(hasOutput ? {} : { output: isWhole ? Math.min(counted, outputTokens(estimated)) : counted }),
    ...reported,
  };
  return { usage, by: hasInput && hasOutput ? "reported" : "counted" };
}

/** Clients have kinds that are `undefined`, or `null`, where nothing new is known. */
function onlyTold(usage: TokenUsage): TokenUsage {
  return Object.fromEntries(Object.entries(usage).filter(([, tokens]) => tokens !== undefined && tokens !== null));
}

function isTold(tokens: number | undefined): boolean {
  return tokens !== undefined;
}
