/** Characters that make a token, about: English text of every current tokenizer is near it. */
const CHARACTERS_PER_TOKEN = 4;

/** What an image, a file, a recording or a document counts. */
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

/** 1 token for 4 characters, rounded up. */
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
