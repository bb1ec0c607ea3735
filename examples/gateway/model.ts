import { OpenAI } from "openai";
import type { RateLimiter } from "../../src/entry/index.ts";
import { limitOpenAI } from "../../src/entry/openai.ts";
import { type Caller, type GatewayOptions, MODEL } from "./gateway.ts";

/** A client of a caller, as its program has one. */
export interface ModelClient {
  /** Calls the model; answers what it cost. `onSent`: the limiter let the call through, and the provider has it. */
  call(onSent: () => void): Promise<{ readonly totalTokens: number }>;
}

/** Names a call to the stand-in for the provider, which runs in this process. */
const CALL = "x-call";

/**
 * An OpenAI client over a stand-in for the provider, limited by the adapter: it takes the estimate before a call is sent, settles by
 * the usage that the answer reports, and gives everything back where the call fails. Not in dollars: a demo that runs all day would
 * use up the project's month.
 */
export function clientOf(limiter: RateLimiter, caller: Caller, options: GatewayOptions): ModelClient {
  const { key, estimate, waitMs } = caller;
  const onSent = new Map<string, () => void>();
  let calls = 0;
  const fetch = async (_url: unknown, init?: RequestInit): Promise<Response> => {
    onSent.get(new Headers(init?.headers).get(CALL) ?? "")?.();
    return answered(caller, options);
  };
  const client = limitOpenAI(new OpenAI({ apiKey: "unused", maxRetries: 0, fetch }), {
    limiter,
    entityId: key,
    weights: { rpm: { requests: 1 }, tpm: { input: 1, output: 1 } },
    estimate: () => ({ output: estimate }),
    ...(waitMs === undefined ? {} : { wait: { maxMs: waitMs } }),
  });
  return {
    async call(sent) {
      const id = String(++calls);
      onSent.set(id, sent);
      try {
        const messages = [{ role: "user" as const, content: "What is a token bucket?" }];
        const { signal } = options;
        const reply = await client.chat.completions.create(
          { model: MODEL, messages },
          { signal, headers: { [CALL]: id } },
        );
        return { totalTokens: reply.usage?.total_tokens ?? 0 };
      } finally {
        onSent.delete(id);
      }
    },
  };
}

/** What a provider does: takes a moment, fails now and then, and says afterwards what it cost. */
async function answered({ actual }: Caller, { random, clock, signal }: GatewayOptions): Promise<Response> {
  await clock.sleep(Math.round(150 + 500 * random()), signal);
  if (random() < 0.12) return Response.json({ error: { message: "The model is overloaded." } }, { status: 503 });
  const total = Math.round(actual.from + (actual.to - actual.from) * random());
  const message = { role: "assistant", content: "A bucket that refills while you wait." };
  return Response.json({
    ...{ id: "chatcmpl-1", object: "chat.completion", created: 0, model: MODEL },
    choices: [{ index: 0, message, finish_reason: "stop" }],
    usage: { prompt_tokens: 6, completion_tokens: total - 6, total_tokens: total },
  });
}
