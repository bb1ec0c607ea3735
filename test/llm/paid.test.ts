import assert from "node:assert/strict";
import { describe, type TestContext, test } from "node:test";
import { Anthropic } from "@anthropic-ai/sdk";
import { APICallError, generateText, streamText, wrapLanguageModel } from "ai";
import { OpenAI } from "openai";
import type { Answer, Call } from "../../examples/fake-provider/provider.ts";
import { rateLimitMiddleware } from "../../src/entry/ai.ts";
import { limitAnthropic } from "../../src/entry/anthropic.ts";
import { type LimitModelOptions, limitOpenAI } from "../../src/entry/openai.ts";
import { chatModel } from "./chat-model.ts";
import { eventually, KEY, limitedProvider, MODEL, TEXT_ANSWER, USED } from "./limited-provider.ts";

// What was sent is paid for: every adapter, whole and streamed, however the call ends, with the clients themselves over HTTP.

const PROMPT = "What is a token bucket?";
const INPUT = 6;
const OUTPUT_MAX = 200;
const PROVIDER = "provider";

interface Asked {
  readonly url: string;
  readonly options: LimitModelOptions;
  readonly isStream: boolean;
  readonly signal?: AbortSignal;
  readonly timeoutMs?: number;
  readonly retries: number;
}

/** Makes one call and reads its answer to the end. */
type Ask = (asked: Asked) => Promise<unknown>;

const FRONTS: Readonly<Record<string, Ask>> = {
  async "OpenAI chat completions"({ url, options, isStream: stream, signal, timeoutMs: timeout, retries }) {
    const plain = new OpenAI({ apiKey: "k", baseURL: `${url}/v1`, maxRetries: retries, ...(timeout && { timeout }) });
    const messages = [{ role: "user" as const, content: PROMPT }];
    const params = { model: MODEL, messages, max_tokens: OUTPUT_MAX, stream };
    const { completions } = limitOpenAI(plain, options).chat;
    return readAll(await completions.create(params, signal && { signal }));
  },
  async "OpenAI responses"({ url, options, isStream: stream, signal, timeoutMs: timeout, retries }) {
    const plain = new OpenAI({ apiKey: "k", baseURL: `${url}/v1`, maxRetries: retries, ...(timeout && { timeout }) });
    const params = { model: MODEL, input: PROMPT, max_output_tokens: OUTPUT_MAX, stream };
    return readAll(await limitOpenAI(plain, options).responses.create(params, signal && { signal }));
  },
  async Anthropic({ url, options, isStream: stream, signal, timeoutMs: timeout, retries }) {
    const plain = new Anthropic({ apiKey: "k", baseURL: url, maxRetries: retries, ...(timeout && { timeout }) });
    const messages = [{ role: "user" as const, content: PROMPT }];
    const params = { model: MODEL, messages, max_tokens: OUTPUT_MAX, stream };
    return readAll(await limitAnthropic(plain, options).messages.create(params, signal && { signal }));
  },
  async "AI SDK"({ url, options, isStream, signal, timeoutMs, retries }) {
    type Model = Parameters<typeof wrapLanguageModel>[0]["model"];
    const plain = chatModel(url, MODEL, APICallError) as unknown as Model;
    const model = wrapLanguageModel({ model: plain, middleware: rateLimitMiddleware(options) });
    const asked = { model, prompt: PROMPT, maxOutputTokens: OUTPUT_MAX, maxRetries: retries };
    const abortSignal = signal ?? (timeoutMs === undefined ? undefined : AbortSignal.timeout(timeoutMs));
    const given = { ...asked, ...(abortSignal && { abortSignal }) };
    return isStream ? readAll(streamText({ ...given, onError: () => {} }).textStream) : generateText(given);
  },
};

async function readAll(answer: object): Promise<unknown> {
  if (Symbol.asyncIterator in answer) for await (const _ of answer as AsyncIterable<unknown>);
  return answer;
}

type Charge = { readonly rpm: number; readonly tpm: number };
const NOTHING: Charge = { rpm: 0, tpm: 0 };
const ITS_INPUT: Charge = { rpm: 1, tpm: INPUT };

interface Situation {
  readonly when: string;
  readonly answer: (call: Call, leave: () => void) => Answer | Promise<Answer>;
  readonly asked?: { readonly timeoutMs?: number; readonly retries?: number };
  readonly isLeftBefore?: boolean;
  /** Nobody listens where it is sent to. */
  readonly isUnreachable?: boolean;
  /** Exactly, or from the first to the second. */
  readonly charged: (front: string, isStream: boolean) => Charge | readonly [Charge, Charge];
}

