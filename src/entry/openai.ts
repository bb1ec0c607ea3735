export type { LimitModelOptions, ModelCallInfo } from "../llm/adapter-options.ts";
export { refusalOf } from "../llm/limited-http.ts";
export { limitOpenAI } from "../llm/openai.ts";
