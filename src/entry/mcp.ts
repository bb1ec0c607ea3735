export { type LimitToolOptions, limitTool } from "../llm/limit-tool.ts";
export { limitTools } from "../mcp/limit-tools.ts";
export type { LimitToolsOptions, ToolCall, ToolExtra } from "../mcp/options.ts";
