import { type Call, type StreamEvent, type TextAnswer, type TokensByKind, wordsOf } from "./answer.ts";

export function messageBody(call: Call, { text, usage }: TextAnswer): unknown {
  return { ...message(call), content: [{ type: "text", text }], stop_reason: "end_turn", ...usageField(usage) };
}

/** `message_start` has the input and the first token of the output, `message_delta` the totals of the output. */
export function messageEvents(call: Call, { text, usage }: TextAnswer): StreamEvent[] {
  const started = usage === "missing" ? {} : { usage: { ...messageUsage(usage), output_tokens: 1 } };
  const events = [
    { type: "message_start", message: { ...message(call), content: [], ...started } },
    { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } },
    { type: "ping" },
    ...wordsOf(text).map((word) => ({
      type: "content_block_delta",
      index: 0,
      delta: { type: "text_delta", text: word },
    })),
    { type: "content_block_stop", index: 0 },
    {
      type: "message_delta",
      delta: { stop_reason: "end_turn", stop_sequence: null },
      ...(usage === "missing" ? {} : { usage: deltaUsage(usage) }),
    },
    { type: "message_stop" },
  ];
  return events.map((event) => ({ event: event.type, data: event, isWord: event.type === "content_block_delta" }));
}

function message({ model }: Call) {
  return { id: "msg_fake", type: "message", role: "assistant", model, stop_reason: null, stop_sequence: null };
}

function usageField(usage: TokensByKind | "missing") {
  return usage === "missing" ? {} : { usage: messageUsage(usage) };
}

/** The input is without what was read from a cache or written to it; the output holds the thinking. */
function messageUsage({ input, cachedInput = 0, cacheWrite = 0, output, reasoning = 0 }: TokensByKind) {
  return {
    input_tokens: input,
    cache_creation_input_tokens: cacheWrite,
    cache_read_input_tokens: cachedInput,
    output_tokens: output + reasoning,
    output_tokens_details: { thinking_tokens: reasoning },
    service_tier: "standard",
  };
}

/** `null` where there is nothing new since `message_start`. */
function deltaUsage({ output, reasoning = 0 }: TokensByKind) {
  return {
    input_tokens: null,
    cache_creation_input_tokens: null,
    cache_read_input_tokens: null,
    output_tokens: output + reasoning,
    output_tokens_details: { thinking_tokens: reasoning },
    server_tool_use: null,
  };
}
