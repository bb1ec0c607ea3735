import type { Tokens } from "../domain/charge/amounts.ts";
import { closeTracked, type StreamEnd, type TrackableLease, trackedStream } from "../engine/lease/track.ts";
import type { WorkEnd } from "../engine/lease/work-end.ts";
import { tokensOfCharacters } from "./estimate-tokens.ts";
import { outputTokens, type TokenUsage } from "./meter.ts";

/** The usage of a streamed call, and how it is known. */
export interface StreamedUsage {
  readonly end: StreamEnd;
  /** `failed`: the provider answered an error and nothing else. */
  readonly work: WorkEnd;
  /** The usage by kind; the estimate if it was neither reported nor counted. */
  readonly usage: TokenUsage;
  /** `reported`: the provider said input and output. `counted`: partly by the text that came. `estimated`: the stream ended without a usage. */
  readonly by: "reported" | "counted" | "estimated";
}

/** A streamed call of a model. */
export interface StreamedCall<Chunk> {
  /** The estimate that the call was charged. */
  readonly estimated: TokenUsage;
  /** Reads the call's totals by kind from a chunk, as far as it has them. The last number of each kind counts. */
  readonly usageOf: (chunk: Chunk) => TokenUsage | undefined;
  /** Reads the model's text from a chunk, reasoning included. It is counted if the stream is left before its usage is known. */
  readonly outputOf: (chunk: Chunk) => string | undefined;
  /** True for the last chunk that matters: a reader that leaves after it has read to the end. */
  readonly isEnd?: (chunk: Chunk) => boolean;
  /** True if the chunk says that the provider has failed. */
  readonly isError?: (chunk: Chunk) => boolean;
  /** True if the answer is not streamed. Its text is more than the model wrote, so it counts for no more output than was estimated. */
  readonly isWhole?: boolean;
  /** Converts a usage to amounts by measure, as for the estimate. */
  readonly amountsOf: (usage: TokenUsage) => Tokens;
  /** Called once, before the lease is settled. */
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
        const totals = streamed.by === "estimated" ? {} : amountsOf(streamed.usage);
        await closeTracked(lease, { end, work, totals });
      },
    },
  });
}

interface Known {
  readonly end: StreamEnd;
  readonly estimated: TokenUsage;
  readonly reported: TokenUsage;
  /** The length of the text that came. */
  readonly characters: number;
  readonly isWhole: boolean;
}

/** Returns the best known usage: input and output as reported, else the estimated input and the text that came. */
export function bestKnown(known: Known): Pick<StreamedUsage, "usage" | "by"> {
  const { end, estimated, reported, characters, isWhole } = known;
  const hasInput = (reported.input ?? reported.cachedInput ?? reported.cacheWrite) !== undefined;
  const hasOutput = (reported.output ?? reported.reasoning) !== undefined;
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

/** Drops kinds that are `undefined` or `null`: clients send them if nothing new is known. */
function onlyTold(usage: TokenUsage): TokenUsage {
  return Object.fromEntries(Object.entries(usage).filter(([, tokens]) => tokens !== undefined && tokens !== null));
}
