import type { CallToolResult } from "@modelcontextprotocol/sdk/types.js";
import { type LimiterError, RateLimitExceeded } from "../domain/names/errors.ts";

/** Where the problem stands for a tool with an output schema. */
const PROBLEM_META = "zae-limiter/problem";

/**
 * What a model gets in place of the tool's answer: text that it understands, and the problem for programs. The client holds
 * structured content against the output schema of a tool even in an error, and throws, so there it stands beside.
 */
export function refusedResult(
  error: LimiterError,
  tool: { readonly name: string; readonly hasOutputSchema: boolean },
): CallToolResult {
  const problem = error.toProblem();
  return {
    content: [{ type: "text", text: textOf(error, problem, tool.name) }],
    isError: true,
    ...(tool.hasOutputSchema ? { _meta: { [PROBLEM_META]: problem } } : { structuredContent: problem }),
  };
}

function textOf(error: LimiterError, problem: Record<string, unknown>, tool: string): string {
  if (!(error instanceof RateLimitExceeded)) return `The tool ${tool} was not called: ${problem.detail}`;
  const limits = (problem["violated-policies"] as readonly string[]).join(", ");
  const again = Number.isFinite(error.retryAfterMs)
    ? `Try again in ${error.retryAfterSeconds} s.`
    : "Do not try again: the call will not fit in the foreseeable future.";
  return `Rate limited: the tool ${tool} was not called, because too little is left of ${limits}. ${again}`;
}
