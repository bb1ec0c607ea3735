import { type Call, type StreamEvent, type TextAnswer, type TokensByKind, wordsOf } from "./answer.ts";

/** Seconds since 1970. */
const CREATED = 1_790_000_000;

export function chatBody({ model }: Call, { text, usage }: TextAnswer): unknown {
  return {
    id: "chatcmpl-fake",
    object: "chat.completion",
    created: CREATED,
    model,
    choices: [
      { index: 0, message: { role: "assistant", content: text, refusal: null }, logprobs: null, finish_reason: "stop" },
    ],
    ...(usage === "missing" ? {} : { usage: chatUsage(usage) }),
  };
}

/** The usage comes in a chunk of its own without choices, and only where `stream_options.include_usage` asks for it. */
export function chatEvents({ model, params }: Call, { text, usage }: TextAnswer): StreamEvent[] {
  const isUsageAsked = (params.stream_options as { include_usage?: boolean } | undefined)?.include_usage === true;
  const chunk = (choices: readonly unknown[], reported: unknown) => ({
    id: "chatcmpl-fake",
    object: "chat.completion.chunk",
    created: CREATED,
    model,
    choices,
    ...(isUsageAsked ? { usage: reported } : {}),
  });
  const choice = (delta: unknown, finishReason: string | null) => [
    { index: 0, delta, logprobs: null, finish_reason: finishReason },
  ];
  return [
    { data: chunk(choice({ role: "assistant", content: "" }, null), null), isWord: false },
    ...wordsOf(text).map((word) => ({ data: chunk(choice({ content: word }, null), null), isWord: true })),
    { data: chunk(choice({}, "stop"), null), isWord: false },
    ...(isUsageAsked && usage !== "missing" ? [{ data: chunk([], chatUsage(usage)), isWord: false }] : []),
    { data: "[DONE]", isWord: false },
  ];
}

export function responsesBody(call: Call, answer: TextAnswer): unknown {
  return response(call, "completed", [outputItem(answer.text)], answer.usage);
}

/** The usage is in the response of the last event. */
export function responsesEvents(call: Call, { text, usage }: TextAnswer): StreamEvent[] {
  const at = { item_id: "msg_fake", output_index: 0, content_index: 0 };
  const events = [
    { type: "response.created", response: response(call, "in_progress", [], "missing") },
    {
      type: "response.output_item.added",
      output_index: 0,
      item: { ...outputItem(""), status: "in_progress", content: [] },
    },
    { type: "response.content_part.added", ...at, part: { type: "output_text", text: "", annotations: [] } },
    ...wordsOf(text).map((delta) => ({ type: "response.output_text.delta", ...at, delta, logprobs: [] })),
    { type: "response.output_text.done", ...at, text, logprobs: [] },
    { type: "response.content_part.done", ...at, part: { type: "output_text", text, annotations: [] } },
    { type: "response.output_item.done", output_index: 0, item: outputItem(text) },
    { type: "response.completed", response: response(call, "completed", [outputItem(text)], usage) },
  ];
  return events.map((event, i) => ({
    event: event.type,
    data: { ...event, sequence_number: i },
    isWord: event.type === "response.output_text.delta",
  }));
}

/** One vector for each input; as base64 where the client asks for it, which it does by itself. */
export function embeddingsBody({ model, params }: Call, { usage }: TextAnswer): unknown {
  const inputs = Array.isArray(params.input) && typeof params.input[0] !== "number" ? params.input : [params.input];
  const vector = Float32Array.of(0.5, -0.25);
  const embedding =
    params.encoding_format === "base64" ? Buffer.from(vector.buffer).toString("base64") : Array.from(vector);
  const tokens = usage === "missing" ? 0 : inputTokens(usage);
  return {
    object: "list",
    data: inputs.map((_, index) => ({ object: "embedding", index, embedding })),
    model,
    ...(usage === "missing" ? {} : { usage: { prompt_tokens: tokens, total_tokens: tokens } }),
  };
}

function outputItem(text: string) {
  const content = [{ type: "output_text", text, annotations: [], logprobs: [] }];
  return { type: "message", id: "msg_fake", status: "completed", role: "assistant", content };
}

function response({ model }: Call, status: string, output: readonly unknown[], usage: TokensByKind | "missing") {
  return {
    id: "resp_fake",
    object: "response",
    created_at: CREATED,
    status,
    error: null,
    incomplete_details: null,
    instructions: null,
    model,
    output,
    parallel_tool_calls: true,
    tool_choice: "auto",
    tools: [],
    usage: usage === "missing" ? null : responsesUsage(usage),
  };
}

/** The totals hold what their details name. */
function chatUsage(usage: TokensByKind) {
  const { cachedInput = 0, cacheWrite = 0, reasoning = 0 } = usage;
  return {
    prompt_tokens: inputTokens(usage),
    completion_tokens: outputTokens(usage),
    total_tokens: inputTokens(usage) + outputTokens(usage),
    prompt_tokens_details: { cached_tokens: cachedInput, cache_write_tokens: cacheWrite, audio_tokens: 0 },
    completion_tokens_details: { reasoning_tokens: reasoning, audio_tokens: 0 },
  };
}

function responsesUsage(usage: TokensByKind) {
  const { cachedInput = 0, cacheWrite = 0, reasoning = 0 } = usage;
  return {
    input_tokens: inputTokens(usage),
    input_tokens_details: { cached_tokens: cachedInput, cache_write_tokens: cacheWrite },
    output_tokens: outputTokens(usage),
    output_tokens_details: { reasoning_tokens: reasoning },
    total_tokens: inputTokens(usage) + outputTokens(usage),
  };
}

function inputTokens({ input, cachedInput = 0, cacheWrite = 0 }: TokensByKind): number {
  return input + cachedInput + cacheWrite;
}

function outputTokens({ output, reasoning = 0 }: TokensByKind): number {
  return output + reasoning;
}