const never = new Promise<never>(() => {});
/** The input as it is reported where that comes first, and 9 characters. */
const begun = (front: string) => ({ rpm: 1, tpm: (front === "Anthropic" ? 148 : INPUT) + 3 });

const SITUATIONS: readonly Situation[] = [
  { when: "answered", answer: () => TEXT_ANSWER, charged: () => ({ rpm: 1, tpm: USED }) },
  { when: "aborted before it is sent", answer: () => TEXT_ANSWER, isLeftBefore: true, charged: () => NOTHING },
  { when: "without a connection", answer: () => TEXT_ANSWER, isUnreachable: true, charged: () => NOTHING },
  { when: "answered by an error", answer: () => ({ kind: "error", status: 500 }), charged: () => NOTHING },
  {
    when: "aborted after it was sent",
    answer: (_call, leave) => {
      leave();
      return never;
    },
    charged: () => ITS_INPUT,
  },
  { when: "timed out", answer: () => never, asked: { timeoutMs: 60 }, charged: () => ITS_INPUT },
  {
    when: "timed out and retried",
    answer: ({ number }) => (number === 1 ? never : TEXT_ANSWER),
    asked: { timeoutMs: 1_000, retries: 1 },
    // The AI SDK does not try again after its own timeout.
    charged: (front) => (front === "AI SDK" ? ITS_INPUT : { rpm: 2, tpm: INPUT + USED }),
  },
  {
    when: "answered by an error and retried",
    answer: ({ number }) =>
      number === 1 ? { kind: "error", status: 500, headers: { "retry-after-ms": "1" } } : TEXT_ANSWER,
    asked: { retries: 1 },
    charged: () => ({ rpm: 1, tpm: USED }),
  },
  { when: "reset", answer: () => ({ kind: "cut" }), charged: () => ITS_INPUT },
  {
    when: "aborted in the body",
    answer: (_call, leave) => ({
      ...TEXT_ANSWER,
      async pause(word) {
        if (word < 2) return;
        // What was written must be read before.
        setTimeout(leave, 50);
        return never;
      },
    }),
    charged: (front, isStream) => (isStream ? begun(front) : { rpm: 1, tpm: USED }),
  },
  {
    when: "reset in the body",
    answer: () => ({ ...TEXT_ANSWER, cutAfterWords: 2 }),
    charged: (front, isStream) => (isStream ? begun(front) : [ITS_INPUT, { rpm: 1, tpm: INPUT + OUTPUT_MAX }]),
  },
];

async function charges(
  t: TestContext,
  ask: Ask,
  { answer, asked, isLeftBefore = false, isUnreachable = false }: Situation,
  isStream: boolean,
) {
  const controller = new AbortController();
  const { limiter, provider, charged } = await limitedProvider(t, (call) => answer(call, () => controller.abort()));
  const options: LimitModelOptions = {
    ...{ limiter, entityId: KEY, provider: { entityId: PROVIDER } },
    resource: async () => {
      if (isLeftBefore) controller.abort();
      return MODEL;
    },
  };
  if (isUnreachable) await provider.close();
  const { url } = provider;
  const bySignal = asked?.timeoutMs === undefined ? { signal: controller.signal } : {};
  await ask({ url, options, isStream, retries: 0, ...bySignal, ...asked }).catch(() => {});
  return { sent: provider.calls.length, of: (entityId: string) => charged(entityId) };
}

for (const [front, ask] of Object.entries(FRONTS)) {
  describe(front, () => {
    for (const situation of SITUATIONS) {
      for (const isStream of [false, true]) {
        test(`a ${isStream ? "streamed" : "whole"} call that is ${situation.when}`, async (t) => {
          const { sent, of } = await charges(t, ask, situation, isStream);
          const expected = situation.charged(front, isStream);
          const [least, most] = Array.isArray(expected) ? expected : [expected, expected];
          await eventually(async () => {
            for (const entityId of [KEY, PROVIDER]) {
              const { rpm = 0, tpm = 0 } = await of(entityId);
              const isWithin = rpm >= least.rpm && rpm <= most.rpm && tpm >= least.tpm && tpm <= most.tpm;
              assert.ok(isWithin, `${entityId} was charged ${rpm} and ${tpm}, for ${sent} that were sent`);
            }
          });
        });
      }
    }
  });
}
