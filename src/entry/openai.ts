export type { LimitModelOptions, ModelCallInfo } from "../llm/adapter-options.ts";
export { limitOpenAI } from "../llm/openai.ts";
export { refusalOf } from "../llm/refused-response.ts";
