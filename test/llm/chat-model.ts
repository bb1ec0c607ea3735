/** What the AI SDK throws for an answer that is an error; each of its versions has its own class. */
type ApiCallErrorClass = new (options: {
  message: string;
  url: string;
  requestBodyValues: unknown;
  statusCode: number;
  responseHeaders: Record<string, string>;
}) => Error;

interface CallOptions {
  readonly prompt: readonly { readonly role: string; readonly content: unknown }[];
  readonly maxOutputTokens?: number;
  readonly abortSignal?: AbortSignal;
}

interface ChatUsage {
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly prompt_tokens_details: { readonly cached_tokens: number; readonly cache_write_tokens: number };
  readonly completion_tokens_details: { readonly reasoning_tokens: number };
}

/** The smallest provider of the AI SDK: chat completions over HTTP. Its shape is that of version 6, which 7 takes, too. */
export function chatModel(url: string, modelId: string, ApiCallError: ApiCallErrorClass) {
  async function post({ prompt, maxOutputTokens, abortSignal }: CallOptions, stream: boolean): Promise<Response> {
    const body = {
      model: modelId,
      messages: prompt,
      max_tokens: maxOutputTokens,
      stream,
      stream_options: stream ? { include_usage: true } : undefined,
    };
    const at = `${url}/v1/chat/completions`;
    const signal = abortSignal === undefined ? {} : { signal: abortSignal };
    const response = await fetch(at, { method: "POST", body: JSON.stringify(body), ...signal });
    if (response.ok) return response;
    const { status: statusCode, headers } = response;
    await response.body?.cancel();
    const responseHeaders = Object.fromEntries(headers);
    throw new ApiCallError({
      message: `status ${statusCode}`,
      url: at,
      requestBodyValues: body,
      statusCode,
      responseHeaders,
    });
  }
  return {
    specificationVersion: "v3",
    provider: "fake",
    modelId,
    supportedUrls: {},
    async doGenerate(options: CallOptions) {
      const answer = (await (await post(options, false)).json()) as {
        choices: { message: { content: string } }[];
        usage?: ChatUsage;
      };
      const content = [{ type: "text", text: answer.choices[0]?.message.content ?? "" }];
      return { content, finishReason: { unified: "stop", raw: "stop" }, usage: usageOf(answer.usage), warnings: [] };
    },
    async doStream(options: CallOptions) {
      const response = await post(options, true);
      const parts = partsOf((response.body as ReadableStream<Uint8Array>).pipeThrough(new TextDecoderStream()));
      return { stream: ReadableStream.from(parts) };
    },
  };
}

async function* partsOf(texts: AsyncIterable<string>): AsyncGenerator<object> {
  yield { type: "stream-start", warnings: [] };
  yield { type: "text-start", id: "1" };
  let usage: ChatUsage | undefined;
  let rest = "";
  for await (const text of texts) {
    const events = (rest + text).split("\n\n");
    rest = events.pop() ?? "";
    for (const event of events) {
      const data = event.replace(/^data: /, "");
      if (data === "[DONE]" || data.startsWith(":")) continue;
      const chunk = JSON.parse(data) as { choices: { delta: { content?: string } }[]; usage?: ChatUsage | null };
      usage = chunk.usage ?? usage;
      const delta = chunk.choices[0]?.delta.content ?? "";
      if (delta !== "") yield { type: "text-delta", id: "1", delta };
    }
  }
  yield { type: "text-end", id: "1" };
  yield { type: "finish", finishReason: { unified: "stop", raw: "stop" }, usage: usageOf(usage) };
}

function usageOf(usage: ChatUsage | undefined) {
  const cacheRead = usage?.prompt_tokens_details.cached_tokens;
  const cacheWrite = usage?.prompt_tokens_details.cache_write_tokens;
  const reasoning = usage?.completion_tokens_details.reasoning_tokens;
  const total = usage?.completion_tokens;
  return {
    inputTokens: { total: usage?.prompt_tokens, noCache: undefined, cacheRead, cacheWrite },
    outputTokens: { total, text: undefined, reasoning },
  };
}
