export type { LimitModelOptions, ModelCallInfo } from "../llm/adapter-options.ts";
export { type RateLimitMiddleware, rateLimitMiddleware } from "../llm/ai.ts";
