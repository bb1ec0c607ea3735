export type { LimitModelOptions, ModelCallInfo } from "../llm/adapter-options.ts";
export { limitAnthropic } from "../llm/anthropic.ts";
export { refusalOf } from "../llm/limited-http.ts";
