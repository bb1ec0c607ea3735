import { measureOf } from "../domain/charge/amounts.ts";
import type { Limit } from "../domain/limits/limit.ts";
import { type Decimal, type ExactWeights, type TokenUsage, wholeUnits } from "./meter.ts";

/** English text has about this many characters a token, with every current tokenizer. */
const CHARACTERS_PER_TOKEN = 4;

/** An image, a file, a recording or a document counts this much. */
const TOKENS_PER_MEDIA = 1_000;

/**
 * Estimates tokens: 1 for 4 characters of all text, rounded up once, and 1,000 for an image or a file. Takes a text,
 * or messages, parts and parameters as OpenAI, Anthropic and the AI SDK have them.
 *
 * ```ts
 * estimateTokens("What is a token bucket?"); // 6
 * estimateTokens([{ role: "user", content: [{ type: "text", text: "What is it?" }, { type: "image_url", image_url: { url } }] }]); // 1003
 * ```
 */
export function estimateTokens(content: unknown): number {
  const sum = { characters: 0, media: 0 };
  addContent(content, sum);
  return tokensOfCharacters(sum.characters) + sum.media * TOKENS_PER_MEDIA;
}

/** Estimates 1 token for 4 characters, rounded up. */
export function tokensOfCharacters(characters: number): number {
  return Math.ceil(characters / CHARACTERS_PER_TOKEN);
}

interface Sum {
  characters: number;
  media: number;
}

/** Fields that hold what a model reads. Others are ids, roles and settings. */
const READ_FIELDS = ["text", "content", "parts", "prompt", "messages", "input", "instructions", "system"] as const;

/** `image_url`, `input_image`, `input_audio`, `file`, `input_file`, `document`, `video`. */
const MEDIA_TYPE = /image|file|audio|video|document/;

function addContent(content: unknown, sum: Sum): void {
  if (typeof content === "string") sum.characters += content.length;
  else if (Array.isArray(content)) for (const part of content) addContent(part, sum);
  else if (typeof content === "object" && content !== null) addPart(content as Readonly<Record<string, unknown>>, sum);
}

function addPart(part: Readonly<Record<string, unknown>>, sum: Sum): void {
  if (typeof part.type === "string" && MEDIA_TYPE.test(part.type)) {
    sum.media += 1;
    return;
  }
  for (const field of READ_FIELDS) addContent(part[field], sum);
}

/** The limits that a call is charged to, and how much of them its output may fill. */
export interface OutputBound {
  /** The entity's own limits on the resource of the call. */
  readonly limits: readonly Limit[];
  /** The weights of the call's model: see `weightsByModel`. */
  readonly weights: readonly ExactWeights[];
  /** The usage of the call besides its output, by kind. */
  readonly besides: TokenUsage;
  /** The share of each capacity that may be filled, from 0 to 1. */
  readonly share: Decimal;
}

/**
 * The most output tokens that a call can be estimated at, so that no limit is filled over its share; `Infinity` where no
 * limit counts output. Not below 0.
 */
export function outputWithin({ limits, weights, besides, share }: OutputBound): number {
  let least = Number.POSITIVE_INFINITY;
  for (const limit of limits) {
    const measure = measureOf(limit);
    const kinds = weights.find((one) => one.measure === measure)?.kinds ?? [];
    const output = kinds.find(({ kind }) => kind === "output")?.weight;
    if (output === undefined || output.units === 0n) continue;
    const scale = Math.max(share.scale, ...kinds.map(({ weight }) => weight.scale));
    const spent = kinds.reduce(
      (sum, { kind, weight }) =>
        sum + (kind === "output" ? 0n : wholeUnits(weight, scale) * BigInt(besides[kind] ?? 0)),
      0n,
    );
    const left = BigInt(limit.capacity) * wholeUnits(share, scale) - spent;
    least = Math.min(least, left <= 0n ? 0 : Number(left / wholeUnits(output, scale)));
  }
  return least;
}
